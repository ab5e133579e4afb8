"""Two checkers of a step's memory on the CPU that share no code with the package, and small models.

StorageMeter sees the storages of what operators return; allocator_peak also what they allocate
inside.
"""
import os
import sys
import weakref

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "python"))
try:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves
except ImportError:
    print("skipped: PyTorch is not installed (scripts/setup_torch.sh)")
    sys.exit(77)

F = torch.nn.functional


class StorageMeter(TorchDispatchMode):
    """Live bytes of storages, from the outputs of operators and their deaths."""

    def __init__(self, held):
        super().__init__()
        self.live, self.now, self.peak = {}, 0, 0
        for x in held:
            self.see(x)

    def see(self, x):
        storage = x.untyped_storage()
        key = storage._cdata
        if key in self.live:
            return
        size = storage.nbytes()

        def dead(_):
            del self.live[key]
            self.now -= size
        self.live[key] = weakref.ref(storage, dead)
        self.now += size
        self.peak = max(self.peak, self.now)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor):
                self.see(x)
        return result


def allocator_peak(run):
    """Bytes above the start that PyTorch's CPU allocator handed out at once while run() ran."""
    run()                       # what only the first run makes
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                profile_memory=True) as profile:
        run()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = peak = 0
    for e in sorted(events, key=lambda e: e.start_ns()):
        now += e.nbytes()
        peak = max(peak, now)
    return peak


class Residual(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.GroupNorm(4, width)
        self.first = torch.nn.Conv2d(width, width, 3, padding=1)
        self.batch_norm = torch.nn.BatchNorm2d(width)
        self.relu = torch.nn.ReLU(inplace=True)
        self.dropout = torch.nn.Dropout(0.2)
        self.second = torch.nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        h = self.relu(self.batch_norm(self.first(F.silu(self.norm(x)))))
        return x + self.second(self.dropout(h))


class Mixed(torch.nn.Module):
    """Convolutions, batch norm, dropout, attention, tied and frozen weights."""

    def __init__(self, width=16, blocks=6):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, width, 3, padding=1)
        self.blocks = torch.nn.ModuleList(Residual(width) for _ in range(blocks))
        self.frozen = torch.nn.Linear(width, width).requires_grad_(False)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, 10)
        self.tied = torch.nn.Linear(10, 10)
        self.tied_too = torch.nn.Linear(10, 10)
        self.tied_too.weight = self.tied.weight

    def forward(self, x):
        h = self.stem(x)
        for block in self.blocks:
            h = block(h)
        h = self.frozen(F.avg_pool2d(h, 2).flatten(2).transpose(1, 2))
        q, k, v = self.qkv(h).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1).transpose(1, 2).flatten(2)
        return self.tied_too(F.gelu(self.tied(self.out((h + a).mean(1)))))


class Decoder(torch.nn.Module):
    """A small language model."""

    def __init__(self, width=64, layers=4, words=100):
        super().__init__()
        self.words = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, "gelu", batch_first=True,
                                             norm_first=True) for _ in range(layers))
        self.head = torch.nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        h = self.words(ids)
        for layer in self.layers:
            h = layer(h, src_mask=mask, is_causal=True)
        return self.head(h)


def mixed():
    torch.manual_seed(0)
    return Mixed(), {"x": torch.randn(8, 3, 16, 16), "y": torch.randint(0, 10, (8,))}


def mixed_loss(model, batch):
    out = model(batch["x"])
    return F.cross_entropy(out, batch["y"]), {"best": out.argmax(1)}


def decoder():
    torch.manual_seed(0)
    return Decoder(), torch.randint(0, 100, (4, 65))


def decoder_loss(model, ids):
    return F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def perceptron(width=128, layers=8):
    torch.manual_seed(0)
    parts = [m for _ in range(layers) for m in (torch.nn.Linear(width, width), torch.nn.Tanh())]
    return torch.nn.Sequential(*parts), (torch.randn(256, width), torch.randn(256, width))


def perceptron_loss(model, batch):
    return F.mse_loss(model(batch[0]), batch[1])


failed = 0


def check(what, holds):
    global failed
    failed += not holds
    print("%s: %s" % ("ok" if holds else "FAILED", what), flush=True)


def done():
    sys.exit(failed > 0)
