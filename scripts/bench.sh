#!/bin/sh
# Ours against PyTorch on this machine, and the solvers on outside instances where they are present.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
ninja -C "$build" bench_ops bench_blas bench_plan bench_time > /dev/null
python=python3
[ -x .venv/bin/python ] && python=.venv/bin/python
echo "== matrix products and convolutions: own against oneDNN"
"$build/bench_blas"
echo "== operators against PyTorch, 2 threads"
$python bench/ops.py "$build/bench_ops" || [ $? = 77 ]
echo "== step time, predicted against measured"
"$build/bench_time"
echo "== planner"
"$build/bench_plan"
if [ -d ../shared/instances/layout ]; then
    echo "== layout instances"
    for f in ../shared/instances/layout/[A-Z].*.csv; do
        capacity=$(basename "$f" .csv | cut -d. -f2)
        printf '%s: ' "$(basename "$f")"
        "$build/plimsoll" layout "$f" --capacity "$capacity"
    done
fi
