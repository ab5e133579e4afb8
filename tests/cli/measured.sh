#!/bin/sh
# What explain predicts is what train then measures, to the byte, on every small recipe: in all, and in every
# phase that runs.
#   measured.sh PROGRAM
set -u
program=$1
cd "$(dirname "$0")/../.." || exit 1
failed=0
field() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" | head -1; }
phases() { sed -n "s/.*{\"name\": \"\([a-z]*\)\",.* \"$1\": \([1-9][0-9]*\)[,}].*/\1 \2/p"; }
for recipe in recipes/*-small.yaml; do
    name=$(basename "$recipe" .yaml)
    said=$("$program" explain "$name" --effort -1 --json)
    done=$("$program" train --out none "$name" --steps 1 --quiet --json)
    predicted=$(printf '%s' "$said" | field peak_bytes)
    measured=$(printf '%s' "$done" | field measured_bytes)
    if [ -n "$predicted" ] && [ "$predicted" = "$measured" ]; then
        echo "$name: $predicted bytes predicted and measured"
    else
        echo "$name: predicted '$predicted' bytes, measured '$measured'" && failed=1
    fi
    planned=$(printf '%s' "$said" | sed 's/"live_bytes".*//' | phases peak_bytes)
    ran=$(printf '%s' "$done" | phases measured_bytes)
    [ -n "$ran" ] || { echo "$name: no phase was measured" && failed=1; }
    while read -r phase; do
        printf '%s\n' "$planned" | grep -qx "$phase" ||
            { echo "$name: measured $phase, predicted $(echo $planned)" && failed=1; }
    done <<EOF
$ran
EOF
done
exit $failed
