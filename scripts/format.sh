#!/bin/sh
# Formats src, tests and bench, or the files that are named, by .clang-format.
#   format.sh [--check] [FILE...]       --check: changes nothing, and fails where something would change
set -eu
cd "$(dirname "$0")/.."
how=-i
if [ "${1:-}" = --check ]; then
    how="--dry-run -Werror"
    shift
fi
program=$(scripts/setup_format.sh)
if [ $# = 0 ]; then
    set -- $(git ls-files --cached --others --exclude-standard 'src/*.[ch]' 'src/*.cu' 'tests/*.[ch]' 'bench/*.[ch]' |
        while read -r file; do [ ! -f "$file" ] || echo "$file"; done)
fi
"$program" $how --style=file "$@"
