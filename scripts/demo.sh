#!/bin/sh
# The main job in a minute: where a training step's memory goes, then a run that uses exactly that.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
say() { printf '\n$ plimsoll %s\n' "$*"; "$build/plimsoll" "$@"; }
say explain unet-small
rm -rf "$build/demo-run"
say train unet-small --out "$build/demo-run"
say train unet-small --steps 20 --set accumulate=1 --precision bf16 --quiet
printf '\nThe run is in %s/demo-run: recipe.yaml, log.jsonl and checkpoints.\n' "$build"
