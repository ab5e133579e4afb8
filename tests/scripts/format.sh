#!/bin/sh
# scripts/format.sh refuses a file that is not formatted, formats it, and then accepts it.
set -eu
cd "$(dirname "$0")/../.."
scripts/setup_format.sh > /dev/null || { echo "format: clang-format 14 is not installed, skipped"; exit 77; }
folder=$(mktemp -d .plimsoll-XXXXXX.tmp)                 # below .clang-format, and ignored by git
trap 'rm -rf "$folder"' EXIT
fail() { echo "format: $1"; exit 1; }
cat > "$folder/good.c" << 'END'
typedef struct Step {
    StepKind kind;
    int32_t  id; /* node of a run */
} Step;

static int step_count(const Step *steps, int n)
{
    Step last = { 0, 1 };
    if (n > 0)
        last = steps[n - 1];
    return last.id;
}
END
sed 's/int32_t  id;/int32_t id;/; s/^    if (n > 0)/  if( n>0 )/' "$folder/good.c" > "$folder/bad.c"
scripts/format.sh --check "$folder/good.c" > /dev/null 2>&1 || fail "refuses a file that is formatted"
! scripts/format.sh --check "$folder/bad.c" > /dev/null 2>&1 || fail "accepts a file that is not formatted"
scripts/format.sh "$folder/bad.c"
cmp -s "$folder/good.c" "$folder/bad.c" || fail "does not format as expected: $(diff "$folder/good.c" "$folder/bad.c")"
echo "format: as expected"
