#!/bin/sh
# Trains each system at a real size on the GPU, all at the same time, for a few minutes: each is killed (SIGKILL) after
# its first checkpoint, resumed from there, and sampled. Images, audio and the log's figures go to OUT.
#   gallery_cuda.sh BUILD OUT [SYSTEM...]        systems: dit3d lag sashimi stdiff stablesr; all unless named
# There are no pretrained weights, so StableSR's autoencoder is trained first, and its whole UNet is trained on latent and edge
# map concatenated (docs/user/GALLERY.md says why). Its checkpoints have 16 GB each, two at a time: RUNS names a folder on a fast
# disk or in memory. Without libpng images are .pnm files.
set -eu
build=$1 out=$2
shift 2
runs=${RUNS:-$build/gallery-cuda}
mkdir -p "$runs" "$out"
gpu="--device cuda --precision bf16"

say() { echo "$(date +%T) $*"; }

# Starts a run, kills it once its first checkpoint is there, and resumes it to the end.
train() {                        # run, recipe, further options
    run=$runs/$1 recipe=$2
    shift 2
    rm -rf "$run"
    "$build/plimsoll" train "$recipe" $gpu --quiet "$@" --out "$run" > "$run.first" 2>&1 &
    process=$!
    until ls "$run"/step-*.json > /dev/null 2>&1; do
        kill -0 $process 2> /dev/null || { say "$recipe: ended before its first checkpoint: $(tail -1 "$run.first")"; return 1; }
        sleep 0.5
    done
    sleep 3
    kill -KILL $process 2> /dev/null || say "$recipe: had ended before it could be killed"
    wait $process || true
    at=$(wc -l < "$run/log.jsonl")
    "$build/plimsoll" train $gpu --resume "$run" > "$run.second" 2>&1 || { say "$recipe: $(tail -1 "$run.second")"; return 1; }
    say "$recipe: killed after step $at, resumed to $(tail -1 "$run/log.jsonl")"
}

draw() {                         # run, further options
    run=$runs/$1
    shift
    "$build/plimsoll" sample "$run" $gpu --quiet "$@" > "$run.drawn" 2>&1 || say "$run: $(tail -1 "$run.drawn")"
}

dit3d()   { train dit3d-s dit3d-s --steps 4000 --set save.every=1000 --set schedule.kind=cosine --set schedule.warmup=100 \
                --set optimizer.lr=5e-4 --set ema.rule=power --set ema.decay=0.999 --set data.samples=240 &&
            draw dit3d-s -n 8 --steps 250; }
lag()     { train lag-4x3 lag-4x3 --steps 4000 --set save.every=1000 --set data.kind=coloured-sets --set schedule.kind=cosine \
                --set optimizer.lr=3e-4 --set ema.rule=power --set ema.decay=0.999 &&
            draw lag-4x3 -n 4; }
sashimi() { train sashimi-24576 sashimi-24576 --steps 20000 --set save.every=5000 --set data.kind=tones --set schedule.kind=cosine \
                --set schedule.warmup=100 --set optimizer.lr=1e-3 &&
            draw sashimi-24576 -n 2; }
stdiff()  { train stdiff-64x512 stdiff-64x512 --steps 300 --set save.every=100 --set save.keep=1 --set data.kind=moving-shapes \
                --set schedule.warmup=20 --set optimizer.lr=3e-4 --set ema.rule=power --set ema.decay=0.99 &&
            draw stdiff-64x512 -n 3; }
stablesr() {
    rm -rf "$runs/stablesr-vae"
    "$build/plimsoll" train stablesr-vae-small $gpu --quiet --steps 1200 --set model.vae_channels=128 --set model.groups=32 \
        --set model.image=256 --set model.latent=32 --batch 8 --set optimizer.lr=1e-4 --set schedule.warmup=100 --set save.every=1200 \
        --out "$runs/stablesr-vae" > "$runs/stablesr-vae.first" 2>&1 || { say "autoencoder: $(tail -1 "$runs/stablesr-vae.first")"; return 1; }
    say "autoencoder: $(tail -1 "$runs/stablesr-vae/log.jsonl")"
    draw stablesr-vae -n 2
    train stablesr-edge-after stablesr-edge-after --steps 1600 --set save.every=800 --set save.keep=1 --set model.trainable=all --set model.fusion=concat --set accumulate=1 \
        --set schedule.kind=cosine --set schedule.warmup=100 --set optimizer.lr=1e-4 --set optimizer.clip=1 --set ema.rule=power --set ema.decay=0.99 \
        --set sampler.colour=wavelet --init "$(ls "$runs"/stablesr-vae/step-*.safetensors | tail -1)" --init-partial &&
        draw stablesr-edge-after -n 2 --steps 100
}

for system in ${*:-dit3d lag sashimi stdiff stablesr}; do
    case $system in
    dit3d|lag|sashimi|stdiff|stablesr) ($system || say "$system failed") & ;;
    *) echo "gallery_cuda.sh: there is no system '$system'" >&2; exit 2 ;;
    esac
done
wait
for log in "$runs"/*/log.jsonl; do
    run=$(dirname "$log") name=$(basename "$(dirname "$log")")
    cp "$log" "$out/gpu-$name.jsonl"
    for file in "$run"/samples/*.png "$run"/samples/*.pnm "$run"/samples/*.wav "$run"/samples/*.txt; do
        [ ! -f "$file" ] || cp "$file" "$out/gpu-$name-$(basename "$file")"
    done
done
