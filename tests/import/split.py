"""Micro-batches of exported programs: split where the loss is proved a mean or a sum over samples, and only there.

    split.py PROGRAM WORK_FOLDER

A split step has the loss and the updates of PyTorch's whole batch, also where the data decide what counts (ignored targets,
masks); with dropout it has those of our own whole batch.
"""
import json
import math
import os
import shutil
import subprocess
import sys

try:
    import numpy
    import torch
    from safetensors.torch import load_file
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
WORDS, LENGTH, WIDTH, BATCH, RATE = 50, 96, 64, 8, 0.05
passed = failed = 0


def check(good, *said):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"line {sys._getframe(1).f_lineno}:", *said)


def run(*words):
    done = subprocess.run([program, *words], capture_output=True, text=True, env={**os.environ, "OMP_WAIT_POLICY": "passive"})
    check(done.returncode == 0, words, "exit code", done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


class Block(nn.Module):
    def __init__(self, drop):
        super().__init__()
        self.norm1, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm2, self.wide, self.narrow = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.drop, self.rate = nn.Dropout(drop), drop

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = (t.view(b, n, 2, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.rate)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(b, n, WIDTH)))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, loss, drop=0.0):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Parameter(0.1 * torch.randn(LENGTH, WIDTH))
        self.blocks, self.head, self.loss = nn.Sequential(Block(drop), Block(drop)), nn.Linear(WIDTH, WORDS), loss

    def forward(self, ids, labels, mask):
        return self.loss(self.head(self.blocks(self.words(ids) + self.places)), labels, mask, self)


def square(y, mask):
    return F.mse_loss(y, mask[..., None].expand_as(y), reduction="none")


def mixture(x, labels):
    """-log of the mass of each label's bin under a mixture of logistics; 0 where the label is ignored."""
    seen = labels != -100
    w, mean, scale = x.chunk(3, -1)
    scale, k, h = scale.clamp(min=-7.0), labels.where(seen, 0)[..., None], 1 / WORDS
    at, inv = (2 * k / WORDS - 1).to(x.dtype) - mean, torch.exp(-scale)
    low, mid, high = (at - h) * inv, at * inv, (at + h) * inv
    p = F.logsigmoid(high) + F.logsigmoid(-low) + torch.log(-torch.expm1(low - high))
    p = torch.where(p > math.log(1e-5), p, mid - scale - 2 * F.softplus(mid) + math.log(2 * h))
    p = torch.where(k == 0, F.logsigmoid(high), torch.where(k == WORDS - 1, -F.softplus(low), p))
    return (-torch.logsumexp(p + w.log_softmax(-1), -1)).where(seen, 0), seen


PROVED = {
    "mixture": lambda y, labels, mask, m: torch.div(*(t.sum() for t in mixture(y[..., :48], labels))),
    "mixture_mean": lambda y, labels, mask, m: mixture(y[..., :48], labels)[0].mean(),
    "mean": lambda y, labels, mask, m: square(y, mask).mean(),
    "sum": lambda y, labels, mask, m: square(y, mask).sum() * 1e-4,
    "sum_by_batch": lambda y, labels, mask, m: square(y, mask).sum() * 1e-3 / y.shape[0],
    "penalty": lambda y, labels, mask, m: square(y, mask).mean() + 0.01 * m.head.weight.square().sum(),
    "entropy": lambda y, labels, mask, m: F.cross_entropy(y.transpose(1, 2), labels),
    "shifted": lambda y, labels, mask, m: F.cross_entropy(y.reshape(-1, WORDS), F.pad(labels, (0, 1), value=-100)[:, 1:].reshape(-1)),
    "smooth": lambda y, labels, mask, m: F.cross_entropy(y.transpose(1, 2), labels, label_smoothing=0.1),
    "masked": lambda y, labels, mask, m: (square(y, mask).mean(-1) * mask).sum() / mask.sum().clamp(min=1),
    "mean_by_mean": lambda y, labels, mask, m: (square(y, mask).mean(-1) * mask).mean() / (mask.mean() + 1e-3),
    "two": lambda y, labels, mask, m: F.cross_entropy(y.transpose(1, 2), labels) + 0.1 * (y.square().mean((1, 2)) * mask[:, 0]).sum() / mask[:, 0].sum(),
}
REFUSED = {
    "root": (lambda y, labels, mask, m: square(y, mask).mean().sqrt(), "not linear"),
    "product": (lambda y, labels, mask, m: square(y, mask).mean() * y.abs().mean(), "not linear"),
    "centred": (lambda y, labels, mask, m: (y - y.mean(0)).square().mean(), "gives every sample a sum over all of them"),
    "contrast": (lambda y, labels, mask, m: F.cross_entropy(y.mean(1) @ y.mean(1).T, torch.arange(y.shape[0])), "may combine samples"),
    "grows": (lambda y, labels, mask, m: (y * y.shape[0]).square().mean(), "depend on the batch size"),
    "guessed": (lambda y, labels, mask, m: F.cross_entropy(y.transpose(1, 2), y.argmax(-1)), "do not follow from the inputs alone"),
    "weighted": (lambda y, labels, mask, m: (square(y, mask).mean(-1) * y[..., 0]).sum() / y[..., 0].sum(), "divides by a sum over samples"),
}


def export(name, loss, drop=0.0):
    torch.manual_seed(1)
    model = Model(loss, drop)
    inputs = (torch.randint(0, WORDS, (4, LENGTH)), torch.randint(0, WORDS, (4, LENGTH)), torch.rand(4, LENGTH))
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs)
    torch.export.save(torch.export.export(model, inputs, dynamic_shapes=shapes), name + ".pt2")
    return model


def data():
    """Slices of two samples have between none and all of their targets ignored, or masked."""
    torch.manual_seed(2)
    ids, labels, mask = torch.randint(0, WORDS, (BATCH, LENGTH)), torch.randint(0, WORDS, (BATCH, LENGTH)), torch.rand(BATCH, LENGTH)
    labels[torch.rand(BATCH, LENGTH) < 0.4] = -100
    mask = (mask < torch.linspace(0.1, 0.9, BATCH)[:, None]).float()
    labels[2:4], mask[4:6] = -100, 0
    os.makedirs("data")
    for name, x in (("ids", ids), ("labels", labels), ("mask", mask)):
        numpy.save(f"data/{name}.npy", x.numpy())
    return ids, labels, mask


def trained(name, *how):
    shutil.rmtree("run", ignore_errors=True)
    said = json.loads(run("train", name + ".pt2", "--batch", str(BATCH), "--data", "data", "--steps", "2", "--seed", "1", "--quiet", "--json", "--out", "run",
                          "--set", "optimizer.kind=sgd", "--set", f"optimizer.lr={RATE}", "--set", "optimizer.decay=0", *how))
    check(said["planned_bytes"] == said["measured_bytes"], said)
    return said, load_file("run/step-000002.safetensors")


def split_plan(name):
    """A plan that splits: the first budget for which nothing else does."""
    for budget in ("55%kept", "45%kept", "38%kept"):
        run("fit", name + ".pt2", "--batch", str(BATCH), "--budget", budget, "--allow", "split", "--effort", "100", "-o", "plan.json",
            "--set", "optimizer.kind=sgd", "--set", f"optimizer.lr={RATE}", "--set", "optimizer.decay=0")
        with open("plan.json") as f:
            levers = json.load(f)["levers"]
        if levers["split"] > 1:
            break
    check(levers["split"] > 1 and levers["batch"] * levers["accumulate"] == BATCH, name, levers)


def proved(name, loss, batch):
    model = export(name, loss).double()
    start = {k: p.detach().clone() for k, p in model.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        out = model(*(x.double() if x.is_floating_point() else x for x in batch))
        out.backward()
        optimizer.step()
        losses.append(out.item())
    split_plan(name)
    said, found = trained(name, "--plan", "plan.json")
    for have, want in ((said["loss_first"], losses[0]), (said["loss_last"], losses[1])):
        check(abs(have - want) < 2e-5 * abs(want), name, "loss", have, want)
    most = max((p.detach() - start[k]).norm().item() for k, p in model.named_parameters())
    for k, p in model.named_parameters():
        moved = (p.detach() - start[k]).norm().item()
        error = (found[k].double() - p.detach()).norm().item()
        check(error < 2e-4 * max(moved, 1e-4 * most) + 2e-7 * p.norm().item(), name, k, "differs by", error, "having moved by", moved)


def dropout(name, loss):
    """Random numbers belong to samples, so the slices draw those of the whole."""
    export(name, loss, 0.2)
    whole, kept = trained(name)
    split_plan(name)
    said, found = trained(name, "--plan", "plan.json")
    check(said["planned_bytes"] < whole["planned_bytes"], said["planned_bytes"])
    check(abs(said["loss_last"] - whole["loss_last"]) < 1e-5 * abs(whole["loss_last"]), said["loss_last"], whole["loss_last"])
    for k in found:
        if kept[k].is_floating_point():
            check(torch.allclose(found[k], kept[k], rtol=1e-3, atol=1e-5), name, k)


def refused(name, loss, reason):
    export(name, loss)
    said = " ".join(run("explain", name + ".pt2", "--batch", str(BATCH), "--effort", "-1").split())
    check("a micro-batch is not split: " in said and reason in said and ("split.py:" in said), name, said[:1500])


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
os.chdir(work)
given = data()
for each, how in PROVED.items():
    proved(each, how, given)
dropout("dropped", PROVED["entropy"])
for each, (how, why) in REFUSED.items():
    refused(each, how, why)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
