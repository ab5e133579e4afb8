#!/bin/sh
# What may happen to a run from outside: signals, a full disk, a damaged checkpoint, links and devices where files should be,
# data that needs too much memory. Nothing is lost, and nothing outside the run's folder is touched.
#   faults.sh PROGRAM WORK_FOLDER
set -u
program=$1 work=$2
rm -rf "$work" && mkdir -p "$work" && cd "$(dirname "$0")/../.." || exit 1
export XDG_CONFIG_HOME="$work/config"
passed=0 failed=0
is() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else echo "$what" && cat "$work/err" && failed=$((failed + 1)); fi
}
small="unet-small --set model.widths=[8] --set model.groups=4 --set model.heads=2 --set model.height=8 --set model.width=8
       --batch 2 --threads 2 --set schedule.kind=constant"
endless="$small --steps 1000000 --quiet"

# begin RUN OPTION...: starts a run in the background and waits until it has made steps
begin() {
    run=$work/$1
    shift
    "$program" train "$@" --out "$run" > "$work/out" 2> "$work/err" &
    pid=$!
    for i in $(seq 200); do [ -s "$run/log.jsonl" ] && break; sleep 0.05; done
}
ends() { # waits for it, with its exit code in $got and the seconds it took in $took
    start=$(date +%s%N)
    wait $pid
    got=$? took=$((($(date +%s%N) - start) / 1000000))
}
saved() { ls "$run" | sed -n 's/^step-0*\([0-9]*\)\.json$/\1/p' | sort -n | tail -1; }
appears() { # FILE or pattern of one in the run
    for i in $(seq 200); do ls "$run"/$1 > /dev/null 2>&1 && return 0; sleep 0.05; done
    return 1
}
says() { # TEXT, soon, on stderr
    for i in $(seq 200); do grep -qF -- "$1" "$work/err" && return 0; sleep 0.05; done
    return 1
}

# ---- signals ----
begin usr1 $endless --set save.every=0
kill -USR1 $pid
is "SIGUSR1 should save" appears 'step-*.json'
sleep 0.2
is "and the run should go on" kill -0 $pid
kill -TERM $pid
ends
is "SIGTERM should end with 0, not $got" [ $got = 0 ]
for signal in USR2 XCPU; do
    begin $signal $endless
    kill -$signal $pid
    ends
    is "SIG$signal should end with 0, not $got" [ $got = 0 ]
    is "SIG$signal should save" [ -n "$(saved)" ]
done

run=$work/second
"$program" train $small --steps 1 --out "$run" --quiet > "$work/out" 2> "$work/err"
rm "$run/plan.json"
"$program" train --resume "$run" --threads 2 --steps 9 --set accumulate=200000 --quiet > "$work/out" 2> "$work/err" &
pid=$!
sleep 1.5
kill -TERM $pid
sleep 0.3
is "the first signal should wait for the end of a step" kill -0 $pid
kill -TERM $pid
ends
is "the second should end at once, not in $took ms" [ $took -lt 1000 ]
is "the second should end by the signal, not with $got" [ $got = 143 ]
rm -f "$run/plan.json"
"$program" train --resume "$run" --threads 2 --steps 2 --set accumulate=1 --quiet > "$work/out" 2> "$work/err"
is "the last checkpoint should stay whole" [ $? = 0 ]

# heard RUN OPTION...: a stop signal while it validates or samples, which would take minutes
heard() {
    run=$work/$1
    shift
    "$program" train $endless "$@" --out "$run" > "$work/out" 2> "$work/err" &
    pid=$!
    appears plan.json # it begins
    sleep 1
    kill -TERM $pid
    ends
    is "$run: a stop signal should be heard within a second, not $took ms" [ $took -lt 1000 ]
    is "$run: and end with 0, not $got" [ $got = 0 ]
    is "$run: and the step should be saved" [ "$(saved)" = 1 ]
}
heard validating --set validate.every=1 --set validate.batches=1000000 --set sample.every=0
is "the validation is still due" grep -q '"what": "validation"' "$run/step-000001.json"
rm "$run/plan.json"
"$program" train --resume "$run" --threads 2 --steps 2 --set validate.batches=1 --quiet > "$work/out" 2> "$work/err"
is "and done when the run is resumed" grep -q '"step": 1,.*val_loss' "$run/log.jsonl"
heard sampling --set sample.every=1 --set sample.n=512 --set sampler.steps=1000
is "the samples are still due" grep -q '"what": "results"' "$run/step-000001.json"

# ---- the loss is not finite ----
run=$work/steep
"$program" train $small --steps 40 --set optimizer.kind=sgd --set optimizer.lr=3 --set optimizer.clip=0 --set schedule.warmup=0 \
    --set ema.rule=none --quiet --out "$run" > "$work/out" 2> "$work/err"
is "a loss that is not finite should fail" [ $? = 1 ]
step=$(sed -n 's/.*; step \([0-9]*\) is saved.*/\1/p' "$work/err")
is "the good weights should be saved, with all steps before" [ -n "$step" -a "$step" = "$(saved)" ]
is "which are as many as the log has" [ "$step" = "$(wc -l < "$run/log.jsonl")" ]
"$program" train --resume "$run" --threads 2 --steps $((step + 1)) --quiet > "$work/out" 2> "$work/err"
is "with which the same step is tried again" grep -q "not finite at step $((step + 1));" "$work/err"

# ---- a full disk, here a limit on the size of files ----
if command -v prlimit > /dev/null; then
    begin full $endless --set save.every=50 --set save.keep=2
    appears 'step-*.json'
    prlimit --pid $pid --fsize=1000:
    is "a full disk should be said" says "the run continues and tries again"
    is "and not end the run" kill -0 $pid
    last=$(saved)
    prlimit --pid $pid --fsize=unlimited:
    for i in $(seq 200); do [ "$(saved)" -gt "$last" ] && break; sleep 0.05; done
    is "with room again it should save" [ "$(saved)" -gt "$last" ]
    prlimit --pid $pid --fsize=1000:
    sleep 0.3
    kill -TERM $pid
    ends
    is "a last save that fails should end with 1, not $got" [ $got = 1 ]
    is "and name the last complete checkpoint" grep -q "the last complete checkpoint is that of step $(saved)" "$work/err"
    is "nothing half written should stay" [ "$(ls -A "$run" | grep -c tmp)" = 0 ]
    is "and no weights without their JSON" [ "$(ls "$run" | grep -c json$)" = "$(($(ls "$run" | grep -c safetensors$) + 2))" ] # plan.json, run.json
    "$program" train --resume "$run" --threads 2 --steps $(($(saved) + 1)) --quiet > "$work/out" 2> "$work/err"
    is "it can be resumed" [ $? = 0 ]
    is "every step should stand in the log once" \
        [ "$(sed 's/^{"step": \([0-9]*\), .*}$/\1/' "$run/log.jsonl" | tr '\n' ' ')" = "$(seq -s ' ' 1 $(saved)) " ]
else
    echo "a full disk: left out, prlimit is not installed"
fi

# ---- the newest checkpoint is damaged ----
run=$work/spoilt
"$program" train $small --steps 4 --set save.every=2 --quiet --out "$run" > "$work/out" 2> "$work/err"
printf 'Z' | dd of="$run/step-000004.safetensors" bs=1 seek=20000 conv=notrunc 2> /dev/null
older="step-000004.safetensors is damaged.*step 2 is intact and is used instead"
"$program" export "$run" -o "$work/spoilt.safetensors" > "$work/out" 2> "$work/err"
is "a damaged checkpoint should not stop an export" [ $? = 0 ]
is "of the older one, which it says" grep -q "export: .*$older" "$work/err"
"$program" export "$run" --checkpoint 4 -o "$work/spoilt.safetensors" > "$work/out" 2> "$work/err"
is "unless that step is asked for" [ $? = 1 ]
is "where the older one is named" grep -q "step 2 is intact: use --checkpoint 2" "$work/err"
"$program" train $small --steps 1 --init "$run" --quiet --out none > "$work/out" 2> "$work/err"
is "nor a run that starts from it" [ $? = 0 ]
is "which says so too" grep -q "init: .*$older" "$work/err"
"$program" train --resume "$run" --threads 2 --steps 5 --quiet > "$work/out" 2> "$work/err"
is "a damaged checkpoint should not stop a run" [ $? = 0 ]
is "and the older one be named" grep -q "resume: .*step-000004.safetensors is damaged.*step 2 is intact and is used instead" "$work/err"
is "every step should stand in its log once" [ "$(sed 's/^{"step": \([0-9]*\), .*}$/\1/' "$run/log.jsonl" | tr '\n' ' ')" = "1 2 3 4 5 " ]

# ---- links and devices ----
run=$work/foreign
"$program" train $small --steps 1 --quiet --out "$run" > "$work/out" 2> "$work/err"
echo mine > "$work/mine"
for name in log.jsonl plan.json recipe.yaml step-000002.json; do
    cp -r "$run" "$run.$name" && rm -f "$run.$name/$name"
    [ $name = log.jsonl ] || [ $name = step-000002.json ] || cp "$run/$name" "$work/mine"
    cp "$work/mine" "$work/before"
    ln -s "$work/mine" "$run.$name/$name"
    "$program" train --resume "$run.$name" --threads 2 --steps 2 --quiet > "$work/out" 2> "$work/err"
    is "$name: a link should be refused" [ $? = 1 ]
    is "$name: in one sentence" grep -q "^plimsoll: .* link" "$work/err"
    is "$name: what it names should stay as it was" cmp "$work/before" "$work/mine"
done
mkdir "$work/elsewhere" && ln -s "$work/elsewhere" "$run/samples"
"$program" sample "$run" -n 1 --steps 2 --quiet > "$work/out" 2> "$work/err"
is "samples: a link should be refused" [ $? = 1 ]
is "samples: nothing should be written through it" [ -z "$(ls -A "$work/elsewhere")" ]
mkfifo "$work/pipe" && ln -s /dev/zero "$work/zero.yaml"
for command in "explain $work/pipe" "explain $work/zero.yaml" "plan $work/zero.yaml --budget 1MiB" "explain unet-small --device $work/pipe" \
               "train $small --steps 1 --plan $work/zero.yaml" "layout $work/pipe"; do
    timeout 20 "$program" $command > "$work/out" 2> "$work/err"
    got=$?
    is "$command: a device should be refused, not read ($got)" [ $got = 1 -o $got = 2 ]
    is "$command: in one sentence" grep -q "it is a device or pipe" "$work/err"
done

# ---- names from elsewhere ----
cp recipes/unet-small.yaml "$work/a|b<i>c.yaml"
"$program" explain "$work/a|b<i>c.yaml" $(echo $small | cut -d' ' -f2-) --effort 20 --md "$work/names.md" > "$work/out" 2> "$work/err"
is "a name should not become a part of the Markdown" grep -qF 'a\|b\<i\>c' "$work/names.md"
mkdir -p "$work/here/recipes" "$work/here/profiles" && cp recipes/unet-small.yaml "$work/here/recipes" && cp profiles/h200.json "$work/here/profiles"
(cd "$work/here" && "$program" explain unet-small --effort -1 --device h200 > "$work/out" 2> "$work/err")
is "a copy of a shipped file should be taken without a word" [ $? = 0 -a -z "$(grep 'current folder' "$work/err")" ]
echo >> "$work/here/recipes/unet-small.yaml" && echo >> "$work/here/profiles/h200.json"
(cd "$work/here" && "$program" explain unet-small --effort -1 --device h200 > "$work/out" 2> "$work/err")
is "a recipe of the current folder should be named" grep -qx "recipe: using recipes/unet-small.yaml in the current folder, not the one that is shipped" "$work/err"
is "a profile too" grep -q "^device: using profiles/h200.json in the current folder" "$work/err"
"$program" explain - --effort -1 < recipes/unet-small.yaml > "$work/out" 2> "$work/err"
is "a recipe can be read from the standard input" [ $? = 0 ]

# ---- memory of the loader ----
mkdir "$work/images" && "$program" sample "$work/usr1" -n 4 --steps 2 -o "$work/images" --quiet > "$work/out" 2> "$work/err"
rm -f "$work/images/samples.png"
"$program" train --out none $small --steps 1 --data "$work/images" --loader-memory 100KiB --quiet > "$work/out" 2> "$work/err"
is "a limit of the loader's memory should hold" [ $? = 3 ]
is "and be named" grep -q "loader-memory" "$work/err"
"$program" train --out none $small --steps 1 --data "$work/images" --json > "$work/out" 2> "$work/err"
is "the default should do" [ $? = 0 ]
is "and be stated" grep -q '"loader_limit_bytes": 1073741824' "$work/out"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
