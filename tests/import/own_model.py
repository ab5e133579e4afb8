"""README's "Your own model", run as it stands, and what a user of an exported model meets on the way.

    own_model.py PROGRAM WORK_FOLDER
"""
import os
import re
import shutil
import subprocess
import sys

try:
    import torch
    from safetensors.torch import load_file, save_file
    import numpy
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
here = os.path.dirname(os.path.abspath(__file__))
passed = failed = 0


def check(good, *said):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"line {sys._getframe(1).f_lineno}:", *said)


def run(*words, code=0):
    environment = {**os.environ, "PATH": os.path.dirname(program) + os.pathsep + os.environ["PATH"], "OMP_WAIT_POLICY": "passive"}
    done = subprocess.run([program, *words], capture_output=True, text=True, env=environment)
    check(done.returncode == code, words, "exit code", done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout + done.stderr


def refused(*words, says, code=2):
    said = run(*words, code=code)
    check(says in " ".join(said.split()) and said.count("plimsoll: ") == 1, words, said)


def export(module, inputs, path, free=True):
    shapes = tuple({0: torch.export.Dim.DYNAMIC} for _ in inputs) if free is True else free
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=shapes or None), path)


def loss_of(said):
    return float(re.search(r"loss ([-\d.]+) -> ([-\d.]+)", said).group(2))


def readme():
    """Runs the section's blocks in order: Python in one namespace, commands by the shell."""
    with open(os.path.join(here, "..", "..", "README.md")) as f:
        section = f.read().split("## Your own model")[1].split("\n## ")[0]
    os.makedirs("data")
    numpy.save("data/images.npy", torch.randn(32, 3, 32, 32).tanh().numpy())
    names, said, blocks = {}, {}, re.findall(r"^```(\w+)[^\n]*\n(.*?)^```", section, re.M | re.S)
    check([kind for kind, _ in blocks] == ["python", "console", "python"], [kind for kind, _ in blocks])
    for kind, text in blocks:
        if kind == "python":
            exec(text, names)
        else:
            for line in text.splitlines():
                check(line.startswith("$ plimsoll "), line)
                words = line.split()[2:]
                said[words[0]] = run(*words)
    check("unet_loss.py:18" in said["explain"] and "unet.up" in said["explain"], said["explain"])
    check("batch 8 x 1" in said["explain"], said["explain"])
    check("images" not in said["train"] or "drawn at random" not in said["train"], said["train"])
    planned = re.search(r"([\d,]+) planned = ([\d,]+) measured", " ".join(said["train"].split()))
    check(planned and planned.group(1) == planned.group(2), said["train"])
    check("arrays, 32 samples from data" in said["train"], said["train"])
    model, saved = names["model"], load_file("run/step-000020.safetensors")
    for name, p in model.named_parameters():
        check(torch.equal(p, saved[name]), name)
    return model


def resumed():
    """A run that was stopped has the bits of one that was not, and needs no option again."""
    run("train", "model.pt2", "--batch", "8", "--plan", "plan.json", "--data", "data", "--steps", "12", "--out", "half", "--quiet")
    run("train", "--resume", "half", "--steps", "20", "--quiet")
    one, two = load_file("run/step-000020.safetensors"), load_file("half/step-000020.safetensors")
    check(all(torch.equal(one[k], two[k]) for k in one), "resumed bits")
    shutil.copy("model.pt2", "kept.pt2")
    with open("model.pt2", "ab") as f:
        f.write(b"\0")
    refused("train", "--resume", "half", "--steps", "21", says="has changed since this run was begun")
    os.remove("model.pt2")
    refused("train", "--resume", "half", "--steps", "21", says="say where it is with --set model.file=PATH")
    run("train", "kept.pt2", "--resume", "half", "--steps", "21", "--quiet")
    shutil.copy("kept.pt2", "model.pt2")


def weights(model):
    torch.save(model.state_dict(), "state.pt")
    for name in ("weights.safetensors", "state.pt"):
        run("train", "model.pt2", "--init", name, "--steps", "0", "--out", "from-" + name, "--quiet")
        begun = load_file(f"from-{name}/step-000000.safetensors")
        check(all(torch.equal(p, begun[n]) for n, p in model.named_parameters()), name)
    other = load_file("weights.safetensors")
    other["alpha"] = other["alpha"] + 1
    save_file(other, "other.safetensors")
    refused("train", "model.pt2", "--init", "other.safetensors", "--steps", "0", says="alpha, which was exported with other contents")
    run("export", "run", "-o", "half.safetensors", "--fp16")
    halves = load_file("half.safetensors")
    check(all(torch.equal(halves[n], p.half()) for n, p in model.named_parameters()), "fp16")
    refused("export", "run", "-o", "x.safetensors", "--ema", says="leave out --ema")
    refused("export", "run", "-o", "x.safetensors", "--checkpoint", "3", says="no complete checkpoint of step 3", code=1)
    refused("export", "nowhere", "-o", "x.safetensors", says="is not a run")
    refused("export", "run", says="plimsoll export RUN -o weights.safetensors")
    check(not os.path.exists("x.safetensors"), "a file of a failed export")
    run("train", "model.pt2", "--set", "ema.rule=constant", "--set", "ema.decay=0.5", "--set", "optimizer.lr=0.01", "--steps", "3", "--out", "mean", "--quiet")
    run("export", "mean", "-o", "mean.safetensors", "--ema")
    mean, saved = load_file("mean.safetensors"), load_file("mean/step-000003.safetensors")
    check(all(torch.equal(mean[n], saved["ema/" + n]) for n, _ in model.named_parameters()), "ema")
    check(not torch.equal(mean["unet.last.weight"], saved["unet.last.weight"]), "ema differs")


class Classes(torch.nn.Module):
    """Batch norm, a tied weight, an integer input, a table given once; returns no loss."""

    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(11, 6)
        self.norm = torch.nn.BatchNorm1d(6)
        self.head = torch.nn.Linear(6, 11, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("scale", torch.tensor([0.5, 2.0]))

    def forward(self, ids, table):
        return self.head(self.norm(self.words(ids)) + table.sum(0)) * self.scale[1]


def classes():
    torch.manual_seed(0)
    model = Classes().train()
    inputs = (torch.tensor([1, 2, 10, 4]), torch.randn(3, 6))
    export(model, inputs, "classes.pt2", ({0: torch.export.Dim.DYNAMIC}, None))
    refused("explain", "classes.pt2", says="name one with --loss mse, l1 or cross-entropy")
    refused("explain", "classes.pt2", "--loss", "msee", says="did you mean 'mse'")
    refused("explain", "unet-small", "--loss", "mse", says="has its own loss")
    said = run("train", "classes.pt2", "--loss", "cross-entropy", "--steps", "2")
    check("ids below 11" in said and "target below 11" in said and "table from N(0,1)" in said, said)
    run("explain", "classes.pt2", "--loss", "cross-entropy", "--html", "classes.html", "--effort", "100")
    with open("classes.html") as f:
        check("a micro-batch is split only with --allow batchnorm-split: " in f.read(), "batch norm needs whole batches, and the page says so")
    os.makedirs("words")
    ids, target = torch.tensor([3, 0, 7, 10]), torch.tensor([1, 5, 5, 9])
    numpy.save("words/ids.npy", ids.numpy())
    numpy.savez_compressed("words/rest.npz", table=inputs[1].double().numpy())
    refused("train", "classes.pt2", "--loss", "cross-entropy", "--data", "words", says="nothing for the model's inputs 'target': add target.npy")
    numpy.save("words/target.npy", target.numpy())
    # all four samples are one batch, so their order does not matter
    said = run("train", "classes.pt2", "--loss", "cross-entropy:0", "--data", "words", "--steps", "3", "--set", "optimizer.lr=0", "--set",
               "optimizer.decay=0", "--out", "words-run")
    with torch.no_grad():
        for _ in range(3):
            want = torch.nn.functional.cross_entropy(model(ids, inputs[1]), target).item()
    check(abs(loss_of(said) - want) < 2e-5, said, want)
    run("export", "words-run", "-o", "classes.safetensors")
    again = Classes()
    again.load_state_dict(load_file("classes.safetensors"))
    for (name, a), b in zip(again.state_dict().items(), model.state_dict().values()):
        check(torch.allclose(a, b, atol=1e-6), name, a, b)
    check(again.norm.num_batches_tracked.item() == 3, again.norm.num_batches_tracked)
    export(model, inputs, "fixed.pt2", None)
    refused("explain", "fixed.pt2", "--loss", "cross-entropy", "--batch", "8", says="torch.export.Dim.DYNAMIC")


class Averages(torch.nn.Module):
    """What forward writes to its buffers is there in the next step, in a resumed run, and in the export."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("seen", torch.zeros(6, dtype=torch.bool))

    def forward(self, x):
        h = self.layer(x)
        with torch.no_grad():
            self.mean.mul_(0.9).add_(h.mean(0), alpha=0.1)
            self.steps += 1
            self.seen.logical_or_(h.mean(0) > 0)
        return ((h - self.mean) * (1 + self.steps)).square().mean()


def states():
    torch.manual_seed(0)
    model, x = Averages(), torch.randn(4, 6)
    export(model, (x,), "averages.pt2", ({0: torch.export.Dim.DYNAMIC},))
    os.makedirs("given")
    numpy.save("given/x.npy", x.numpy())
    still = ["--data", "given", "--set", "optimizer.lr=0", "--set", "optimizer.decay=0"]
    said = run("train", "averages.pt2", *still, "--steps", "3", "--out", "averages")
    with torch.no_grad():
        want = [model(x).item() for _ in range(3)][-1]
    check(abs(loss_of(said) - want) < 1e-4 * want, said, want)
    run("export", "averages", "-o", "averages.safetensors")
    again = Averages()
    again.load_state_dict(load_file("averages.safetensors"))
    for (name, a), b in zip(again.state_dict().items(), model.state_dict().values()):
        check(a.dtype == b.dtype and torch.allclose(a.double(), b.double(), atol=1e-6), name, a, b)
    run("train", "averages.pt2", *still, "--steps", "2", "--out", "averages-half", "--quiet")
    run("train", "--resume", "averages-half", "--steps", "3", "--quiet")
    one, two = (load_file(f"{name}/step-000003.safetensors") for name in ("averages", "averages-half"))
    check(all(torch.equal(one[k], two[k]) for k in one), "buffers of a resumed run")
    run("train", "averages.pt2", *still, "--init", "averages.safetensors", "--steps", "1", "--out", "none", "--quiet")
    refused("train", "averages.pt2", "--precision", "bf16", "--steps", "1", says="so use --precision fp32")
    said = run("explain", "averages.pt2", "--batch", "8", "--effort", "-1")
    check("a micro-batch is not split" in " ".join(said.split()), said)


def options():
    refused("explain", "averages.pt2", "--set", "model.freeze=[layr.*]", says="model.freeze: no parameter's name matches 'layr.*'")
    refused("explain", "averages.pt2", "--loss", "mse:5", says="has no output '5'; its outputs are 0: ")
    said = run("fit", "averages.pt2", "--batch", "8", "--set", "optimizer.lr=1e-3", "--budget", "90%kept", "--effort", "100", "-o", "averages.json")
    check("next: plimsoll train averages.pt2 --batch 8 --set optimizer.lr=1e-3 --plan averages.json" in said, said)
    run("train", "averages.pt2", "--batch", "8", "--set", "optimizer.lr=1e-3", "--plan", "averages.json", "--steps", "1", "--out", "none")
    run("train", "averages.pt2", "--init", "none", "--seed", "1", "--steps", "0", "--out", "drawn")
    drawn, file = load_file("drawn/step-000000.safetensors"), Averages().state_dict()
    check(not torch.equal(drawn["layer.weight"], file["layer.weight"]) and not drawn["layer.bias"].any(), "weights that are drawn")


class Wide(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([0.1, 0.2, 0.3]))

    def forward(self, x):
        return (x.double() * self.scale.double()).square().mean().float()


def pages():
    export(Wide(), (torch.randn(4, 3),), "wide.pt2")
    said = run("explain", "wide.pt2", "--effort", "-1")
    check("computed in fp32 instead of float64: " in " ".join(said.split()) and "own_model.py:" in said, said)
    run("explain", "model.pt2", "--html", "page.html", "--time-limit", "2")
    with open("page.html") as f:
        page = f.read()
    check("unet_loss.py:18" in page, "the page has the user's lines")
    said = run("explain", "model.pt2", "--set", "model.freeze=[unet.first.*]", "--effort", "-1")
    check("frozen: 2 tensors" in " ".join(said.split()), said)
    said = run("compare", "model.pt2", "--sweep", "batch=2,4", "--budget", "64MiB", "--effort", "100")
    check("batch=4" in said, said)


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
os.chdir(work)
shutil.copy(os.path.join(here, "unet_loss.py"), ".")
sys.path.insert(0, work)
torch.manual_seed(1)
trained = readme()
resumed()
weights(trained)
classes()
states()
options()
pages()
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
