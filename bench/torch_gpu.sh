#!/bin/bash
# Everything about the Python package that needs a GPU, in one call of at most ten minutes or in several:
#
#     bench/torch_gpu.sh OUT MODELS_FILE [PART...]
#
# PART is one of these, each with a log OUT/PART.txt and its limit in seconds; default: all, in this order:
#     build       the library and the program, unless build/ has ones that run here
#     allocator   the model of PyTorch's allocator against the allocator: random traces and training runs under 7 settings
#     gradients   fit: gradients bit for bit, budgets held
#     workspaces  cuDNN's workspaces, measured, into OUT/convolutions.json
#     peaks       plimsoll.explain against measured peaks, AdamW as it comes and fused, into OUT/peaks.json
#     live        where a peak differs: the tensors that only one side has
#     fit         fit against gradient checkpointing, eager, into OUT/fit.json
#     compiled    the same compiled, against activation_memory_budget, into OUT/compiled.json
#     examples    the package installed, and what needs no GPU there, with this machine's PyTorch
# Calls that each stay within ten minutes: `build allocator gradients workspaces`; `peaks live`; `fit`; `compiled`. The limits of these
# four add up to more than half an hour, so with less time leave out what is known already.
# A part that fails or is stopped at its limit leaves its log, and the next one begins. The last lines of each are printed.
# PYTHON: an interpreter with PyTorch, transformers and diffusers. DEVICE=cpu MODELS_FILE=small tries the lines without a GPU.
set -u
out=$(mkdir -p "$1" && cd "$1" && pwd)
models=$2
shift 2
[ "$models" = small ] || models=$(realpath "$models")
cd "$(dirname "$0")/.." || exit 1
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
export PYTHONUNBUFFERED=1 PLIMSOLL_LIBRARY=$PWD/build/libplimsoll.so
failed=0

part() { # NAME SECONDS COMMAND...
    local name=$1 limit=$2 begun=$SECONDS status
    shift 2
    timeout --kill-after=10 "$limit" "$@" > "$out/$name.txt" 2>&1
    status=$?
    case $status in
        0) ;;
        77) echo "$name: skipped" ;;
        124 | 137) echo "$name: stopped after $limit s"; failed=1 ;;
        *) echo "$name: failed ($status)"; failed=1 ;;
    esac
    echo "== $name, $((SECONDS - begun)) s"
    tail -n 14 "$out/$name.txt"
}

build_here() {
    build/plimsoll --version && "$python" -c "import ctypes; ctypes.CDLL('$PLIMSOLL_LIBRARY')" && return
    cmake -S . -B build -DPLIMSOLL_TESTS=OFF -DPLIMSOLL_CUDA=OFF && cmake --build build -j 16 --target plimsoll plimsoll_library
}
export -f build_here
export python

for name in ${*:-build allocator gradients workspaces peaks live fit compiled examples}; do
    case $name in
        build) part build 180 bash -c build_here ;;
        allocator) part allocator 170 "$python" tests/torchmem/gpu_traces.py build/plimsoll --traces 30 --trainings 4 --jobs 7 ;;
        gradients) part gradients 170 "$python" tests/python/gpu.py build/libplimsoll.so --device "$device" ;;
        workspaces) part workspaces 60 "$python" bench/torch_workspaces.py "$models" --out "$out/convolutions.json" ;;
        peaks) part peaks 390 "$python" bench/torch_peaks.py --measure "$models" --limit 350 --json "$out/peaks.json" ;;
        live) part live 130 "$python" bench/torch_live.py "$models" --rows 8 ;;
        fit) part fit 340 "$python" bench/torch_fit.py "$models" --precision bf16 --together 6 --limit 280 --device "$device" --json "$out/fit.json" ;;
        compiled) part compiled 440 "$python" bench/torch_fit.py "$models" --precision bf16 --compile --together 6 --limit 340 \
            --device "$device" --json "$out/compiled.json" ;;
        examples) part examples 180 bash -c 'for t in capture convolutions checkpoint; do
                "$python" tests/python/$t.py build/libplimsoll.so | grep -v ^ok; echo "$t: ${PIPESTATUS[0]}"; done' ;;
        *) echo "$name is no part: see the head of $0"; exit 2 ;;
    esac
done
exit $failed
