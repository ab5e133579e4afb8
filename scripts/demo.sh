#!/bin/sh
# What the program does, in two minutes: where a training step's memory goes, what a budget costs, and a run within it.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
say() { printf '\n$ plimsoll %s\n' "$*"; "$build/plimsoll" "$@"; }
say explain stdiff-64x2048
say explain unet-small --budget 16MiB
say fit unet-small --budget 16MiB
rm -rf "$build/demo-run"
say train unet-small --budget 16MiB --steps 1200 --out "$build/demo-run"
say sample "$build/demo-run" -n 8 --quiet
printf '\nThe run is in %s/demo-run: recipe.yaml, log.jsonl, checkpoints, and images under samples/.\n' "$build"
