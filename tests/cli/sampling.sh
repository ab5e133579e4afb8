#!/bin/sh
# sampling.sh PROGRAM WORK_FOLDER -- the options of `sample`: which system takes which, and what is said where it does not.
program=$1 work=$2
rm -rf "$work" && mkdir -p "$work" || exit 1
failed=0 passed=0

expect() {                       # status, text on stdout or stderr, command...
    want=$1 text=$2
    shift 2
    "$program" "$@" > "$work/out" 2> "$work/err"
    got=$?
    if [ $got = "$want" ] && cat "$work/out" "$work/err" | grep -qF -- "$text" && { [ $got = 0 ] || [ "$(wc -l < "$work/err")" = 1 ]; }; then
        passed=$((passed + 1))
    else
        echo "plimsoll $*: status $got, not $want, or it does not say '$text':"
        cat "$work/out" "$work/err"
        failed=$((failed + 1))
    fi
}
is() {                           # what, command...
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else echo "$what"; failed=$((failed + 1)); fi
}

"$program" train unet-small --set model.height=8 --set model.width=8 --set model.widths=[8,16] --steps 1 --out "$work/images" --quiet > /dev/null || exit 1
"$program" train sashimi-small --set model.length=64 --set model.width=8 --set model.layers=1 --set batch=1 --steps 1 --out "$work/audio" --quiet > /dev/null || exit 1
"$program" train stablesr-vae-small --set model.image=32 --set model.latent=8 --batch 1 --steps 1 --out "$work/vae" --quiet > /dev/null || exit 1
images="sample $work/images -n 1 --steps 2 --quiet" audio="sample $work/audio -n 1 --length 64 --quiet"

# which system takes which option
expect 0 "1 drawn" $images --sampler ddim --eta 0.5
expect 0 "1 drawn" $images --sampler ddpm
expect 0 "1 drawn" $audio --temperature 0.5 --top-p 0.9
expect 2 "--sampler takes ddpm or ddim, not 'ddimm'" $images --sampler ddimm
expect 2 "--eta: ddpm adds all of its noise; add --sampler ddim" $images --eta 0.5
expect 2 "--eta takes 0" $images --sampler ddim --eta 1.5
expect 2 "--temperature: unet removes noise" $images --temperature 1
expect 2 "--top-p: unet removes noise" $images --top-p 0.5
expect 2 "--length: unet draws results of its own size" $images --length 5
expect 2 "sampler.guidance: unet has no text" $images --guidance 3
expect 2 "--sampler: sashimi draws one value after another and removes no noise; --temperature T and --top-p P" $audio --sampler ddim
expect 2 "--eta: sashimi draws one value after another" $audio --eta 0.5
expect 2 "--steps: sashimi draws one value after another" $audio --steps 5
expect 2 "--temperature takes 0" $audio --temperature -1
expect 2 "--top-p takes a probability above 0" $audio --top-p 0
expect 2 "sampler.top_p must be above 0" $audio --set sampler.top_p=0
expect 2 "sampler.eta: only ddim adds a share" $images --set sampler.eta=0.5
expect 2 "--sampler: stablesr-vae computes its results in one pass" sample "$work/vae" -n 1 --sampler ddim
expect 2 "--steps: stablesr-vae computes its results in one pass" sample "$work/vae" -n 1 --steps 5
expect 2 "--guidance: stablesr-vae has no text" sample "$work/vae" -n 1 --guidance 2

# they have an effect
draw() { "$program" sample "$work/audio" -n 1 --length 64 --quiet -o "$work/$1" --seed 3 $2 > /dev/null 2>&1; }
draw plain "" && draw likely "--top-p 0.3" && draw all "--top-p 1" && draw cold "--temperature 0 --top-p 0.01" && draw again "--seed 4 --temperature 0 --top-p 0.01"
is "top-p 1 leaves out nothing" cmp -s "$work/plain/audio-000.wav" "$work/all/audio-000.wav"
is "top-p 0.3 should draw something else" sh -c "! cmp -s '$work/plain/audio-000.wav' '$work/likely/audio-000.wav'"
is "the likeliest alone needs no seed" cmp -s "$work/cold/audio-000.wav" "$work/again/audio-000.wav"

# formats
"$program" train stdiff-small --set model.image=[8,16] --set model.channels=[32,32] --set model.observed=2 --batch 1 --set accumulate=1 --steps 1 \
    --out "$work/clips" --quiet > /dev/null || exit 1
clips="sample $work/clips -n 2 --steps 1 --quiet -o $work/drawn"
files() { ls "$work/drawn" | tr '\n' ' '; }
expect 0 "clip-001.gif" $clips --format gif,npy
is "the sheet, and each clip in two formats: $(files)" [ "$(files)" = "clip-000.gif clip-000.npy clip-001.gif clip-001.npy clips.png error.png input-observed.png truth-000.npy truth-001.npy truth.png " ]
is "it is a GIF" [ "$(head -c 6 "$work/drawn/clip-000.gif")" = GIF89a ]
expect 2 "--format: stdiff draws clips, written as png, gif, mp4, webm, npy, not as 'wav'" $clips --format gif,wav
expect 2 "--format: unet draws images, written as png, npy, not as 'gif'" $images --format gif
expect 2 "--format: sashimi draws audio, written as wav, npy, not as ''" $audio --format wav,
expect 0 "audio-000.npy" $audio --format npy
expect 0 "sample-000.npy" $images --format png,npy
if [ -e "$(dirname "$program")/libplimsoll_video.so" ]; then
    expect 0 "clip-000.mp4" $clips --format mp4
    expect 0 "clip-000.webm" $clips --format webm
else
    expect 2 "is written with FFmpeg's libav, and the plugin for it is not here" $clips --format mp4
fi

# clips: truth and error of held-out data, in metres; the newest frames of what is given
expect 0 "m on average over" $clips
is "range images are written as metres too" [ -s "$work/drawn/clip-000.npy" ]
expect 0 '"unit": "m"' $clips --json
expect 2 "--hold-back is for --input" $clips --hold-back 1
expect 2 "--hold-back: unet does not continue clips" $images --hold-back 1

echo "$passed passed, $failed failed"
[ $failed = 0 ]
