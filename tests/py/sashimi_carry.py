"""SaShiMi with carried states: losses and gradients of two chunks that follow each other, beside PyTorch in fp64
with the state detached between them (dense matrices of tests/ref/sashimi.py).

    sashimi_carry.py PROGRAM WORK_FOLDER"""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ref"))
import sashimi  # noqa: E402

program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
BATCH, LENGTH, CHUNKS, LR = 2, 96, 3, 2.0       # the reference kernel wants even lengths at every rate
cfg = sashimi.merged(sashimi.RECIPES["sashimi-small"], {"model": {"length": LENGTH, "layers": 2}, "batch": BATCH})


class Carry:
    """What a layer keeps from chunk to chunk: its states, or an UpPool's last step."""
    keep = torch.ones(BATCH)


def s4_forward(self, u):
    L, k = u.shape[1], self.kernel
    Abar, Bbar, tilde = k.dense()
    eye = torch.eye(Abar.shape[-1], dtype=Abar.dtype)
    C = torch.linalg.solve(eye - torch.linalg.matrix_power(Abar, L), tilde[:, None], left=False)[:, 0]
    x = getattr(self, "carried", torch.zeros(len(u), *tilde.shape, dtype=Abar.dtype)) * Carry.keep[:, None, None]
    y, free = [], x.detach()
    for t in range(L):
        free = torch.einsum("hij,bhj->bhi", Abar, free)
        y.append(torch.einsum("hi,bhi->bh", C, free).real)
    with torch.no_grad():
        for t in range(L):
            x = torch.einsum("hij,bhj->bhi", Abar, x) + Bbar * u[:, t, :, None]
    self.carried = x
    conv = torch.fft.irfft(torch.fft.rfft(u.transpose(1, 2), n=2 * L) * torch.fft.rfft(k(), n=2 * L), n=2 * L)
    return conv[..., :L].transpose(1, 2) + self.D * u + torch.stack(y, 1)


def up_forward(self, x):
    z = self.linear(x)
    last = getattr(self, "carried", torch.zeros_like(z[:, :1])) * Carry.keep[:, None, None]
    self.carried = z[:, -1:].detach()
    y = torch.cat([last, z[:, :-1]], 1)
    return y.unflatten(2, (-1, sashimi.POOL)).transpose(2, 3).flatten(1, 2)


sashimi.S4.forward = s4_forward
sashimi.UpPool.forward = up_forward
torch.manual_seed(3)
model = sashimi.build(cfg)
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
weights, inputs = (os.path.join(work, f) for f in ("theirs.safetensors", "given.safetensors"))
save_file({k: v.contiguous() for k, v in model.state_dict().items()}, weights)
rng = np.random.default_rng(1)
tokens = rng.integers(0, 256, (CHUNKS, BATCH, LENGTH)).astype(np.int32)
target = rng.integers(0, 256, (CHUNKS, BATCH, LENGTH)).astype(np.int32)
carry = np.ones((CHUNKS, BATCH, 1), np.float32)
carry[0] = 0
carry[2, 1] = 0                              # one row begins anew
given = {"tokens": tokens, "target": target, "carry": carry,
         "denominator": np.full((CHUNKS, 1), CHUNKS * BATCH * LENGTH, np.float32)}
save_file({k: torch.from_numpy(v) for k, v in given.items()}, inputs)

model = model.double()
loss = 0
for i in range(CHUNKS):
    Carry.keep = torch.from_numpy(carry[i, :, 0]).double()
    heads = model(torch.from_numpy(tokens[i]).long())
    loss = loss - sashimi.dml_log_prob(heads, torch.from_numpy(target[i]).long(), 8).sum() / (CHUNKS * BATCH * LENGTH)
loss.backward()

recipe = os.path.join(os.path.dirname(__file__), "..", "..", "recipes", "sashimi-small.yaml")
sets = ["model.state_carry=true", f"model.length={LENGTH}", "model.width=8", "model.layers=2", "model.components=6",
        f"batch={BATCH}", f"accumulate={CHUNKS}", "optimizer.kind=sgd", "optimizer.beta1=0", f"optimizer.lr={LR}",
        f"optimizer.slow_lr={LR}", "schedule.kind=constant", "schedule.warmup=0", "ema.rule=none", "validate.every=0"]
before = load_file(weights)
largest = max(float(p.grad.norm()) for p in model.parameters())
good = True
# bf16: what rounding every activation to 8 bits makes of gradients (the median) and of the few that are sums of many
for precision, loss_limit, median_limit, worst_limit in (("fp32", 1e-5, 2e-4, 2e-4), ("bf16", 2e-3, 0.04, 0.25)):
    run = os.path.join(work, precision)
    command = [program, "train", recipe, "--given", inputs, "--init", weights, "--out", run, "--steps", "1", "--quiet",
               "--precision", precision]
    for one in sets:
        command += ["--set", one]
    more = subprocess.run([*command, "--steps", "2"], capture_output=True, text=True)
    good = good and more.returncode == 2 and "ask for --steps 1" in more.stderr and not os.path.exists(run)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = load_file(os.path.join(run, "step-000001.safetensors"))
    mine = json.loads(open(os.path.join(run, "log.jsonl")).readline())["loss"]
    off = abs(mine - loss.item()) / loss.item()
    errors = []
    for name, p in model.named_parameters():
        g = (before[name].double() - after[name].double()) / LR
        # The difference of two fp32 weights is good to half a unit of each.
        slack = float(before[name].abs().max()) * 2 ** -23 * p.numel() ** 0.5 / LR
        error = max(0.0, float((g - p.grad).norm()) - slack) / max(float(p.grad.norm()), 1e-4 * largest)
        errors.append((error, name))
    errors.sort()
    median, (worst, name) = errors[len(errors) // 2][0], errors[-1]
    print(f"{precision}: loss {mine:.7f}, PyTorch {loss.item():.7f}, off by {off:.1e}; gradients off by {median:.1e} in the "
          f"median, worst {name}, {worst:.1e}")
    good = good and off < loss_limit and median < median_limit and worst < worst_limit
sys.exit(0 if good else 1)
