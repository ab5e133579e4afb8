#!/usr/bin/env bash
# h200_ranks.sh PART OUT -- what only a GPU can show of several ranks, in parts of at most nine minutes. One GPU is enough: ranks
# share it, and send through host memory unless NCCL can serve several ranks on one GPU (2.30 and later).
#
#   build      the program, its CUDA plugin for Hopper and the tests, to BUILD (build-ranks); needs no GPU
#   queue      the GPU's queue in a CUDA graph: host memory, and NCCL with one rank (tests/comm/queue_gpu.c)
#   bits       every small recipe with one rank, and with 2 or 4 at levels 0 to 3: the same sha256, planned = measured
#   nccl       the same with NCCL for ranks that share the GPU, where its version can
#   overlap    over a slowed link, at most a third of moving is waited for (tests/comm/overlap.py)
#   steps      dit3d-s: a step of one rank, and of two that share the GPU, with what was predicted, at levels 0, 1 and 3
#   faults     a rank that is stopped, and one that is killed: seconds until it is named and all have ended
#   memcheck, racecheck   two ranks under compute-sanitizer; racecheck looks at the kernels of ranks only
#   first      queue, bits and steps; what one part finds does not stop the next
#   second     overlap, faults and nccl
#   third      memcheck and racecheck
#   all        build, then first and second, in SECONDS_LEFT (570): for a machine whose calls have ten minutes; what no longer
#              fits is named. third is a call of its own
#
# Everything that is printed also goes to OUT/PART.txt as it comes; nothing else is left in OUT. LIMIT: seconds a part may take, if
# not those below. Exit code 77: no GPU. DEVICE=cpu tries the script itself without one, but for the parts that need it. Needs no
# network, and of the optional libraries none. Where there is an mpirun but no mpi.h, plugins that were built elsewhere are taken
# from build/ (libplimsoll_mpi_*.so, libslow_wire_*.so): take them along.
set -euo pipefail
[ $# = 2 ] || { sed -n '2,26p' "$0" >&2; exit 2; }
part=$1 out=$2
cd "$(dirname "$0")/.."
build=${BUILD:-build-ranks} device=${DEVICE:-cuda} jobs=$(nproc)
mkdir -p "$out"
out=$(realpath "$out")
export PYTHONUNBUFFERED=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
plimsoll=$build/plimsoll work=$build/ranks
if [ "$part" != build ] && [ "$device" = cuda ] && ! nvidia-smi -L > /dev/null 2>&1; then
    echo "no CUDA GPU here" >&2
    exit 77
fi
# NCCL as it comes with PyTorch, where the loader does not find one by itself.
nccl() { python3 -c 'import glob, sys
found = [f for p in sys.path for f in glob.glob(p + "/nvidia/nccl/lib/libnccl.so.2")]
print(found[0] if found else "")' 2> /dev/null; }
[ -n "${PLIMSOLL_NCCL:-}" ] || PLIMSOLL_NCCL=$(nccl)
[ -z "$PLIMSOLL_NCCL" ] && unset PLIMSOLL_NCCL || export PLIMSOLL_NCCL

# What is cut off keeps what it has printed.
cut() {
    local limit=${LIMIT:-$1}
    [ "$limit" -lt "${LEFT:-$limit}" ] || limit=${LEFT:-$limit}
    timeout --kill-after=5 "$limit" "${@:2}" 2>&1 | tee "$out/$part.txt"
}

build_all() {
    cmake -S . -B "$build" -DPLIMSOLL_CUDA=ON -DPLIMSOLL_CUDA_ARCHS=90a -DPLIMSOLL_ISAS=v3 -DPLIMSOLL_MPI=ON \
        -DPLIMSOLL_MEDIA=OFF -DPLIMSOLL_DNNL=OFF
    cmake --build "$build" -j "$jobs" --target plimsoll plimsoll_cuda test_comm_queue_gpu
    for mpi in openmpi mpich; do
        if cmake --build "$build" --target help | grep -q "plimsoll_mpi_$mpi"; then
            cmake --build "$build" -j "$jobs" --target "plimsoll_mpi_$mpi" "slow_wire_$mpi"
        else
            cp "build/libplimsoll_mpi_$mpi.so" "build/libslow_wire_$mpi.so" "$build/" 2> /dev/null || echo "there is no $mpi here"
        fi
    done
}

# One line for each run: ranks, level, milliseconds, what was predicted, how bytes travel, bytes planned and measured.
steps() {
    local work=(${MODEL:-dit3d-s} --device "$device" --batch 4 --set accumulate=2 --steps 12 --out none --json --quiet)
    show() { python3 -c 'import json, sys
r = json.load(sys.stdin); k = r.get("ranks", {})
print("%-24s step %7.2f ms, predicted %7.2f; planned %d, measured %d; runtime %d; sends %d; %s" % (sys.argv[1], r["step_ms"],
    r.get("predicted_ms", 0), r["planned_bytes"], r["measured_bytes"], r.get("runtime_bytes", 0), k.get("sent_bytes", 0), k.get("by", "")))' "$1"; }
    "$plimsoll" train "${work[@]}" | show "1 rank"
    for level in 0 1 3; do mpirun -n 2 "$plimsoll" train "${work[@]}" --shard $level | show "2 ranks, level $level"; done
}

sanitized() {
    local kernels=() failed=0
    if [ "$1" = racecheck ]; then
        for name in move_all fold_all runs_all norm_blocks norm_finish round_store_row round_sum_all update_all queue_count; do
            kernels+=(--kernel-name "kns=$name")
        done
    fi
    for level in 0 1 3; do
        mpirun -n 2 compute-sanitizer --tool "$1" "${kernels[@]}" --error-exitcode 9 "$plimsoll" train dit3d-small --device "$device" \
            --batch 1 --set accumulate=4 --shard $level --patience 600 --steps 1 --out none --quiet && echo "$1: level $level clean" || failed=1
    done
    return $failed
}
export -f build_all steps sanitized
export build device jobs plimsoll

several() {
    local failed=0 each left
    for each; do
        left=$((${DEADLINE:-$(($(date +%s) + 86400))} - $(date +%s)))
        echo "== $each"
        if [ "$left" -lt 15 ]; then
            echo "$each: no time is left for it"
            failed=1
            continue
        fi
        LEFT=$left bench/h200_ranks.sh "$each" "$out" || { failed=1; echo "$each ended with a failure"; }
    done
    rm -rf "$work"
    exit $failed
}

case $part in
build) cut 540 bash -euc build_all ;;
queue) cut 120 bash -euc 'cd "$build" && ./test_comm_queue_gpu' ;;
bits) cut 240 python3 tests/comm/bits.py "$plimsoll" "$work" --device "$device" ;;
nccl) NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=8 cut 120 python3 tests/comm/bits.py "$plimsoll" "$work" --device "$device" unet-small ;;
overlap) cut 120 python3 tests/comm/overlap.py "$plimsoll" "$work" "$device" ;;
steps) cut 120 bash -euc steps ;;
faults) cut 120 python3 tests/comm/faults.py "$plimsoll" "$work" --device "$device" ;;
memcheck | racecheck) cut 180 bash -euc "sanitized $part" ;;
first) several queue bits steps ;;
second) several overlap faults nccl ;;
third) several memcheck racecheck ;;
all)
    export DEADLINE=$(($(date +%s) + ${SECONDS_LEFT:-570}))
    bench/h200_ranks.sh build "$out" > "$out/all.txt" 2>&1 || { tail -40 "$out/all.txt"; exit 1; }
    several queue bits steps faults overlap nccl
    ;;
*) echo "h200_ranks.sh: there is no part '$part'" >&2; exit 2 ;;
esac
