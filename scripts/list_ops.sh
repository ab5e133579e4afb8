#!/bin/sh
# list_ops.sh OUT -- finds every operator and CUDA kernel under src/ops and writes the lists that the
# build includes: OUT/ops_list.def and OUT/cuda_kernels.def. A file whose content would not change is
# left alone, so that only a new or removed operator rebuilds what includes them.
#   OPERATOR(name, ...)            in src/ops/*/*.c
#   OPERATOR_INTERNAL(name, ...)   one that another's gradient or the optimizer builds, tested there
#   CUDA_KERNEL(name, ...)         in src/ops/*/*.cu and plugin_cuda_*.c
set -eu
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$out"
list() {                         # file, what it is, pattern, files
    { echo "/* $1 -- $2; made by scripts/list_ops.sh. */"
      shift 2
      pattern=$1
      shift
      cat "$@" | sed -n "s/^\\($pattern\\)(\\([a-z0-9_]*\\),.*/\\1(\\2)/p" | LC_ALL=C sort -t'(' -k2
    } > "$out/list.tmp"
}
put() { cmp -s "$out/list.tmp" "$out/$1" || cp "$out/list.tmp" "$out/$1"; rm -f "$out/list.tmp"; }
# shellcheck disable=SC2046
list ops_list.def "every operator" 'OPERATOR\|OPERATOR_INTERNAL' $(find src/ops -name '*.c' | LC_ALL=C sort)
put ops_list.def
# shellcheck disable=SC2046
list cuda_kernels.def "operators that have a CUDA kernel" CUDA_KERNEL $(find src/ops -name '*_cuda.cu' -o -name 'plugin_cuda_*.c' | LC_ALL=C sort)
put cuda_kernels.def
