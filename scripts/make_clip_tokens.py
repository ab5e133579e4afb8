#!/usr/bin/env python3
"""Writes tokens/clip.zip: what CLIP's tokenizer needs beside code.

    make_clip_tokens.py bpe_simple_vocab_16e6.txt.gz

  merges.txt     the 48,894 byte-pair merges that are used, of the file that OpenAI's CLIP and OpenCLIP ship
                 (pip download --no-deps open_clip_torch==3.3.0; tokens/LICENSE)
  entities.txt   HTML's names of characters, as Python's html.unescape knows them: "name; 26" in code points
"""
import gzip
import html.entities
import sys
import zipfile

MERGES = 49152 - 256 - 2


def member(archive, name, text):
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))        # the same bytes whenever it is written
    info.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(info, text, compresslevel=9)


with gzip.open(sys.argv[1], "rt", encoding="utf-8") as f:
    merges = f.read().split("\n")[:1 + MERGES]
names = sorted(html.entities.html5.items(), key=lambda item: item[0].encode())
with zipfile.ZipFile("tokens/clip.zip", "w") as archive:
    member(archive, "merges.txt", "\n".join(merges) + "\n")
    member(archive, "entities.txt", "".join("%s %s\n" % (name, " ".join("%x" % ord(c) for c in text)) for name, text in names))
