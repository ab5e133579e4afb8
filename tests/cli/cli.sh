#!/bin/sh
# The command line as users see it: exit codes, one sentence on stderr, no damaged files.
#   cli.sh PROGRAM WORK_FOLDER
set -u
program=$1 work=$2
rm -rf "$work" && mkdir -p "$work" && cd "$(dirname "$0")/../.." || exit 1
export XDG_CONFIG_HOME="$work/config"    # not this user's own profile
passed=0 failed=0
# a recipe that takes milliseconds
small="--set model.widths=[8] --set model.groups=4 --set model.heads=2 --set model.height=8 --set model.width=8 --batch 2 --set schedule.kind=constant"

# expect CODE 'text that stdout or stderr must contain' arguments...
expect() {
    code=$1 text=$2
    shift 2
    "$program" "$@" > "$work/out" 2> "$work/err"
    got=$?
    if [ $got != "$code" ]; then
        echo "plimsoll $*: exit code $got, expected $code" && sed 's/^/    /' "$work/err" && failed=$((failed + 1))
    elif ! grep -qF -- "$text" "$work/out" "$work/err"; then
        echo "plimsoll $*: nowhere says '$text'" && sed 's/^/    /' "$work/out" "$work/err" && failed=$((failed + 1))
    elif [ "$code" != 0 ] && [ "$(grep -c '^plimsoll: ' "$work/err")" != 1 ]; then
        echo "plimsoll $*: not exactly one sentence of failure" && sed 's/^/    /' "$work/err" && failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}
# is 'what' condition...
is() {
    what=$1
    shift
    if "$@"; then passed=$((passed + 1)); else echo "$what" && failed=$((failed + 1)); fi
}

expect 0 "explain, fit and train models" help
expect 0 "place buffers" layout --help
expect 0 "plimsoll layout buffers.csv" help
expect 0 "--capacity BYTES" help layout
expect 2 "did you mean 'layout'" help layuot
expect 0 "lr: 0.0001" help recipe
expect 0 "model, system dit3d" help recipe
expect 0 "sde_dt: 0.1" help recipe stdiff
is "help recipe SYSTEM should show one system" sh -c "! grep -q 'system unet' '$work/out'"
expect 0 "| \`model.sde_dt\` | number | \`0.1\` | 0.001 to 1 |" help recipe stdiff --md
expect 2 "did you mean 'stdiff'" help recipe stdif
expect 2 "takes a command" help fit plan
expect 2 "--md is for" help fit --md
is "the reference of docs/user/RECIPES.md should be what help recipe prints" sh scripts/docs_recipes.sh "$program" --check
expect 0 "plimsoll 0." --version
expect 2 "give one of the commands above"
expect 2 "did you mean 'train'" trian
expect 2 "did you mean '--steps'" train --out none unet-small --step 3
expect 2 "takes a whole number" train --out none unet-small --steps many
expect 2 "needs a value" train --out none unet-small --steps
expect 2 "--steps takes 0 or more" train --out none unet-small --steps -1
expect 2 "--batch takes 1 or more" explain unet-small --batch 0
expect 2 "--threads takes at most" explain unet-small --threads 99999999999
expect 2 "takes seconds, more than 0" fit unet-small --time-limit -2
expect 2 "--effort takes 0 or more" fit unet-small --effort -2
expect 2 "--budget must be more than 0 bytes" explain unet-small --budget 0
expect 2 "did you mean 'unet-small'" explain unet-smal
# A folder of another kind that is also called recipes; a program that was moved away from its own.
mkdir -p "$work/elsewhere/recipes" "$work/alone" && touch "$work/elsewhere/recipes/soup.txt"
is "names are looked for in the first folder that has any" sh -c \
    "cd '$work/elsewhere' && '$program' explain unet-smal 2>&1 | grep -q \"did you mean 'unet-small'\""
cp "$program" "$work/alone/plimsoll"
is "a program without its recipes says where they would be" sh -c \
    "cd '$work/alone' && LD_LIBRARY_PATH='$(dirname "$program")' ./plimsoll explain unet-small 2>&1 | grep -q 'no folder recipes/ with recipes here or beside the program'"
expect 2 "did you mean 'batch'" explain unet-small --set bacth=3
expect 2 "unknown key 'lr', did you mean 'optimizer.lr'?" explain unet-small --set lr=1e-4
expect 2 "did you mean 'validate.every' or 'sample.every' or 'save.every'?" explain unet-small --set every=3
expect 0 "One training step needs" explain dit3d-small --set model.patch=[2,2,2] --effort -1
expect 2 "must be from 1 to" explain unet-small --set batch=0
expect 2 "did you mean 'bf16'" explain unet-small --precision bf61
expect 2 "do not divide" explain unet-small --set model.groups=7
expect 2 "is not a size" explain unet-small --budget plenty
expect 2 "tensor cores round" explain unet-small --precision tf32
expect 2 "has one memory" fit unet-small --budget 1GiB --host-budget 1GiB
expect 2 "is not a size" fit dit3d-small --device h200 --budget 1GiB --host-budget much
expect 2 "give the budget in bytes" fit dit3d-small --device h200 --budget 1GiB --host-budget 50%
# 20 MB above what lies outside the arena there: enough with values on the host, too little without
outside=$("$program" explain dit3d-small --device h200 --json | sed -n 's/^ *"runtime_bytes": \([0-9]*\).*/\1/p')
tight=$((outside + 20000000))
expect 0 "on the host" fit dit3d-small --device h200 --budget $tight --allow none --effort 200
expect 3 "no plan fits" fit dit3d-small --device h200 --budget $tight --allow none --effort 200 --host-budget 1MiB

# what is stated of a GPU beside the arena holds what an H200's driver then counted, in runs without validation, and
# at most 1 % of all more
stated() {                       # recipe, counted, all in use
    bytes=$("$program" explain "$1" --device h200 --precision bf16 --set validate.every=0 --effort 1 --json | sed -n 's/^ *"runtime_bytes": \([0-9]*\).*/\1/p')
    is "$1: $bytes bytes are stated, $2 were counted" test "$bytes" -ge "$2" -a "$bytes" -le $(($2 + $3 / 100))
}
stated dit3d-tiny 562829824 790924288
stated stdiff-64x512 597875456 15275655168

# what is shown fits 100 columns, and is plain where nobody looks
narrow() {
    "$program" "$@" > "$work/out" 2> "$work/err"
    is "plimsoll $*: wider than 100 columns: $(grep -E '^.{101}' "$work/out" | head -1)" sh -c "! grep -qE '^.{101}' '$work/out'"
    is "plimsoll $*: colours in a pipe" sh -c "! grep -q '$(printf '\033')' '$work/out'"
}
narrow help
narrow help recipe
for command in explain fit compare train sample evaluate compress decompress probe plan layout replay help; do
    narrow $command --help
done
narrow explain stablesr-small --what-if --time-limit 1 --effort 20
narrow fit unet-small $small --effort 20 --time-limit 2 --curve
narrow compare unet-small stablesr-small --sweep batch=1,2,nothing --effort 20 --time-limit 2
narrow train --out none unet-small --steps 1 --batch 2 --set accumulate=1

printf 'system: unet\nbatch: 4\nmodle: {heads: 2}\n' > "$work/bad.yaml"
expect 2 "bad.yaml:3" explain "$work/bad.yaml"
printf 'system: unett\n' > "$work/bad2.yaml"
expect 2 "did you mean 'unet'" explain "$work/bad2.yaml"
printf '# nothing\n' > "$work/none.yaml"
expect 2 "none.yaml holds no keys" explain "$work/none.yaml"
printf 'system: unet\n' > "$work/v1.5.yaml"
expect 0 "v1.5: " explain "$work/v1.5.yaml" --effort -1
expect 2 "too large for a number" explain unet-small --set optimizer.lr=1e999
expect 2 "--set model.widths=[8: " explain unet-small --set model.widths=[8
printf 'system: unet\n\tbatch: 4\n' > "$work/tab.yaml"
expect 1 "tab.yaml:2" explain "$work/tab.yaml"

# explain and compare
expect 0 '"plimsoll-explain-1"' explain unet-small --json
expect 0 "believed, but not so" explain unet-small $small --what-if --effort 20
expect 0 "# Memory of one training step" explain unet-small $small --effort 20 --md /dev/stdout
is "explain --html should write a page" sh -c "'$program' explain unet-small $small --effort 20 --html '$work/e.html' > /dev/null && grep -q '</html>' '$work/e.html'"
expect 0 "no plan found" explain unet-small $small --budget 100KiB --effort 20
expect 0 "chunks of samples, except in batch norm" explain unet-small $small --batch 1000000 --what-if --effort 20 --time-limit 2   # not a million of them
expect 0 "minimum budget: at most" explain unet-small
expect 0 "only re-planned, if at all" explain stdiff-64x2048 --effort -1
expect 0 '"fits": false' explain unet-small --device rtx-3060 --budget 100MiB --json
expect 2 "is a folder, not a recipe" explain "$work"
expect 2 "; there are " explain nothing-like-it-at-all
printf 'system: nothing\n' > "$work/none.yaml"
expect 2 "there is no system 'nothing'; there are " explain "$work/none.yaml"
expect 1 "its folder" fit stdiff-64x2048 --budget 16GiB -o /nowhere/plan.json
expect 1 "its folder" explain stdiff-64x2048 --html /nowhere/e.html
expect 1 "its folder" probe -o /nowhere/p.json
all='recipes/*.yaml'
[ -z "${ASAN_OPTIONS:-}" ] || all='recipes/*-small.yaml'       # a sanitizer takes minutes for the large ones
for recipe in $all; do
    narrow explain "$(basename "$recipe" .yaml)" --effort -1
done
narrow explain unet-small --budget 14MiB --effort 20
narrow fit dit3d-xl --device rtx-3090 --budget 10GiB --effort 5 --time-limit 2
expect 2 "--allow takes" explain unet-small --allow everything
expect 2 "takes one recipe" explain unet-small dit3d-small
expect 0 "batch=2" compare unet-small --sweep batch=1,2,nothing --budget 8GiB --effort 20
expect 2 "there is no recipe" compare unet-small nosuch --budget 64MiB,8GiB --effort 20
expect 2 "nosuch.pt2" compare unet-small nosuch.pt2 --budget 8GiB --effort 20
expect 0 '"plimsoll-compare-1"' compare unet-small --sweep model.widths=[32],[32,64] --json --effort 20
expect 2 "there is no recipe" compare nosuch
expect 2 "takes one or more recipes" compare
expect 2 "takes KEY=A,B,C" compare unet-small --sweep batch
expect 2 "a value is missing" compare unet-small --sweep batch=1,,2
expect 2 "is not a size" compare unet-small --budget 8GiB,much
expect 2 "more than 0 bytes" compare unet-small --budget 8GiB,0
narrow compare unet-small --device rtx-3060 --effort 20 --budget 1GiB

# replay
expect 2 "replay takes one file" replay
expect 1 "no.pickle" replay "$work/no.pickle"
printf 'none' > "$work/no.pickle"
expect 1 "not a pickle that can be read" replay "$work/no.pickle"
expect 2 "True or False" replay "$work/no.pickle" --conf expandable_segments:yes

# layout
printf 'id,lower,upper,size\na,0,2,4\nb,1,3,4\nc,2,4,4\n' > "$work/b.csv"
expect 0 "3 buffers in 8 bytes" layout "$work/b.csv" --capacity 8 -o "$work/o.csv"
is "layout wrote no offsets" grep -q '^id,lower,upper,size,offset' "$work/o.csv"
printf 'id,lower,upper,size,align\na,0,2,3,1\nb,0,2,3,4\n' > "$work/a.csv"
expect 3 "the smallest found takes 6" layout "$work/a.csv" --capacity 1
expect 3 "no layout within 7 bytes" layout "$work/b.csv" --capacity 7
printf 'id,lower,upper,size,offset\na,0,2,5,100\nb,1,3,7,\n' > "$work/f.csv"
expect 0 "2 buffers in 105 bytes (none smaller than 105" layout "$work/f.csv"
printf 'id,lower,upper,size,offset\na,0,2,5,100\nb,1,3,7,103\n' > "$work/f.csv"
expect 1 "f.csv: buffers 0 and 1 are alive together and both fixed" layout "$work/f.csv"
expect 1 "nothere.csv" layout "$work/nothere.csv"
printf 'id,lower,upper,size\na,0,2,x\n' > "$work/x.csv"
expect 1 "x.csv: line 2" layout "$work/x.csv"

# plan
cat > "$work/g.json" <<'G'
{"format": "plimsoll-graph-1",
 "values": [{"id": "x", "bytes": 10, "persistent": true}, {"id": "a", "bytes": 10}, {"id": "b", "bytes": 10}, {"id": "c", "bytes": 10}],
 "nodes": [{"id": "n1", "cost": 1, "inputs": ["x"], "outputs": ["a"]}, {"id": "n2", "cost": 1, "inputs": ["a"], "outputs": ["b"]},
           {"id": "n3", "cost": 1, "inputs": ["a", "b"], "outputs": ["c"]}],
 "finals": ["c"]}
G
expect 0 '"fits": true' plan "$work/g.json" --budget 40 --json -o "$work/p.json"
is "plan wrote no plan" grep -q 'plimsoll-plan-1' "$work/p.json"
expect 2 "--budget must be more than 0 bytes" plan "$work/g.json" --budget 0
expect 3 "the smallest peak found is 40" plan "$work/g.json" --budget 39
expect 2 "write 80%kept" plan "$work/g.json" --budget 80%
expect 0 '"budget_bytes": 40' plan "$work/g.json" --budget 100%kept --json
expect 0 "fits re-planned" explain unet-small --budget 80%kept --effort 300 --threads 1
expect 0 "--budget 80%kept -o plan.json" fit unet-small --budget 80%kept --effort 300 --threads 1
expect 0 "80%kept" compare unet-small --budget 80%kept --effort 300 --threads 1
expect 0 "planned = " train unet-small --budget 80%kept --steps 1 --out none --threads 1
expect 2 "more than 0 bytes" explain unet-small --budget 0%kept
expect 0 "all states were searched" plan "$work/g.json" --budget 40 --prove
expect 0 '"any_order_cost": 3' plan "$work/g.json" --budget 40 --prove --json
expect 0 '"curve"' plan "$work/g.json" --budget 40 --curve --json
expect 0 "the program was written" plan "$work/g.json" --budget 40 --prove-lp "$work/g.lp"
is "plan wrote no program" grep -q Minimize "$work/g.lp"
expect 1 "no/such" plan "$work/g.json" --budget 40 --prove-lp "$work/no/such/g.lp"
expect 1 "no/such does not exist" plan "$work/g.json" --budget 40 -o "$work/no/such/p.json"
is "a plan that cannot be kept should not be sought" [ ! -s "$work/out" ]
expect 1 "no/such does not exist" layout "$work/b.csv" -o "$work/no/such/o.csv"
is "nor a layout" [ ! -s "$work/out" ]
expect 2 "leave out --layout" plan "$work/g.json" --budget 40 --curve --layout
# without a budget everything is kept and placed, whatever the alignment adds; places are written
cat > "$work/aligned.json" <<'G'
{"format": "plimsoll-graph-1", "align": 64, "finals": ["b"],
 "values": [{"id": "a", "bytes": 10}, {"id": "b", "bytes": 10}],
 "nodes": [{"id": "n1", "cost": 1, "outputs": ["a"]}, {"id": "n2", "cost": 1, "inputs": ["a"], "outputs": ["b"]}]}
G
expect 0 '"budget_bytes": 0,' plan "$work/aligned.json" --layout --json -o "$work/placed.json"
is "a placed plan should say where" grep -q '{"value": "b", "first_step": 1, "last_step": 2, "offset": 64, "bytes": 10}' "$work/placed.json"
expect 0 "2 nodes: arena 74 B, peak 20 B of 20 B" plan "$work/aligned.json" --layout
expect 3 "the smallest peak found is 74" plan "$work/aligned.json" --layout --budget 73
expect 0 '"arena_bytes": 74' plan "$work/aligned.json" --layout --budget 74 --json
# the examples of docs/user/FORMATS.md, as they stand there
example() { awk -v n="$1" '/^```json/ { k++; next } /^```/ { on = 0 } { on = k == n && !/^```/ && !done[k] } /^}/ { if (on) print; done[k] = 1; next } on' docs/user/FORMATS.md; }
example 1 > "$work/doc_graph.json"
expect 0 "peak 130 B" plan "$work/doc_graph.json" --budget 130 --layout -o "$work/doc_plan.json"
is "the plan that docs/user/FORMATS.md shows should be the plan of its graph" \
    [ "$(tr -d ' \n' < "$work/doc_plan.json")" = "$(example 2 | tr -d ' \n')" ]
# nothing costs less than everything kept, so where that needs no more it is what a refusal names
cat > "$work/wide.json" <<'G'
{"format": "plimsoll-graph-1", "finals": ["s"],
 "values": [{"id": "s", "bytes": 1}, {"id": "a", "bytes": 9}, {"id": "b", "bytes": 9}, {"id": "c", "bytes": 9}, {"id": "d", "bytes": 9},
            {"id": "e", "bytes": 9}, {"id": "f", "bytes": 9}, {"id": "g", "bytes": 9}, {"id": "h", "bytes": 9}, {"id": "i", "bytes": 9}],
 "nodes": [{"id": 1, "cost": 1, "outputs": ["a"]}, {"id": 2, "cost": 1, "outputs": ["b"]}, {"id": 3, "cost": 1, "outputs": ["c"]},
           {"id": 4, "cost": 1, "outputs": ["d"]}, {"id": 5, "cost": 1, "outputs": ["e"]}, {"id": 6, "cost": 1, "outputs": ["f"]},
           {"id": 7, "cost": 1, "outputs": ["g"]}, {"id": 8, "cost": 1, "outputs": ["h"]}, {"id": 9, "cost": 1, "outputs": ["i"]},
           {"id": 10, "cost": 1, "inputs": ["a", "b", "c", "d", "e", "f", "g", "h", "i"], "outputs": ["s"]}]}
G
expect 3 "none needs less than 82 B" plan "$work/wide.json" --budget 50 --prove
expect 3 "the smallest peak found is 82" plan "$work/wide.json" --budget 81 --json
is "what is refused and needs no more than everything kept should cost no more" grep -q '"cost": 10.0,' "$work/out"
printf '{"format": "plimsoll-graph-1", "values": [' > "$work/cut.json"
expect 1 "cut.json" plan "$work/cut.json" --budget 40

# train
expect 2 "take a recipe of that system" train --out none unet-small $small --steps 1 --set system=
expect 2 "--set sampler.kind=recurrent: sampler.kind: unet samples by ddpm or ddim, not by recurrent" train --out none unet-small $small --steps 1 --set sampler.kind=recurrent
expect 2 "sampler.steps: 2000 is more than model.timesteps, 1000" train unet-small $small --steps 1 --set sampler.steps=2000 --set sample.every=1 --out "$work/never"
expect 0 "1 steps" train --out none unet-small $small --steps 1 --set sampler.steps=2000
printf 'system: lag\nmodel:\n  hidden: 30\n  heads: 4\nsampler:\n  steps: 20\n  kind: recurrent\n' > "$work/lag.yaml"
expect 2 "lag.yaml:4: model.heads: 4 does not divide the hidden width 30" explain "$work/lag.yaml"
expect 2 "lag.yaml:7: sampler.kind: lag samples by ddpm or ddim, not by recurrent" explain "$work/lag.yaml" --set 'model={hidden: 32}'
expect 2 "--set model={hidden: 34, heads: 3}: model.heads: 3 does not divide" explain "$work/lag.yaml" --set 'model={hidden: 34, heads: 3}'
expect 2 "lag.yaml: model.beta_end: 0.08" explain "$work/lag.yaml" --set model.hidden=32 --set sampler.kind=ddim --set model.timesteps=9999
expect 2 "sampler.guidance: lag has no text" explain "$work/lag.yaml" --set model.hidden=32 --set sampler.kind=ddim --set sampler.guidance=3
expect 2 "beta1 must be from 0 to" train --out none unet-small $small --steps 1 --set optimizer.beta1=1
expect 2 "eps must be from 1e-30" train --out none unet-small $small --steps 1 --set optimizer.eps=0
expect 0 "1 steps" train unet-small $small --steps 1 --set 'name="two\nlines"' --out "$work/named"
expect 0 "1 steps" train --resume "$work/named" --steps 2
expect 0 '"measured_bytes"' train unet-small $small --steps 6 --out "$work/whole" --json
expect 0 "4 steps" train unet-small $small --steps 4 --set save.every=2 --out "$work/half"
expect 0 "unet-small: 2 steps" train --resume "$work/half" --steps 6
is "resuming does not give the bits of an uninterrupted run" cmp -s "$work/whole/step-000006.safetensors" "$work/half/step-000006.safetensors"
is "keep: 2 checkpoints should be left" [ "$(ls "$work/half" | grep -c safetensors)" = 2 ]
expect 2 "already holds a run" train unet-small $small --steps 6 --out "$work/whole"
expect 1 "Not a directory" train unet-small $small --steps 6 --out "$work/b.csv/run"
is "a run that cannot be kept should not be planned" [ "$(wc -l < "$work/err")" = 1 ]
# a run keeps its schedule's length: six steps and six more are the same twelve, and what passes its end says so
curve="$small --set schedule.kind=cosine --threads 1 --quiet"
expect 0 "" train unet-small $curve --steps 12 --out "$work/twelve"
expect 0 "" train unet-small $curve --steps 6 --set schedule.steps=12 --out "$work/sixes"
expect 0 "" train --resume "$work/sixes" --steps 12 --quiet
is "a resumed run says that its schedule has ended, and it has not" [ ! -s "$work/err" ]
is "six steps and six more differ from twelve" cmp "$work/twelve/step-000012.safetensors" "$work/sixes/step-000012.safetensors"
expect 0 "" train unet-small $curve --steps 6 --out "$work/ended"
is "a run does not keep its schedule's length" grep -q "^  steps: 6$" "$work/ended/recipe.yaml"
expect 0 "the learning rate is 0 from step 6 on, and the run has 8 steps" train --resume "$work/ended" --steps 8
expect 0 "" train --resume "$work/ended" --steps 12 --set schedule.steps=12 --quiet
is "a stretched schedule is still said to end" [ ! -s "$work/err" ]
expect 2 "was begun with seed" train --resume "$work/half" --steps 8 --seed 77
expect 2 "is not a run" train --resume "$work/nowhere"
expect 1 "recipe.yaml: File name too long" train --resume "$work/$(printf '%0300d' 0)"
expect 2 "name that file too" train --out none unet-small $small --steps 1 --init-partial
printf '{"step": 7, "lo' >> "$work/half/log.jsonl"
expect 0 "nothing left to do: step 6 of 5" train --resume "$work/half" --steps 5 --set optimizer.lr=9
is "a resume with nothing to do changed the log" [ "$(tail -1 "$work/half/log.jsonl")" = '{"step": 7, "lo' ]
is "a resume with nothing to do changed the recipe" grep -q "^steps: 6$" "$work/half/recipe.yaml"
# weights of 8 numbers that are none, for a parameter and for nothing of the model
for name in conv_in.bias elsewhere...; do
    { printf '\110\0\0\0\0\0\0\0%-72s' '{"'$name'":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}' && printf '\377%.0s' $(seq 32); } > "$work/$name.safetensors"
done
expect 1 "number 0 of conv_in.bias is not finite" train --out none unet-small $small --steps 1 --init-partial --init "$work/conv_in.bias.safetensors"
expect 2 "holds no parameter of this model, but for example elsewhere..." train --out none unet-small $small --steps 1 --init-partial --init "$work/elsewhere....safetensors"
expect 2 "leave out --init" train --resume "$work/half" --steps 8 --init "$work/half/step-000006.safetensors"
cp -r "$work/half" "$work/renamed"
for kind in json safetensors; do mv "$work/renamed/step-000006.$kind" "$work/renamed/step-000008.$kind"; done
expect 0 "says step 6" train --resume "$work/renamed" --steps 9
expect 1 "holds no complete checkpoint" train unet-small $small --resume "$work"
expect 0 "weights: from $work/whole/step-000006.safetensors" train --out none unet-small $small --steps 1 --init "$work/whole/step-000006.safetensors"
# one byte of it changed
mkdir "$work/spoilt" && cp "$work/whole/recipe.yaml" "$work/whole"/step-* "$work/spoilt"
printf 'Z' | dd of="$work/spoilt/step-000006.safetensors" bs=1 seek=20000 conv=notrunc 2> /dev/null
expect 1 "step-000006.safetensors is damaged" train --out none unet-small $small --steps 1 --init "$work/spoilt/step-000006.safetensors" --init-partial
expect 1 "step-000006.safetensors is damaged" train --resume "$work/spoilt" --steps 9
expect 1 "step-000006.safetensors is damaged" sample "$work/spoilt" -n 1 --steps 2 -o "$work/never"
mkdir "$work/unsaid" && cp "$work/whole/recipe.yaml" "$work/whole"/step-* "$work/unsaid" && : > "$work/unsaid/step-000006.json"
expect 1 "step-000006.json" sample "$work/unsaid" -n 1 --steps 2 -o "$work/never"
expect 1 "the model has (128,32)" train --out none unet-small --steps 1 --init "$work/whole/step-000006.safetensors"
expect 0 "conv_in.weight of another shape" train --out none unet-small $small --set model.channels=1 --steps 1 --init "$work/whole/step-000006.safetensors" --init-partial
expect 1 "cannot" train unet-small $small --steps 1 --out /dev/null/run
mkdir "$work/torn" && cp "$work/whole/recipe.yaml" "$work/whole"/step-* "$work/torn"
head -c 1000 "$work/whole/step-000006.safetensors" > "$work/torn/step-000009.safetensors"
printf '{"format": "plimsoll-checkpoint-1", "step": 9, "drawn": 36, "seed": 0}' > "$work/torn/step-000009.json"
expect 0 "step 6 is intact and is used instead" train --resume "$work/torn" --steps 12
expect 1 "not finite" train --out none unet-small $small --steps 40 --set optimizer.kind=sgd --set optimizer.lr=100 --set optimizer.clip=0 --set schedule.warmup=0 --set ema.rule=none --quiet
expect 1 "the 8th in a row" train --out none unet-small $small --steps 40 --set precision=fp16 --set optimizer.lr=100 --set optimizer.clip=0 --set schedule.warmup=0 --quiet
# last weights of 512, then of 8.6e17: losses that are numbers, gradients that are none
for number in half='\0\0\0\104' single='\0\0\100\135'; do
    { printf '\120\0\0\0\0\0\0\0%-80s' '{"conv_out.weight":{"dtype":"F32","shape":[3,8,3,3],"data_offsets":[0,864]}}' && for i in $(seq 216); do printf "${number#*=}"; done; } > "$work/steep_${number%%=*}.safetensors"
done
expect 1 "the gradient is not finite at step 23, the 8th in a row" train --out none unet-small $small --steps 40 --precision fp16 --init-partial --init "$work/steep_half.safetensors" --quiet
expect 1 "the gradient is not finite at step 1; the first tensor that is not is the gradient norm" train --out none unet-small $small --steps 3 --init-partial --init "$work/steep_single.safetensors" --quiet
lost="--set precision=fp16 --set optimizer.lr=100 --set optimizer.slow_lr=100 --set schedule.kind=plateau --set schedule.watch=loss --set schedule.warmup=0"
expect 0 "4 steps" train sashimi-small --set model.length=64 --set model.width=8 --set model.layers=1 --set batch=1 $lost --steps 4 --out "$work/lost"
# clipping and fp16 need the gradients' norm; what was not computed is not said to be 0
expect 0 "1 steps" train unet-small $small --steps 1 --set optimizer.clip=0 --out "$work/unclipped"
is "a norm that nothing measured should be null" grep -q '"grad_norm": null, ' "$work/unclipped/log.jsonl"
expect 0 "1 steps" train unet-small $small --steps 1 --set optimizer.clip=1 --out "$work/clipped"
is "a norm that clipping measured should be a number" grep -q '"grad_norm": [0-9.]*[1-9]' "$work/clipped/log.jsonl"
is "its loss should not be finite" grep -q '"loss": null' "$work/lost/log.jsonl"
expect 0 "1 steps" train --resume "$work/lost" --steps 5

# no steps at all: given weights as a run that can be sampled, or goes on as if it had begun there
expect 0 "holds the starting weights" train unet-small $small --steps 0 --init "$work/whole/step-000006.safetensors" --init-partial --out "$work/taken"
expect 0 "step 0, averaged weights" sample "$work/taken" -n 1 --steps 2 --quiet
expect 0 "2 steps" train --resume "$work/taken" --steps 2
expect 0 "2 steps" train unet-small $small --steps 2 --init "$work/whole/step-000006.safetensors" --init-partial --out "$work/taken2"
is "a run of no steps should go on to the bits of one that began with them" cmp -s "$work/taken/step-000002.safetensors" "$work/taken2/step-000002.safetensors"

# a signal: finish the step, save, exit 0, say how to go on
# under_way RUN: waits until its log has grown beyond what it was
size() { if [ -e "$1/log.jsonl" ]; then wc -c < "$1/log.jsonl"; else echo 0; fi; }
under_way() {
    was=$(size "$1")
    for i in $(seq 600); do [ "$(size "$1")" -gt "$was" ] && break; sleep 0.1; done
}
# signalled SIGNAL RUN OPTION...: the run under way gets it
signalled() {
    signal=$1 run=$2
    shift 2
    "$program" train "$@" --quiet > "$work/out" 2>&1 &
    pid=$!
    under_way "$run"
    kill -$signal $pid
    wait $pid
    is "SIG$signal should end with 0" [ $? = 0 ]
}
signalled INT "$work/signal" unet-small $small --steps 1000000 --out "$work/signal"
is "SIGINT should say how to go on" grep -q -- "--resume $work/signal" "$work/out"
is "SIGINT should leave a checkpoint" sh -c "ls $work/signal | grep -q json"
signalled TERM "$work/it's a run" unet-small $small --steps 1000000 --out "$work/it's a run"
again=$(sed -n 's/.*continue with: plimsoll //p' "$work/out")
is "what it says to go on with should work as it stands" sh -c "'$program' $again --steps 1 --quiet | grep -q 'nothing left'"

# a terminal that is closed, and a reader of the progress that has gone
signalled HUP "$work/signal" --resume "$work/signal"
is "SIGHUP should save and say how to go on" grep -q "stopped at step" "$work/out"
"$program" train unet-small $small --steps 120 --out "$work/pipe" 2>&1 > /dev/null | head -1 > "$work/out"
is "a closed pipe should not stop a run" [ -e "$work/pipe/step-000120.json" ]

# closed streams: what is said goes nowhere, and not into a file of the run
"$program" train unet-small $small --steps 3 --out "$work/closed" <&- >&- 2>&-
is "results that nobody can read should fail" [ $? = 1 ]
is "the log should hold its lines alone" [ "$(grep -c '^{"step": ' "$work/closed/log.jsonl") $(wc -l < "$work/closed/log.jsonl")" = "3 3" ]
"$program" train --resume "$work/closed" --steps 5 <&- 2>&- > "$work/out"
is "progress that nobody can read should not" [ $? = 0 ]
is "the log should hold its lines alone then too" [ "$(grep -c '^{"step": ' "$work/closed/log.jsonl") $(wc -l < "$work/closed/log.jsonl")" = "5 5" ]

# half an image, from a run that was killed while it drew
drawing="--set sample.every=1 --set sample.n=1 --set sampler.steps=2"
"$program" train unet-small $small $drawing --steps 1 --out "$work/drew" --quiet > "$work/out" 2>&1
: > "$work/drew/samples/000001/.plimsoll-1-7.tmp"
expect 0 "1 steps" train --resume "$work/drew" --steps 2
is "no half should stay" [ ! -e "$work/drew/samples/000001/.plimsoll-1-7.tmp" ]

# results from a run that is under way and keeps one checkpoint alone
"$program" train unet-small $small --steps 1000000 --set save.every=1 --set save.keep=1 --out "$work/way" --quiet > "$work/out1" 2>&1 &
pid=$!
for i in $(seq 600); do ls "$work/way" 2> /dev/null | grep -q '^step.*json$' && break; sleep 0.1; done
bad=0
for i in $(seq 40); do
    "$program" sample "$work/way" -n 1 --steps 1 -o "$work/seen" --quiet > "$work/out" 2>&1 || bad=$((bad + 1))
done
is "$bad of 40 samples from a run under way failed" [ $bad = 0 ]
for i in $(seq 10); do
    "$program" evaluate "$work/way" -n 1 --timesteps 1 --draw 0 --quiet > "$work/out" 2>&1 || bad=$((bad + 1))
done
is "$bad of 10 evaluations of a run under way failed" [ $bad = 0 ]
kill -INT $pid
wait $pid

# one process a folder
"$program" train --resume "$work/signal" --quiet > "$work/out1" 2>&1 &
pid=$!
under_way "$work/signal"
expect 1 "is in use by another process" train --resume "$work/signal"
kill -INT $pid
wait $pid
is "the run that was there first goes on" [ $? = 0 ]

# a full disk: one sentence, the old checkpoint stays
(ulimit -f 40; "$program" train --resume "$work/half" --steps 9 --quiet > "$work/out" 2> "$work/err")
is "a file size limit should fail with 1" [ $? = 1 ]
is "a file size limit should be said" grep -q "cannot write" "$work/err"
is "the last good checkpoint should stay" test -s "$work/half/step-000006.safetensors"
is "no temporary file should stay" [ -z "$(find "$work/half" -name '*.tmp*')" ]

# sampling, and data that cannot be read
expect 0 "samples.png" sample "$work/half" -n 3 --steps 4 -o "$work/drawn" --quiet
is "sample should write a sheet and three images" [ "$(ls "$work/drawn" | grep -c png)" = 4 ]
mkdir "$work/again" && : > "$work/again/.plimsoll-1-7.tmp"        # half of an image, from a run that was killed
"$program" sample "$work/half" -n 3 --steps 4 -o "$work/again" --quiet > /dev/null 2>&1
is "half an image should not stay" [ ! -e "$work/again/.plimsoll-1-7.tmp" ]
is "the same seed should give the same image" cmp -s "$work/drawn/samples.png" "$work/again/samples.png"
"$program" sample "$work/half" -n 3 --steps 4 --seed 9 -o "$work/other" --quiet > /dev/null 2>&1
is "another seed should give another" sh -c "! cmp -s $work/drawn/samples.png $work/other/samples.png"
expect 0 "raw weights" sample "$work/half" -n 1 --steps 2 --no-ema -o "$work/raw" --quiet
expect 0 '"planned_bytes"' sample "$work/half" -n 1 --steps 2 -o "$work/raw" --json
sashimi="sashimi-small --set model.length=64 --set model.width=8 --set model.layers=1 --set batch=1"
expect 0 "1 steps" train $sashimi --steps 1 --out "$work/audio"
expect 2 "was trained at 64, not 128" sample "$work/audio" --set model.length=128 -n 1
expect 0 "1 drawn" sample "$work/audio" --set sampler.length=128 -n 1
expect 2 "sampler.guidance: sashimi has no text" sample "$work/audio" -n 1 --guidance 2
expect 2 "is not a run" sample "$work"
expect 2 "takes no text" sample "$work/half" --prompt "a disc"
expect 2 "not UTF-8 (byte 3)" sample "$work/half" --prompt "$(printf 'caf\351')"
expect 2 "takes no input" sample "$work/half" --input "$work/drawn"
expect 2 "takes 1 to 4096" sample "$work/half" -n 0
expect 2 "at most" sample "$work/half" -n 1 --steps 5000
expect 1 "no complete checkpoint of step 77" sample "$work/half" --checkpoint 77
expect 3 "smaller -n" sample "$work/half" --budget 1KiB
expect 3 "raise the budget to that" sample "$work/half" -n 1 --budget 1KiB
expect 1 "cannot make the folder" sample "$work/half" -n 1 --steps 4 -o "$work/half/recipe.yaml"
is "a folder that cannot be made is found before drawing" sh -c "! grep -q sampling '$work/err'"

# measuring
expect 0 "the mean of 2 timesteps" evaluate "$work/half" -n 2 --timesteps 2
expect 0 "raw weights" evaluate "$work/half" -n 2 --timesteps 2 --weights raw --batch 2
expect 0 '"fingerprint"' evaluate "$work/half" -n 1 --timesteps 1 --json -o "$work/measured.json"
is "evaluate should write its JSON" grep -q '"loss"' "$work/measured.json"
expect 2 "takes ema or raw, not 'best'" evaluate "$work/half" --weights best
expect 2 "has only" evaluate "$work/half" -n 1 --timesteps 100001
expect 2 "-n 3 is not a multiple of --batch 2" evaluate "$work/half" -n 3 --batch 2
expect 2 "there are no images to write" evaluate "$work/half" -n 1 --pairs "$work/never"
expect 2 "is not a run" evaluate "$work"
expect 2 "takes one run" evaluate
expect 1 "no complete checkpoint of step 77" evaluate "$work/half" --checkpoint 77
expect 1 "never" evaluate "$work/half" --data "$work/never"
expect 3 "raise the budget to that" evaluate "$work/half" --budget 1KiB
expect 2 "--features takes two files" evaluate --features "$work/whole"
expect 1 "whole" evaluate --features "$work/whole/recipe.yaml" "$work/whole/recipe.yaml"

# audio without loss
expect 0 "1 steps" train $sashimi --set data.scaling=none --set model.bits=16 --steps 1 --out "$work/exact"
song="$work/audio/samples/audio-000.wav"
expect 0 "bits per sample" compress "$work/exact" "$song" -o "$work/song.plz"
expect 0 "128 samples" decompress "$work/exact" "$work/song.plz" -o "$work/song.wav"
is "decompress should give the file back" cmp -s "$song" "$work/song.wav"
expect 2 "data.scaling: none" compress "$work/audio" "$song" -o "$work/never"
expect 2 "needs a run of sashimi" compress "$work/half" "$song" -o "$work/never"
expect 2 "compress takes a run" compress "$work/exact" "$song"
expect 1 "is not a WAV file" compress "$work/exact" "$work/half/recipe.yaml" -o "$work/never"
expect 2 "use --threads" decompress "$work/exact" "$work/song.plz" -o "$work/never" --threads 7
expect 2 "not a file of plimsoll compress" decompress "$work/exact" "$song" -o "$work/never"
head -c 150 "$work/song.plz" > "$work/short.plz"
expect 1 "short.plz is damaged" decompress "$work/exact" "$work/short.plz" -o "$work/never"
(cat "$work/song.plz"; echo) > "$work/long.plz"
expect 1 "bytes follow its end" decompress "$work/exact" "$work/long.plz" -o "$work/never"
expect 3 "raise the budget to that" compress "$work/exact" "$song" -o "$work/never" --budget 1KiB
is "nothing should be written after a refusal" [ ! -e "$work/never" ]
expect 2 "did you mean 'shapes'" train --out none unet-small $small --set data.kind=shaps
expect 1 "holds no images (.png, .jpg)" train unet-small $small --steps 1 --data "$work/whole" --out "$work/never"
is "a run that cannot start should leave nothing" [ ! -e "$work/never" ]
expect 0 "2 steps" train --out none unet-small $small --steps 2 --data "$work/drawn"
expect 0 "1 steps" train unet-small $small --steps 1 --data "$work/drawn" --out "$work/fewer"
mv "$work/drawn/sample-000.png" "$work/kept.png"
expect 0 "data: 3 samples now, 4 at step 1" train --resume "$work/fewer" --steps 2
mv "$work/kept.png" "$work/drawn/sample-000.png"
mkdir "$work/it's \\"
cp "$work/drawn/sample-000.png" "$work/it's \\"
expect 0 "2 steps" train --out none unet-small $small --steps 2 --data "$work/it's \\"
head -c 60 "$work/drawn/sample-000.png" > "$work/drawn/short.png"
expect 1 "short.png is a truncated PNG" train --out none unet-small $small --steps 1 --data "$work/drawn"

# plans of training steps
tight="--threads 2 --effort 300 --allow none"
"$program" fit unet-small $small $tight --budget 1KiB > /dev/null 2> "$work/err"
minimum=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$work/err")
expect 0 "changes no number" fit unet-small $small $tight --budget "$minimum" -o "$work/plan.json"
expect 3 "no plan fits" fit unet-small $small $tight --budget 1KiB --json
expect 0 '"curve"' fit unet-small $small $tight --budget "$minimum" --curve --json
expect 0 "if you also allow" fit unet-small $small $tight --budget "$minimum" --what-if --time-limit 2
expect 0 "Proof, under these levers" fit unet-small $small $tight --budget "$minimum" --prove --prove-limit 1
expect 0 '"gap_percent"' fit unet-small $small $tight --budget "$minimum" --prove --prove-limit 1 --json
expect 3 "the time limit came before a plan within" fit unet-small --budget 11MiB --time-limit 0.001
expect 3 "no plan needs less" fit unet-small $small $tight --budget 1KiB --prove --effort 100
# the minimum is exactly what its plan needs: that many bytes are enough, and one byte less is refused with the same minimum
whole="unet-small --backend builtin --threads 2 --effort 20 --allow none"
"$program" fit $whole --budget 1KiB > /dev/null 2> "$work/err"
minimum=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$work/err")
expect 0 "\"peak_bytes\": $minimum," fit $whole --budget "$minimum" --json
expect 3 "($((minimum - 1)) bytes): this model needs at least" fit $whole --budget $((minimum - 1))
is "the same minimum should be named" grep -q "at least .* ($minimum bytes)" "$work/err"
expect 2 "--allow takes none or a list" fit unet-small --allow everything
expect 0 "planned = " train unet-small $small --threads 2 --steps 2 --plan "$work/plan.json" --out "$work/planned"
is "a run keeps its plan" cmp -s "$work/plan.json" "$work/planned/plan.json"
expect 0 "4 steps" train --resume "$work/planned" --threads 2 --steps 6
expect 0 "2 steps" train unet-small $small --threads 1 --steps 2 --out "$work/single"
expect 0 "1 steps" train --resume "$work/single" --steps 3                        # by one thread again
is "a resumed run keeps its thread count" grep -q '"threads": 1,' "$work/single/plan.json"
expect 1 "was made for 2 threads, not 1" train --resume "$work/planned" --threads 1 --steps 8
expect 1 "was made for 2 threads, not 1" train --out none unet-small $small --threads 1 --steps 1 --plan "$work/plan.json"
expect 1 "was made for another graph" train --out none unet-small $small --threads 2 --steps 1 --plan "$work/plan.json" --set ema.rule=none
expect 1 "micro-batches" train --out none unet-small $small --threads 2 --steps 1 --plan "$work/plan.json" --batch 3
expect 1 "bare graph" train --out none unet-small $small --steps 1 --plan "$work/p.json"
expect 1 "cannot read" train --out none unet-small $small --steps 1 --plan "$work/nothing.json"
expect 2 "leave out --budget" train --out none unet-small $small --plan "$work/plan.json" --budget 1GiB

# devices and the probe
expect 0 "described by its profile: no workspaces counted" explain unet-small --device rtx-3060
# explain's minimum and the curve may do what fit may do on a GPU unasked, unless the host has no room
expect 0 '"minimum_how": "state on the host, host transfers' explain dit3d-small --device rtx-3060 --json
minimum=$(sed -n 's/^ *"minimum_bytes": \([0-9]*\).*/\1/p' "$work/out")
expect 0 "every buffer placed" fit dit3d-small --device rtx-3060 --budget "$minimum" --effort 3000
for bytes in 1KiB 8MiB; do
    expect 0 "all levers together" explain dit3d-small --device rtx-3060 --host-budget $bytes --what-if --time-limit 5
    expect 3 "Use that minimum as the budget" fit dit3d-small --device rtx-3060 --host-budget $bytes --budget 570MB --effort 300
done
expect 0 '"minimum_how": "' explain dit3d-small --device rtx-3060 --host-budget 1KiB --json
is "what the host has no room for should not be in the minimum" [ -z "$(grep 'minimum_how.*on the host' "$work/out")" ]
expect 0 '"minimum_how": "EMA on the host' explain dit3d-small --device rtx-3060 --host-budget 8MiB --json
expect 0 '"transfers": 3' fit dit3d-small --device rtx-3060 --budget 585MB --curve --effort 300 --json
expect 0 "of context, libraries" fit unet-small --device h200 --budget 1GiB --effort 20
expect 0 '"source": "roofline of profile l4"' explain unet-small --device l4 --json
expect 0 "probe measures more" explain unet-small
expect 0 '"runtime_bytes"' fit unet-small --json
expect 3 "no plan fits 540 MiB" fit unet-small --device a10 --budget 540MiB --effort 20
minimum=$(sed -n 's/.*at least [^(]*(\([0-9]*\) bytes).*/\1/p' "$work/err")
expect 3 "leaves nothing for an arena" fit unet-small --device a10 --budget 500MiB --effort 20
is "the minimum is named also where the GPU's context alone is too much" grep -q "at least .* ($minimum bytes)" "$work/err"
expect 3 "\"minimum_bytes\": $minimum" fit unet-small --device a10 --budget 1 --effort 20 --json
expect 0 "fits" fit unet-small --device a10 --budget "$minimum" --effort 20
expect 3 "\"minimum_bytes\": $minimum" fit unet-small --device a10 --budget 540MiB --effort 20 --json
expect 0 '"budget_bytes": 1073741824' fit unet-small --device a10 --budget 1GiB --effort 20 --json
expect 0 '"fits": false' explain unet-small --device a10 --budget 500MiB --effort 20 --json
# what a table says can be typed: on a GPU, budgets hold its runtime
named=$("$program" explain unet-small --device a10 --what-if --effort 20 --json | sed -n 's/.*fit --allow none --budget \([0-9]*\).*/\1/p')
is "two rows should name a budget, not $named" [ "$(echo "$named" | wc -w)" = 2 ]
for budget in $named; do
    expect 0 "every buffer placed" fit unet-small --device a10 --allow none --effort 20 --budget "$budget"
done
expect 2 "did you mean 'rtx-3090'" explain unet-small --device rtx3090
expect 2 "no device or file 'nothing-like-it-at-all'" explain unet-small --device nothing-like-it-at-all
expect 2 "can be planned for (explain, fit) but not run" train --out none unet-small --device v100-16gb
expect 2 "can be planned for" train --out none unet-small --device generic-cpu
expect 2 "holds for 8 threads, not 3" explain unet-small --device generic-cpu --threads 3
expect 1 "README.md:1" explain unet-small --device README.md
expect 2 "probe takes no arguments" probe unet-small
expect 2 "probe measures this machine" probe --device h200
expect 2 "is not a size" probe --take plenty
expect 2 "there is no recipe" probe --model no-such-recipe-anywhere --take 1MiB -o "$work/machine.json"
is "a probe that cannot be done should begin nothing" sh -c "! '$program' probe --model unet-smal --take 1MiB 2> /dev/null | grep -q ."
is "what is no device should not be listed as one" sh -c "! '$program' explain unet-small --device no-such-GPU 2>&1 | grep -q cudnn"
is "a probe that fails should write nothing" [ ! -e "$work/machine.json" ]
expect 0 "1.00 MiB taken and written" probe --take 1MiB -o "$work/machine.json"
expect 0 "operators" probe --model unet-small --seconds 0 --set batch=1 -o "$work/machine.json"
is "adding a recipe should not take memory again" sh -c "! grep -q taken '$work/out'"
expect 2 "reads a folder of images" probe --model dit3d-wrap-small --model lag-4x3 --seconds 0 --set batch=1 -o "$work/machine.json"
expect 0 "profile cpu: 100 % measured" explain dit3d-wrap-small --set batch=1 --device "$work/machine.json"
expect 0 "profile cpu: 100 % measured" explain unet-small --set batch=1 --device "$work/machine.json"
expect 0 "from other sizes" explain unet-small --set batch=2 --device "$work/machine.json"
expect 0 "by profile cpu;" train --out none unet-small --set batch=1 --steps 2 --device "$work/machine.json"
expect 0 '"predicted_ms"' train --out none unet-small --set batch=1 --steps 1 --json
mkdir -p "$work/config/plimsoll" && cp "$work/machine.json" "$work/config/plimsoll/cpu.json"
expect 0 '"source": "profile cpu"' explain unet-small --json
expect 0 "measured with" explain unet-small --threads 7
echo '{"format": 3}' > "$work/config/plimsoll/cpu.json"
expect 0 "cpu.json:1:" explain unet-small
rm "$work/config/plimsoll/cpu.json"

echo "$passed passed, $failed failed"
[ $failed = 0 ]
