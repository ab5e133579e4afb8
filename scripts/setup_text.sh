#!/bin/sh
# The original tokenizers and text towers, which ours are compared with, in .venv: transformers' DistilBERT, OpenCLIP's tokenizer
# (its file alone is used; what else that package needs is not installed), and tokenizers. Does nothing when they are there.
set -eu
cd "$(dirname "$0")/.."
scripts/setup_torch.sh
.venv/bin/python -c 'import transformers, tokenizers, ftfy, regex, importlib.metadata as m; m.version("open_clip_torch")' > /dev/null 2>&1 && exit 0
echo "plimsoll: installing transformers 4.57.6 and open_clip_torch 3.3.0 into .venv for comparisons"
.venv/bin/pip install -q transformers==4.57.6 ftfy==6.3.1 regex
.venv/bin/pip install -q --no-deps open_clip_torch==3.3.0
