#!/bin/sh
# Prints the path of a Python that has JAX, Flax and Hugging Face's Flax models, which the test of StableHLO text lowers:
# in .venv-jax. PLIMSOLL_JAX names another. Installs them where they are missing.
set -eu
cd "$(dirname "$0")/.."
python=${PLIMSOLL_JAX:-.venv-jax/bin/python}
if ! "$python" -c 'import jax, flax, safetensors, transformers' > /dev/null 2>&1; then
    echo "plimsoll: installing JAX, Flax and transformers into .venv-jax" >&2
    python3 -m venv .venv-jax
    python=.venv-jax/bin/python
    "$python" -m pip install -q jax flax safetensors numpy >&2
    # The last release series with Flax models; without dependencies, which would install PyTorch's.
    "$python" -m pip install -q --no-deps transformers==4.49.0 'huggingface_hub<0.30' 'tokenizers<0.22' >&2
    "$python" -m pip install -q regex requests packaging tqdm filelock pyyaml >&2
fi
echo "$python"
