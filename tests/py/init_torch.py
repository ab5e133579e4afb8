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
# Averages: asked for, left out, of LitEma (names without dots), beside what they do not cover.
half = {k: v * 0.5 for k, v in state.items()}
loss_half, _, _ = first_loss(saved("half.pt", half))
check(loss_half != want, "half", loss_half)


def average(path, note, *more):
    got, said, code = first_loss(path, "--ema", *more)
    check(got == loss_half and said == note, path, "--ema: loss", got, "wanted", loss_half, "said:", said, "wanted:", note, code)


OF = "averaged weights, taken from "
both = saved("both.pt", {"ema": half, "model": state, "optimizer": {"state": {}}})
same(both, "taken from 'model'")
average(both, OF + "'ema'")
average(saved("ema_model.pt", {"model": state, "ema": {**{"online_model." + k: v for k, v in state.items()}, **{"ema_model." + k: v for k, v in half.items()}, "step": torch.tensor(3)}}),
        OF + "'ema', names without 'ema_model.'")
average(saved("callback.ckpt", {"state_dict": {"model." + k: v for k, v in state.items()}, "callbacks": {"EMA": {"ema_state_dict": {"model." + k: v for k, v in half.items()}, "o": Callback()}}}),
        OF + "'callbacks.EMA.ema_state_dict', names without 'model.'")
lit = saved("lit.ckpt", {"state_dict": {**{"model." + k: v for k, v in state.items()}, **{"model_ema." + k.replace(".", ""): v for k, v in half.items()}}})
average(lit, OF + "'state_dict', names without 'model_ema.'")
same(lit, f"taken from 'state_dict', names without 'model.'; {len(state)} averaged weights are left out (--ema takes them)")
got, said, code = first_loss(os.path.join(work, "plain.pt"), "--ema")
check(code == 2 and "has no averaged weights of this model" in said, "no average", said, code)
first = next(iter(state))
average(saved("some.pt", {"model": half, "ema": {k: v for k, v in half.items() if k != first}}), OF + "'ema'")

# Any beginning of names; tensors that are views, in other types and orders.
same(saved("deep.pt", {"a": {"b": {"net._orig_mod.module." + k: v for k, v in state.items()}}}), "taken from 'a.b', names without 'net._orig_mod.module.'")
flat = torch.cat([v.reshape(-1) for v in state.values()])
views, at = {}, 0
for k, v in state.items():
    views[k] = flat[at:at + v.numel()].view(v.shape)
    at += v.numel()
same(saved("shared.pt", views), "")
same(saved("shared-old.pt", views, old=True), "")
for dtype in torch.float16, torch.bfloat16:
    rounded = {k: v.to(dtype) for k, v in state.items()}
    got, said, code = first_loss(saved("low.pt", rounded))
    check(got == first_loss(saved("rounded.pt", {k: v.float() for k, v in rounded.items()}))[0], dtype, got, said)

# Our own checkpoint, by its file and by its run.
own = os.path.join(source, step)
for name in own, source:
    same(name, "")
got, said, code = first_loss(source, "--ema")
check(got == first_loss(saved("own.pt", {k: everything.get("ema/" + k, v) for k, v in state.items()}))[0] and said == "averaged weights, names without 'ema/'",
      "own average", got, said)
empty = os.path.join(work, "empty")
os.makedirs(empty)
got, said, code = first_loss(empty)
check(code == 2 and "is neither a run nor a folder with weights" in said, "folder", said, code)
open(os.path.join(empty, "_METADATA"), "w").close()
got, said, code = first_loss(empty)
check(code == 2 and "is an Orbax checkpoint" in said and "flax.serialization.to_bytes" in said, "orbax", said, code)
done = train("--steps", "1", "--ema")
check(done.returncode == 2 and "--ema takes the averaged weights of the file of --init" in done.stderr, "ema alone", done.stderr)

# Folders of Hugging Face's libraries: one file among others, and parts with an index.
names = list(state)
parts = [{k: state[k] for k in names[i::3]} for i in range(3)]


def index(folder, stem, write, ending=".safetensors"):
    os.makedirs(os.path.join(work, folder))
    files = [f"{stem}-{i + 1:05d}-of-00003{ending}" for i in range(3)]
    for part, file in zip(parts, files):
        write(part, os.path.join(work, folder, file))
    path = os.path.join(work, folder, f"{stem}{ending}.index.json")
    with open(path, "w") as f:
        json.dump({"metadata": {"total_size": 1}, "weight_map": {k: files[i % 3] for i, k in enumerate(names)}}, f, indent=2)
    return path


same(index("shards", "model", save_file), "")
same(os.path.join(work, "shards"), "")
same(index("bins", "pytorch_model", torch.save, ".bin"), "")
one = os.path.join(work, "shards", "model-00001-of-00003.safetensors")
got, said, code = first_loss(one)
check(code == 2 and "it is one of several files: name their folder instead" in said, "shard", said, code)
os.remove(one)
got, said, code = first_loss(os.path.join(work, "shards"))
check(code == 1 and "one of 3 files; download it too" in said, "a shard that is missing", said, code)
open(os.path.join(work, "shards", "config.json"), "w").write('{"architectures": ["UNet"]}')
got, said, code = first_loss(os.path.join(work, "shards", "config.json"))
check(code == 2 and "no index of weights" in said, "config.json", said, code)
diffusers = os.path.join(work, "diffusers")
os.makedirs(diffusers)
for file, tensors in ("diffusion_pytorch_model.safetensors", state), ("optimizer.safetensors", parts[0]):
    save_file(tensors, os.path.join(diffusers, file))
same(diffusers, "")
os.rename(os.path.join(diffusers, "diffusion_pytorch_model.safetensors"), os.path.join(diffusers, "last.safetensors"))
got, said, code = first_loss(diffusers)
check(code == 2 and "several files with weights (last.safetensors, optimizer.safetensors)" in said, "two files", said, code)

got, said, code = first_loss(saved("bare.pt", torch.zeros(3)))
check(code == 2 and "for example a tensor without a name" in said, "a bare tensor", said, code)
got, said, code = first_loss(saved("shape.pt", dict(state, **{names[0]: torch.zeros(7, 7)})))
check(code == 1 and "is (7,7), the model has" in said and "--init-partial" in said, "shape", said, code)

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
