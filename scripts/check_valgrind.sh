#!/bin/sh
# valgrind on the builtin backend. (Under valgrind oneDNN chooses other kernels; the sanitizers cover it.)
set -eu
cd "$(dirname "$0")/.."
command -v valgrind > /dev/null 2>&1 || { [ "$(id -u)" = 0 ] && apt-get install -y -qq valgrind > /dev/null 2>&1; } || true
command -v valgrind > /dev/null 2>&1 || { echo "valgrind: not installed, skipped"; exit 0; }
# AVX-512 is unknown to valgrind 3.19: a build for plain x86-64-v3.
cmake -S . -B build-valgrind -G Ninja -DPLIMSOLL_ISAS=v3 -DPLIMSOLL_CUDA=OFF -DPLIMSOLL_DNNL=OFF -DCMAKE_C_FLAGS_RELEASE="-O1 -g" \
    > build-valgrind.log 2>&1 || { cat build-valgrind.log; exit 1; }
rm -f build-valgrind.log
ninja -C build-valgrind plimsoll test_ops test_base_json test_base_yaml test_base_safetensors test_plan_plan_buffers test_lib_plimsoll > build-valgrind/log 2>&1 || { tail -40 build-valgrind/log; exit 1; }
cd build-valgrind
run() { OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive valgrind -q --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite \
    --suppressions=../tests/valgrind.supp "$@" > valgrind.log 2>&1 || { tail -60 valgrind.log; exit 1; }; }
run ./test_base_json
run ./test_base_yaml
run ./test_base_safetensors
run ./test_plan_plan_buffers
run ./test_lib_plimsoll
run ./test_ops --backend builtin --quick 1
run ./plimsoll train --out none unet-small --steps 2 --backend builtin --quiet --set model.widths=[8] --set model.groups=4 --set model.height=8 --set model.width=8 --batch 2
echo "valgrind: clean"
