#!/usr/bin/env python3
"""Writes src/text/unicode_tables.h: what tokenizers ask about characters, by this Python's unicodedata.

    make_unicode.py > src/text/unicode_tables.h

Properties are asked of the functions that the original tokenizers call, so that lower case, spaces and decomposition are
theirs by construction. The file was written by Python 3.13 (Unicode 15.1).
"""
import sys
import unicodedata

LETTER, NUMBER, PUNCTUATION, MARK, OTHER, SPACE, CASED, IGNORED = (1 << i for i in range(8))
CHARACTERS = 0x110000
SURROGATES = range(0xD800, 0xE000)


def sigma(before, after):
    """How a capital sigma between the two is lowered: the rule of Unicode's chapter 3.13."""
    return (before + "\u03a3" + after).lower()[len(before.lower())]


def properties(c):
    char = chr(c)
    kind = unicodedata.category(char)
    bits = LETTER * (kind[0] == "L") | NUMBER * (kind[0] == "N") | PUNCTUATION * (kind[0] == "P")
    bits |= MARK * (kind == "Mn") | OTHER * (kind[0] == "C") | SPACE * char.isspace()
    if c not in SURROGATES and c != 0x3a3:
        cased = sigma("a", char) == "\u03c3"
        bits |= CASED * cased | IGNORED * (not cased and sigma("a", char + "a") == "\u03c3")
    return bits | CASED * (c == 0x3a3)


def runs(function):
    """(first character, value) of every run of equal values."""
    last = None
    for c in range(CHARACTERS):
        value = function(c)
        if value != last:
            yield c, value
        last = value


def lower_runs():
    """(first, last, step, distance): of `first`, first + step, ... the lower case is `distance` behind."""
    pairs = [(c, ord(low)) for c in range(CHARACTERS) if c not in SURROGATES and len(low := chr(c).lower()) == 1 and low != chr(c)]
    at = 0
    while at < len(pairs):
        first, low = pairs[at]
        step = pairs[at + 1][0] - first if at + 1 < len(pairs) and pairs[at + 1][0] - first <= 2 else 1
        end = at
        while end + 1 < len(pairs) and pairs[end + 1] == (pairs[end][0] + step, pairs[end][1] + step):
            end += 1
        yield first, pairs[end][0], step, low - first
        at = end + 1


def decompositions():
    """(character, first, second or 0) of canonical decompositions; Hangul's are arithmetic."""
    for c in range(CHARACTERS):
        text = unicodedata.decomposition(chr(c))
        if text and text[0] != "<":
            both = [int(word, 16) for word in text.split()] + [0]
            yield c, both[0], both[1]


def table(kind, name, rows):
    print(f"\nstatic const {kind} {name}[] = {{")
    line = "   "
    for row in rows:
        item = " " + row + ","
        if len(line) + len(item) > 98:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")


print(f"""/* unicode_tables.h -- properties of characters, Unicode {unicodedata.unidata_version}. Written by scripts/make_unicode.py.
 *
 * From the Unicode Character Database, (c) Unicode, Inc., https://www.unicode.org/license.txt */
#ifndef TEXT_UNICODE_TABLES_H
#define TEXT_UNICODE_TABLES_H

#include <stdint.h>

/* clang-format off */

/* The first character of a run, times 256, and the properties of its characters (unicode.h). */""", end="")
table("uint32_t", "property_runs", [f"0x{c << 8 | bits:x}" for c, bits in runs(properties)])
print("""
typedef struct LowerRun { /* first, first + step, ... last: the lower case is `distance` behind */
    uint32_t first, last, step;
    int32_t  distance;
} LowerRun;""", end="")
table("LowerRun", "lower_runs", ["{0x%x,0x%x,%d,%d}" % run for run in lower_runs()])
print("""
typedef struct Decomposition { /* second 0: the character is another spelling of the first */
    uint32_t c, first, second;
} Decomposition;""", end="")
table("Decomposition", "decompositions", ["{0x%x,0x%x,0x%x}" % row for row in decompositions()])
print("\n/* The first character of a run, times 256, and its place among marks on one letter. */", end="")
table("uint32_t", "order_runs", [f"0x{c << 8 | order:x}" for c, order in runs(lambda c: unicodedata.combining(chr(c)))])
print("\n/* clang-format on */\n\n#endif")
