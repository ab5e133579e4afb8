#!/bin/sh
# Whole jobs: what is trained on is said, what would go wrong in silence is refused, and a run needs
# no option repeated.
#   jobs.sh PROGRAM WORK_FOLDER
set -u
program=$1 work=$2 root=$(cd "$(dirname "$0")/../.." && pwd)
rm -rf "$work" && mkdir -p "$work" && cd "$work" || exit 1
export XDG_CONFIG_HOME="$work/config"
passed=0 failed=0
unet="$root/recipes/unet-small.yaml --set model.widths=[8] --set model.groups=4 --set model.heads=2 --set model.height=8
      --set model.width=8 --batch 2 --set schedule.kind=constant --threads 1 --backend builtin"

# expect CODE 'text that stdout or stderr must contain' arguments...
expect() {
    code=$1 text=$2
    shift 2
    "$program" "$@" > "$work/out" 2> "$work/err"
    got=$?
    if [ $got != "$code" ] || ! cat "$work/out" "$work/err" | tr '\n' ' ' | sed 's/  */ /g' | grep -qF -- "$text"; then
        echo "plimsoll $*: exit code $got, expected $code and '$text'" && sed 's/^/    /' "$work/out" "$work/err"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}
is() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else echo "$what" && failed=$((failed + 1)); fi
}

# Where a run goes, and that it goes on with its own options.
expect 0 "the run is in runs/unet-small-1" train $unet --steps 2
is "run.json holds the options" grep -q '"backend": "builtin"' runs/unet-small-1/run.json
expect 0 "weights: all" train $unet --steps 1
is "the second run has the next number" test -f runs/unet-small-2/step-000001.json
expect 0 "1 steps" train --resume runs/unet-small-1 --steps 3
is "the resumed run keeps its backend" grep -q '"backend": "builtin"' runs/unet-small-1/run.json
is "the plan is of one thread" grep -q '"threads": 1' runs/unet-small-1/plan.json
expect 0 "1 steps" train $unet --steps 1 --out none
is "--out none saves nothing" test ! -e none -a ! -e runs/unet-small-3
expect 1 "not finite" train $unet --steps 40 --set optimizer.kind=sgd --set optimizer.lr=100 --set optimizer.clip=0 \
    --set ema.rule=none --set schedule.warmup=0 --out none
expect 2 "is more than the" train $unet --steps 1 --budget 90000GiB
is "a refused run leaves no folder" test ! -e runs/unet-small-3

# What is named in place of a run or a recipe, and what does not suit a resumed run.
expect 2 "is a run: its recipe is runs/unet-small-1/recipe.yaml" train runs/unet-small-1
expect 2 "is a file of a run; name the run itself: runs/unet-small-1" sample runs/unet-small-1/step-000003.safetensors
expect 2 "is a file of a run; name the run itself: runs/unet-small-1" watch runs/unet-small-1/log.jsonl
cp runs/unet-small-1/step-000003.safetensors weights.safetensors
expect 2 "is a file, not a run; plimsoll train RECIPE --init FILE --steps 0" sample weights.safetensors
expect 2 "is a run of unet-small, not of lag-small; leave out the recipe" train "$root/recipes/lag-small.yaml" --resume runs/unet-small-1
expect 0 "1 steps" train $unet --resume runs/unet-small-1 --steps 4
expect 1 "leave out those that differ, or plan again with --budget 100%" train --resume runs/unet-small-1 --set model.widths=[12] --steps 5
expect 1 "was made for 1 threads, not 2; --resume needs no option again" train --resume runs/unet-small-1 --threads 2 --steps 5
expect 0 "1 steps" train --resume runs/unet-small-1 --threads 2 --budget 100% --steps 5

# The best checkpoint by validation loss stays beside the newest ones. The rate makes later losses worse.
expect 0 "6 steps" train $unet --steps 6 --set save.keep=1 --set validate.every=2 --set optimizer.lr=0.9 --set ema.rule=none \
    --set optimizer.clip=0 --out best --quiet
best=$(sed -n 's/.*"best": {"step": \([0-9]*\).*/\1/p' best/step-000006.json)
is "the best checkpoint is step 2, not '$best'" test "$best" = 2
is "the best and the newest checkpoint are there" test -f best/step-000002.json -a -f best/step-000006.json
is "others are removed" test ! -e best/step-000004.json
expect 0 "step 2" export best -o weights.safetensors --checkpoint best
expect 2 "was never validated" export runs/unet-small-1 -o weights.safetensors --checkpoint best
expect 2 "takes a step or best, not 'last'" export best -o weights.safetensors --checkpoint last
expect 0 "2 steps" train $unet --steps 2 --set save.minutes=1e-6 --set save.keep=9 --out minutes
is "a checkpoint is due by time" test -f minutes/step-000001.json

# Sets: a sample of images to copy.
expect 0 "4 drawn" sample runs/unet-small-1 -n 4 --set sampler.steps=2 -o drawn
image=$(ls drawn/*.png | tail -1)
lag="lag-small --steps 1 --out none --set data.kind=sets"
for class in a b c; do
    mkdir -p sets/$class
    for i in 1 2 3 4 5 6 7 8; do cp "$image" sets/$class/$i.png; done
done
cd "$root" || exit 1 # recipes by name from here on
rm "$work/sets/b/8.png" && mkdir "$work/sets/few" && cp "$work/sets/a/1.png" "$work/sets/few"
expect 0 "3 classes of 7 to 8 images" train $lag --data "$work/sets"
is "a class without a set is mentioned" grep -q "1 with fewer images than a set" "$work/err"
mkdir "$work/parts" && cp -r "$work/sets" "$work/parts/train" && cp -r "$work/sets" "$work/parts/test"
expect 2 "--data $work/parts/train --set data.holdout_path=$work/parts/test" train $lag --data "$work/parts"

# Transparency is ignored, and that is said.
mkdir "$work/clear"
python3 - "$work/clear/1.png" <<'P'
import struct, sys, zlib
chunk = lambda name, body: struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
rows = b"".join(b"\0" + b"\xff\0\0\x80" * 8 for _ in range(8))
open(sys.argv[1], "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 8, 6, 0, 0, 0)) +
                              chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
P
expect 0 "some images have transparency, which is ignored" train $unet --steps 1 --data "$work/clear" --out none
expect 0 "1 samples" train $unet --steps 1 --data "$work/sets/a" --set 'data.pattern="1.png"' --out none
is "opaque images are not mentioned" sh -c "! grep -q transparency '$work/err'"

# Range images and images are not mistaken for each other.
python3 - "$work" <<'P'
import array, struct, sys
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 8, 32), }"
head += " " * (117 - len(head)) + "\n"
ranges = array.array("f", [2 + i % 50 for i in range(6 * 8 * 32)]).tobytes()
open(sys.argv[1] + "/scans.npy", "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + ranges)
P
stdiff="stdiff-small --set model.image=[8,16] --set model.channels=[32,32] --batch 1 --set accumulate=1 --steps 1 --set validate.every=0"
expect 0 "range images of 8 x 32" train $stdiff --data "$work/scans.npy" --out "$work/scanned"
expect 2 "holds images, and data.range_low" sample "$work/scanned" -n 1 --steps 1 --input "$work/sets/a"
expect 2 "holds images, and data.range_low" evaluate "$work/scanned" --data "$work/sets/a" --timesteps 2
expect 0 "1 drawn" sample "$work/scanned" -n 1 --steps 1 --input "$work/scans.npy" -o "$work/scanned/drawn"
expect 0 "frames" train $stdiff --data "$work/sets/a" --out "$work/filmed"
expect 2 "the run was trained on images or videos" sample "$work/filmed" -n 1 --steps 1 --input "$work/scans.npy"

mkdir -p "$work/films/short" && cp -r "$work/sets/a" "$work/films/long" && cp "$work/sets/a/1.png" "$work/films/short/"
expect 0 "1 sequence of 8 frames; 1 with fewer frames than a clip is left out" train $stdiff --data "$work/films" --out none

# Clips of which only some have embeddings; a prompt where texts were embedded elsewhere.
dit="dit3d-small --steps 1"
for i in 1 2; do
    mkdir -p "$work/clips/$i" && cp "$work/sets/a/1.png" "$work/clips/$i/" && echo "clip $i" > "$work/clips/$i.txt"
done
expect 0 "no text embeddings" train $dit --data "$work/clips" --out "$work/stand-in"
python3 - "$work/clips/1.text.npy" <<'P'
import struct, sys
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (768,), }"
head += " " * (117 - len(head)) + "\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + head.encode() + struct.pack("<768f", *[0.1] * 768))
P
expect 2 "1 of 2 clips have an embedding" train $dit --data "$work/clips" --out none
cp "$work/clips/1.text.npy" "$work/clips/2.text.npy"
expect 0 "text embeddings from NAME.text.npy" train $dit --data "$work/clips" --out "$work/embedded"
is "the run records the encoder" grep -q '"encoder": "files"' "$work/embedded/run.json"
expect 2 "embedded by another program" sample "$work/embedded" -n 1 --prompt "a red disc"
expect 2 "leave them out" sample "$work/stand-in" -n 1 --prompt "a red disc" --vocab vocab.txt
sed 's/"hash": "[0-9a-f]*"/"hash": "0123456789abcdef"/' "$work/stand-in/run.json" > "$work/run.json"
cp -r "$work/stand-in" "$work/older" && cp "$work/run.json" "$work/older/run.json"
expect 2 "stand-in of another version" sample "$work/older" -n 1 --prompt "a red disc"
expect 2 "are embedded by files" train --resume "$work/older" --steps 2
expect 0 "1 drawn" sample "$work/stand-in" -n 1 --prompt "a red disc" --steps 2 -o "$work/drawn2"

# Pairs in gt/ and lq/, and what StableSR lacks without pretrained weights.
mkdir -p "$work/pairs/gt" "$work/pairs/lq" && cp "$work/sets/a/1.png" "$work/pairs/gt/x.png"
sr="stablesr-small --steps 1 --out none"
expect 1 "holds no images" train $sr --data "$work/pairs"
cp "$work/sets/a/1.png" "$work/pairs/lq/y.png"
expect 2 "has no partner" train $sr --data "$work/pairs"
mv "$work/pairs/lq/y.png" "$work/pairs/lq/x.png"
expect 0 "pairs of gt/ and lq/" train $sr --data "$work/pairs"
is "frozen random weights are a warning" grep -q "parameters are frozen and random" "$work/err"
is "a missing context is a warning" grep -q "model.context is not set" "$work/err"

# Options that mean nothing.
sashimi="sashimi-small --set model.length=64 --set model.width=8 --set model.layers=1 --set batch=1"
expect 0 "1 steps" train $sashimi --steps 1 --out "$work/audio"
expect 2 "--length N sets how many values" sample "$work/audio" -n 1 --steps 10
expect 2 "has no timesteps; leave it out" evaluate "$work/audio" -n 1 --timesteps 50
expect 0 "1 drawn" sample "$work/audio" -n 1 --length 32 -o "$work/drawn3"

# Audio that is continued: as much of its end as the model was trained on, then new values.
expect 0 "2 drawn" sample "$work/audio" -n 2 --length 100 -o "$work/clip" --set data.scaling=none
samples() { python3 -c "import sys, wave; w = wave.open(sys.argv[1]); print(w.getnframes())" "$1"; }
expect 0 "audio-000.wav" sample "$work/audio" -n 1 --length 40 --input "$work/clip/audio-000.wav" -o "$work/on"
is "64 given values and 40 new ones, not $(samples "$work/on/audio-000.wav")" test "$(samples "$work/on/audio-000.wav")" = 104
expect 0 "1 drawn" sample "$work/audio" -n 1 --length 4 --input "$work/on" -o "$work/short"
expect 2 "leave it out" sample "$work/audio" -n 1 --length 4 --input "$work/on" --beside -o "$work/short"
expect 0 "data-000.wav" sample "$work/audio" -n 1 --length 4 --beside -o "$work/beside"
is "and the spectrogram of the data" test -f "$work/beside/data.png"
expect 0 "data.png" sample "$work/embedded" -n 2 --steps 2 --beside -o "$work/beside2"
expect 0 "data.png" sample "$work/runs/unet-small-1" -n 2 --set sampler.steps=2 --beside -o "$work/beside3"
expect 2 "--length is for audio" sample "$work/stand-in" -n 1 --length 10
expect 2 "is more than the 14.6 GiB of t4" fit lag-small --device t4 --budget 15GiB

# GPUs that cannot run it.
expect 0 "planned only" explain lag-small --device t4 --effort -1
expect 0 "planned only" fit lag-small --device t4 --effort 10
expect 0 "planned only" compare lag-small --device v100-16gb --budget 1GiB --effort 10
expect 0 '"planned_only": false' explain lag-small --device a100-40gb --effort -1 --json

# Finding things.
expect 0 "unet-small" list recipes
expect 0 "t4" list devices
expect 0 "sashimi" list systems
expect 0 "captioned-clips" list data
expect 2 "list takes recipes" list everything
expect 0 "plimsoll 0." -V
expect 2 "export its model by torch.export" explain model.py
expect 2 "the weights with --init" explain model.ckpt
expect 2 "the data with --data" explain clip.mp4
expect 2 "a plan is named with --plan" explain "$work/runs/unet-small-1/plan.json"
expect 1 "is not a plan of a training step" train unet-small --steps 1 --out none --plan "$work/weights.safetensors"
expect 1 "is not a plan of a training step" train unet-small --steps 1 --out none --plan "$work/runs/unet-small-1/run.json"
expect 1 "holds no weights: it is neither safetensors" train unet-small --steps 1 --out none --init "$work/sets/a/1.png"

# A run in the folder of its data: its results are no data.
mkdir -p "$work/photos/runs" && cp "$work/sets/a/1.png" "$work/sets/a/2.png" "$work/photos"
cd "$work/photos" || exit 1
expect 2 "is the folder of the data" train $unet --steps 1 --data . --out .
is "nothing is written there" test ! -e recipe.yaml
expect 0 "images, 2 samples from ." train $unet --steps 2 --data . --set sample.every=1 --set sampler.steps=2 --set validate.every=0
is "a run begins below the data" test -f runs/unet-small-1/samples/000001/sample-000.png
expect 0 "images, 2 samples from ." train --resume runs/unet-small-1 --steps 3
expect 0 "images, 2 samples from ." train $unet --steps 1 --data . --out here --set sample.every=1 --set sampler.steps=2 --set validate.every=0
expect 0 "images, 2 samples from ." train $unet --steps 1 --data . --out none
mkdir classes && cp -r "$work/sets/a" classes && cd classes || exit 1
expect 0 "1 class of" train "$root/recipes/lag-small.yaml" --steps 1 --data . --set validate.every=0
expect 0 "1 class of" train "$root/recipes/lag-small.yaml" --steps 1 --data . --set validate.every=0 --out none
cd "$root" || exit 1

echo "$passed passed, $failed failed"
[ $failed = 0 ]
