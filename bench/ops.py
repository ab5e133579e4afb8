"""Ours against PyTorch on the CPU, operator by operator: same shapes, same threads.

    ops.py BENCH_OPS [--seconds S] [--rounds N] [--threads N] [--backend builtin|onednn] [--only WORD] [--json FILE]

The two sides take turns for N rounds; each row is the best run of all rounds on either side, so that
other work on the machine disturbs both alike. A ratio above 1 means that ours is faster. PyTorch's
gradients are timed one by one where it has a call for each.

Both sides repeat a case as a training step runs it: forward, a pass from the output to its gradient (not
timed), then each gradient. So an operator finds in the caches what the operators before it left. Memory
that PyTorch frees stays with the process, so that no call pays for new pages. Its oneDNN may use AMX
where the machine has it.
"""
import argparse
import ctypes
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE] + [os.path.join(HERE, "..", "tests", name) for name in ("py", "ref")]
import bench_ref  # noqa: E402
import results_file  # noqa: E402
import find_torch  # noqa: F401,E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("bench_ops")
parser.add_argument("--seconds", type=float, default=0.05, help="of each side of a round")
parser.add_argument("--rounds", type=int, default=6)
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--backend", default="")
parser.add_argument("--only", default="", help="cases with this word in their name")
results_file.add_option(parser)
args = parser.parse_args()
bench_ref.choose_isa()
torch.set_num_threads(args.threads)
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4            # glibc's mallopt
for option, value in ((M_TRIM_THRESHOLD, 2 ** 31 - 1), (M_MMAP_MAX, 0)):
    ctypes.CDLL(None).mallopt(option, value)


def their_round(calls, dy):
    """The best time of each call of a case; the calls run one after the other."""
    best, runs, end = dict.fromkeys(calls, 1e9), 0, time.perf_counter() + args.seconds
    while runs < 3 or time.perf_counter() < end:
        for i, (op, fn) in enumerate(calls.items()):
            start = time.perf_counter()
            y = fn()
            best[op] = min(best[op], time.perf_counter() - start)
            if i == 0:
                dy.copy_(y)                      # stands for a loss and its gradient
            del y
        runs += 1
    return {op: seconds * 1e3 for op, seconds in best.items()}


def leaf(*shape, dtype=torch.float32):
    return (torch.randn(*shape) * 0.1).to(dtype).requires_grad_(True)


def linear(rows, out, inp, dtype, bias=False):
    x, w = torch.randn(rows, inp).to(dtype), torch.randn(out, inp).to(dtype)
    b, dy = (torch.randn(out).to(dtype) if bias else None), torch.randn(rows, out).to(dtype)
    times = {"linear": lambda: F.linear(x, w, b), "linear_grad_x": lambda: dy @ w, "linear_grad_w": lambda: dy.t() @ x}
    if bias:
        times["bias_grad"] = lambda: dy.sum(0)
    return times, dy


def conv(n, ci, co, h, w, stride, dtype):
    x = torch.randn(n, ci, h, w).to(dtype).contiguous(memory_format=torch.channels_last)
    k = torch.randn(co, ci, 3, 3).to(dtype).contiguous(memory_format=torch.channels_last)
    dy = torch.randn_like(F.conv2d(x, k, None, stride, 1))

    def grad(mask):
        return lambda: torch.ops.aten.convolution_backward(dy, x, k, None, (stride, stride), (1, 1), (1, 1), False, (0, 0), 1, mask)
    return {"conv": lambda: F.conv2d(x, k, None, stride, 1), "conv_grad_x": grad([True, False, False]),
            "conv_grad_w": grad([False, True, False])}, dy


def pair(name, fn, *inputs):
    detached, y = [i.detach() for i in inputs], fn(*inputs)
    dy = torch.empty_like(y)
    return {name: lambda: fn(*detached),
            name + "_grad": lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)}, dy


def attention(b, heads, lq, lk, width, dtype):
    q, k, v = (leaf(b, heads, n, width, dtype=dtype) for n in (lq, lk, lk))
    return pair("attention", F.scaled_dot_product_attention, q, k, v)


def fft_conv(length, channels, dtype):
    u, k, d = leaf(1, channels, length, dtype=dtype), leaf(channels, length), leaf(channels)

    def run(u, k, d):
        n = 2 * length
        y = torch.fft.irfft(torch.fft.rfft(u.float(), n) * torch.fft.rfft(k, n), n)[..., :length]
        return (y + d[:, None] * u).to(dtype)
    return pair("fft_conv", run, u, k, d)


def cases(dtype):
    group = leaf(2, 128, 32, 256, dtype=dtype).detach().contiguous(memory_format=torch.channels_last).requires_grad_(True)
    yield "matmul 1024x1024x1024", linear(1024, 1024, 1024, dtype)
    yield "matmul 16384x128x1152", linear(16384, 128, 1152, dtype)
    yield "linear 512x1536x384", linear(512, 1536, 384, dtype, bias=True)
    yield "conv 3x3 128-128 32x256", conv(2, 128, 128, 32, 256, 1, dtype)
    yield "conv 3x3 3-64 64x256", conv(2, 3, 64, 64, 256, 1, dtype)
    yield "conv 3x3/2 128-256 32x256", conv(2, 128, 256, 32, 256, 2, dtype)
    yield "attention 16x1024x64", attention(1, 16, 1024, 1024, 64, dtype)
    yield "attention 5x4096x77x64", attention(1, 5, 4096, 77, 64, dtype)
    yield "attention 12x9x256x52", attention(12, 9, 256, 256, 52, dtype)
    yield "layer norm 4096x1024", pair("layernorm", lambda x, w, b: F.layer_norm(x, (1024,), w, b), leaf(4096, 1024, dtype=dtype),
                                       leaf(1024, dtype=dtype), leaf(1024, dtype=dtype))
    yield "group norm + SiLU 2x32x256x128", pair("groupnorm", lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)), group,
                                                 leaf(128, dtype=dtype), leaf(128, dtype=dtype))
    yield "softmax 4096x1024", pair("softmax", lambda x: torch.softmax(x, -1), leaf(4096, 1024, dtype=dtype))
    yield "GELU 4096x1024", pair("gelu", F.gelu, leaf(4096, 1024, dtype=dtype))
    yield "FFT convolution 64x16384", fft_conv(16384, 64, dtype)


def our_round(server):
    """The best time of every operator of the current case; an operator that occurs twice counts twice."""
    server.stdin.write("run\n")
    server.stdin.flush()
    times = {}
    for line in iter(server.stdout.readline, "\n"):
        if not line:
            sys.exit("bench_ops ended early")
        row = json.loads(line)
        ms, _ = times.get(row["op"], (0, 0))
        times[row["op"]] = ms + row["ms"], row["flops"]
        times["case"] = row["case"], row["type"]
    return times


def compare(server, name, word, calls, dy):
    ours, theirs = {}, dict.fromkeys(calls, 1e9)
    for _ in range(args.rounds):
        times = our_round(server)
        if times.pop("case") != (name, word):
            sys.exit(f"bench_ops is not at {name} in {word}")
        for op, (ms, flops) in times.items():
            ours[op] = min(ms, ours[op][0]) if op in ours else ms, flops
        for op, ms in their_round(calls, dy).items():
            theirs[op] = min(theirs[op], ms)
    for op in calls:
        if op not in ours:
            sys.exit(f"bench_ops did not time {op} of {name} in {word}")
        (ms, flops), ratio = ours[op], theirs[op] / ours[op][0]
        print(f"{name:34} {op:16} {word:5} {ms:9.3f} {theirs[op]:9.3f} {ratio:6.2f} {flops / ms * 1e-6:8.1f}", flush=True)
        same = {"work": name, "operator": op, "precision": "fp32" if word == "f32" else word}
        yield {**same, "variant": "Plimsoll", "ms": results_file.figure(ms), "pytorch_ratio": results_file.figure(ratio, 3)}
        yield {**same, "variant": "PyTorch", "ms": results_file.figure(theirs[op])}


def main():
    command = [args.bench_ops, str(args.seconds), str(args.threads)] + args.backend.split()
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    print(f"{'operator':34} {'':16} {'type':5} {'ours ms':>9} {'torch ms':>9} {'ratio':>6} {'GFLOP/s':>8}")
    rows = []
    for word, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for name, (calls, dy) in cases(dtype):
            if args.only in name:
                rows += compare(server, name, word, calls, dy)
            server.stdin.write("next\n")
            server.stdin.flush()
    server.communicate()
    ratios = [row["pytorch_ratio"] for row in rows if "pytorch_ratio" in row]
    print(f"{sum(r < 1 for r in ratios)} of {len(ratios)} rows are slower than PyTorch {torch.__version__}; "
          f"half of the ratios are above {sorted(ratios)[len(ratios) // 2]:.2f}")
    if not server.returncode:
        results_file.write(args.json, rows, "scripts/bench.sh BUILD ops", f"The best of {args.rounds} rounds taken in turn. pytorch_ratio: PyTorch's time / ours.",
                     threads=args.threads, versions={"pytorch": torch.__version__})
    sys.exit(server.returncode)


main()
