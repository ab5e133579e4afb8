#!/bin/sh
# Every operator's tests (fp32, bf16 and fp16, with gradients) under compute-sanitizer, several at a time.
#   sanitize_cuda.sh BUILD [TOOL ...]            tools: memcheck racecheck; both unless named
# memcheck runs all cases. racecheck is a hundred times slower than the GPU: it runs the small cases, and of attention those
# that fill every stage of every kernel. Operators with many cases are divided into shares. Each share may take LIMIT seconds
# (300), and JOBS of them run in parallel (8); logs go to BUILD/sanitizer. Prints one line for each tool, and exits with 1 if
# anything was found, failed or did not end.
set -eu
cd "$(dirname "$0")/.."
build=$1
shift
export PLIMSOLL_TEST_DEVICE=cuda LIMIT="${LIMIT:-300}" LOGS="$build/sanitizer" TEST="$build/test_ops"
mkdir -p "$LOGS"

heavy="attention:8 attention_stored:6 conv:6 groupnorm:6 linear:4 fft_conv:4 s4_kernel:4 up_conv:2 resize:2 layernorm:2"
stages="several tiles,several tiles of 72,several tiles of 128,258 tokens,65 and 287,one head of 512"

shares() {                       # of a tool, the long ones first: operator|options
    if [ "$1" = racecheck ]; then
        echo "$stages" | tr , '\n' | sed 's/.*/attention|--case|&/'
    fi
    for entry in $heavy; do
        for k in $(seq "${entry#*:}"); do echo "${entry%:*}|--share|$k/${entry#*:}"; done
    done
    for op in $(sed -n 's/^OPERATOR(\(.*\))$/\1/p' "$build/generated/ops/ops_list.def"); do
        case " $heavy" in *" $op:"*) ;; *) echo "$op|--share|1/1" ;; esac
    done
}

failed=0
for tool in ${*:-memcheck racecheck}; do
    export TOOL="$tool"
    rm -f "$LOGS/$tool".*
    # failed tests count too: a kernel that is wrong only under the tool is not synchronised correctly
    shares "$tool" | xargs -d '\n' -P "${JOBS:-8}" -n 1 sh -c '
        op=${0%%|*} value=${0##*|} option=${0#*|} option=${option%|*} large=1
        [ "$TOOL $option" != "racecheck --share" ] || large=0
        log=$LOGS/$TOOL.$op.$(echo "$value" | tr -c "a-z0-9\n" -)
        timeout "$LIMIT" compute-sanitizer --tool "$TOOL" --error-exitcode 9 \
            "$TEST" --only "$op" "$option" "$value" --large $large --differences 0 > "$log" 2>&1 &&
            echo clean >> "$log" || echo "$op $value ended with $?" | tee -a "$log"'
    clean=$(grep -l -x clean "$LOGS/$tool".* | wc -l) all=$(shares "$tool" | wc -l)
    echo "$tool: $clean of $all shares clean"
    [ "$clean" = "$all" ] || failed=1
done
exit $failed
