#!/bin/sh
# Trains every small recipe as a user would, draws from it, and puts a contact sheet of each into docs/gallery
# with the figures beside it. About fifteen minutes on two cores.
#   gallery.sh [BUILD [RECIPE...]]
# Control: the mean loss of the same weights untrained (learning rate 0) on the run's first steps.
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
[ $# -gt 0 ] && shift
recipes=${*:-unet-small stdiff-small stablesr-vae-small stablesr-small lag-small sashimi-small dit3d-small dit3d-wrap-small}
runs=$build/gallery
out=docs/gallery
mkdir -p "$runs" "$out"

# Mean loss over the last (tail) or first (head) 50 steps of a run.
mean_loss() { "$1" -n 50 "$2/log.jsonl" | sed 's/.*"loss": \([^,]*\),.*/\1/' | awk '{ s += $1 } END { printf "%.4f", s / NR }'; }

train() {                        # recipe, further options
    recipe=$1
    shift
    rm -rf "$runs/$recipe" "$runs/$recipe-control"
    "$build/plimsoll" train "$recipe" --steps 50 --set optimizer.lr=0 --set optimizer.slow_lr=0 --quiet "$@" \
        --out "$runs/$recipe-control" > /dev/null
    begun=$(date +%s)
    "$build/plimsoll" train "$recipe" --quiet "$@" --out "$runs/$recipe"
    seconds=$(($(date +%s) - begun))
    steps=$(wc -l < "$runs/$recipe/log.jsonl")
    echo "| $recipe | $steps | $seconds | $(mean_loss head "$runs/$recipe-control") | $(mean_loss tail "$runs/$recipe") |" \
        > "$out/$recipe.row"
}

draw() {                         # recipe, files to keep, further options
    recipe=$1 files=$2
    shift 2
    rm -rf "$runs/$recipe/samples"
    "$build/plimsoll" sample "$runs/$recipe" --quiet "$@" | tee "$out/$recipe.txt" | tail -1
    sed -n 's/^ *\([0-9]*: \)/\1/p' "$out/$recipe.txt" > "$out/$recipe.about" && mv "$out/$recipe.about" "$out/$recipe.txt"
    [ -s "$out/$recipe.txt" ] || rm "$out/$recipe.txt"
    for file in $files; do
        cp "$runs/$recipe/samples/$file" "$out/$recipe-$file"
    done
}

for recipe in $recipes; do
    echo "== $recipe"
    case $recipe in
    unet-small)         train $recipe; draw $recipe "samples.png" -n 16 ;;
    stdiff-small)       train $recipe; draw $recipe "input-observed.png clips.png" -n 6 ;;
    stablesr-vae-small) train $recipe; draw $recipe "input-image.png samples.png" -n 4 ;;
    stablesr-small)
        vae=$(ls "$runs"/stablesr-vae-small/step-*.safetensors | tail -n 1)
        train $recipe --init "$vae" --init-partial
        draw $recipe "input-image_lq.png samples.png" -n 4 ;;
    lag-small)          train $recipe; draw $recipe "input-support.png samples.png" -n 4 ;;
    sashimi-small)      train $recipe; draw $recipe "sounds.png sound-000.wav" -n 2 ;;
    dit3d-small|dit3d-wrap-small) train $recipe; draw $recipe "clips.png" -n 8 ;;
    *) echo "gallery.sh: $recipe is none of the small recipes" >&2; exit 2 ;;
    esac
done
{
    echo "| recipe | steps | seconds | loss untrained | loss trained |"
    echo "|---|---|---|---|---|"
    cat "$out"/*.row
} > "$out/figures.md"
cat "$out/figures.md"
