#!/bin/sh
# A virtual environment with PyTorch (CPU), numpy, safetensors, msgpack and pillow in .venv, for the tests and benches that
# compare with PyTorch and PIL. About a minute; nothing is done when it is there.
set -eu
cd "$(dirname "$0")/.."
.venv/bin/python -c 'import torch, numpy, safetensors, PIL, msgpack' > /dev/null 2>&1 && exit 0
echo "plimsoll: making .venv with torch 2.13.0, numpy, safetensors, msgpack and pillow 13.0.0 for comparisons"
if ! python3 -m venv .venv > /dev/null 2>&1; then
    [ "$(id -u)" = 0 ] || { echo "plimsoll: please install python3-venv" >&2; exit 1; }
    apt-get update -qq && apt-get install -y -qq python3-venv > /dev/null
    python3 -m venv .venv
fi
.venv/bin/pip install -q torch==2.13.0 numpy safetensors msgpack pillow==13.0.0
