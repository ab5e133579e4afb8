#!/bin/sh
# Trains every small recipe as a user would, samples from it, puts a contact sheet of each into docs/user/gallery and the figures into
# bench/results. About half an hour on two cores; runs that exist already are kept.
#   gallery.sh [BUILD [RECIPE...]]
# Control: the mean loss of the same weights left untrained (learning rate 0) over 20 steps. What the page promises of the results is
# measured by gallery_measure.py, which needs NumPy and PIL (scripts/setup_torch.sh).
set -eu
cd "$(dirname "$0")/.."
build=${1:-build}
[ $# -gt 0 ] && shift
recipes=${*:-unet-small stdiff-small stablesr-vae-small stablesr-small lag-small sashimi-small dit3d-small dit3d-wrap-small}
runs=$build/gallery
out=docs/user/gallery
mkdir -p "$runs" "$out"

# Mean loss over the last steps of a run.
mean_loss() { tail -n "$1" "$2/log.jsonl" | sed 's/.*"loss": \([^,]*\),.*/\1/' | awk '{ s += $1 } END { printf "%.4f", s / NR }'; }

# CPU seconds of all programs so far, from a file that `times` wrote: a pipe would have a count of its own.
cpu_seconds() { tail -n 1 "$1" | sed 's/[ms]/ /g' | awk '{ print $1 * 60 + $2 + $3 * 60 + $4 }'; }

train() {                        # recipe, further options
    run=$runs/$1 of=$1
    shift
    [ -d "$run" ] && return
    rm -rf "$run-control"
    "$build/plimsoll" train "$of" --quiet "$@" --steps 20 --set optimizer.lr=0 --set optimizer.slow_lr=0 \
        --out "$run-control" > /dev/null
    times > "$runs/before"
    "$build/plimsoll" train "$of" --quiet "$@" --out "$run"
    times > "$runs/after"
    echo "$(cpu_seconds "$runs/after") $(cpu_seconds "$runs/before")" | awk '{ printf "%.0f\n", $1 - $2 }' > "$run/seconds"
}

figures() {                      # recipe -> its row of the results
    run=$runs/$1
    printf '    {"work": "%s", "steps": %s, "cpu_s": %s, "untrained_loss": %s, "loss": %s, "measured": "%s"}' "$1" "$(wc -l < "$run/log.jsonl")" "$(cat "$run/seconds")" \
        "$(mean_loss 20 "$run-control")" "$(mean_loss 100 "$run")" "$(cat "$run/measured")"
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

measure() {                        # recipe, options of the samples that are measured: more than the page shows
    recipe=$1 at=$runs/$1/measure
    shift
    rm -rf "$at"
    mkdir "$at"
    if [ $recipe = stablesr-small ]; then
        "$build/plimsoll" evaluate "$runs/$recipe" --quiet -n 16 --timesteps 10 -o "$at/evaluation.json"
    elif [ $# -gt 0 ]; then
        "$build/plimsoll" sample "$runs/$recipe" --quiet "$@" -o "$at" > "$at/about.txt"
    fi
    "$python" scripts/gallery_measure.py $recipe "$runs/$recipe" > "$runs/$recipe/measured"
}

python=.venv/bin/python
[ -x $python ] || python=python3

for recipe in $recipes; do
    echo "== $recipe"
    case $recipe in
    unet-small)         train $recipe --steps 1200; draw $recipe "samples.png data.png" -n 16 --beside; measure $recipe ;;
    stdiff-small)
        train $recipe
        draw $recipe "input-observed.png clips.png truth.png" -n 6
        measure $recipe -n 16 --format npy ;;
    stablesr-vae-small) train $recipe; draw $recipe "input-image.png samples.png" -n 8; measure $recipe ;;
    stablesr-small)
        train $recipe --init "$runs/stablesr-vae-small" --init-partial
        draw $recipe "input-image_lq.png samples.png truth.png" -n 8
        measure $recipe ;;
    lag-small)          train $recipe; draw $recipe "input-support.png samples.png" -n 4; measure $recipe -n 12 --format npy ;;
    sashimi-small)
        train $recipe
        draw $recipe "audio-000.wav" -n 1
        mv "$out/sashimi-small-audio-000.wav" "$out/sashimi-small-second.wav"
        draw $recipe "audio.png data.png" -n 3 --beside --length 2048    # as long as the data's
        mv "$out/sashimi-small-second.wav" "$out/sashimi-small-audio-000.wav"
        measure $recipe -n 4 ;;
    dit3d-small)
        train $recipe
        draw $recipe "clips.png data.png" -n 13 --beside
        measure $recipe -n 26 --format npy ;;
    dit3d-wrap-small)   train $recipe; draw $recipe "clips.png data.png" -n 8 --beside; measure $recipe ;;
    *) echo "gallery.sh: $recipe is none of the small recipes" >&2; exit 2 ;;
    esac
done
# Figures are data; docs_tables.py writes the table of docs/user/GALLERY.md from them.
today=$(date +%F) machine=cpu-$(nproc)c
{
    printf '{\n  "format": "plimsoll-bench-1",\n  "date": "%s",\n' "$today"
    printf '  "machine": {"name": "%s", "cpu": "%s", "threads": %s},\n' "$machine" "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$(nproc)"
    printf '  "command": "make gallery",\n  "note": "CPU seconds of the training; untrained_loss: mean of 20 steps with learning rate 0; '
    printf 'loss: mean of the last 100 steps.",\n  "rows": [\n'
    comma=
    for run in "$runs"/*/seconds; do
        printf '%s' "$comma"
        figures "$(basename "$(dirname "$run")")"
        comma=',
'
    done
    printf '\n  ]\n}\n'
} > "bench/results/$today-$machine-gallery.json"
python3 scripts/docs_tables.py
python3 scripts/docs_tables.py --print gallery-cpu
