"""Hand-written modules with unusual uses of PyTorch, for zoo_export.py: name -> () -> (module, args, kwargs). They need PyTorch alone.

A table of functions of a batch and of the module that holds their layers: `case` makes the module.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

Z, RANDOM = {}, []  # RANDOM: those that draw numbers; they are compared by replaying them
B = 4


def R(*s):
    return torch.randn(*s)


class Module(nn.Module):
    def __init__(self, parts, function):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            if isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter):
                self.register_buffer(name, part)
            else:
                setattr(self, name, part)

    def forward(self, *args):
        return self.function(self, *args)


def case(parts, *inputs, random=False):
    """parts and inputs: functions, so that each call gives another module and batch."""
    def register(function):
        def make():
            return Module(parts(), function), tuple(x() for x in inputs), {}
        Z["odd_" + function.__name__] = make
        if random:
            RANDOM.append("odd_" + function.__name__)
        return function
    return register


# ---- what is written in one step is read in the next ----

@case(lambda: {"l": nn.Linear(6, 6), "mean": torch.zeros(6), "scale": torch.ones(1), "steps": torch.zeros((), dtype=torch.long)}, lambda: R(B, 6))
def moving_average(m, x):
    h = m.l(x)
    with torch.no_grad():
        m.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
        m.scale.copy_(m.scale * 0.99 + 0.01 * h.std())
        m.steps += 1
    return (h - m.mean) / m.scale * (1 + 0.1 * m.steps)


@case(lambda: {"e": nn.Linear(6, 4), "d": nn.Linear(4, 6), "codes": R(8, 4), "count": torch.ones(8), "sums": R(8, 4), "seen": torch.zeros(8, dtype=torch.bool)},
      lambda: R(B, 6))
def codebook(m, x):
    z = m.e(x)
    nearest = (z[:, None] - m.codes).pow(2).sum(-1).argmin(-1)
    q = m.codes[nearest]
    with torch.no_grad():
        hits = F.one_hot(nearest, 8).to(x.dtype)
        m.count.mul_(0.9).add_(hits.sum(0), alpha=0.1)
        m.sums.mul_(0.9).add_(hits.T @ z, alpha=0.1)
        m.codes.copy_(m.sums / (m.count[:, None] + 1e-5))
        m.seen.logical_or_(hits.sum(0) > 0)
    return F.mse_loss(m.d(z + (q - z).detach()), x) + F.mse_loss(z, q.detach()) + m.seen.to(x.dtype).mean()


@case(lambda: {"e": nn.Linear(6, 4), "queue": F.normalize(R(4, 12), dim=0), "place": torch.zeros(1, dtype=torch.long)}, lambda: R(B, 6), lambda: R(B, 4))
def queue(m, x, key):
    q, key = F.normalize(m.e(x), dim=-1), F.normalize(key, dim=-1)
    scores = torch.cat([(q * key).sum(-1, keepdim=True), q @ m.queue.clone()], 1)
    loss = F.cross_entropy(scores / 0.2, torch.zeros(x.shape[0], dtype=torch.long))
    with torch.no_grad():
        m.queue[:, (m.place + torch.arange(x.shape[0])) % 12] = key.T
        m.place[0] = (m.place[0] + x.shape[0]) % 12
    return loss


@case(lambda: {"a": nn.Linear(6, 6), "t": nn.Linear(6, 6).requires_grad_(False)}, lambda: R(B, 6))
def teacher(m, x):
    with torch.no_grad():
        for p, q in zip(m.t.parameters(), m.a.parameters()):
            p.mul_(0.9).add_(q, alpha=0.1)
        y = m.t(x)
    return F.mse_loss(m.a(x), y) + m.a(x).pow(2).mean()


def normal(w):
    return w / (w.flatten(1).norm(dim=1)[:, None, None, None] / math.sqrt(w[0].numel()) + 1e-4)


@case(lambda: {"a": nn.Parameter(normal(R(6, 3, 3, 3))), "b": nn.Parameter(normal(R(3, 6, 3, 3)))}, lambda: R(2, 3, 6, 6))
def forced_norm(m, x):
    for w in (m.a, m.b):
        with torch.no_grad():
            w.copy_(normal(w))
        x = F.silu(F.conv2d(x, normal(w) / math.sqrt(w[0].numel()), padding=1))
    return x


@case(lambda: {"a": nn.utils.parametrizations.spectral_norm(nn.Conv2d(3, 6, 3)), "b": nn.utils.spectral_norm(nn.Linear(6, 2))}, lambda: R(B, 3, 8, 8))
def spectral_norm(m, x):
    return m.b(F.relu(m.a(x)).mean((2, 3)))


# ---- random numbers ----

@case(lambda: {"c": nn.Conv2d(3, 8, 3), "l": nn.Linear(8, 8), "maps": nn.Dropout2d(0.3), "alpha": nn.AlphaDropout(0.2), "both": nn.FeatureAlphaDropout(0.1)},
      lambda: R(B, 3, 6, 6), random=True)
def dropouts(m, x):
    h = m.both(m.maps(F.relu(m.c(x))))
    k = m.l(h.mean((2, 3))) + F.dropout(h.sum((2, 3)), 0.1)
    return m.alpha(k).mean() + k.pow(2).mean() + F.gumbel_softmax(k)[:, 0].mean()


@case(lambda: {"a": nn.LSTM(5, 6, 3, batch_first=True, dropout=0.3, bidirectional=True), "g": nn.GRU(12, 4, 2, dropout=0.2)}, lambda: R(3, 7, 5), random=True)
def recurrent_dropout(m, x):
    return m.g(m.a(x)[0])[0]


@case(lambda: {"l": nn.Linear(6, 6), "s": nn.Parameter(torch.ones(1))}, lambda: R(B, 9, 6), random=True)
def drawn_orders(m, x):
    h = m.l(x)
    pick = torch.multinomial(torch.softmax(h.mean(1), -1), 2)
    kept = h[:, torch.randperm(x.shape[1])[:3]].mean()
    return kept + (torch.gather(x.mean(1), 1, pick) * m.s).mean() + torch.empty(3, 2).exponential_(2.0).mean() * m.s.sum()


# ---- everything else ----

@case(lambda: {"a": nn.LSTM(5, 6, 2, batch_first=True, bidirectional=True, proj_size=3), "g": nn.GRU(6, 4)}, lambda: R(3, 7, 5))
def projections(m, x):
    y, (h, c) = m.a(x)
    z, last = m.g(y[0])  # without a batch axis
    return z.pow(2).mean() + h.mean() + c.pow(2).mean() + last.mean()


@case(lambda: {"c": nn.Conv3d(2, 3, 3, padding=1)}, lambda: R(2, 2, 5, 6, 7))
def warped_volume(m, x):
    still = F.affine_grid(torch.eye(3, 4)[None].repeat(x.shape[0], 1, 1).to(x.dtype), [x.shape[0], 2, 5, 6, 7], align_corners=True)
    return F.grid_sample(x, still + 0.2 * m.c(x).permute(0, 2, 3, 4, 1), align_corners=True, padding_mode="border")


@case(lambda: {"w": nn.Parameter(torch.linalg.qr(R(6, 6))[0])}, lambda: R(2, 6, 5, 5))
def flow(m, x):
    return F.conv2d(x, m.w[:, :, None, None]).pow(2).mean() - torch.slogdet(m.w)[1]


@case(lambda: {"l": nn.utils.parametrizations.orthogonal(nn.Linear(6, 6, bias=False), orthogonal_map="cayley")}, lambda: R(2, 6))
def cayley(m, x):
    return m.l(x).tanh()


@case(lambda: {"c": nn.Conv1d(1, 1, 9, padding=4), "window": torch.hann_window(32)}, lambda: torch.cat([R(2, 96), torch.zeros(2, 160)], 1))
def spectrum_of_silence(m, x):
    s = torch.stft(x * m.c.weight.mean(), 32, 8, window=m.window, return_complex=True)
    return s.abs().mean() + (m.c(x[:, None])[:, 0] ** 2).mean() + F.normalize(x[:, 90:].reshape(2, -1, 2) * m.c.bias, dim=-1).mean()


@case(lambda: {"i": nn.Conv2d(3, 6, 1), "w": nn.Parameter(torch.view_as_real(torch.randn(2, 6, 6, 3, 3, dtype=torch.cfloat)) / 6), "o": nn.Conv2d(6, 1, 1)},
      lambda: R(2, 3, 12, 12))
def fourier_operator(m, x):
    h = m.i(x)
    f, w = torch.fft.rfft2(h), torch.view_as_complex(m.w)
    y = torch.zeros(f.shape, dtype=f.dtype)
    y[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", f[:, :, :3, :3], w[0])
    y[:, :, -3:, :3] = torch.einsum("bixy,ioxy->boxy", f[:, :, -3:, :3], w[1])
    return m.o(F.gelu(torch.fft.irfft2(y, s=h.shape[-2:]) + h))


@case(lambda: {"l": nn.Linear(8, 12), "o": nn.Linear(12, 4)}, lambda: R(B, 8))
def views_written(m, x):
    h = m.l(x)
    h[:, :4] *= 2
    v = h.view(-1, 3, 4)
    v[:, 1].add_(v[:, 0])
    v[:, 2, ::2] = torch.tanh(v[:, 1, 1::2])
    h[..., -1] = x.sum(-1)
    h.transpose(0, 1)[3] += 1.5
    h.relu_()
    return m.o(h)


@case(lambda: {"a": nn.Linear(5, 1), "v": nn.Linear(5, 7)}, lambda: R(6, 5), lambda: torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2], [1, 2, 3, 4, 5, 0, 3, 5]]))
def graph_attention(m, nodes, edges):
    source, target = edges[0], edges[1]
    e = m.a(nodes[source] - nodes[target]).squeeze(-1)
    most = torch.full((nodes.shape[0],), -1e9, dtype=e.dtype).scatter_reduce(0, target, e, "amax", include_self=True)
    w = (e - most[target]).exp()
    w = w / torch.zeros(nodes.shape[0], dtype=e.dtype).index_add(0, target, w)[target]
    return torch.zeros(nodes.shape[0], 7, dtype=e.dtype).scatter_add(0, target[:, None].expand(-1, 7), w[:, None] * m.v(nodes)[source])
