#!/bin/sh
# scripts/run_tests.sh fails where a test leaves a file in the source tree, and names it. ctest is a stand-in here.
set -eu
command -v git > /dev/null || { echo "skipped: git is not installed"; exit 77; }
script=$(cd "$(dirname "$0")/../../scripts" && pwd)/run_tests.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/tree/scripts" "$work/tree/build/Testing/Temporary"
cp "$script" "$work/tree/scripts/"
echo "build/" > "$work/tree/.gitignore"
(cd "$work/tree" && git init -q . && git add . && git -c user.name=t -c user.email=t@t commit -qm tree)
echo "edited" >> "$work/tree/.gitignore"             # what was changed before the tests is nobody's fault
: > "$work/tree/build/Testing/Temporary/LastTest.log"
export PATH="$work/bin:$PATH"

run() {    # what the stand-in of ctest does, in the build folder
    printf '#!/bin/sh\n%s\n' "$1" > "$work/bin/ctest"
    chmod +x "$work/bin/ctest"
    status=0
    said=$(cd "$work/tree" && scripts/run_tests.sh build 2>&1) || status=$?
}
must() { echo "$said" | grep -q "$1" || { echo "'$1' is missing in:"; echo "$said"; exit 1; }; }

run 'mkdir run && echo > run/log.jsonl'
[ $status = 0 ] || { echo "a file below the build folder is refused: $said"; exit 1; }
run 'mkdir ../run && echo > ../run/log.jsonl'
[ $status = 1 ] || { echo "a file in the tree passes: $said"; exit 1; }
must '^?? run/log.jsonl$'
! echo "$said" | grep -q gitignore || { echo "an earlier change is named: $said"; exit 1; }
rm -r "$work/tree/run"
run 'echo >> ../scripts/run_tests.sh'
[ $status = 1 ] || { echo "a changed file passes: $said"; exit 1; }
must '^ M scripts/run_tests.sh$'
cp "$script" "$work/tree/scripts/"
run 'exit 8'
[ $status = 8 ] || { echo "ctest's exit code is lost: $status"; exit 1; }
echo "1 passed, 0 failed, 0 skipped"
