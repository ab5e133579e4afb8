"""A system's weights from PyTorch to us, through training, and back.

    weights_roundtrip.py PROGRAM WORK_FOLDER SYSTEM

For every case of the system: `train --init` takes what the reference saved and its first loss is the reference's own;
the checkpoint after two steps loads into the reference, names and shapes strictly, and there gives the loss that
`train --resume` then reports on the same inputs. The average (ema/NAME) must load as strictly."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import numpy as np  # noqa: E402
import torch  # noqa: E402
from safetensors.numpy import save_file  # noqa: E402
from safetensors.torch import load_file  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "ref"))
import case as ref  # noqa: E402

# Which axis of an input of rank 5 holds the channels; of rank 4 it is 1. A mask has none.
CHANNELS = {"clip": 1, "eps": 1}
STEPS = 3                    # one from PyTorch's weights, a second, one after our checkpoint went through PyTorch
MAX_ERROR = 1e-5             # relative, fp32 on both sides


def ours(name, tensor):
    """An input as our program takes it: channels last, 32-bit counts."""
    x = tensor.numpy()
    if name == "mask":
        return x.astype(np.uint8)
    if name == "keep":
        return x.reshape(-1, 1)
    if x.ndim >= 4:
        x = np.moveaxis(x, 1 if x.ndim == 4 else CHANNELS.get(name, 2), -1)
    return np.ascontiguousarray(x.astype(np.int32) if x.dtype == np.int64 else x)


def given(micros):
    names = [name for part in micros[0] for name in part]
    return {name: np.stack([ours(name, {**batch, **noise}[name]) for batch, noise in micros]) for name in names}


def loss_of(module, cfg, model, weights, micros):
    """What the reference makes of one step's micro-batches; it loads strictly."""
    model = ref.model_at(model, weights, torch.float32)
    with torch.no_grad():
        losses = [float(module.loss(model, *micro)) for micro in micros]
    return sum(losses) / cfg["accumulate"]


def checkpoint(run, step, model):
    """The newest weights and their average as state dicts; nothing else may look like a weight."""
    tensors = load_file(os.path.join(run, f"step-{step:06d}.safetensors"))
    own = {k: v for k, v in tensors.items() if not k.startswith(("ema/", "optimizer.", "run."))}
    state = model.state_dict()
    own = {k: v.long() if k in state and state[k].dtype == torch.int64 else v for k, v in own.items()}
    average = {k[4:]: v for k, v in tensors.items() if k.startswith("ema/")}
    return own, {**own, **average}, len(average)


def compare(program, folder, name):
    cfg = ref.config(name)
    cfg["steps"] = 1000                                  # the schedule's; the run ends earlier
    module, model, micros, _ = ref.prepare(cfg, ref.SEEDS.get(name, 2))
    per_step = cfg["accumulate"]
    micros = micros[:STEPS * per_step]
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    config, weights, inputs, run = (os.path.join(folder, f) for f in ("config.json", "theirs.safetensors", "given.safetensors", "run"))
    with open(config, "w") as f:
        json.dump(cfg, f)
    ref.store(weights, model.state_dict())
    save_file(given(micros), inputs)

    def train(*options):
        subprocess.run([program, "train", *options, "--given", inputs, "--threads", "2", "--quiet"], check=True,
                       stdout=subprocess.DEVNULL)

    fixed = ["--set", "schedule.kind=constant"] if cfg["schedule"]["kind"] == "cosine" else []
    train(config, *fixed, "--init", weights, "--out", run, "--steps", "2")
    before, average, n_average = checkpoint(run, 2, model)
    train("--resume", run, "--steps", "3")
    with open(os.path.join(run, "log.jsonl")) as f:
        losses = [json.loads(line)["loss"] for line in f]
    moved = max(float((before[k] - v.detach()).abs().max()) for k, v in model.named_parameters() if v.requires_grad)
    pairs = [("theirs here", losses[0], loss_of(module, cfg, model, model.state_dict(), micros[:per_step])),
             ("ours there", losses[2], loss_of(module, cfg, model, before, micros[2 * per_step:]))]
    loss_of(module, cfg, model, average, micros[:1])            # for its strict names and shapes
    good = moved > 0 and n_average == (cfg["ema"]["rule"] != "none") * sum(p.requires_grad for p in model.parameters())
    for what, mine, theirs in pairs:
        off = abs(mine - theirs) / abs(theirs)
        print(f"{name}, {what}: loss {mine:.7f}, PyTorch {theirs:.7f}, off by {off:.1e}")
        good = good and off < MAX_ERROR
    print(f"{name}: weights moved by up to {moved:.1e}, {n_average} averages{'' if good else ': WRONG'}")
    return good


def main():
    program, folder, system = sys.argv[1:]
    cases = [c for c, (recipe, _) in ref.CASES.items() if recipe.startswith(system + "-")]
    failed = [c for c in cases if not compare(program, os.path.join(folder, c), c)]
    print(f"{system}: {len(cases)} cases, failed: {', '.join(failed) or 'none'}")
    return bool(failed) or not cases


if __name__ == "__main__":
    sys.exit(main())
