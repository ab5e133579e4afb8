"""`train --init` of PyTorch's files: the weights of a recipe written by torch.save in every form give the same first loss.

    init_torch.py PROGRAM WORK_FOLDER

The run's own safetensors checkpoint is the measure: a .pt of the same tensors, in both forms, under keys, with the prefixes
of wrappers, in half precision, and in a checkpoint with callbacks and an average, must start where it starts."""
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
SMALL = "unet-small --set model.widths=[8] --set model.groups=4 --set model.heads=2 --set model.height=8 --set model.width=8 --batch 2 --set schedule.kind=constant".split()
failed = 0


def check(ok, *what):
    global failed
    if not ok:
        failed += 1
        print("FAILED:", *what)


def train(*more):
    out = [] if "--out" in more or "--resume" in more else ["--out", "none"]
    return subprocess.run([program, "train", *SMALL, *out, *more], capture_output=True, text=True)


def first_loss(init, *more):
    """Loss of the first step, what was said of --init, and the exit code."""
    out = os.path.join(work, "run")
    shutil.rmtree(out, ignore_errors=True)
    done = train("--steps", "1", "--out", out, "--init", init, *more)
    if done.returncode:
        return None, done.stderr.strip().split("\n")[-1], done.returncode
    log = [json.loads(line) for line in open(os.path.join(out, "log.jsonl"))]
    note = re.search(r"^init: (.*)$", done.stderr, re.M)
    return next(r["loss"] for r in log if "loss" in r), note.group(1) if note else "", 0


def saved(name, obj, old=False):
    path = os.path.join(work, name)
    torch.save(obj, path, _use_new_zipfile_serialization=not old)
    return path


source = os.path.join(work, "source")
done = train("--steps", "2", "--out", source)
check(done.returncode == 0, done.stderr)
step = sorted(f for f in os.listdir(source) if f.endswith(".safetensors"))[-1]
everything = load_file(os.path.join(source, step))
state = {k: v for k, v in everything.items() if not k.startswith(("ema/", "optimizer."))}
plain = os.path.join(work, "plain.safetensors")
save_file(state, plain)
want, note, code = first_loss(plain)
check(code == 0 and note == "", "plain", note, code)


def same(path, note, *more):
    loss, said, code = first_loss(path, *more)
    check(loss == want and said == note, path, "loss", loss, "wanted", want, "said:", said, "wanted:", note, code)


class Callback:
    pass


double = {k: v * 2 for k, v in state.items()}
same(saved("plain.pt", state), "")
same(saved("old.pth", state, old=True), "")
same(saved("nested.ckpt", {"epoch": 3, "state_dict": state, "callbacks": {"c": Callback()}}), "taken from 'state_dict'")
same(saved("lightning.ckpt", {"state_dict": {"model." + k: v for k, v in state.items()}, "callbacks": {"c": Callback()}, "hyper_parameters": Callback()}),
     "taken from 'state_dict', names without 'model.'")
same(saved("parallel.pt", {"module." + k: v for k, v in state.items()}), "names without 'module.'")
same(saved("latent.pt", {"model.diffusion_model." + k: v for k, v in state.items()}, old=True), "names without 'model.diffusion_model.'")
same(saved("both.pt", {"ema": double, "model": state}), "taken from 'model'")
same(saved("strided.pt", {k: v.t().contiguous().t() if v.dim() == 2 else v for k, v in state.items()}), "")
wrapped = os.path.join(work, "wrapped.safetensors")
save_file({"module." + k: v for k, v in state.items()}, wrapped)
same(wrapped, "names without 'module.'")
loss, said, code = first_loss(saved("ema.pt", {"params_ema": double}))
check(code == 0 and loss != want and said == "taken from 'params_ema'", "ema", loss, said)
loss, said, code = first_loss(saved("wide.pt", {k: v.double() for k, v in state.items()}))
check(loss == want, "float64", loss, said)
more = dict(state, **{"first_stage_model.a": torch.ones(3), "b": torch.ones(2)})
loss, said, code = first_loss(saved("more.pt", more))
check(code == 2 and "2 tensors unused (b, first_stage_model.a)" in said, "more", said, code)
same(os.path.join(work, "more.pt"), "0 parameters missing, 2 tensors unused (b, first_stage_model.a)", "--init-partial")
name = next(iter(state))
loss, said, code = first_loss(saved("sparse.pt", dict(state, **{name: torch.eye(3).to_sparse()})))
check(code == 1 and f"{name} cannot be read: it is built by torch._utils _rebuild_sparse_tensor" in said, "sparse", said, code)
loss, said, code = first_loss(saved("other.pt", {"x": torch.ones(2)}))
check(code == 2 and "holds no parameter of this model, but for example x" in said, "other", said, code)
loss, said, code = first_loss(saved("nothing.pt", {"x": 1}))
check(code == 2 and "holds no parameter of this model" in said, "nothing", said, code)
hurt = os.path.join(work, "hurt.pt")
with open(hurt, "wb") as f:
    f.write(open(os.path.join(work, "plain.pt"), "rb").read()[:5000])
loss, said, code = first_loss(hurt)
check(code == 1 and "damaged or incomplete" in said, "hurt", said, code)
print("init from PyTorch's files:", "all start alike" if not failed else f"{failed} FAILED")
sys.exit(failed != 0)
