#!/bin/sh
# A run that is killed outright, again and again, at any moment and while it writes, ends with the bits of one that was
# never touched; and a disk that is full leaves the last good checkpoint.
#   killed.sh PROGRAM WORK_FOLDER
set -u
program=$1 work=$2
rm -rf "$work" && mkdir -p "$work" && cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
is() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else echo "$what" && failed=$((failed + 1)); fi
}
small="unet-small --set model.widths=[8] --set model.groups=4 --set model.heads=2 --set model.height=8 --set model.width=8
       --batch 2 --threads 2 --set save.every=1 --set save.keep=2 --set validate.every=2 --set validate.batches=1
       --set schedule.kind=plateau --set schedule.patience=0 --set schedule.factor=0.9 --quiet"
steps=60
newest() { ls "$work/killed" 2> /dev/null | sed -n 's/^step-0*\([0-9]*\)\.json$/\1/p' | sort -n | tail -1; }

# Starts the run or goes on with it, in the background; $pid is the program's own.
begin() {
    if [ -n "$(newest)" ]; then
        exec_args="train --resume $work/killed --threads 2 --quiet"
    else
        exec_args="train $small --steps $steps --out $work/killed"
    fi
    "$program" $exec_args > "$work/out" 2>&1 &
    pid=$!
}
is "the untouched run should work" "$program" train $small --steps $steps --out "$work/whole"

kills=0 writing=0 round=0
while [ $round -lt 14 ] && [ "$(newest)" != $steps ]; do
    before=$(newest)
    begin
    # It has made a step of its own; then: a moment later, or as soon as a file is being written.
    while kill -0 $pid 2> /dev/null && [ "$(newest)" = "$before" ]; do sleep 0.01; done
    if [ $((round % 2)) = 0 ]; then
        sleep 0.0$((round * 37 % 10))
    else
        while kill -0 $pid 2> /dev/null && ! ls "$work/killed"/.plimsoll-*.tmp > /dev/null 2>&1; do :; done
    fi
    kill -KILL $pid 2> /dev/null && kills=$((kills + 1))
    wait $pid 2> /dev/null
    ls "$work/killed"/.plimsoll-*.tmp > /dev/null 2>&1 && writing=$((writing + 1))
    round=$((round + 1))
done
[ "$(newest)" = $steps ] || "$program" train --resume "$work/killed" --threads 2 --quiet > "$work/out" 2>&1
is "the killed run should end" [ "$(newest)" = $steps ]
is "no kill came in time" [ $kills -gt 0 ]
last=step-0000$steps
is "a killed run should end with the bits of a whole one" cmp "$work/whole/$last.safetensors" "$work/killed/$last.safetensors"
is "its place in the data too" cmp "$work/whole/$last.json" "$work/killed/$last.json"
"$program" train --resume "$work/killed" --threads 2 --steps $((steps + 1)) --quiet > "$work/out" 2>&1
is "no unfinished file should stay" [ "$(ls -A "$work/killed" | grep -c tmp)" = 0 ]
is "two checkpoints should stay" [ "$(ls "$work/killed" | grep -c safetensors)" = 2 ]
is "every step should stand in the log once" [ "$(sed 's/^{"step": \([0-9]*\), .*}$/\1/' "$work/killed/log.jsonl" | tr '\n' ' ')" = "$(seq -s ' ' 1 $((steps + 1))) " ]
timeless() { sed 's/, "\(ms\|memory_bytes\|time\)": [0-9.]*//g' "$@"; }
timeless "$work/whole/log.jsonl" > "$work/a" && head -$steps "$work/killed/log.jsonl" | timeless > "$work/b"
is "validations should stand in the log" [ "$(grep -c val_loss "$work/a")" = $((steps / 2)) ]
is "the losses in both logs should be the same" cmp "$work/a" "$work/b"

# A disk that is full while a checkpoint is saved, and while the log is: a small file system where one may be mounted.
if mkdir "$work/disk" && mount -t tmpfs -o size=1m tmpfs "$work/disk" 2> /dev/null; then
    "$program" train $small --steps 2 --out "$work/disk/run" > "$work/out" 2>&1
    is "a run should fit the small disk" [ $? = 0 ]
    head -c 2000000 /dev/zero > "$work/disk/fill" 2> /dev/null
    "$program" train --resume "$work/disk/run" --steps 9 --threads 2 --quiet > "$work/out" 2> "$work/err"
    is "a full disk should fail with 1" [ $? = 1 ]
    is "a full disk should be said once, with the remedy" [ "$(grep -c '^plimsoll: .*free some space' "$work/err")" = 1 ]
    is "the last good checkpoint should stay" [ -s "$work/disk/run/step-000002.safetensors" ]
    is "nothing half written should stay" [ "$(ls -A "$work/disk/run" | grep -c tmp)" = 0 ]
    rm "$work/disk/fill"
    "$program" train --resume "$work/disk/run" --steps 9 --threads 2 --quiet > "$work/out" 2>&1
    is "with room again the run should go on" [ $? = 0 ]
    "$program" train $small --steps 9 --out "$work/nine" > "$work/out" 2>&1
    is "and end with the bits of a whole one" cmp "$work/nine/step-000009.safetensors" "$work/disk/run/step-000009.safetensors"
    umount "$work/disk"
else
    echo "a full disk: left out, no right to mount a tmpfs (cli.sh tries a file size limit)"
fi

echo "$kills kills, $writing of them while a file was written"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
