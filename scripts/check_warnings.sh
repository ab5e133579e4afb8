#!/bin/sh
# No warning under -Wall -Wextra -Wpedantic -Wconversion -Wshadow on clang, whose warnings do not depend on optimising;
# check_sanitizers.sh holds gcc to the same.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang-14 > /dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    echo "plimsoll: installing clang-14 libomp-14-dev"
    apt-get install -y -qq clang-14 libomp-14-dev > /dev/null 2>&1 || true
fi
if ! command -v clang-14 > /dev/null 2>&1; then
    echo "warnings: clang-14 is not installed, skipped"
    exit 0
fi
cmake -S . -B build-warn -G Ninja -DCMAKE_C_COMPILER=clang-14 -DPLIMSOLL_WERROR=ON -DPLIMSOLL_ISAS=v4 -DPLIMSOLL_CUDA=OFF \
    -DCMAKE_C_FLAGS_RELEASE=-O0 > build-warn.log 2>&1 || { cat build-warn.log; exit 1; }
rm -f build-warn.log
ninja -k 0 -C build-warn all benches > build-warn/log 2>&1 || { cat build-warn/log; exit 1; }
echo "warnings: none with clang-14"
