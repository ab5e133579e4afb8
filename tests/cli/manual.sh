#!/bin/sh
# Man pages without a complaint of mandoc's, one for each command; completion that bash, zsh and fish read, and that completes.
#   manual.sh PROGRAM WORK_FOLDER
set -u
program=$1 work=$2
failed=0 skipped=""
"$(dirname "$0")/../../scripts/manual.sh" "$program" "$work" || exit 1
is() { what=$1; shift; "$@" || { echo "$what"; failed=1; }; }
for command in $("$program" help | sed -n 's/^  plimsoll \([a-z]*\) .*/\1/p' | sort -u); do
    [ "$command" = help ] || is "$command has no page" [ -s "$work/man1/plimsoll-$command.1" ]
done
if command -v mandoc > /dev/null; then
    for page in "$work"/man?/*; do
        mandoc -T lint -W warning "$page" 2>&1 | grep -v 'missing date' > "$work/lint"    # a date would change with every build
        [ ! -s "$work/lint" ] || { echo "$page:"; sed 's/^/    /' "$work/lint"; failed=1; }
    done
    is "train's page lacks --steps" sh -c "mandoc -T ascii '$work/man1/plimsoll-train.1' | col -b | grep -q -- '--steps N'"
    is "recipe's page lacks optimizer.lr" sh -c "mandoc -T ascii '$work/man5/plimsoll-recipe.5' | col -b | grep -q 'lr: 0.0001'"
else
    skipped="$skipped mandoc"
fi
folder=$(dirname "$program")
# completes LINE WORD: bash completes the last word of LINE to WORD, among others
completes() {
    PATH="$folder:$PATH" bash -c '
        source "$1"
        COMP_WORDS=($2); [ "${2% }" = "$2" ] || COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _plimsoll plimsoll "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]}"' _ "$work/plimsoll" "$1" 2> /dev/null | grep -qxF -- "$2"
}
if command -v bash > /dev/null; then
    for pair in "plimsoll ex|explain" "plimsoll train un|unet-small" "plimsoll train unet-small --st|--steps" "plimsoll fit --device h2|h200" \
        "plimsoll fit unet-small --precision b|bf16" "plimsoll train x --set optimizer.l|optimizer.lr=" "plimsoll list |recipes" \
        "plimsoll train x --set model.sde_|model.sde_dt="; do
        is "bash does not complete '${pair%|*}' to '${pair#*|}'" completes "${pair%|*}" "${pair#*|}"
    done
fi
if command -v zsh > /dev/null; then is "zsh does not read its completion" zsh -n "$work/_plimsoll"; else skipped="$skipped zsh"; fi
if command -v fish > /dev/null; then is "fish does not read its completion" fish -n "$work/plimsoll.fish"; else skipped="$skipped fish"; fi
[ -z "$skipped" ] || echo "not installed, their parts are skipped:$skipped"
exit $failed
