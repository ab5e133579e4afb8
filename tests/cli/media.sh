#!/bin/sh
# Video and audio in whole runs: where the cache is, what --resume and sample take from it, an entry that goes away.
#   media.sh PROGRAM WORK_FOLDER
set -u
program=$1 work=$2
folder=$(dirname "$program")
[ -e "$folder/libplimsoll_video.so" ] && [ -e "$folder/libplimsoll_audio.so" ] && command -v ffmpeg > /dev/null ||
    { echo "skipped: ffmpeg or the plugins for video and audio are not here (make media)"; exit 77; }
rm -rf "$work" && mkdir -p "$work/clips" "$work/tmp" && cd "$(dirname "$0")/../.." || exit 1
export TMPDIR="$work/tmp"
passed=0 failed=0
is() { # is 'what' command...
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else echo "not so: $what" && failed=$((failed + 1)); fi
}
says() { grep -qF -- "$1" "$work/err"; }
count() { find "$1" -name "$2" 2> /dev/null | wc -l; }

for i in 1 2 3; do
    ffmpeg -v error -f lavfi -i "testsrc2=size=48x32:rate=12:duration=$i" -pix_fmt yuv420p "$work/clips/clip$i.mp4" < /dev/null
    echo "bars number $i" > "$work/clips/clip$i.txt"
done
tiny="dit3d-small --set model.width=32 --set model.depth=1 --set model.heads=2 --set sampler.steps=2 --set data.excerpt=any --batch 2 --threads 2"
data="--data $work/clips --set validate.every=0"

"$program" train $tiny $data --steps 3 --out "$work/run" > "$work/out" 2> "$work/err"
is "a run trains on videos" [ $? = 0 ]
is "the size of the cache is said before" says "decoding 3 of 3 videos once, into $work/run/cache (54.0 KiB)"
is "what is trained on is said" says "3 videos of 72 frames, 4 frames each (any excerpt of 3 longer)"
is "entries are in RUN/cache" [ "$(count "$work/run/cache" '*.npy')" = 3 ]
"$program" train --resume "$work/run" --steps 4 > "$work/out" 2> "$work/err"
is "a resumed run decodes nothing" [ $? = 0 ]
is "nor says that it does" [ "$(grep -c decoding "$work/err")" = 0 ]
"$program" train $tiny $data --steps 4 --out "$work/whole" --quiet > "$work/out" 2>&1
is "both give the same bits" cmp -s "$work/run/step-000004.safetensors" "$work/whole/step-000004.safetensors"
rm "$work/run/cache/"*
"$program" sample "$work/run" -n 1 -o "$work/drawn" > "$work/out" 2> "$work/err"
is "sample takes the captions alone" [ $? = 0 ] && grep -q "bars number 1" "$work/out" && [ "$(count "$work/run/cache" '*.npy')" = 0 ]
stdiff="stdiff-small --set model.image=[8,16] --set model.channels=[32,32] --batch 1 --set accumulate=1 --set sampler.steps=1"
"$program" train $stdiff --data "$work/clips" --steps 1 --out "$work/frames" --quiet > "$work/out" 2> "$work/err"
rm "$work/frames/cache/"*
"$program" sample "$work/frames" -n 1 -o "$work/drawn" > "$work/out" 2> "$work/err"
is "sample decodes into the run's cache" [ "$(count "$work/frames/cache" '*.npy')" = 3 ]
"$program" sample "$work/frames" -n 1 -o "$work/drawn" --input "$work/clips/clip2.mp4" > "$work/out" 2> "$work/err"
is "and takes a single video" [ $? = 0 ] && [ "$(count "$work/frames/cache" '*.npy')" = 3 ]

"$program" train $tiny $data --steps 1 --out "$work/other" --cache "$work/shared" --quiet > "$work/out" 2>&1
is "--cache names the folder" [ "$(count "$work/shared" '*.npy')" = 3 ] && [ ! -e "$work/other/cache" ]
is "the run notes it" grep -q '"cache": ".*/shared"' "$work/other/run.json"
rm "$work/shared/"*
"$program" train --resume "$work/other" --steps 2 --quiet > "$work/out" 2>&1
is "--resume takes it" [ "$(count "$work/shared" '*.npy')" = 3 ]
"$program" train $tiny $data --steps 1 --out none > "$work/out" 2> "$work/err"
is "without a run, the folder is temporary" says "into a temporary folder"
is "and nothing is left of it" [ "$(count "$work/tmp" 'plimsoll-cache-*')" = 0 ]

# An entry that goes away: the steps before are saved, and the run goes on once it is decoded again, to the same bits.
"$program" train $tiny $data --set schedule.kind=constant --steps 1000000 --out "$work/gone" --quiet > "$work/out" 2> "$work/err" &
pid=$!
for i in $(seq 300); do [ -s "$work/gone/log.jsonl" ] && break; sleep 0.1; done
rm "$work/gone/cache/"*
wait $pid
is "a run without its cache ends" [ $? = 1 ]
step=$(sed -n 's/.*step \([0-9]*\) is saved.*/\1/p' "$work/err")
is "with one sentence and its steps saved" [ "$(wc -l < "$work/err")" = 1 ] && [ -n "$step" ]
"$program" train --resume "$work/gone" --steps $((step + 1)) --quiet > "$work/out" 2>&1
is "and goes on" [ $? = 0 ]
"$program" train $tiny $data --set schedule.kind=constant --steps $((step + 1)) --out "$work/same" --quiet > "$work/out" 2>&1
is "to the same bits" cmp -s "$work/gone"/step-*$((step + 1)).safetensors "$work/same"/step-*$((step + 1)).safetensors

# A damaged file ends the run before its first step, and leaves no run.
head -c 3000 "$work/clips/clip2.mp4" > "$work/cut" && cp "$work/cut" "$work/clips/clip2.mp4"
"$program" train $tiny $data --steps 1 --out "$work/never" --quiet > "$work/out" 2> "$work/err"
is "a truncated video is refused" [ $? = 1 ] && [ "$(wc -l < "$work/err")" = 1 ] && says "clips/clip2.mp4"
is "and no run is begun" [ ! -e "$work/never" ]

# Audio of another format and rate.
mkdir -p "$work/audio/a" "$work/audio/b"
ffmpeg -v error -f lavfi -i "sine=frequency=300:sample_rate=44100:duration=2" -ac 2 "$work/audio/a/mixture.flac" < /dev/null
ffmpeg -v error -f lavfi -i "sine=frequency=500:sample_rate=8000:duration=1" "$work/audio/b/mixture.wav" < /dev/null
ffmpeg -v error -f lavfi -i "sine=frequency=900:sample_rate=8000:duration=1" "$work/audio/b/drums.wav" < /dev/null
"$program" train sashimi-small --data "$work/audio" --set 'data.pattern="**/mixture.*"' --set model.width=8 --set model.layers=1 --batch 1 --steps 1 \
    --set validate.every=0 --out "$work/tones" > "$work/out" 2> "$work/err"
is "a run trains on audio" [ $? = 0 ]
is "what is converted is said" says "2 files, 3.0 s of audio, 1 decoded, 1 of them converted from 44100 to 8000 samples"
# Without the plugins: what to install is said, before anything is drawn or a run begun.
mkdir "$work/bare" && cp -r "$program" "$folder"/glibc-hwcaps "$work/bare"
"$work/bare/plimsoll" train $tiny $data --steps 1 --out "$work/never" > "$work/out" 2> "$work/err"
is "videos need their plugin" [ $? = 2 ] && says "install libavformat-dev libavcodec-dev libswscale-dev"
"$work/bare/plimsoll" train sashimi-small --data "$work/audio" --steps 1 --out "$work/never" > "$work/out" 2> "$work/err"
is "and so does FLAC" [ $? = 2 ] && says "install libsndfile1-dev libsamplerate0-dev"
is "no run is begun" [ ! -e "$work/never" ]
"$work/bare/plimsoll" sample "$work/run" -n 1 --prompt "bars" --format gif,mp4 -o "$work/no-mp4" > "$work/out" 2> "$work/err"
is "and .mp4" [ $? = 2 ] && says "--format mp4 is written with FFmpeg's libav" && ! says "sampling"
"$work/bare/plimsoll" sample "$work/run" -n 1 --prompt "bars" --format gif -o "$work/no-mp4" > "$work/out" 2>&1
is "a .gif needs none" [ $? = 0 ]
# A file of a terabyte that is no video is refused by its head, not after all of it was read.
mkdir "$work/large" && truncate -s 1T "$work/large/a.mp4" && echo a > "$work/large/a.txt"
timeout 60 "$program" train $tiny --data "$work/large" --steps 1 --out none --quiet > "$work/out" 2> "$work/err"
is "a large file that is no video is refused soon" [ $? = 1 ]
is "by its name" says "large/a.mp4 is not a video"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
