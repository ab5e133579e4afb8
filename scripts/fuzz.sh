#!/bin/sh
# fuzz.sh [SECONDS] [NAME...] -- build and run every tests/fuzz/*.c (or those named) so long each.
#
# Needs clang with libFuzzer (CLANG=clang-14 by default). What was learned is kept in build/fuzz/
# and used again; an input that breaks a promise is left there as NAME/crash-..., and the script
# fails.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
clang=${CLANG:-clang-14}
command -v "$clang" >/dev/null ||
    { echo "fuzz: $clang is not installed; set CLANG=clang" >&2; exit 1; }
out=${BUILD:-build}/fuzz
names=${*:-$(for f in tests/fuzz/*.c; do basename "$f" .c; done)}

for name in $names; do
    # Sources: the rooms of src/ROOMS up to the last one that the target includes.
    rooms=$(sed -n 's|^#include "\([a-z]*\)/.*|\1|p' "tests/fuzz/$name.c" |
        awk 'NR == FNR { used[$1]; next }
             { line[FNR] = $0; for (i = 1; i <= NF; i++) if ($i in used) last = FNR }
             END { for (i = 1; i <= last; i++) print line[i] }' - src/ROOMS)
    sources=
    for room in $rooms; do
        [ -d "src/$room" ] || continue               # a room that has no file yet
        sources="$sources $(find "src/$room" -name '*.c' ! -name 'main.c' ! -name 'plugin_*.c')"
    done
    mkdir -p "$out/$name/corpus"
    # shellcheck disable=SC2086
    "$clang" -std=gnu17 -D_GNU_SOURCE -Isrc -O1 -g -fsanitize=fuzzer,address,undefined \
        -fno-sanitize-recover=undefined -Wno-unknown-pragmas -Wno-psabi -DPLIMSOLL_VERSION=\"fuzz\" \
        "tests/fuzz/$name.c" $sources \
        -lm -ldl -lgomp -o "$out/$name/run"
    dict=
    [ -f "tests/fuzz/$name.dict" ] && dict="-dict=tests/fuzz/$name.dict"
    echo "fuzz: $name for $seconds s"
    "$out/$name/run" $dict -max_total_time="$seconds" -max_len=4096 -timeout=10 \
        -print_final_stats=1 -artifact_prefix="$out/$name/" "$out/$name/corpus" \
        >"$out/$name/log" 2>&1 ||
        { tail -n 40 "$out/$name/log" >&2; echo "fuzz: $name failed; see $out/$name/" >&2; exit 1; }
    grep -E 'number_of_executed_units|DONE' "$out/$name/log" || true
done
