#!/bin/sh
# Tables of ours against others on this machine: operators and whole steps against PyTorch, the builtin backend against oneDNN, the planner
# and the layout search on published instances if they are there. A table that cannot be made says why; the others are still made.
#
#   bench.sh [BUILD [TABLE...]]       tables: ops systems linalg time explain plan seeds layout cuda ladder; all if none is named
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
[ $# -gt 0 ] && shift
tables=${*:-ops systems linalg time explain plan seeds layout cuda ladder}
for table in $tables; do
    case $table in
    ops|systems|linalg|time|explain|plan|seeds|layout|cuda|ladder) ;;
    *) echo "bench: there is no table '$table'; there are ops, systems, linalg, time, explain, plan, seeds, layout, cuda and ladder" >&2; exit 2 ;;
    esac
done
ninja -C "$build" bench_ops bench_step bench_linalg bench_time bench_plan bench_seeds > "$build/bench.log" 2>&1 || { tail -20 "$build/bench.log" >&2; exit 1; }
python=python3
[ -x .venv/bin/python ] && python=.venv/bin/python
unset OMP_WAIT_POLICY                # threads spin a moment, then sleep, as for users, on both sides of a comparison
status=0
title() { printf '\n== %s\n\n' "$1"; }
failed() { echo "bench: $1 ended with exit code $2" >&2; status=1; }

printf '%s, %s processors, load %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)" "$(cut -d' ' -f1 /proc/loadavg)"
for table in $tables; do
    case $table in
    ops)
        title "operators against PyTorch, 2 threads, best of 6 rounds taken in turn; a ratio above 1: ours is faster"
        code=0; $python bench/ops.py "$build/bench_ops" || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "ops" $code ;;
    systems)
        title "training steps against PyTorch, 2 threads, taken in turn; PyTorch / ours above 1: ours is faster"
        code=0; $python bench/systems.py "$build" || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "systems" $code ;;
    linalg)
        title "matrix products and convolutions: builtin | oneDNN"
        "$build/bench_linalg" "$(nproc)" 0.1 || failed "linalg" $? ;;
    time)
        title "step time: predicted and measured"
        "$build/bench_time" || failed "time" $? ;;
    explain)
        title "explain on every recipe"
        $python bench/explain.py "$build/plimsoll" || failed "explain" $? ;;
    seeds)
        title "systems at full size under the budgets of common GPUs, planned"
        "$build/bench_seeds" || failed "seeds" $? ;;
    plan)
        title "planner"
        "$build/bench_plan" || failed "plan" $? ;;
    cuda)
        title "training steps on the GPU against PyTorch's strongest forms, in the same job"
        code=0; $python bench/cuda.py "$build" --limit "${BENCH_CUDA_SECONDS:-3600}" || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "cuda" $code ;;
    ladder)
        title "budget against measured time on the GPU: stdiff-64x512 in bf16, exact levers, ten rungs"
        code=0; $python bench/ladder.py "$build" stdiff-64x512 precision=bf16 data.kind=moving-shapes || code=$?
        [ $code = 0 ] || [ $code = 77 ] || failed "ladder" $code ;;
    layout)
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
