#!/bin/sh
# Writes the man pages and the completion of bash, zsh and fish, as the program makes them from its tables.
#   manual.sh PROGRAM FOLDER
set -eu
program=$1 out=$2
rm -rf "$out" && mkdir -p "$out/man1" "$out/man5"
"$program" help --man > "$out/man1/plimsoll.1"
for command in $("$program" help | sed -n 's/^  plimsoll \([a-z]*\) .*/\1/p' | grep -vx help) help; do
    "$program" help "$command" --man > "$out/man1/plimsoll-$command.1"
done
"$program" help recipe --man > "$out/man5/plimsoll-recipe.5"
"$program" help --completion bash > "$out/plimsoll"
"$program" help --completion zsh > "$out/_plimsoll"
"$program" help --completion fish > "$out/plimsoll.fish"
touch "$out/made"
