#!/bin/sh
# Prints the path of a Python that has the public model libraries which the tests of imported models export from:
# diffusers, transformers, timm and torchvision beside PyTorch, in .venv-zoo. Installs them where they are missing.
set -eu
cd "$(dirname "$0")/.."
python=.venv-zoo/bin/python
if ! "$python" -c 'import diffusers, transformers, timm, torch, safetensors' > /dev/null 2>&1; then
    echo "plimsoll: installing diffusers, transformers, timm and torchvision into .venv-zoo" >&2
    python3 -m venv .venv-zoo
    .venv-zoo/bin/pip install -q torch==2.13.0 numpy safetensors >&2
    # Without dependencies: torchvision's would install another PyTorch.
    .venv-zoo/bin/pip install -q --no-deps torchvision timm diffusers transformers tokenizers accelerate >&2
    .venv-zoo/bin/pip install -q huggingface_hub regex requests packaging pyyaml tqdm pillow filelock fsspec importlib_metadata psutil >&2
fi
echo "$python"
