#!/bin/sh
# Lines of source have at most 100 columns. Files that were longer before the rule are listed, and come
# off the list as they are mended; no other file may join them.
cd "$(dirname "$0")/.." || exit 1
find src bench tests -name '*.[ch]' -o -name '*.cu' | xargs awk '
  FILENAME == list { old[$1] = 1; next }
  length > 100     { long[FILENAME]++
                     if (!(FILENAME in old)) { print FILENAME ":" FNR ": " length " columns"; bad = 1 } }
  END              { for (f in old) if (f in long) n++; else { print f " has no long line: take it off " list; bad = 1 }
                     if (!bad) print "lines: at most 100 columns, but for " n + 0 " older files"
                     exit bad }
' list=scripts/long_lines.txt scripts/long_lines.txt
