"""Ours against PyTorch on the CPU, operator by operator: same shapes, same threads, one run.

    ops.py BENCH_OPS [seconds per case]

A ratio above 1 means that ours is faster. PyTorch's gradients are timed one by one where it has a call
for each; where it has one call for all, ours are added up.
"""
import json
import os
import subprocess
import sys
import time

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")   # AMX without its CPUID leaf kills oneDNN
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tests", "py"))
import find_torch  # noqa: F401,E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 0.5


def best_ms(fn):
    fn()
    fn()
    best, end = 1e9, time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        fn()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def leaf(*shape, dtype=torch.float32):
    return (torch.randn(*shape) * 0.1).to(dtype).requires_grad_(True)


def backward(y, inputs):
    dy = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, inputs, dy, retain_graph=True)


def linear(rows, out, inp, dtype, bias=False):
    x, w = torch.randn(rows, inp).to(dtype), torch.randn(out, inp).to(dtype)
    b, dy = (torch.randn(out).to(dtype) if bias else None), torch.randn(rows, out).to(dtype)
    times = {"linear": lambda: F.linear(x, w, b), "linear_grad_x": lambda: dy @ w, "linear_grad_w": lambda: dy.t() @ x}
    if bias:
        times["bias_grad"] = lambda: dy.sum(0)
    return times


def conv(n, ci, co, h, w, stride, dtype):
    x = torch.randn(n, ci, h, w).to(dtype).contiguous(memory_format=torch.channels_last)
    k = torch.randn(co, ci, 3, 3).to(dtype).contiguous(memory_format=torch.channels_last)
    dy = torch.randn_like(F.conv2d(x, k, None, stride, 1))

    def grad(mask):
        return lambda: torch.ops.aten.convolution_backward(dy, x, k, None, (stride, stride), (1, 1), (1, 1), False, (0, 0), 1, mask)
    return {"conv": lambda: F.conv2d(x, k, None, stride, 1), "conv_grad_x": grad([True, False, False]),
            "conv_grad_w": grad([False, True, False])}


def attention(b, heads, lq, lk, width, dtype):
    q, k, v = (leaf(b, heads, n, width, dtype=dtype) for n in (lq, lk, lk))
    return {"attention": lambda: F.scaled_dot_product_attention(q.detach(), k.detach(), v.detach()),
            "attention_grad": backward(F.scaled_dot_product_attention(q, k, v), (q, k, v))}


def pair(name, fn, *inputs):
    detached = [i.detach() for i in inputs]
    return {name: lambda: fn(*detached), name + "_grad": backward(fn(*inputs), inputs)}


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


def main():
    lines = subprocess.run([sys.argv[1], str(SECONDS)], check=True, capture_output=True, text=True).stdout.splitlines()
    ours = {}
    for line in lines:
        row = json.loads(line)
        key = row["case"], row["type"], row["op"]
        ours[key] = ours.get(key, 0) + row["ms"], row["flops"]
    print(f"{'operator':34} {'':16} {'type':5} {'ours ms':>9} {'torch ms':>9} {'ratio':>6} {'GFLOP/s':>8}")
    slower = 0
    for word, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for name, times in cases(dtype):
            for op, fn in times.items():
                if (name, word, op) not in ours:
                    sys.exit(f"bench_ops did not time {op} of {name} in {word}")
                ms, flops = ours[name, word, op]
                theirs = best_ms(fn)
                slower += theirs < ms
                print(f"{name:34} {op:16} {word:5} {ms:9.3f} {theirs:9.3f} {theirs / ms:6.2f} {flops / ms * 1e-6:8.1f}", flush=True)
    print(f"{slower} of these are slower than PyTorch")


main()
