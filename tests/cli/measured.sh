#!/bin/sh
# What explain predicts is what train then measures, to the byte, on every small recipe.
#   measured.sh PROGRAM
set -u
program=$1
cd "$(dirname "$0")/../.." || exit 1
failed=0
field() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" | head -1; }
for recipe in recipes/*-small.yaml; do
    name=$(basename "$recipe" .yaml)
    predicted=$("$program" explain "$name" --effort -1 --json | field peak_bytes)
    measured=$("$program" train "$name" --steps 1 --quiet --json | field measured_bytes)
    if [ -n "$predicted" ] && [ "$predicted" = "$measured" ]; then
        echo "$name: $predicted bytes predicted and measured"
    else
        echo "$name: predicted '$predicted' bytes, measured '$measured'" && failed=1
    fi
done
exit $failed
