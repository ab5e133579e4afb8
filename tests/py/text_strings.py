"""Texts for comparing tokenizers: many scripts, emoji, punctuation, references of HTML, long and empty ones; those alone that
ftfy leaves unchanged, because OpenCLIP's tokenizer calls it and ours does not."""
import random

import ftfy

# Ranges of letters and signs that have stood in Unicode for long.
SCRIPTS = {
    "ascii": [(0x20, 0x7e)], "latin": [(0xc0, 0x24f), (0x1e00, 0x1eff)], "greek": [(0x391, 0x3a1), (0x3a3, 0x3ce), (0x1f00, 0x1f15)],
    "cyrillic": [(0x400, 0x481), (0x48a, 0x52f)], "armenian": [(0x531, 0x556), (0x561, 0x586)], "hebrew": [(0x5b0, 0x5bd), (0x5d0, 0x5ea)],
    "arabic": [(0x620, 0x64a), (0x64b, 0x655), (0x660, 0x669)], "devanagari": [(0x901, 0x939), (0x93c, 0x94d), (0x966, 0x96f)],
    "bengali": [(0x985, 0x98c), (0x9be, 0x9c4), (0x9e6, 0x9ef)], "thai": [(0xe01, 0xe3a), (0xe40, 0xe4e), (0xe50, 0xe59)],
    "tibetan": [(0xf40, 0xf47), (0xf71, 0xf7e)], "georgian": [(0x10a0, 0x10c5), (0x10d0, 0x10fa)], "ethiopic": [(0x1200, 0x1248)],
    "cherokee": [(0x13a0, 0x13f4)], "khmer": [(0x1780, 0x17b3), (0x17b6, 0x17d1)], "mongolian": [(0x1820, 0x1877)],
    "kana": [(0x3041, 0x3096), (0x30a1, 0x30fa)], "hangul": [(0xac00, 0xd7a3)], "han": [(0x4e00, 0x9fa5), (0x3400, 0x3420), (0x20000, 0x20020)],
    "marks": [(0x61, 0x7a), (0x300, 0x36f)], "numbers": [(0x30, 0x39), (0xb2, 0xb3), (0x2150, 0x2188), (0x2460, 0x249b)],
    "signs": [(0x21, 0x2f), (0x3a, 0x40), (0x5b, 0x60), (0x7b, 0x7e), (0x2010, 0x2015), (0x2020, 0x2027), (0x2030, 0x205e), (0x3001, 0x3003)],
    "symbols": [(0x2190, 0x21ff), (0x2200, 0x22ff), (0x25a0, 0x25ff), (0x2600, 0x26ff)],
    "emoji": [(0x1f300, 0x1f5ff), (0x1f600, 0x1f64f), (0x1f680, 0x1f6c5), (0x1f900, 0x1f9ff)],
    "gothic": [(0x10330, 0x1034a)], "deseret": [(0x10400, 0x1044f)], "letters of mathematics": [(0x1d400, 0x1d454), (0x1d7ce, 0x1d7ff)],
}
WORDS = ("a photo of the cat's tail, isn't it? they're we've I'm she'll he'd DON'T It'S the THE red disc moves from left to right 3d 2026 "
         "10,000 3.14 e-mail http://example.org/a?b=c&d=e C++ #1 @home 50% $5 (brackets) [list] {set} a_b snake_case CamelCase naïve café "
         "Straße ΟΔΥΣΣΕΥΣ Σ ΑΣ'Σ İstanbul ſtein K Å ǅ ﬁ ﬀ ñ ü \u0345 x\u0345 <start_of_text> <end_of_text> <START_OF_TEXT> [CLS] [SEP] [MASK] "
         "[UNK] [PAD] [cls] 😀 👩\u200d👩\u200d👧 🇩🇪 ☃ ™ © ½ Ⅷ ① 漢字 ひらがな 한국어 中文,字 สวัสดี नमस्ते مرحبا שלום "
         "supercalifragilisticexpialidocious " + "x" * 120).split()
HTML = ["&amp;", "&lt;b&gt;", "&#60;", "&#x3c;", "&copy", "&copyright", "&nosuch;", "&", "&&", "&#;", "&#x;", "&#128;", "&#0;", "&#x110000;",
        "&amp;lt;", "&CounterClockwiseContourIntegral;", "&notit;", "&#32;", "&nbsp;", "&eacute;", "&NotEqualTilde;", "&#x1F600;", "&a", "&lt"]
SPACES = [" ", "  ", "\t", "\n", " \n ", "\u00a0", "\u3000", "\u2003", " "]


def word(rng):
    kind = rng.random()
    if kind < 0.45:
        return rng.choice(WORDS)
    ranges = SCRIPTS[rng.choice(list(SCRIPTS))]
    letters = [chr(rng.randint(*rng.choice(ranges))) for _ in range(rng.randint(1, 9))]
    return "".join(letters)


def text(rng):
    n = rng.choice([0, 1, 2, 3, 5, 8, 13, 30, 120])
    out = "".join(word(rng) + rng.choice(SPACES) for _ in range(n))
    if rng.random() < 0.25:                                   # ftfy leaves references alone where there is a '<'
        out += "<" + "".join(rng.choice(HTML) + rng.choice(["", " ", "x", ";"]) for _ in range(rng.randint(1, 6)))
    return out.replace("\0", "")


def texts(n, seed=1):
    """The first n texts of the sequence that ftfy leaves unchanged."""
    rng, found = random.Random(seed), ["", " ", "a photo of a cat"]
    while len(found) < n:
        candidate = text(rng)
        if ftfy.fix_text(candidate) == candidate:
            found.append(candidate)
    return found
