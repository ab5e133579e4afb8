#!/bin/sh
# No warning under -Wall -Wextra -Wpedantic -Wconversion -Wshadow on clang, whose warnings do not depend on optimising;
# check_sanitizers.sh holds gcc to the same.
set -eu
cd "$(dirname "$0")/.."
if ! command -v clang-14 > /dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null 2>&1; then
    echo "plimsoll: installing clang-14 libomp-14-dev"
    apt-get install -y -qq clang-14 libomp-14-dev > /dev/null 2>&1 || true
fi
for cc in clang-14; do
    if ! command -v $cc > /dev/null 2>&1; then
        echo "warnings: $cc is not installed, skipped"
        continue
    fi
    cmake -S . -B build-warn-$cc -G Ninja -DCMAKE_C_COMPILER=$cc -DPLIMSOLL_WERROR=ON -DPLIMSOLL_ISAS=v4 -DPLIMSOLL_CUDA=OFF \
        -DCMAKE_C_FLAGS_RELEASE=-O0 > build-warn-$cc.log 2>&1 ||
        { cat build-warn-$cc.log; exit 1; }
    rm -f build-warn-$cc.log
    ninja -C build-warn-$cc > build-warn-$cc/log 2>&1 || { cat build-warn-$cc/log; exit 1; }
    echo "warnings: none with $cc"
done
