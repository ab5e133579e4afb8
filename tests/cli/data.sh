#!/bin/sh
# Data that cannot be read, for every system: the file and the reason in one sentence, exit code 1, no run begun.
# The same data without its fault trains.
#   data.sh PROGRAM WORK_FOLDER
set -u
program=$1 work=$2
rm -rf "$work" && mkdir -p "$work" && cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0

# good FOLDER RECIPE...: one step works.   bad FOLDER 'file' 'reason' RECIPE...: refused, and nothing is left.
good() {
    folder=$1
    shift
    if "$program" train --out none "$@" --data "$work/$folder" --steps 1 --quiet > "$work/out" 2>&1; then
        passed=$((passed + 1))
    else
        echo "$folder should train ($*):" && sed 's/^/    /' "$work/out" && failed=$((failed + 1))
    fi
}
bad() {
    folder=$1 file=$2 reason=$3
    shift 3
    "$program" train "$@" --data "$work/$folder" --steps 1 --quiet --out "$work/never" > "$work/out" 2> "$work/err"
    got=$?
    if [ $got = 1 ] && [ "$(wc -l < "$work/err")" = 1 ] && grep -qF -- "$file" "$work/err" && grep -qF -- "$reason" "$work/err" &&
       [ ! -e "$work/never" ]; then
        passed=$((passed + 1))
    else
        echo "$folder ($*): exit code $got, should name $file: $reason" && sed 's/^/    /' "$work/err"
        rm -rf "$work/never" && failed=$((failed + 1))
    fi
}

# Images of 8x8 that the program drew itself; audio and arrays made by hand.
tiny="unet-small --set model.widths=[8] --set model.groups=4 --set model.heads=2 --set model.height=8 --set model.width=8 --batch 2"
"$program" train $tiny --steps 1 --out "$work/run" --quiet > /dev/null 2>&1 || exit 1
"$program" sample "$work/run" -n 8 --steps 1 -o "$work/drawn" --quiet > /dev/null 2>&1 || exit 1
images() { mkdir -p "$work/$1" && cp "$work"/drawn/sample-00*.png "$work/$1"; }
short_image() { head -c "${2:-60}" "$work/drawn/sample-000.png" > "$work/$1"; }
zeros() { head -c "$1" /dev/zero; }
# npy TYPE SHAPE BYTES: an array of zeros; its head is 128 bytes.
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': ($2), }"
    zeros "$3"
}
# wav MARK FORMAT RATE(octal, 4 bytes) SAID(octal) BYTES: a 16-bit mono file.
wav() {
    printf "$1\\377\\377\\000\\000WAVEfmt \\020\\000\\000\\000\\00$2\\000\\001\\000$3\\000\\000\\000\\000\\002\\000\\020\\000data$4"
    zeros "$5"
}
# photo NAME: one of the JPEG files of tests/data/jpeg_files.h.
photo() {
    sed -n "/jpeg_$1\[\]/,/^};/p" tests/data/jpeg_files.h | sed -n 's/^    //p' | grep -v '/\*' | tr -d ' ' | tr ',' '\n' |
        while read -r byte; do [ -z "$byte" ] || printf "\\$(printf %03o "$byte")"; done
}
mkdir "$work/empty"
cut=$(($(wc -c < "$work/drawn/sample-000.png") - 5))

for recipe in stdiff-small stablesr-small lag-small sashimi-small dit3d-small dit3d-wrap-small; do
    bad empty "$work/empty" "holds no" $recipe
    bad nowhere "$work/nowhere" "there is no folder" $recipe
done

# STDiff: folders of frames
stdiff="stdiff-small --set model.image=[8,16] --set model.channels=[32,32] --set batch=1 --set accumulate=1"
images frames/a
good frames $stdiff
short_image frames/a/sample-009.png
bad frames frames/a/sample-009.png "truncated PNG" $stdiff
short_image frames/a/sample-009.png $cut
bad frames frames/a/sample-009.png "truncated PNG" $stdiff
printf 'no image' > "$work/frames/a/sample-009.png"
bad frames frames/a/sample-009.png "PNG" $stdiff
npy '<f4' '8, 16' 512 > "$work/frames/a/sample-009.npy" && rm "$work/frames/a/sample-009.png"
bad frames frames/a/sample-009.npy "both images and .npy" $stdiff
mkdir -p "$work/metres/a"
for i in 1 2 3 4 5; do npy '<f4' '8, 16' 512 > "$work/metres/a/$i.npy"; done
bad metres "$work/metres" "no return" $stdiff
good metres $stdiff --set data.range_low=1 --set data.range_high=60
mkdir -p "$work/points/a"
for i in 1 2 4 5; do npy '<f4' '8, 16, 4' 2048 > "$work/points/a/$i.npy"; done
npy '<f4' '8, 4, 4' 512 > "$work/points/a/3.npy"
bad points points/a/3.npy "8 x 4 (height x width)" $stdiff --set data.range_high=60 --set data.range_channel=3
npy '<f4' '128,' 512 > "$work/metres/a/3.npy"
bad metres metres/a/3.npy "a range image is (height, width)" $stdiff --set data.range_high=60
npy '<f4' '8, 8' 256 > "$work/metres/a/3.npy"
bad metres metres/a/3.npy "8 x 8" $stdiff --set data.range_high=60
npy '<f4' '8, 16' 500 > "$work/metres/a/3.npy"
bad metres metres/a/3.npy "" $stdiff --set data.range_high=60
npy '<c8' '8, 16' 1024 > "$work/metres/a/3.npy"
bad metres metres/a/3.npy "" $stdiff --set data.range_high=60

# loses RUN FOLDER OPTION...: trains until the third image of the folder goes away, and puts it back; sets got and step
loses() {
    run=$1 folder=$2
    shift 2
    "$program" train "$@" --steps 1000000 --out "$work/$run" > "$work/out" 2> "$work/err" &
    pid=$!
    for i in $(seq 300); do [ -s "$work/$run/log.jsonl" ] && break; sleep 0.1; done
    mv "$work/$folder/sample-003.png" "$work/kept.png"
    wait $pid
    got=$?
    step=$(sed -n 's/.*step \([0-9]*\) is saved.*/\1/p' "$work/err")
    mv "$work/kept.png" "$work/$folder/sample-003.png"
}

# An image that goes away: the steps before it are saved, and the run goes on once it is back, to the same bits.
images gone
same="$tiny --set schedule.kind=constant --data $work/gone --threads 2 --quiet"
loses gone-run gone $same
if [ $got = 1 ] && [ "$(wc -l < "$work/err")" = 1 ] && grep -qF "gone/sample-003.png" "$work/err" && [ -n "$step" ] &&
   "$program" train --resume "$work/gone-run" --steps $((step + 1)) --quiet > "$work/out" 2>&1 && grep -q "1 steps" "$work/out" &&
   "$program" train $same --steps $((step + 1)) --out "$work/whole-run" > "$work/out" 2>&1 &&
   cmp "$work/gone-run"/step-*$((step + 1)).safetensors "$work/whole-run"/step-*.safetensors > "$work/out" 2>&1; then
    passed=$((passed + 1))
else
    echo "an image that goes away: exit code $got, step '$step'" && sed 's/^/    /' "$work/err" "$work/out" && failed=$((failed + 1))
fi

# A held-out image that goes away: the step before is saved, and its validation made up for once it is back, so that
# the schedule that looks at it, the weights and the log are those of a run in which nothing went away.
images trained && images held
same="$tiny --data $work/trained --set data.holdout_path=$work/held --set validate.every=7 --set validate.batches=4 --threads 2 --quiet
      --set schedule.kind=plateau --set schedule.warmup=0 --set schedule.patience=0 --set schedule.factor=0.9 --set schedule.threshold=0.5"
timeless() { sed 's/, "\(ms\|memory_bytes\|time\)": [0-9.]*//g' "$@"; }
loses due-run held $same
if [ $got = 1 ] && [ "$(wc -l < "$work/err")" = 1 ] && [ -n "$step" ] && [ $((step % 7)) = 0 ] &&
   "$program" train --resume "$work/due-run" --steps $((step + 2)) --quiet > "$work/out" 2>&1 && grep -q "2 steps" "$work/out" &&
   "$program" train $same --steps $((step + 2)) --out "$work/due-whole" > "$work/out" 2>&1 &&
   cmp "$work/due-run"/step-*$((step + 2)).safetensors "$work/due-whole"/step-*$((step + 2)).safetensors > "$work/out" 2>&1 &&
   cmp "$work/due-run"/step-*$((step + 2)).json "$work/due-whole"/step-*$((step + 2)).json > "$work/out" 2>&1 &&
   timeless "$work/due-run/log.jsonl" > "$work/a" && timeless "$work/due-whole/log.jsonl" > "$work/b" &&
   cmp "$work/a" "$work/b" > "$work/out" 2>&1; then
    passed=$((passed + 1))
else
    echo "a held-out image that goes away: exit code $got, step '$step'" && sed 's/^/    /' "$work/err" "$work/out" && failed=$((failed + 1))
fi

# Results that cannot be written while training: the steps before are saved, and the run goes on from them.
same="$tiny --set schedule.kind=constant --data $work/gone --threads 2 --quiet"
mkdir -p "$work/held-run" && : > "$work/held-run/samples"
"$program" train $same --steps 5 --set sample.every=3 --set sample.n=1 --set sampler.steps=2 --out "$work/held-run" > "$work/out" 2> "$work/err"
got=$?
rm -f "$work/held-run/samples"
if [ $got = 1 ] && [ "$(wc -l < "$work/err")" = 1 ] && grep -q "held-run/samples.*step 3 is saved" "$work/err" &&
   "$program" train --resume "$work/held-run" --quiet > "$work/out" 2>&1 && grep -q "2 steps" "$work/out" &&
   [ -s "$work/held-run/samples/000003/samples.png" ] &&
   [ "$(sed 's/^{"step": \([0-9]*\), .*}$/\1/' "$work/held-run/log.jsonl" | tr '\n' ' ')" = "1 2 3 4 5 " ]; then
    passed=$((passed + 1))
else
    echo "results that cannot be written: exit code $got" && sed 's/^/    /' "$work/err" "$work/out" && failed=$((failed + 1))
fi

# JPEG: images like any, and damage that only decoding can find
mkdir "$work/photos" && photo halved > "$work/photos/a.jpg" && photo progressive > "$work/photos/b.JPEG"
good photos $tiny
images photos
good photos $tiny
head -c 300 "$work/photos/b.JPEG" > "$work/photos/c.jpg"
bad photos photos/c.jpg "truncated JPEG" $tiny
{ head -c 4 "$work/photos/c.jpg"; zeros 9; } > "$work/photos/d.jpg" && mv "$work/photos/d.jpg" "$work/photos/c.jpg"
bad photos photos/c.jpg "JPEG" $tiny
LC_ALL=C sed 's/\xff\xc0/\xff\xc9/' "$work/photos/a.jpg" > "$work/photos/c.jpg"
bad photos photos/c.jpg "arithmetic coding" $tiny
printf 'RIFF    WEBP' > "$work/photos/c.jpg"
bad photos photos/c.jpg "neither as a PNG nor as a JPEG" $tiny
rm "$work/photos"/* && photo halved | LC_ALL=C sed 's/\xff\xd0/\xff\xd5/' > "$work/photos/a.jpg"
"$program" train --out none $tiny --data "$work/photos" --steps 1 --quiet > "$work/out" 2> "$work/err"
got=$?
if [ $got = 1 ] && [ "$(wc -l < "$work/err")" = 1 ] && grep -q "photos/a.jpg is a damaged JPEG: a restart mark" "$work/err"; then
    passed=$((passed + 1))
else
    echo "a damaged JPEG: exit code $got" && sed 's/^/    /' "$work/err" && failed=$((failed + 1))
fi

# StableSR: images, or latents that were computed before
images good
short_image good/sample-009.png
bad good good/sample-009.png "truncated PNG" stablesr-small
mkdir -p "$work/latents/edge" "$work/latents/latent" "$work/latents/latent_lq"
cp "$work/drawn/sample-000.png" "$work/latents/edge/1.png"
npy '<f4' '4, 16, 16' 4096 > "$work/latents/latent/1.npy"
given="stablesr-small --set model.latents=given"
bad latents latents/latent_lq/1.npy "" $given
npy '<f4' '4, 8, 8' 1024 > "$work/latents/latent_lq/1.npy"
bad latents latents/latent_lq/1.npy "(4, 16, 16)" $given

# Lag: a folder for each class, or CIFAR's records
for class in disc box; do images sets/$class; done
good sets lag-small --set batch=2
mkdir -p "$work/few/disc" && cp "$work/drawn/sample-000.png" "$work/few/disc"
bad few "$work/few" "no class has the 3 images of a set" lag-small
short_image sets/box/sample-009.png
bad sets sets/box/sample-009.png "truncated PNG" lag-small
mkdir "$work/cifar" && zeros 5000 > "$work/cifar/data.bin"
bad cifar cifar/data.bin "" lag-small

# SaShiMi: audio
mkdir "$work/audio"
rate='\100\037\000\000' long='\000\010\000\000'      # 8000 a second, 2048 bytes
wav RIFF 1 "$rate" "$long" 2048 > "$work/audio/a.wav"
good audio sashimi-small --set model.length=1024
wav RIFX 1 "$rate" "$long" 2048 > "$work/audio/b.wav"
bad audio audio/b.wav "does not begin with RIFF" sashimi-small --set model.length=1024
wav RIFF 1 "$rate" "$long" 2000 > "$work/audio/b.wav"
bad audio audio/b.wav "truncated WAV" sashimi-small --set model.length=1024
wav RIFF 2 "$rate" "$long" 2048 > "$work/audio/b.wav"
bad audio audio/b.wav "format 2" sashimi-small --set model.length=1024
wav RIFF 1 '\000\000\000\000' "$long" 2048 > "$work/audio/b.wav"
bad audio audio/b.wav "wrong header" sashimi-small --set model.length=1024
wav RIFF 1 '\104\254\000\000' "$long" 2048 > "$work/audio/b.wav"
if [ -e "$(dirname "$program")/libplimsoll_audio.so" ]; then
    good audio sashimi-small --set model.length=1024                 # converted from 44100 samples a second
else
    bad audio audio/b.wav "44100 samples a second" sashimi-small --set model.length=1024
fi
rm "$work/audio/b.wav" && wav RIFF 1 "$rate" '\002\000\000\000' 2 > "$work/audio/a.wav"
bad audio "$work/audio" "none of its 1 audio files" sashimi-small --set model.length=1024

# DiT3D: clips with captions
images clips/one
echo "a red disc" > "$work/clips/one.txt"
good clips dit3d-small --set batch=1
npy '|u1' '4, 16, 16, 3' 3072 > "$work/clips/two.npy"
bad clips "$work/clips/two.txt is missing" "has no caption" dit3d-small
bad clips "$work/clips/two.txt is missing" "has no caption" dit3d-wrap-small
printf 'caf\351' > "$work/clips/two.txt"
bad clips "$work/clips/two.txt" "not UTF-8 text (byte 3)" dit3d-small
printf 'a\000 \000d\000' > "$work/clips/two.txt"
bad clips "$work/clips/two.txt" "not UTF-8 text (byte 1)" dit3d-small
printf '\357\273\277 \r\n' > "$work/clips/two.txt"
bad clips "$work/clips/two.txt" "is empty" dit3d-small
printf ' \n' > "$work/clips/two.txt"
bad clips clips/two.txt "is empty" dit3d-small
echo "nothing" > "$work/clips/two.txt"
good clips dit3d-small --set batch=1
npy '|u1' '4, 16, 48' 3072 > "$work/clips/two.npy"
bad clips clips/two.npy "(frames, height, width, 3)" dit3d-small
npy '|u1' '4, 16, 16, 3' 3072 > "$work/clips/two.npy" && npy '<f4' '700,' 2800 > "$work/clips/two.text.npy"
bad clips clips/two.text.npy "768" dit3d-small
rm "$work/clips/two.text.npy" && short_image clips/one/sample-009.png
bad clips clips/one/sample-009.png "truncated PNG" dit3d-small

echo "$passed passed, $failed failed"
[ $failed = 0 ]
