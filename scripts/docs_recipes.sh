#!/bin/sh
# Writes the reference of docs/user/RECIPES.md, between its markers, from `plimsoll help recipe --md`.
#   docs_recipes.sh PROGRAM             rewrite it
#   docs_recipes.sh PROGRAM --check     change nothing; fail if it differs
set -eu
if [ $# -lt 1 ] || [ $# -gt 2 ] || { [ $# = 2 ] && [ "$2" != --check ]; }; then
    sed -n '2,4s/^# *//p' "$0" >&2
    exit 2
fi
page=$(dirname "$0")/../docs/user/RECIPES.md
made=$(mktemp)
trap 'rm -f "$made" "$made.page"' EXIT
"$1" help recipe --md > "$made"
for marker in '<!-- recipe reference -->' '<!-- end -->'; do
    [ "$(grep -cxF -e "$marker" "$page")" = 1 ] || { echo "$page: '$marker' must stand alone on exactly one line" >&2; exit 1; }
done
awk -v made="$made" '
    /^<!-- end -->$/              { inside = 0 }
    !inside                       { print }
    /^<!-- recipe reference -->$/ { inside = 1; print ""; while ((getline line < made) > 0) print line; print "" }
' "$page" > "$made.page"
if cmp -s "$made.page" "$page"; then
    exit 0
elif [ $# = 2 ]; then
    diff "$page" "$made.page" | head -20 >&2
    echo "docs/user/RECIPES.md is not what help recipe --md prints; run scripts/docs_recipes.sh PROGRAM" >&2
    exit 1
fi
cat "$made.page" > "$page"
echo "wrote docs/user/RECIPES.md"
