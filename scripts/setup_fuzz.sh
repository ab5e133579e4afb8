#!/bin/sh
# Installs what `make fuzz` needs: clang with libFuzzer, its omp.h, libpng for that target. Does nothing if they are there; CLANG
# names another clang.
set -eu
clang=${CLANG:-clang-14}
missing=""
command -v "$clang" > /dev/null 2>&1 || missing="$missing $clang"
ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a > /dev/null 2>&1 || missing="$missing libclang-rt-${clang#clang-}-dev"
ls /usr/lib/llvm-*/lib/clang/*/include/omp.h > /dev/null 2>&1 || missing="$missing libomp-${clang#clang-}-dev"
[ -f /usr/include/png.h ] || missing="$missing libpng-dev"
ls /usr/lib/gcc/*/*/libgomp.so > /dev/null 2>&1 || missing="$missing gcc"
[ -z "$missing" ] && exit 0
command -v apt-get > /dev/null 2>&1 || { echo "fuzz: please install:$missing (or set CLANG)" >&2; exit 1; }
as_root=""
[ "$(id -u)" = 0 ] || as_root="sudo"
# A name that the distribution does not have is part of another package there.
$as_root apt-get update -qq > /dev/null
known=""
for name in $missing; do apt-cache show "$name" > /dev/null 2>&1 && known="$known $name"; done
echo "fuzz: installing$known"
DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends $known > /dev/null ||
    { echo "fuzz: could not install$known" >&2; exit 1; }
command -v "$clang" > /dev/null 2>&1 || { echo "fuzz: $clang is not installed; set CLANG=clang" >&2; exit 1; }
