#!/bin/sh
# A file may include its own room and any room on an earlier line of src/ROOMS.
cd "$(dirname "$0")/.." || exit 1
awk '
  FILENAME == "src/ROOMS" { for (i = 1; i <= NF; i++) rank[$i] = FNR; next }
  FNR == 1                { split(FILENAME, path, "/"); room = path[2] }
  /^#include "/           { split($2, inc, /["\/]/); to = inc[2]
                            if (!(to in rank) || (to != room && rank[to] >= rank[room])) {
                                print FILENAME ":" FNR ": " room " may not see " to; bad = 1 } }
  END                     { exit bad }
' src/ROOMS $(find src -name '*.[ch]' -o -name '*.cu' -o -name '*.def') && echo "rooms: every include goes to an earlier room"
