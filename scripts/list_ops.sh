#!/bin/sh
# list_ops.sh OUT -- finds every operator, CUDA kernel, builder and model in the sources and writes the
# lists that the build includes. A file whose content would not change is left alone, so that only a
# new or removed operator or model rebuilds what includes them.
#
#   OUT/ops/ops_list.def         OPERATOR(name, ...) and OPERATOR_INTERNAL(name, ...) of src/ops/*/*.c
#   OUT/ops/cuda_kernels.def     CUDA_KERNEL(name, ...) of src/ops/*/*_cuda.cu and plugin_cuda_*.c
#   OUT/ops/builders.h           includes every operator header that declares a builder
#   OUT/models/source_lines.h    a macro for every builder, that notes the model's file and line
#   OUT/models/models_list.def   MODEL(name) for every `const ModelDef model_NAME` of src/models/*.c and src/import/*.c
set -eu
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$out/ops" "$out/models"
put() {                          # standard input -> file, if it differs
    cat > "$out/list.tmp"
    cmp -s "$out/list.tmp" "$1" || cp "$out/list.tmp" "$1"
    rm -f "$out/list.tmp"
}
names() {                        # pattern; sources on standard input
    xargs cat | sed '/^[A-Z_]*($/{N;s/\n *//;}' | sed -n "s/^\\($1\\)(\\([a-z0-9_]*\\),.*/\\1(\\2)/p" | LC_ALL=C sort -t'(' -k2
}
{
    echo "/* ops_list.def -- every operator; made by scripts/list_ops.sh. */"
    find src/ops -name '*.c' | names 'OPERATOR\|OPERATOR_INTERNAL'
} | put "$out/ops/ops_list.def"
{
    echo "/* cuda_kernels.def -- operators with a CUDA kernel; made by scripts/list_ops.sh. */"
    find src/ops -name '*_cuda.cu' -o -name 'plugin_cuda_*.c' | names CUDA_KERNEL
} | put "$out/ops/cuda_kernels.def"

{
    echo "/* models_list.def -- every model; made by scripts/list_ops.sh. */"
    cat src/models/*.c src/import/*.c | sed -n 's/^const ModelDef model_\([a-z0-9_]*\) = {.*/MODEL(\1)/p' | LC_ALL=C sort
} | put "$out/models/models_list.def"

builders=$(find src/ops -name '*.h' ! -name '*_cuda.h' | LC_ALL=C sort | xargs grep -lE '^(Tensor|void) +[a-z0-9_]+\(.*Tensor' | xargs)
{
    echo "/* builders.h -- every operator's builder; made by scripts/list_ops.sh. */"
    for header in $builders; do echo "#include \"${header#src/}\""; done
} | put "$out/ops/builders.h"

# A builder's first Tensor or Graph carries the line on: name(a, x, ...) -> name(a, AT(x), ...).
# shellcheck disable=SC2086
{
    echo "/* source_lines.h -- builders that note the line of the model; made by scripts/list_ops.sh. */"
    awk '
        /^(Tensor|void) +[a-z0-9_]+\(/ { text = ""; open = 1 }
        open                          { text = text $0 " " }
        open && /\);/                 { open = 0; macro(text) }
        function macro(text,    name, args, n, list, i, formal, actual, found) {
            name = text; sub(/^[A-Za-z]+ +/, "", name); sub(/\(.*/, "", name)
            args = text; sub(/^[^(]*\(/, "", args); sub(/\);.*/, "", args)
            n = split(args, list, ",")
            for (i = 1; i <= n && !found; i++) {
                sub(/^ +/, "", list[i])
                found = list[i] ~ /^Tensor [a-z]/ ? "AT_TENSOR" : list[i] ~ /^Graph \*/ ? "AT_GRAPH" : ""
                formal = formal (i > 1 ? ", " : "") "a" i
                actual = actual (i > 1 ? ", " : "") (found ? found "(a" i ")" : "a" i)
            }
            if (found)
                printf "#define %s(%s%s) %s(%s%s)\n", name, formal, i <= n ? ", ..." : "", name, actual, i <= n ? ", __VA_ARGS__" : ""
        }' $builders src/models/layers.h
} | put "$out/models/source_lines.h"
