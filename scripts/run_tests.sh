#!/bin/sh
# run_tests.sh BUILD [CTEST OPTIONS] -- runs every test, then says how many were skipped, which, and why.
# One more at a time than there are cores, because some tests wait: for a killed run, a silent rank, a browser.
# Fails too if a test left or changed a file in the source tree: tests write only below BUILD.
set -eu
build=$1
shift
code=0
tree=$(dirname "$0")/..
tree_state() { git -C "$tree" status --porcelain --untracked-files=all 2> /dev/null || true; }    # empty where git is not used
before=$(tree_state)
(cd "$build" && OMP_WAIT_POLICY=passive ctest -j$(($(nproc) + 1)) --output-on-failure --timeout 900 "$@") || code=$?
# A skipped test says why in its last line; one that ran may have left parts out ("N passed, N failed, N skipped").
awk '
    / Testing: /                    { name = $NF; reason = "" }
    /^<end of output>/              { inside = 0 }
    inside && /[^ ]/                { reason = $0 }
    inside && /^[0-9]+ passed, [0-9]+ failed/ {
        programs++; passed += $1; failed += $3
        if ($5 > 0) { left_out += $5; print "left out in " name ": " $5 " checks" }
    }
    /^Output:/                      { getline; inside = 1 }
    # CTest calls a test that skips itself by its exit code passed in this log.
    /^Test Skipped/ || (/^Test Passed/ && reason ~ /^skipped/) { skipped++; print "skipped: " name (reason == "" ? "" : ": " reason) }
    END { printf "%d checks passed, %d failed in %d programs that count; %d tests skipped, %d checks left out\n",
                 passed, failed, programs, skipped, left_out }
' "$build/Testing/Temporary/LastTest.log"
after=$(tree_state)
if [ "$before" != "$after" ]; then
    echo "the source tree changed while the tests ran; tests may write only below $build:"
    printf '%s\n--\n%s\n' "$before" "$after" | awk '/^--$/ { later = 1; next } !later { had[$0] = 1; next } !had[$0]'
    [ $code != 0 ] || code=1
fi
exit $code
