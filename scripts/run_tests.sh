#!/bin/sh
# run_tests.sh BUILD [CTEST OPTIONS] -- runs every test, then says how many were skipped, which, and why.
# Two at a time on two cores: waiting threads sleep, so that none spins.
set -eu
build=$1
shift
code=0
(cd "$build" && OMP_WAIT_POLICY=passive ctest -j2 --output-on-failure --timeout 900 "$@") || code=$?
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
exit $code
