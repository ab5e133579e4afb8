#!/bin/sh
# fuzz.sh [SECONDS] [NAME...] -- builds and runs every tests/fuzz/*.c, or those named, for SECONDS (60) each.
#
# Needs clang with libFuzzer, omp.h and libpng (scripts/setup_fuzz.sh installs them; CLANG names another clang). The corpus is kept in
# BUILD/fuzz/NAME/corpus and used again. An input that makes a target fail is left as BUILD/fuzz/NAME/crash-...,
# and the script fails.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -gt 0 ] && shift
clang=${CLANG:-clang-14}
command -v "$clang" > /dev/null || { echo "fuzz: $clang is not installed; install it or set CLANG=clang" >&2; exit 1; }
command -v ccache > /dev/null && cached=ccache || cached=
out=${BUILD:-build}/fuzz
names=${*:-$(for f in tests/fuzz/*.c; do basename "$f" .c; done)}
targets=$(for name in $names; do echo "tests/fuzz/$name.c"; done)

# Sources: the rooms of src/ROOMS up to the last one that a target includes.
# shellcheck disable=SC2086
rooms=$(sed -n 's|^#include "\([a-z]*\)/.*|\1|p' $targets |
    awk 'NR == FNR { used[$1]; next }
         { line[FNR] = $0; for (i = 1; i <= NF; i++) if ($i in used) last = FNR }
         END { for (i = 1; i <= last; i++) print line[i] }' - src/ROOMS)
mkdir -p "$out/objects"
scripts/list_ops.sh "$out/generated"
export COMPILE="$cached $clang -std=gnu17 -D_GNU_SOURCE -Isrc -I$out/generated -O1 -g \
    -fno-sanitize-recover=undefined -DHAVE_PNG -Wno-unknown-pragmas -Wno-psabi -DPLIMSOLL_VERSION=\"fuzz\"" OUT="$out"
echo "fuzz: compiling rooms" $rooms
for room in $rooms; do
    find "src/$room" -name '*.c' ! -name main.c ! -name 'plugin_*.c'
done > "$out/sources"
xargs -P "$(nproc)" -n 1 sh -c '
    $COMPILE -fsanitize=fuzzer-no-link,address,undefined -c "$0" -o "$OUT/objects/$(echo "$0" | tr / -).o"' < "$out/sources"
rm -f "$out/librooms.a"
tr / - < "$out/sources" | sed "s|.*|$out/objects/&.o|" | xargs ar rcs "$out/librooms.a"

for name in $names; do
    mkdir -p "$out/$name/corpus"
    $COMPILE -fsanitize=fuzzer,address,undefined "tests/fuzz/$name.c" "$out/librooms.a" -lpng -lz -lm -ldl -lgomp -o "$out/$name/run"
    dict=
    [ ! -f "tests/fuzz/$name.dict" ] || dict="-dict=tests/fuzz/$name.dict"
    echo "fuzz: $name for $seconds s"
    "$out/$name/run" $dict -max_total_time="$seconds" -max_len=4096 -timeout=10 -print_final_stats=1 \
        -artifact_prefix="$out/$name/" "$out/$name/corpus" > "$out/$name/log" 2>&1 ||
        { tail -n 40 "$out/$name/log" >&2; echo "fuzz: $name failed; see $out/$name/" >&2; exit 1; }
    grep -E 'number_of_executed_units|DONE' "$out/$name/log" || true
done
