#!/usr/bin/env bash
# h200_torch.sh PART BUILD MODELS_FILE OUT -- what only a GPU can show of the Python package, in parts of at most nine minutes.
#
#   traces      the model of PyTorch's allocator against the allocator: 34 random traces (238 in all)
#               and 3 runs of training (21 in all) under each of 7 settings (tests/torchmem/gpu_traces.py)
#   workspaces  cuDNN's workspaces of the models' convolutions, to OUT/convolutions.json (bench/torch_workspaces.py)
#   peaks       measured peaks with AdamW and AdamW(fused=True) against predictions (bench/torch_peaks.py --measure)
#   fit         plimsoll.fit against gradient checkpointing, bf16 (bench/torch_fit.py); fit32: fp32
#   compiled    the same compiled, against activation_memory_budget, bf16; compiled32: fp32
#   list        what `workspaces` would measure: needs no GPU
#
# MODELS_FILE is peaks.py of the measured table, whose `Z` makes the models; diffusers and transformers must be importable. BUILD
# holds plimsoll and libplimsoll.so. `workspaces` comes first: copy its table to python/plimsoll, and `peaks` uses it. Everything that
# is printed also goes to OUT/PART.txt as it comes, and figures to OUT/DATE-MACHINE-KIND.json. Exit code 77: no GPU.
set -euo pipefail
[ $# = 4 ] || { sed -n '2,14p' "$0" >&2; exit 2; }
part=$1 build=$(realpath "$2") models=$(realpath "$3") out=$4
cd "$(dirname "$0")/.."
python=${PYTHON:-python3} limit=${LIMIT:-540}
mkdir -p "$out"
out=$(realpath "$out")
export PYTHONUNBUFFERED=1 PYTHONPATH=$PWD/python:$PWD/bench${PYTHONPATH:+:$PYTHONPATH} PLIMSOLL_LIBRARY=$build/libplimsoll.so
export BENCH_MACHINE=${BENCH_MACHINE:-h200}
results() { echo "$out/$(date +%F)-$BENCH_MACHINE-$1.json"; }
if [ "$part" != list ] && ! "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
    echo "no CUDA GPU here" >&2
    exit 77
fi
# What is cut off keeps what it has printed; the inner limits leave time for the last row.
cut() { timeout --kill-after=5 "$limit" "$@" 2>&1 | tee "$out/$part.txt"; }
fit() { cut "$python" bench/torch_fit.py "$models" --precision "$1" --together 8 --limit "$((limit - 150))" --json "$(results "$2")" "${@:3}"; }
case $part in
traces) cut "$python" tests/torchmem/gpu_traces.py "$build/plimsoll" --traces 34 --trainings 3 --jobs 4 --keep "$out" ;;
workspaces) cut "$python" bench/torch_workspaces.py "$models" --out "$out/convolutions.json" ;;
list) cut "$python" bench/torch_workspaces.py "$models" --list ;;
peaks) cut "$python" bench/torch_peaks.py --measure "$models" --limit "$((limit - 60))" --json "$(results torch-peaks)" ;;
fit) fit bf16 torch-fit ;;
fit32) fit fp32 torch-fit-fp32 ;;
compiled) fit bf16 torch-fit-compiled --compile ;;
compiled32) fit fp32 torch-fit-compiled-fp32 --compile ;;
*) echo "h200_torch.sh: there is no part '$part'" >&2; exit 2 ;;
esac
