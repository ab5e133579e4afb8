#!/bin/sh
# Lines of source have at most 100 columns.
cd "$(dirname "$0")/.." || exit 1
find src bench tests -name '*.[ch]' -o -name '*.cu' | xargs awk '
  length > 100 { print FILENAME ":" FNR ": " length " columns"; bad = 1 }
  END          { if (!bad) print "lines: at most 100 columns"
                 exit bad }'
