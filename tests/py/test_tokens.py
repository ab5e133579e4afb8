"""Our tokenizers against the originals, on 1,000 texts that ftfy leaves unchanged: OpenCLIP's byte-pair encoding, and BERT's
WordPiece with a vocabulary made of the texts.

    test_tokens.py PROGRAM WORK_FOLDER

PROGRAM is tests/reference/tokens.c. Every one of 77 numbers must be equal."""
import importlib.util
import os
import random
import subprocess
import sys

try:
    import ftfy  # noqa: F401
    import regex  # noqa: F401
    import torch  # noqa: F401
    from transformers import BertTokenizer
    from transformers.models.bert.tokenization_bert import BasicTokenizer

    path = os.path.join(importlib.util.find_spec("open_clip").submodule_search_locations[0], "tokenizer.py")
except (ImportError, AttributeError) as error:
    print(f"skipped: {error} (scripts/setup_text.sh installs the original tokenizers)")
    sys.exit(77)

from text_strings import texts

ROOM = 77
program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
os.makedirs(work, exist_ok=True)
several = texts(1000)


def ours(how, strings):
    said = subprocess.run([program, how], input=b"".join(s.encode() + b"\0" for s in strings), capture_output=True, check=True).stdout
    rows = [[int(number) for number in line.split()] for line in said.decode().splitlines()]
    assert len(rows) == len(strings) and all(len(row) == ROOM for row in rows)
    return rows


def compare(name, mine, theirs):
    wrong = [i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
    for i in wrong[:5]:
        k = next(k for k in range(ROOM) if mine[i][k] != theirs[i][k])
        print(f"{name}, text {i} {several[i][:200]!r}, number {k}: {mine[i][k:k + 8]}, the original has {theirs[i][k:k + 8]}")
    assert not wrong, f"{name}: {len(wrong)} of {len(mine)} texts differ"
    print(f"{name}: {len(mine)} texts, {sum(len(set(row)) > 3 for row in mine)} with words: equal")


# The file alone: the package around it imports torchvision, which is not needed.
spec = importlib.util.spec_from_file_location("open_clip_tokenizer", path)
original = importlib.util.module_from_spec(spec)
spec.loader.exec_module(original)
compare("CLIP", ours("clip", several), original.SimpleTokenizer()(several, context_length=ROOM).tolist())


def vocabulary(path):
    """All characters of half of the words, and beginnings and middles of some: most words can be divided, some cannot."""
    rng, entries = random.Random(2), {}
    basic = BasicTokenizer(do_lower_case=True)
    for string in several:
        for word in basic.tokenize(string):
            if rng.random() < 0.5:
                for char in word:
                    entries[char] = entries["##" + char] = True
            if len(word) > 2 and rng.random() < 0.7:
                cut = rng.randint(1, len(word) - 1)
                entries[word[:cut]] = entries["##" + word[cut:]] = True
    names = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *entries]
    with open(path, "w", encoding="utf-8", newline="\n") as f:
        f.write("\n".join(name for name in names if "\n" not in name) + "\n")


vocab = os.path.join(work, "vocab.txt")
vocabulary(vocab)
bert = BertTokenizer(vocab, model_max_length=ROOM)
compare("WordPiece", ours(vocab, several), bert(several, padding="max_length", truncation=True, max_length=ROOM)["input_ids"])
