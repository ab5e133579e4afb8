#!/bin/sh
# Every C and CUDA file is as clang-format 14 would write it (.clang-format); scripts/format.sh makes it so.
set -eu
cd "$(dirname "$0")/.."
scripts/setup_format.sh > /dev/null || { echo "format: clang-format 14 is not installed, skipped"; exit 0; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! scripts/format.sh --check > "$log" 2>&1; then
    sed -n 's/: error: code should be clang-formatted.*/: not as scripts\/format.sh would write it/p' "$log" | awk -F: '!seen[$1]++'
    grep -q 'clang-formatted' "$log" || cat "$log"
    exit 1
fi
echo "format: as clang-format 14 writes it"
