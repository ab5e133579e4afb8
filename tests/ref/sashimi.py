"""SaShiMi with a mixture-of-logistics head: S4 over audio at three rates.

Tokens (B, L) -> (B, L, H); down by 4 twice, S4 and feed-forward blocks at each rate on the way up,
additive skips. The S4 kernel is written with plain Cauchy sums. Also here: the recurrent form that
generates sample by sample, and the dense state-space matrices that both are checked against.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F

import common
from common import DEFAULTS, merged

IGNORE = -100       # a padded target
POOL = 4
LOG_SCALE_MIN = -7.0
BF16_DRAWS = 16     # case.py: many tensors here hold one number
SSM = ("A_real", "A_imag", "P", "B", "inv_dt")      # the parameters with the smaller rate

_SEED = merged(DEFAULTS, {
    "system": "sashimi", "batch": 1, "accumulate": 1,
    "model": {
        "length": 24576, "bits": 8, "width": 64, "layers": 8, "pools": 2, "state": 64,
        "expand": 2, "ff": 2, "head": "dml", "components": 6, "dml_round": "nearest"},
    "optimizer": {"lr": 4e-3, "slow_lr": 1e-3},
    "sampler": {"length": 24576, "temperature": 1.0},
})
RECIPES = {
    "sashimi-24576": _SEED,
    "sashimi-24576-lean": merged(_SEED, {"model": {"layers": 6, "components": 4}}),
    "sashimi-small": merged(_SEED, {
        "batch": 2, "model": {"length": 64, "width": 8, "layers": 1},
        "ema": {"rule": "copy_first", "decay": 0.9}, "sampler": {"length": 40}}),
}


# ---- S4 ----------------------------------------------------------------------------------------

def hippo_legs(n):
    """HiPPO-LegS as diagonal plus rank one: eigenvalues, B and P of the half with Im < 0."""
    k = torch.arange(n, dtype=torch.float64)
    root = (2 * k + 1).sqrt()
    A = -torch.tril(root[:, None] * root[None], -1) - torch.diag(k + 1)
    P = (k + 0.5).sqrt()
    skew = A + P[:, None] * P[None] + 0.5 * torch.eye(n, dtype=torch.float64)
    # -i times a skew matrix is Hermitian: real eigenvalues, ascending, are the imaginary parts.
    imag, V = torch.linalg.eigh(-1j * skew.to(torch.complex128))
    half = V[:, : n // 2].mH
    B = half @ root.to(half.dtype)
    B = torch.complex(B.real, B.imag.clamp(-2, 2))
    return torch.complex(torch.full((n // 2,), -0.5, dtype=torch.float64), imag[: n // 2]), B, \
        half @ P.to(half.dtype)


def pair(z):
    return torch.view_as_real(z)


class Kernel(nn.Module):
    """K of length L. C holds C~ = C (I - Abar^L) for this layer's L."""

    def __init__(self, channels, state, length):
        super().__init__()
        self.length = length
        A, B, P = hippo_legs(state)
        n = state // 2
        dt = torch.exp(torch.rand(channels, 1) * (math.log(0.1) - math.log(1e-3)) + math.log(1e-3))
        self.inv_dt = nn.Parameter(torch.log(torch.expm1(dt)))
        self.C = nn.Parameter(torch.randn(1, channels, n, 2) * 0.5 ** 0.5)
        self.B = nn.Parameter(pair(B)[None, None].float())
        self.A_real = nn.Parameter(torch.log(-A.real)[None].float())
        self.A_imag = nn.Parameter(-A.imag[None].float())
        self.P = nn.Parameter(pair(P)[None, None].float())

    def _load_from_state_dict(self, state, prefix, *rest):
        """The original's buffer l_kernel says which length the C~ of a file is for."""
        length = int(state.pop(prefix + "l_kernel", self.length))
        if length != self.length:
            raise RuntimeError(f"{prefix}C is for length {length}, not {self.length}")
        super()._load_from_state_dict(state, prefix, *rest)

    def terms(self):
        """dt (H,1), A (N,), B (N,), P (N,), C~ (H,N), complex."""
        def whole(p):
            return torch.view_as_complex(p.contiguous())
        A = torch.complex(-self.A_real.exp(), -self.A_imag)[0]
        return F.softplus(self.inv_dt), A, whole(self.B)[0, 0], whole(self.P)[0, 0], \
            whole(self.C)[0]

    def forward(self):
        """(H, L), through its Fourier transform at the roots of unity."""
        L = self.length
        dt, A, B, P, C = self.terms()
        k = torch.arange((L + 1) // 2, dtype=torch.float64, device=dt.device)    # k = L/2 is apart
        w = torch.polar(torch.ones_like(k), -2 * math.pi * k / L)
        z = (2 * (1 - w) / (1 + w)).to(A.dtype)
        front = (2 / (1 + w)).to(A.dtype)
        dtA = dt * A                                              # (H, N)
        below = 1 / (z - dtA[..., None])                          # (H, N, L/2)
        below_conj = 1 / (z - dtA.conj()[..., None])

        def cauchy(v):                                            # v (H, N) or (N,)
            v = (dt * v)[..., None]
            return (v * below + v.conj() * below_conj).sum(1)
        Q = P.conj()
        hat = front * (cauchy(B * C) - cauchy(B * Q) * cauchy(P * C) / (1 + cauchy(P * Q)))
        if L % 2 == 0:
            nyquist = (dt * (B * C)).real.sum(1, keepdim=True)
            hat = torch.cat([hat, nyquist.to(hat.dtype)], 1)
        return torch.fft.irfft(hat, n=L)

    def dense(self):
        """Abar (H, 2N, 2N), Bbar (H, 2N), C~ (H, 2N) over the states and their conjugates."""
        dt, A, B, P, C = self.terms()
        both = lambda v: torch.cat([v, v.conj()], -1)
        p = both(P)
        matrix = torch.diag(both(A)) - p[:, None] * p.conj()[None]
        eye = torch.eye(len(p), dtype=A.dtype)
        half = dt[:, :, None] / 2 * matrix
        inverse = torch.linalg.inv(eye - half)
        return inverse @ (eye + half), (inverse @ both(B)[:, None])[..., 0] * dt, both(C)

    @torch.no_grad()
    def convert(self, power):
        """C <- C power(Abar): from C to C~, or from C~ for L to C~ for another length."""
        Abar, _, C = self.dense()
        C = (C[:, None] @ power(Abar))[:, 0]
        self.C.copy_(pair(C[:, : C.shape[1] // 2])[None].to(self.C))


def _to_tilde(length):
    return lambda A: torch.eye(A.shape[-1], dtype=A.dtype) - torch.linalg.matrix_power(A, length)


class S4(nn.Module):
    def __init__(self, channels, state, length):
        super().__init__()
        self.D = nn.Parameter(torch.randn(1, channels))
        self.kernel = Kernel(channels, state, length)

    def forward(self, u):
        """(B, L, H): causal convolution plus D u, in the parameters' precision."""
        u, L = u.to(self.D.dtype), u.shape[1]
        with torch.autocast(u.device.type, enabled=False):
            k = torch.fft.rfft(self.kernel(), n=2 * L)
            y = torch.fft.irfft(torch.fft.rfft(u.transpose(1, 2), n=2 * L) * k, n=2 * L)
            return y[..., :L].transpose(1, 2) + self.D * u


class S4Block(nn.Module):
    def __init__(self, channels, cfg, length):
        super().__init__()
        self.layer = S4(channels, cfg["state"], length)
        self.output_linear = nn.Sequential(nn.Linear(channels, 2 * channels), nn.GLU(dim=-1))

    def forward(self, x):
        return self.output_linear(F.gelu(self.layer(x)))


class FeedForward(nn.Module):
    def __init__(self, channels, ratio):
        super().__init__()
        self.ff = nn.Sequential(nn.Sequential(nn.Linear(channels, ratio * channels)), nn.GELU(),
                                nn.Linear(ratio * channels, channels))

    def forward(self, x):
        return self.ff(x)


class ScalarNorm(nn.Module):
    """(s / std) (x - mean + m) over the channels of a step; biased std, no epsilon."""

    def __init__(self):
        super().__init__()
        self.m = nn.Parameter(torch.zeros(1))
        self.s = nn.Parameter(torch.ones(1))

    def forward(self, x):
        std, mean = torch.std_mean(x, -1, correction=0, keepdim=True)
        return self.s / std * (x - mean + self.m)


class NormHolder(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = ScalarNorm()


class Residual(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.norm = NormHolder()

    def forward(self, x):
        return x + self.layer(self.norm.norm(x))


class WeightNormLinear(nn.Module):
    """w = g v / ||v||, the norm taken row by row."""

    def __init__(self, ci, co):
        super().__init__()
        base = nn.Linear(ci, co)
        self.bias = nn.Parameter(base.bias.detach())
        self.weight_v = nn.Parameter(base.weight.detach())
        self.weight_g = nn.Parameter(base.weight.detach().norm(dim=1, keepdim=True))

    def forward(self, x):
        v = self.weight_v
        return F.linear(x, self.weight_g * v / v.norm(dim=1, keepdim=True), self.bias)


class DownPool(nn.Module):
    """Four steps become one; feature h*4+s."""

    def __init__(self, ci, co):
        super().__init__()
        self.linear = WeightNormLinear(ci * POOL, co)

    def forward(self, x):
        return self.linear(x.unflatten(1, (-1, POOL)).transpose(2, 3).flatten(2))


class UpPool(nn.Module):
    """One step becomes four, a coarse step late: what is not yet heard is not used."""

    def __init__(self, ci, co):
        super().__init__()
        self.linear = WeightNormLinear(ci, co * POOL)

    def forward(self, x):
        y = F.pad(self.linear(x), (0, 0, 1, 0))[:, :-1]
        return y.unflatten(2, (-1, POOL)).transpose(2, 3).flatten(1, 2)


# ---- model -------------------------------------------------------------------------------------

class Embedding(nn.Module):
    def __init__(self, n, c):
        super().__init__()
        self.embedding = nn.Embedding(n, c)
        nn.init.normal_(self.embedding.weight, std=c ** -0.5)

    def forward(self, x):
        return self.embedding(x)


class Head(nn.Module):
    def __init__(self, c, out):
        super().__init__()
        self.projection = nn.Linear(c, out)

    def forward(self, x):
        return self.projection(x)


class Backbone(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        H, L, pools = cfg["width"], cfg["length"], cfg["pools"]

        def blocks(c, length):
            return [Residual(layer) for _ in range(cfg["layers"])
                    for layer in (S4Block(c, cfg, length), FeedForward(c, cfg["ff"]))]
        widths = [H * cfg["expand"] ** i for i in range(pools + 1)]
        lengths = [L // POOL ** i for i in range(pools + 1)]
        self.d_layers = nn.ModuleList(DownPool(a, b) for a, b in zip(widths, widths[1:]))
        self.c_layers = nn.ModuleList(blocks(widths[-1], lengths[-1]))
        self.u_layers = nn.ModuleList(
            nn.ModuleList([UpPool(widths[i + 1], widths[i]), *blocks(widths[i], lengths[i])])
            for i in reversed(range(pools)))
        self.norm = nn.LayerNorm(H)
        out = 3 * cfg["components"] if cfg["head"] == "dml" else 2 ** cfg["bits"]
        self.output_head = Head(H, out)

    def forward(self, x):
        skips = [x]
        for down in self.d_layers:
            x = down(x)
            skips.append(x)
        for block in self.c_layers:
            x = block(x)
        x = x + skips.pop()
        for up, *blocks in self.u_layers:
            x = y = up(x) + skips.pop()
            for block in blocks:
                x = block(x)
            x = x + y
        return self.output_head(self.norm(x))


class Sashimi(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg, cfg = cfg, cfg["model"]
        self.encoder = nn.ModuleList([Embedding(2 ** cfg["bits"], cfg["width"])])
        self.model = Backbone(cfg)

    def forward(self, x):
        return self.model(self.encoder[0](x))


def build(cfg):
    model = Sashimi(cfg)
    if next(model.parameters()).device.type != "meta":
        for m in model.modules():
            if isinstance(m, Kernel):          # from here on C is C~, as in a stored checkpoint
                m.double().convert(_to_tilde(m.length))
                m.float()
    return model


def groups(model):
    slow = [p for n, p in model.named_parameters() if n.rsplit(".", 1)[-1] in SSM]
    ids = {id(p) for p in slow}
    rest = [p for p in model.parameters() if id(p) not in ids]
    return [{"params": rest}, {"params": slow, "lr": model.cfg["optimizer"]["slow_lr"]}]


# ---- training ----------------------------------------------------------------------------------

def dml_log_prob(params, k, bits):
    """log p(k) under the mixture; params (..., 3K), k (...) in 0..Q-1. x = 2k/Q - 1, h = 1/Q."""
    Q = 2 ** bits
    logits, mean, log_scale = params.chunk(3, -1)
    log_scale = log_scale.clamp(min=LOG_SCALE_MIN)
    k = k[..., None]
    x, h = (2 * k / Q - 1).to(params.dtype), 1 / Q
    inv = torch.exp(-log_scale)
    plus, mid, minus = (x - mean + h) * inv, (x - mean) * inv, (x - mean - h) * inv
    # p = sigma(plus) - sigma(minus) = sigma(plus) sigma(-minus) (1 - exp(minus - plus)): the
    # product loses no digits where the difference of two nearly equal numbers loses most of them.
    log_p = -F.softplus(-plus) - F.softplus(minus) + torch.log(-torch.expm1(-2 * h * inv))
    density = mid - log_scale - 2 * F.softplus(mid) + math.log(2 * h)
    inner = torch.where(log_p > math.log(1e-5), log_p, density)
    log_p = torch.where(k == 0, plus - F.softplus(plus),
                        torch.where(k == Q - 1, -F.softplus(minus), inner))
    return torch.logsumexp(log_p + logits.log_softmax(-1), -1)


def make_batch(cfg, gen):
    """Targets with a few edge codes and a padded tail; the input is the target, one step late."""
    b, L, Q = cfg["batch"], cfg["model"]["length"], 2 ** cfg["model"]["bits"]
    walk = torch.randint(-Q // 16, Q // 16 + 1, (b, L), generator=gen).cumsum(1)
    y = (walk + Q // 2).clamp(0, Q - 1)
    y[:, 3::17], y[:, 5::19] = 0, Q - 1
    x = torch.cat([torch.full((b, 1), Q // 2), y[:, :-1]], 1)
    y[-1, L - L // 8:] = IGNORE
    batch = {"tokens": x, "target": y}
    if cfg["accumulate"] > 1:            # targets that count in all micro-batches of an update
        batch["denominator"] = torch.tensor([float(cfg["accumulate"] * (y != IGNORE).sum())])
    return batch, {}


def output(model, batch, noise):
    return model(batch["tokens"])


def loss(model, batch, noise, predicted=None):
    predicted = output(model, batch, noise) if predicted is None else predicted
    if predicted.dtype != torch.float64:
        predicted = predicted.float()
    y = batch["target"]
    seen = y != IGNORE
    if model.cfg["model"]["head"] == "categorical":
        nats = F.cross_entropy(predicted[seen], y[seen], reduction="none")
    else:
        nats = -dml_log_prob(predicted[seen], y[seen], model.cfg["model"]["bits"])
    # A micro-batch's share of the whole batch's mean, times accumulate: the caller divides by that.
    whole = batch["denominator"][0] / model.cfg["accumulate"] if "denominator" in batch else nats.numel()
    return nats.sum() / whole


# ---- generation --------------------------------------------------------------------------------

class Recurrent:
    """The model one sample at a time: S4 states, DownPool buffers, UpPool queues."""

    def __init__(self, model, batch):
        self.model, self.backbone = model, model.model
        dtype = common.dtype_of(model)
        self.ssm = {}
        for m in model.modules():
            if isinstance(m, S4):
                Abar, Bbar, C = m.kernel.dense()
                C = torch.linalg.solve(_to_tilde(m.kernel.length)(Abar), C[:, None], left=False)
                state = torch.zeros(batch, *Bbar.shape, dtype=Abar.dtype)
                self.ssm[id(m)] = [Abar, Bbar, C[:, 0], state]
        self.waiting = [[] for _ in self.backbone.d_layers]
        self.queues = [[torch.zeros(batch, up[0].linear.bias.numel() // POOL, dtype=dtype)] * POOL
                       for up in self.backbone.u_layers]

    def s4(self, m, u):
        Abar, Bbar, C, state = self.ssm[id(m)]
        state = torch.einsum("hnm,bhm->bhn", Abar, state) + Bbar * u[..., None]
        self.ssm[id(m)][3] = state
        return (C * state).sum(-1).real + m.D * u

    def block(self, block, x):
        y, layer = block.norm.norm(x), block.layer
        if isinstance(layer, S4Block):
            return x + layer.output_linear(F.gelu(self.s4(layer.layer, y)))
        return x + layer(y)

    def blocks(self, blocks, x):
        for block in blocks:
            x = self.block(block, x)
        return x

    def step(self, token):
        """(B,) -> head output (B, n) for the next sample."""
        b = self.backbone
        x = self.model.encoder[0](token)
        skips, depth = [x], 0
        for down, buffer in zip(b.d_layers, self.waiting):
            buffer.append(x)
            if len(buffer) < POOL:
                x = None
                break
            x = down.linear(torch.stack(buffer, -1).flatten(1))          # feature h*4+s
            buffer.clear()
            skips.append(x)
            depth += 1
        if depth == len(b.d_layers):
            x = self.blocks(b.c_layers, x) + skips.pop()
        for i, (up, *blocks) in enumerate(b.u_layers):
            rate = len(b.u_layers) - 1 - i            # this level runs if pool `rate` was reached
            if depth < rate:
                x = None
                continue
            queue = self.queues[i]
            late = queue.pop(0)
            if not queue:
                queue += up.linear(x).unflatten(1, (-1, POOL)).unbind(-1)
            y = late + skips.pop()
            x = self.blocks(blocks, y) + y
        return b.output_head(b.norm(x))


def pick(cfg, params, noises, i):
    """The next token from the head's output and this step's uniform and Gumbel noise."""
    Q, tau = 2 ** cfg["model"]["bits"], cfg["sampler"]["temperature"]
    if cfg["model"]["head"] == "categorical":
        return (params / tau + noises["gumbel"][i]).argmax(-1)
    logits, mean, log_scale = params.chunk(3, -1)
    j = (logits / tau + noises["gumbel"][i]).argmax(-1, keepdim=True)
    u = noises["uniform"][i][:, None]
    scale = torch.exp(log_scale.clamp(min=LOG_SCALE_MIN)).gather(-1, j)
    x = (mean.gather(-1, j) + scale * (u.log() - torch.log1p(-u)))[:, 0].clamp(-1, 1)
    half = 0.5 if cfg["model"]["dml_round"] == "nearest" else 0.0
    return ((x + 1) * Q / 2 + half).floor().clamp(0, Q - 1).long()


def level_shares(cfg, params, tau):
    """(B, Q): the probability of each level, at temperature tau."""
    Q = 2 ** cfg["model"]["bits"]
    if cfg["model"]["head"] == "categorical":
        return (params / tau).softmax(-1)
    logits, mean, log_scale = params[:, None].chunk(3, -1)
    half = 0.5 if cfg["model"]["dml_round"] == "nearest" else 0.0
    edges = ((torch.arange(1, Q, dtype=torch.float64) - half) * 2 / Q - 1)[None, :, None]
    scale = torch.exp(log_scale.clamp(min=LOG_SCALE_MIN))
    below = ((logits / tau).softmax(-1) * torch.sigmoid((edges - mean) / scale)).sum(-1)
    ends = torch.zeros(len(below), 1, dtype=below.dtype)
    return torch.cat([ends, below, ends + 1], 1).diff(dim=1)


def pick_likely(cfg, params, noises, i, tau, top_p):
    """Among the fewest levels whose probabilities reach top_p: those of a mixture by the uniform number,
    in the order of levels, those of a categorical head by its Gumbel numbers."""
    share, level = level_shares(cfg, params, tau).sort(dim=-1, descending=True, stable=True)
    kept = share.cumsum(-1) - share < top_p
    kept = torch.zeros_like(kept).scatter(1, level, kept)
    if cfg["model"]["head"] == "categorical":
        score = params / tau + noises["gumbel"][i]
        return score.masked_fill(~kept, -math.inf).argmax(-1)
    reached = (level_shares(cfg, params, tau) * kept).cumsum(-1)
    return torch.searchsorted(reached, noises["uniform"][i][:, None] * reached[:, -1:], right=True)[:, 0]


TAU, TOP_P = 0.8, 0.7     # of the second sample


def make_sample(cfg, gen):
    n, b, m = cfg["sampler"]["length"], cfg["batch"], cfg["model"]
    kinds = m["components"] if m["head"] == "dml" else 2 ** m["bits"]
    u = torch.rand(2, n, b, kinds, generator=gen).clamp(1e-6, 1 - 1e-6)
    return {}, {"gumbel": -torch.log(-torch.log(u[0])), "uniform": u[1, ..., 0].contiguous()}


@torch.no_grad()
def sample(model, inputs, noises):
    """tokens (B, n) and the head's output before each (B, n, 3K or Q); likely: tokens from the likeliest levels."""
    tokens, heads = draw(model, noises, lambda head, i: pick(model.cfg, head, noises, i))
    likely, _ = draw(model, noises, lambda head, i: pick_likely(model.cfg, head, noises, i, TAU, TOP_P))
    return {"tokens": tokens, "heads": heads, "likely": likely}


def draw(model, noises, choose):
    n, b = noises["gumbel"].shape[:2]
    run = Recurrent(model, b)
    token = torch.full((b,), 2 ** model.cfg["model"]["bits"] // 2)
    out, heads = [], []
    for i in range(n):
        heads.append(run.step(token))
        token = choose(heads[-1], i)
        out.append(token)
    return torch.stack(out, 1), torch.stack(heads, 1)
