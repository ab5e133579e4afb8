#!/bin/sh
# The CUDA libraries' headers and files in .venv-cuda, from their PyPI packages, for building the CUDA
# plugin where nvcc is but cuBLASLt and cuDNN are not, and NCCL for several GPUs. About 1.2 GB; nothing is done when they are there.
set -eu
cd "$(dirname "$0")/.."
if ! command -v nvcc > /dev/null 2>&1 && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "plimsoll: no nvcc here, so no CUDA plugin; install the CUDA 13 toolkit to build it"
    exit 0
fi
has() { ls .venv-cuda/lib/python*/site-packages/nvidia/$1 > /dev/null 2>&1; }
has cudnn/include/cudnn.h && has nccl/include/nccl.h && exit 0
echo "plimsoll: fetching cuDNN, cuBLAS and NCCL for the CUDA plugin into .venv-cuda"
if ! python3 -m venv .venv-cuda > /dev/null 2>&1; then
    [ "$(id -u)" = 0 ] || { echo "plimsoll: please install python3-venv" >&2; exit 1; }
    apt-get update -qq && apt-get install -y -qq python3-venv > /dev/null
    python3 -m venv .venv-cuda
fi
.venv-cuda/bin/pip install -q --no-deps nvidia-cudnn-cu13==9.19.0.56 nvidia-cublas==13.1.0.3 \
    nvidia-cuda-nvrtc==13.0.88 nvidia-nccl-cu13==2.30.7
