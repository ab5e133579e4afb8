#!/bin/sh
# Every operator's tests (all cases, fp32, bf16 and fp16, with gradients) under compute-sanitizer, several at a time.
#   sanitize_cuda.sh BUILD [TOOL ...]            tools: memcheck racecheck; both unless named
# Operators with many cases are cut into shares. Each may take LIMIT seconds (300), JOBS run side by side (8); logs go to
# BUILD/sanitizer. Ends with one line a tool, and 1 if anything was found, failed or did not end.
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
export PLIMSOLL_TEST_DEVICE=cuda LIMIT="${LIMIT:-300}" LOGS="$build/sanitizer" TEST="$build/test_ops"
mkdir -p "$LOGS"

heavy="attention:8 attention_stored:6 conv:6 groupnorm:6 linear:4 fft_conv:4 s4_kernel:4 up_conv:2 resize:2 layernorm:2"

shares() {                       # operator and share; the long ones first
    for cut in $heavy; do
        for k in $(seq "${cut#*:}"); do echo "${cut%:*} $k/${cut#*:}"; done
    done
    for op in $(sed -n 's/^OP(\(.*\))$/\1/p' src/ops/ops.def); do
        case " $heavy" in *" $op:"*) ;; *) echo "$op 1/1" ;; esac
    done
}

failed=0
for tool in ${*:-memcheck racecheck}; do
    export TOOL="$tool"
    rm -f "$LOGS/$tool".*
    # the tests' own verdict counts too: a kernel that is wrong only under the tool waits for the wrong thing
    shares | xargs -P "${JOBS:-8}" -L 1 sh -c '
        log=$LOGS/$TOOL.$0.$(echo "$1" | tr / -)
        timeout "$LIMIT" compute-sanitizer --tool "$TOOL" --error-exitcode 9 "$TEST" --only "$0" --share "$1" --differences 0 \
            > "$log" 2>&1 && echo clean >> "$log" || echo "$0 $1 ended with $?" | tee -a "$log"'
    clean=$(grep -l -x clean "$LOGS/$tool".* | wc -l) all=$(shares | wc -l)
    echo "$tool: $clean of $all parts clean"
    [ "$clean" = "$all" ] || failed=1
done
exit $failed
