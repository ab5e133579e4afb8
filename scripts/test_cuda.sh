#!/bin/sh
# Tests on the GPU, against the same references as on the CPU: every operator, each small system. Skipped without a GPU.
#   test_cuda.sh BUILD [SYSTEM ...]
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
if [ ! -f "$build/libplimsoll_cuda.so" ]; then
    echo "plimsoll: the CUDA plugin was not built here (nvcc, cuDNN or cuBLAS missing): nothing to test"
    exit 0
fi
if ! nvidia-smi -L > /dev/null 2>&1; then
    echo "plimsoll: no CUDA GPU here: the plugin was built, but cannot be tested"
    exit 0
fi
export PLIMSOLL_TEST_DEVICE=cuda
python=python3
[ -x .venv/bin/python ] && python=.venv/bin/python
failed=0
"$build/test_ops" || failed=1
"$build/test_ops" --only attention --tf32 1 || failed=1
for system in ${*:-dit3d lag sashimi stdiff stablesr}; do
    echo "== $system"
    $python tests/py/model_cases.py "$build" "$build/cases" "$system" || [ $? = 77 ] || failed=1
done
exit $failed
