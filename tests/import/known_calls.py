"""Groups of calls that one of our operators computes: which of many ways to write them are found, and that all mean the same.

    known_calls.py PLIMSOLL COMPARE_ATEN WORK_FOLDER

Each case is exported alone; its value and gradients are compared with PyTorch in fp64 (tests/import/aten.py). The cases that
must be found have the operator in the plan; those that differ in meaning, or share a value with other calls, must not.
"""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    import torch
    import aten
    from aten_cases import IDS, TRUTH, Real, X, draw
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

H, N = 3, 4


def known(name, operator, found, code, *operands):
    CASES.append((name, operator, found, code, operands))


CASES = []


# ---- the kernel of a structured state space ----

def kernel(L, edit=(), step="F.softplus(a)"):
    """The usual text, with replacements; operands: a step (H, 1), b poles (2, N), c vectors B and P (2, N, 2), d C (H, N, 2)."""
    text = (f"dt = {step}; A = torch.complex(-b[:1].exp(), -b[1:])[0]; V = torch.view_as_complex(c.contiguous()); B, P = V[0], V[1]; "
            "C = torch.view_as_complex(d.contiguous()); "
            f"L = {L}; k = torch.arange((L + 1) // 2, dtype=torch.float64); w = torch.polar(torch.ones_like(k), -2 * math.pi * k / L); "
            "z = (2 * (1 - w) / (1 + w)).to(torch.complex64); front = (2 / (1 + w)).to(torch.complex64); dtA = dt * A; "
            "R = 1 / (z - dtA[..., None]); R2 = 1 / (z - dtA.conj()[..., None]); "
            "S = lambda v: ((dt * v)[..., None] * R + (dt * v)[..., None].conj() * R2).sum(1); "
            "Q = P.conj(); hat = front * (S(B * C) - S(B * Q) * S(P * C) / (1 + S(P * Q))); "
            + ("ny = (dt * (B * C)).real.sum(1, keepdim=True); hat = torch.cat([hat, ny.to(hat.dtype)], 1); " if L % 2 == 0 else "")
            + "return torch.fft.irfft(hat, n=L)")
    for old, new in edit:
        assert old in text, old
        text = text.replace(old, new)
    return text


def s4(name, found, code, step=None):
    known(name, "s4_kernel", found, code, Real(-2 + draw((H, 1))) if step is None else step, Real(-1 + 0.5 * draw((2, N)) + torch.tensor([[0.0], [2.0]])),
          X(2, N, 2), X(H, N, 2))


s4("as written", True, kernel(72))
s4("odd length", True, kernel(75))
s4("short", True, kernel(4))
s4("exponential step", True, kernel(72, step="a.exp()"))
s4("divided", True, kernel(72, [("(dt * v)[..., None] * R +", "(dt * v)[..., None] / (z - dtA[..., None]) +")]))
s4("other orders", True, kernel(75, [("S(B * C) -", "S(C * B) -"), ("S(B * Q) * S(P * C)", "S(C * P) * S(B * Q)"), ("(dt * v)", "(v * dt)"),
                                     ("front * (", "("), ("S(P * Q)))", "S(Q * P))) * front")]))
s4("conjugates first", True, kernel(72, [("(dt * v)[..., None] * R + (dt * v)[..., None].conj() * R2", "R2 * (dt * v.conj())[..., None] + (dt * v)[..., None] * R")]))
s4("poles conjugated apart", True, kernel(72, [("dtA.conj()[..., None]", "(dt * A.conj())[..., None]")]))
s4("two sums", True, kernel(72, [("((dt * v)[..., None] * R + (dt * v)[..., None].conj() * R2).sum(1)",
                                  "((dt * v)[..., None] * R).sum(1) + ((dt * v).conj()[..., None] * R2).sum(-2)")]))
s4("reciprocal of the sum", True, kernel(72, [("S(P * C) / (1 + S(P * Q))", "(S(P * C) * torch.reciprocal(1 + S(P * Q)))")]))
s4("Q and P exchanged", True, kernel(72, [("S(B * Q) * S(P * C)", "S(B * P) * S(Q * C)")]))
s4("B per channel", True, kernel(72, [("C = torch", "B = torch.view_as_complex(d.flip(0).contiguous()); C = torch")]))
s4("no conjugate", False, kernel(75, [("* R2).sum", "* R).sum")]))
s4("a weight not conjugated", False, kernel(75, [("(dt * v)[..., None].conj() * R2", "(dt * v)[..., None] * R2")]))
s4("Q is P", False, kernel(75, [("Q = P.conj()", "Q = P")]))
s4("a step too many", False, kernel(75, [("(dt * v)[..., None].conj()", "(dt * dt * v)[..., None].conj()")]))
s4("plus", False, kernel(75, [("S(B * C) -", "S(B * C) +")]))
s4("two and", False, kernel(75, [("(1 + S(P * Q))", "(2 + S(P * Q))")]))
s4("other roots", False, kernel(75, [("-2 * math.pi * k / L", "-2 * math.pi * k / (L + 1)")]))
s4("other front", False, kernel(75, [("(2 / (1 + w))", "(1 / (1 + w))")]))
s4("poles may grow", False, kernel(75, [("-b[:1].exp()", "-b[:1]")]))
s4("another Nyquist value", False, kernel(72, [("(dt * (B * C)).real", "(dt * (P * C)).real")]))
s4("read elsewhere", False, kernel(75, [("return torch.fft.irfft(hat, n=L)", "return torch.fft.irfft(hat, n=L) + R.real.sum()")]))
s4("softplus of another slope", False, kernel(75, step="F.softplus(a, beta=2)"))
s4("another norm", False, kernel(75, [("irfft(hat, n=L)", "irfft(hat, n=L, norm='ortho')")]))
s4("written into", False, kernel(75, [("dtA = dt * A; ", "dtA = dt * A; dtA *= 0.5; ")]))
s4("without gradients", False, kernel(75, [("return torch.fft", "h2 = torch.no_grad()(lambda: S(B * C))(); return h2.real.sum() + torch.fft")]))

# ---- causal convolution ----

CONV = "L = 67; n = {n}; k = torch.fft.rfft(a, n=n); u = torch.fft.rfft(b, n=n); y = torch.fft.irfft({product}, n=n); return y[..., :{keep}]"


def conv(name, found, n=134, product="u * k", keep="L", edit=("", ""), a=None, b=None):
    known(name, "fft_conv", found, CONV.format(n=n, product=product, keep=keep).replace(*edit) if edit[0] else CONV.format(n=n, product=product, keep=keep),
          a or X(H, 67), b or X(2, H, 67))


conv("convolution", True)
conv("kernel first", True, product="k * u")
conv("the least length", True, n=135)
conv("signal transposed", True, edit=("rfft(b,", "rfft(b.transpose(1, 2),"), b=X(2, 67, H))
conv("wraps around", False, n=120)
conv("correlation", False, product="u * k.conj()")
conv("scaled", False, product="u * k * 2")
conv("a part", False, keep="60")
conv("kernel per sample", False, a=X(2, H, 67))


# ---- norms and gates ----

NORM = "sd, mean = torch.std_mean(a, -1, correction=0, keepdim=True); return "


def norm(name, found, code, *operands):
    known(name, "scalar_norm", found, code, X(2, 5, 8), X(1), X(1), *operands)


norm("scalar norm", True, NORM + "b / sd * (a - mean + c)")
norm("scalar norm, orders", True, NORM + "(c + (a - mean)) * (b / sd)")
norm("scalar norm, divided", True, NORM + "b * (a - mean + c) / sd")
norm("of columns", True, "a = a.transpose(1, 2); " + NORM + "b / sd * (a - mean + c)")
norm("of another tensor", False, NORM + "b / sd * (a * 2 - mean + c)")
norm("unbiased", False, NORM.replace("correction=0", "correction=1") + "b / sd * (a - mean + c)")
norm("of samples", False, NORM.replace("-1", "0") + "b / sd * (a - mean + c)")
norm("mean and deviation exchanged", False, NORM + "b / mean * (a - sd + c)")
norm("a number per column", False, NORM + "d / sd * (a - mean + c)", X(8))
norm("deviation read elsewhere", False, NORM + "b / sd * (a - mean + c) + sd")
norm("written into between", False, NORM.replace("return ", "t = c * 1; y = a - mean + t; t.add_(1); return ") + "b / sd * y")
norm("multiplied", False, NORM + "b * sd * (a - mean + c)")
known("gate", "glu", True, "F.glu(a)", X(2, 5, 8))
known("gate of channels", "glu", True, "F.glu(a.transpose(1, 2), 1)", X(2, 5, 8))
known("gate of rows", "glu", False, "F.glu(a, 1)", X(2, 4, 8))


# ---- attention, written out ----

ATTEND = "s = a @ b.transpose(-2, -1) / math.sqrt(8); p = s.softmax(-1); return p @ c"
TRIL = "torch.tril(torch.ones(6, 6))"


def attend(name, found, edit=(), code=ATTEND, q=(2, 3, 6, 8), k=(2, 3, 6, 8), v=(2, 3, 6, 8), more=()):
    for old, new in edit:
        assert old in code, old
        code = code.replace(old, new)
    known(name, "attention", found, code, X(*q), X(*k), X(*v), *more)


EINSUM = "s = torch.einsum('{0}', a, b) * 0.3; return torch.einsum('{1}', s.softmax(-1), c)"
MASK, SCORES = "s = s.masked_fill({0} == 0, {1}); p = s.softmax(-1)", "p = s.softmax(-1)"
attend("attention", True)
attend("attention of one head", True, q=(2, 6, 8), k=(2, 6, 8), v=(2, 6, 8))
attend("attention of a sequence", True, q=(6, 8), k=(5, 8), v=(5, 8))
attend("other lengths and widths", True, q=(2, 3, 6, 8), k=(2, 3, 7, 8), v=(2, 3, 7, 5))
attend("scaled queries", True, [("a @", "(a * 0.4) @"), (" / math.sqrt(8)", "")])
attend("scaled in two steps", True, [("math.sqrt(8)", "4 * 2")])
attend("batched product", True, [("a @ b.transpose(-2, -1)", "torch.bmm(a, b.transpose(1, 2))"), ("p @ c", "torch.bmm(p, c)")], q=(2, 6, 8), k=(2, 6, 8), v=(2, 6, 8))
attend("heads last", True, code=EINSUM.format("bihd,bjhd->bhij", "bhij,bjhd->bihd"), q=(2, 6, 3, 8), k=(2, 5, 3, 8), v=(2, 5, 3, 8))
attend("keys first", True, code="s = torch.einsum('bjd,bid->bij', a, b); return torch.einsum('bjd,bij->bdi', c, s.softmax(-1))",
       q=(2, 5, 8), k=(2, 6, 8), v=(2, 5, 7))
attend("causal", True, [(SCORES, MASK.format(TRIL, "float('-inf')"))])
attend("causal by a large number", True, [(SCORES, MASK.format(TRIL, "-1e9"))])
attend("causal by the least number", True, [(SCORES, MASK.format(TRIL, "torch.finfo(torch.float32).min"))])
attend("bias", True, [(SCORES, "s = s + d; p = s.softmax(-1)")], more=(X(3, 6, 6),))
attend("bias before a mask", True, [(SCORES, "s = d + s; " + MASK.format(TRIL, "float('-inf')"))], more=(X(2, 1, 6, 6),))
attend("bias of each query", True, [(SCORES, "s = s + d; p = s.softmax(-1)")], more=(X(2, 3, 6, 1),))
attend("two biases", True, [(SCORES, "s = s + d + e; p = s.softmax(-1)")], more=(X(3, 6, 6), X(2, 1, 1, 6)))
attend("mask of keys", True, [(SCORES, "s = s.masked_fill(~d[:, None, None, :], float('-inf')); p = s.softmax(-1)")], more=(TRUTH(2, 6),))
attend("where", True, [(SCORES, "s = torch.where(d, s, float('-inf')); p = s.softmax(-1)")], more=(TRUTH(6, 6),))
attend("no dropout", True, [(SCORES, "p = F.dropout(s.softmax(-1), 0.3, False)")])
attend("mask of data by a number", False, [(SCORES, "s = s.masked_fill(d, -1e9); p = s.softmax(-1)")], more=(TRUTH(6, 6),))
attend("mask of data by the least number", False, [(SCORES, "s = s + (1.0 - d.float()) * torch.finfo(torch.float32).min; p = s.softmax(-1)")], more=(TRUTH(6, 6),))
attend("a row without keys", False, [(SCORES, MASK.format("torch.tril(torch.ones(6, 6), -1)", "-1e9"))])
attend("scores read elsewhere", False, [("return p @ c", "return (p @ c).sum() + s.sum()")])
attend("probabilities read elsewhere", False, [("return p @ c", "return (p @ c).sum() + p.square().sum()")])
attend("along queries", False, [("softmax(-1)", "softmax(-2)")])
attend("learned scale", False, [("/ math.sqrt(8)", "* d")], more=(X(1),))
attend("shared keys", False, k=(1, 3, 6, 8))
attend("transposed probabilities", False, [("p @ c", "p.transpose(-2, -1) @ c")])
attend("scaled bias", False, [("/ math.sqrt(8)", "+ d"), (SCORES, "s = s * 0.5; p = s.softmax(-1)")], more=(X(6, 6),))
attend("softmax of something else", False, [("a @ b.transpose(-2, -1) / math.sqrt(8)", "a.cos() * b")], v=(2, 3, 8, 5))


# ---- mixtures of logistics ----

def mixture(edit=(), end="-y.sum()", Q=16):
    """The usual text, with replacements; operands: a parameters (..., 3 K), b targets, c which of them count."""
    text = (f"Q = {Q}; w, m, s = a.chunk(3, -1); s = s.clamp(min=-7.0); k = b[..., None]; x, h = (2 * k / Q - 1).to(a.dtype), 1 / Q; inv = torch.exp(-s); "
            "plus, mid, minus = (x - m + h) * inv, (x - m) * inv, (x - m - h) * inv; "
            "p = -F.softplus(-plus) - F.softplus(minus) + torch.log(-torch.expm1(-2 * h * inv)); "
            "density = mid - s - 2 * F.softplus(mid) + math.log(2 * h); inner = torch.where(p > math.log(1e-5), p, density); "
            "p = torch.where(k == 0, plus - F.softplus(plus), torch.where(k == Q - 1, -F.softplus(minus), inner)); "
            f"y = torch.logsumexp(p + w.log_softmax(-1), -1); return {end}")
    for old, new in edit:
        assert old in text, old
        text = text.replace(old, new)
    return text


def dml(name, found, edit=(), end="-y.sum()", Q=16, targets=None, K=4):
    parts = [draw((3, 7, K)) * 3 - 1.5, draw((3, 7, K)) * 2.4 - 1.2, draw((3, 7, K)) * 9 - 8.5]  # some scales are below the least
    b = IDS(Q, 3, 7) if targets is None else targets
    b.t[0, :3] = torch.tensor([0, Q - 1, 1])
    known(name, "dml_loss", found, mixture(edit, end, Q), Real(torch.cat(parts, -1)), b, TRUTH(3, 7))


MASKED, MASS = "(-y).where(c, 0).sum()", "p = -F.softplus(-plus) - F.softplus(minus) + torch.log(-torch.expm1(-2 * h * inv))"
DIFFERENCE = [(MASS, "p = torch.sigmoid(plus) - torch.sigmoid(minus)"),
              ("torch.where(p > math.log(1e-5), p, density)", "torch.where(p > 1e-5, p.clamp(min=1e-12).log(), density)")]
dml("mixture", True)
dml("of 256 values", True, Q=256)
dml("one component", True, K=1)
dml("mean", True, end="-y.mean()")
dml("sum of likelihoods", True, end="y.sum()")
dml("masked", True, end=MASKED)
dml("mean of masked", True, end=MASKED + " / c.sum()")
dml("masked before the sign", True, end="-y.where(c, 0).mean()")
dml("whole numbers of 32 bits", True, [("k = b[..., None]", "k = b.int()[..., None]")])
dml("divided by the scale", True, [("(x - m + h) * inv", "(x + h - m) / torch.exp(s)"), ("(x - m) * inv", "inv * x - m * inv")])
dml("log of the sigmoid", True, [("-F.softplus(-plus) -", "F.logsigmoid(plus) -"), ("plus - F.softplus(plus)", "F.logsigmoid(plus)"),
                                 ("-F.softplus(minus), inner", "F.logsigmoid(-minus), inner")])
dml("log1p", True, [("torch.log(-torch.expm1(-2 * h * inv))", "torch.log1p(-torch.exp(minus - plus))")])
dml("last bin first", True, [("torch.where(k == 0, plus - F.softplus(plus), torch.where(k == Q - 1, -F.softplus(minus), inner))",
                              "torch.where(k == Q - 1, -F.softplus(minus), torch.where(k == 0, plus - F.softplus(plus), inner))")])
dml("less than", True, [("p > math.log(1e-5)", "math.log(1e-5) < p")])
dml("difference of sigmoids", True, DIFFERENCE)
dml("split", True, [("a.chunk(3, -1)", "a.split(4, -1)")])
dml("another least scale", False, [("min=-7.0", "min=-6.0")])
dml("bins between the ends", False, [("2 * k / Q - 1", "2 * k / (Q - 1) - 1")])
dml("half bins", False, [("1 / Q;", "0.5 / Q;")])
dml("another threshold", False, [("1e-5", "1e-4")])
dml("parts in another order", False, [("w, m, s = ", "m, w, s = ")])
dml("no log share", False, [("w.log_softmax(-1)", "w")])
dml("another density", False, [("- 2 * F.softplus(mid)", "- F.softplus(mid)")])
dml("no edges", False, [("k == 0", "k == 3")])
dml("an edge alone", False, [("torch.where(k == Q - 1, -F.softplus(minus), inner)", "inner")])
dml("softplus of another slope", False, [("F.softplus(mid)", "F.softplus(mid, beta=2)")])
dml("likelihoods read elsewhere", False, end="-y.sum() + y[0, 0]")
dml("squared", False, end="y.square().sum()")
dml("masked by one", False, end="(-y).where(c, 1).sum()")
dml("half of the masses", False, end="-y[:2].sum()")


def operators(plimsoll, folder):
    """The operators whose gradients the plan has tensors of, or a sentence."""
    done = subprocess.run([plimsoll, "explain", os.path.join(folder, "config.json"), "--json"], capture_output=True, text=True)
    return set(re.findall(r"(\w+)_grad#", done.stdout)) if done.returncode == 0 else done.stderr.strip()


def main():
    plimsoll, program, work = (os.path.abspath(w) for w in sys.argv[1:4])
    shutil.rmtree(work, ignore_errors=True)
    wrong = []
    for i, (name, operator, found, code, operands) in enumerate(CASES):
        folder = os.path.join(work, str(i))
        case = aten.Case(code, operands, "plain")
        wrong += [f"{name}: {line.split('   (plain): ')[-1]}" for line in aten.check_alone(program, case, folder, False)]
        used = operators(plimsoll, folder) if os.path.exists(os.path.join(folder, "config.json")) else "not exported"
        if isinstance(used, str) or (operator in used) != found:
            wrong.append(f"{name}: {operator} {'is not' if found else 'is'} in the plan ({used if isinstance(used, str) else ', '.join(sorted(used))})")
    for line in wrong:
        print(line)
    print(f"{len(CASES)} cases, {len(wrong)} wrong")
    if not wrong:
        shutil.rmtree(work, ignore_errors=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
