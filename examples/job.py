"""What the five examples share: running plimsoll, killing a run, PyTorch's side of the weights.

Each example is one job from a user's own files to a judged result. It runs the commands that you would type, prints each
with its output, and stops at the first that fails. Read the example; this file is only glue.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import types

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SKIPPED = 77


def skip(reason):
    print("skipped:", reason)
    sys.exit(SKIPPED)


try:
    import numpy as np
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    skip(f"{error.name} is not installed here (scripts/setup_torch.sh makes .venv with it)")

sys.path.insert(0, os.path.join(ROOT, "tests", "ref"))
import common  # noqa: E402
import systems  # noqa: E402

torch.set_num_threads(2)
MAX_ERROR = 1e-5                      # relative, of the loss: fp32 on both sides


class Job:
    """A folder to work in, a program, a recipe."""

    def __init__(self, recipe, about):
        parser = argparse.ArgumentParser(description=about.strip().split("\n")[0])
        parser.add_argument("work", nargs="?", default=os.path.join("runs", "example-" + recipe), help="folder for everything")
        parser.add_argument("--program", default=os.path.join(ROOT, "build", "plimsoll"))
        args = parser.parse_args()
        self.recipe, self.work, self.program = recipe, args.work, os.path.abspath(args.program)
        if not os.path.exists(self.program):
            sys.exit(f"{args.program} is not there: run make, or name the program with --program")
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def folder(self, *parts):
        os.makedirs(self.path(*parts), exist_ok=True)
        return self.path(*parts)

    # ---- plimsoll ----

    def plimsoll(self, *words, code=0):
        """Runs a command as a user would type it. -> what it printed."""
        print("\n$ plimsoll", *words, flush=True)
        done = subprocess.run([self.program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout.rstrip(), flush=True)
        if done.returncode != code:
            sys.exit(f"that command ended with {done.returncode} instead of {code}")
        return done.stdout

    def has(self, command):
        return subprocess.run([self.program, "help", command], capture_output=True).returncode == 0

    def train_and_kill(self, run, at, *words):
        """Starts a training and kills it (SIGKILL) once a checkpoint at or after step `at` is whole."""
        print("\n$ plimsoll train", *words, "--out", run, "&", flush=True)
        with open(self.path("killed.log"), "w") as log:
            process = subprocess.Popen([self.program, "train", *map(str, words), "--out", run], stdout=log, stderr=log)
            while process.poll() is None and newest(run) < at:
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
            process.wait()
        print(open(self.path("killed.log")).read().replace("\r", "\n").rstrip())
        if newest(run) < at:
            sys.exit("the training ended before it could be killed")
        print(f"$ kill -9 {process.pid}    # after step {newest(run)} was saved")

    def evaluate(self, run, *words):
        if self.has("evaluate"):
            return self.plimsoll("evaluate", run, *words)
        print("\n(this build has no evaluate)")

    # ---- PyTorch ----

    def config(self, *words):
        """The keys that the run will have, for the reference: those of the recipe's starting weights."""
        start = self.path("start")
        self.plimsoll("train", self.recipe, *words, "--steps", 0, "--out", start, "--quiet")
        return recipe_keys(os.path.join(start, "recipe.yaml"))

    def reference(self, cfg, seed=1):
        """The original's model, with starting weights of its own. No tensor is all zero."""
        torch.manual_seed(seed)
        module = systems.MODULES[cfg["system"]]
        return common.perturb_zeros(module.build(cfg), torch.Generator().manual_seed(seed))

    def same_loss(self, run, weights, cfg, load=load_file, seed=5):
        """The reference loads what export wrote, strictly; on the same batch and noise both must give the same loss."""
        module, gen = systems.MODULES[cfg["system"]], torch.Generator().manual_seed(seed)
        model = module.build(cfg)                       # batch norm as in training
        model.load_state_dict(load(weights))
        micros = [module.make_batch(cfg, gen) for _ in range(cfg["accumulate"])]
        with torch.no_grad():
            theirs = sum(float(module.loss(model, *micro)) for micro in micros) / len(micros)
        given = self.path("given.safetensors")
        names = [name for part in micros[0] for name in part]
        save_file({name: torch.stack([channels_last(name, {**batch, **noise}[name]) for batch, noise in micros]) for name in names}, given)
        said = self.plimsoll("train", os.path.join(run, "recipe.yaml"), "--init", weights, "--given", given, "--steps", 1, "--out", "none", "--json")
        ours = json.loads(said[said.index("{\n"):])["loss_first"]
        error = abs(ours - theirs) / abs(theirs)
        print(f"loss with {os.path.basename(weights)}: plimsoll {ours:.7f}, PyTorch {theirs:.7f}, relative difference {error:.1e}")
        if not error < MAX_ERROR:
            sys.exit("the losses differ")


def newest(run):
    """The step of the newest whole checkpoint, or 0."""
    names = os.listdir(run) if os.path.isdir(run) else []
    return max([int(m.group(1)) for m in (re.fullmatch(r"step-(\d+)\.json", n) for n in names) if m], default=0)


def recipe_keys(path):
    """RUN/recipe.yaml: two levels of keys, each with one plain value."""
    def value(text):
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return text
    keys = section = {}
    for line in open(path):
        name, _, text = line.split("#")[0].rstrip().partition(":")
        if not name:
            continue
        if not name.startswith(" "):
            section = keys
        if text:
            section[name.strip()] = value(text.strip())
        else:
            section = keys[name] = {}
    base = next(cfg for cfg in systems.RECIPES.values() if cfg["system"] == keys["system"])
    return common.merged(base, keys)


# Which axis of a clip (B, C, F, H, W) holds the channels; of a set or sequence (B, F, C, H, W) it is 2, of an image 1.
CLIPS = ("clip", "eps")


def channels_last(name, x):
    """A tensor of the reference as plimsoll takes it: channels last, 32-bit counts."""
    if name == "mask":
        return x.to(torch.uint8)
    if name == "keep":
        return x.reshape(-1, 1)
    if x.dim() >= 4:
        x = x.movedim(1 if x.dim() == 4 or name in CLIPS else 2, -1)
    return (x.to(torch.int32) if x.dtype == torch.int64 else x).contiguous()


def lightning_checkpoint(path, state, optimizer=None, **more):
    """A .ckpt as PyTorch Lightning writes it: objects of many classes around the weights. The classes are gone afterwards, as
    they are on the machine of somebody who only has the file."""
    gone = types.ModuleType("my_project.callbacks")
    exec("class ModelCheckpoint:\n    def __init__(self): self.best_model_path = 'a.ckpt'; self.me = self\n"
         "class Config(dict):\n    pass\nclass Schedule:\n    def __init__(self): self.rates = [1e-4, 5e-5]\n", gone.__dict__)
    for name in ("ModelCheckpoint", "Config", "Schedule"):
        getattr(gone, name).__module__ = gone.__name__
    sys.modules["my_project"], sys.modules[gone.__name__] = types.ModuleType("my_project"), gone
    torch.save({"epoch": 12, "global_step": 48000, "pytorch-lightning_version": "2.4.0", "state_dict": state,
                "callbacks": {"ModelCheckpoint{'monitor': 'val/loss'}": {"best_model_score": torch.tensor(0.1), "object": gone.ModelCheckpoint()}},
                "optimizer_states": [optimizer] if optimizer else [], "lr_schedulers": [gone.Schedule()],
                "hyper_parameters": gone.Config(lr=1e-4), **more}, path)
    del sys.modules["my_project"], sys.modules[gone.__name__]


# ---- made-up data ----

def ffmpeg(*words, data=None):
    if not shutil.which("ffmpeg"):
        skip("ffmpeg is not installed here (scripts/setup_media.sh)")
    subprocess.run(["ffmpeg", "-v", "error", "-y", *map(str, words)], input=data, check=True, stdin=subprocess.DEVNULL if data is None else None)


def need_plugin(job, name):
    if not os.path.exists(os.path.join(os.path.dirname(job.program), f"libplimsoll_{name}.so")):
        skip(f"the plugin for {name} is not built here (make media)")
