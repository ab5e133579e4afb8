#!/bin/sh
# Tables of ours against others on this machine: operators and whole steps against PyTorch, the builtin backend against oneDNN, the planner
# and the layout search on published instances if they are there. A table that cannot be made says why; the others are still made.
#
#   bench.sh [--json] [BUILD [TABLE...]]   tables: ops systems zoo import linalg time explain plan seeds layout cuda ladder gpu-budgets; all if
#   none is named
#
# --json: each table but the layout also becomes bench/results/DATE-MACHINE-KIND.json. BENCH_MACHINE names the machine (xeon-2c, h200);
# without it the name is cpu-Nc.
set -eu
cd "$(dirname "$0")/.."
json=
if [ "${1:-}" = --json ]; then
    json=1
    shift
fi
BENCH_MACHINE=${BENCH_MACHINE:-cpu-$(nproc)c}
export BENCH_MACHINE
build=${1:-build}
[ $# -gt 0 ] && shift
tables=${*:-ops systems zoo import linalg time explain plan seeds layout cuda ladder gpu-budgets}
for table in $tables; do
    case $table in
    ops|systems|zoo|import|linalg|time|explain|plan|seeds|layout|cuda|ladder|gpu-budgets) ;;
    *) echo "bench: there is no table '$table'; there are ops, systems, zoo, import, linalg, time, explain, plan, seeds, layout, cuda, ladder and gpu-budgets" >&2; exit 2 ;;
    esac
done
ninja -C "$build" bench_ops bench_step bench_import bench_linalg bench_time bench_plan bench_seeds bench_layout > "$build/bench.log" 2>&1 || { tail -20 "$build/bench.log" >&2; exit 1; }
python=python3
[ -x .venv/bin/python ] && python=.venv/bin/python
unset OMP_WAIT_POLICY                # threads spin a moment, then sleep, as for users, on both sides of a comparison
status=0
title() { printf '\n== %s\n\n' "$1"; }
json() { [ -z "$json" ] || echo "--json bench/results/$(date +%F)-$BENCH_MACHINE-$1.json"; }     # split into two words where it is used
failed() { echo "bench: $1 ended with exit code $2" >&2; status=1; }

printf '%s, %s processors, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
for table in $tables; do
    case $table in
    ops)
        title "operators against PyTorch, 2 threads, best of 6 rounds taken in turn; a ratio above 1: ours is faster"
        code=0; $python bench/ops.py "$build/bench_ops" $(json operators) || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "ops" $code ;;
    systems)
        title "training steps against PyTorch, 2 threads, taken in turn; PyTorch / ours above 1: ours is faster"
        code=0; $python bench/systems.py "$build" $(json steps) || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "systems" $code ;;
    zoo)
        title "public models, exported, against PyTorch, 2 threads, taken in turn"
        code=0; $python bench/zoo.py "$build" $(json zoo) || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "zoo" $code ;;
    import)
        title "a file of torch.export with 20,000 nodes read, one with 10,000 planned"
        for n in 20000 10000; do
            $python tests/import/large_file.py $n "$build/bench-$n.pt2"
            share=; [ $n = 20000 ] || share=0.7
            "$build/bench_import" "$build/bench-$n.pt2" $share $(json import-$n) || failed "import" $?
        done ;;
    linalg)
        title "matrix products and convolutions: builtin | oneDNN"
        "$build/bench_linalg" "$(nproc)" 0.1 $(json products) || failed "linalg" $? ;;
    time)
        title "step time: predicted and measured"
        "$build/bench_time" $(json predicted) || failed "time" $? ;;
    explain)
        title "explain on every recipe"
        $python bench/explain.py "$build/plimsoll" $(json search-time) || failed "explain" $? ;;
    seeds)
        title "systems at full size under the budgets of common GPUs, planned"
        "$build/bench_seeds" $(json budgets) || failed "seeds" $? ;;
    plan)
        title "planner"
        "$build/bench_plan" $(json planner) || failed "plan" $? ;;
    cuda)
        title "training steps on the GPU against PyTorch's strongest forms, in the same job"
        code=0; $python bench/cuda.py "$build" --limit "${BENCH_CUDA_SECONDS:-3600}" $(json pytorch) || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "cuda" $code ;;
    ladder)
        title "budget against measured time on the GPU: stdiff-64x512 in bf16, exact levers, ten rungs"
        code=0; $python bench/ladder.py "$build" $(json ladder) stdiff-64x512 precision=bf16 data.kind=moving-shapes || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "ladder" $code ;;
    gpu-budgets)
        title "budgets on the GPU: 60 random settings, planned, run, and what nvidia-smi counted"
        command -v nvidia-smi > /dev/null || { echo "no GPU: left out"; continue; }
        $python bench/budgets.py "$build" $(json held-budgets) || failed "gpu-budgets" $? ;;
    layout)
        title "layout: rectangles cut into buffers, placed at their bound"
        "$build/bench_layout" 3 || failed "layout" $?
        title "layout: buffers, arena found within the capacity (the number in the name), search"
        if [ ! -d ../shared/instances/layout ]; then
            echo "no instances in ../shared/instances/layout: left out"
            continue
        fi
        for f in ../shared/instances/layout/[A-Z].*.csv; do
            name=$(basename "$f" .csv)
            printf '%-14s ' "$name"
            "$build/plimsoll" layout "$f" --capacity "${name#*.}" || failed "$name" $?
        done ;;
    esac
done
exit $status
