#!/bin/sh
# The test suite (but for the long searches) under the address and undefined-behaviour sanitizers, compiled by
# gcc with every warning an error.
set -eu
cd "$(dirname "$0")/.."
# one level of the processor, the best this one has: every level would be as long again
isa=v3
grep -q avx512vl /proc/cpuinfo && isa=v4
cmake -S . -B build-asan -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" \
    -DPLIMSOLL_SANITIZE=address,undefined -DPLIMSOLL_ISAS=$isa -DPLIMSOLL_CUDA=OFF -DPLIMSOLL_WERROR=ON > build-asan.log 2>&1 || { cat build-asan.log; exit 1; }
rm -f build-asan.log
ninja -C build-asan > build-asan/log 2>&1 || { tail -40 build-asan/log; exit 1; }
cd build-asan
# Leaks are valgrind's to find (check_valgrind.sh): the leak sanitizer itself crashes in processes that have oneDNN's
# generated code loaded. gcc's fake stack for use-after-return does not keep 64-byte alignment (gcc bug 110027).
ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=0 UBSAN_OPTIONS=print_stacktrace=1 \
    OMP_WAIT_POLICY=passive ctest -j2 --output-on-failure --timeout 900 -LE slow
