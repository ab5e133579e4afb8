"""Flax's files in and out: `train --init x.msgpack`, `export -o x.msgpack`, against msgpack and, where it is installed, Flax itself.

    flax_file.py PROGRAM WORK_FOLDER

The tree is written and read here with nothing but the package msgpack, from the description of the format; flax.serialization
(scripts/setup_jax.sh) must give the same trees, and the files that it writes must start a run alike."""
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import numpy as np  # noqa: E402
from safetensors.numpy import load_file, save_file  # noqa: E402

try:
    import msgpack
except ImportError:
    print("skipped: msgpack is not installed here (scripts/setup_torch.sh makes .venv with it)")
    sys.exit(77)

program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
jax = os.environ.get("PLIMSOLL_JAX", os.path.join(ROOT, ".venv-jax", "bin", "python"))
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
SMALL = "lag-small --set model.image=8 --set model.hidden=36 --set model.context_width=16 --set model.depth=1 --set model.encoder_depth=1 --batch 2".split()
failed = 0

# In the interpreter of .venv-jax: WORK. Writes files as a program of Flax does, and reads ours.
WITH_FLAX = """
import sys, numpy as np, jax, jax.numpy as jnp, flax.serialization as fs
from flax import struct
from safetensors.numpy import load_file, save_file
work = sys.argv[1]
def tree(flat):
    out = {}
    for name, x in flat.items():
        *path, last = name.split('.')
        d = out
        for part in path: d = d.setdefault(part, {})
        d[last] = x
    return out
def flat(d, p=''):
    return {k: v for name, x in d.items() for k, v in (flat(x, p + name + '.') if isinstance(x, dict) else {p + name: x}).items()}
@struct.dataclass
class State:
    step: int
    params: dict
    ema_params: dict
    opt_state: tuple
params = tree({k: jnp.asarray(v) for k, v in load_file(work + '/start.safetensors').items()})
half = jax.tree.map(lambda x: x * 0.5, params)
state = State(7, params, half, ({'mu': half, 'nu': half, 'count': jnp.int32(3)}, None))
write = lambda name, x: open(work + '/' + name, 'wb').write(fs.to_bytes(x))
write('plain.msgpack', params)
write('state.msgpack', state)
write('bf16.msgpack', {'params': jax.tree.map(lambda x: x.astype(jnp.bfloat16), params)})
fs.MAX_CHUNK_SIZE = 256
write('chunks.msgpack', params)
back = flat(fs.msgpack_restore(open(work + '/ours.msgpack', 'rb').read()))
save_file({k: np.array(v) for k, v in back.items()}, work + '/back.safetensors')
half16 = flat(fs.msgpack_restore(open(work + '/ours16.msgpack', 'rb').read()))
print({str(v.dtype) for v in half16.values()})
"""


def check(ok, *what):
    global failed
    if not ok:
        failed += 1
        print("FAILED:", *what)


def run(*words):
    return subprocess.run([program, *words], capture_output=True, text=True)


def first_loss(init, *more):
    out = os.path.join(work, "run")
    shutil.rmtree(out, ignore_errors=True)
    done = run("train", *SMALL, "--steps", "1", "--out", out, "--init", init, *more)
    if done.returncode:
        return None, done.stderr.strip().split("\n")[-1], done.returncode
    log = [json.loads(line) for line in open(os.path.join(out, "log.jsonl"))]
    said = [line[6:] for line in done.stderr.split("\n") if line.startswith("init: ")]
    return next(r["loss"] for r in log if "loss" in r), said[0] if said else "", 0


def same(name, note, *more, loss=None):
    got, said, code = first_loss(os.path.join(work, name), *more)
    check(got == (want if loss is None else loss) and said == note, name, more, "loss", got, "said:", said, "wanted:", note, code)


def array(x, chunk=None):
    if chunk and x.nbytes > chunk:
        n = chunk // x.itemsize
        parts = {str(i): array(x.reshape(-1)[i * n:(i + 1) * n]) for i in range(-(-x.size // n))}
        return {"__msgpack_chunked_array__": True, "shape": {str(i): s for i, s in enumerate(x.shape)}, "chunks": parts}
    return msgpack.ExtType(1, msgpack.packb((x.shape, x.dtype.name, x.tobytes())))


def tree(flat, chunk=None):
    out = {}
    for name, x in flat.items():
        *path, last = name.split(".")
        d = out
        for part in path:
            d = d.setdefault(part, {})
        d[last] = array(x, chunk)
    return out


def flat(d, path=""):
    out = {}
    for name, x in d.items():
        if isinstance(x, dict):
            out.update(flat(x, path + name + "."))
        else:
            check(x.code == 1, "extension", x.code)
            shape, dtype, data = msgpack.unpackb(x.data)
            out[path + name] = np.frombuffer(data, dtype).reshape(shape)
    return out


def written(name, value):
    with open(os.path.join(work, name), "wb") as f:
        f.write(msgpack.packb(value))
    return name


def read(name):
    with open(os.path.join(work, name), "rb") as f:
        return flat(msgpack.unpackb(f.read(), strict_map_key=True))


# Weights of which none is zero, so that each takes part in the loss.
done = run("train", *SMALL, "--steps", "0", "--out", os.path.join(work, "source"))
check(done.returncode == 0, done.stderr)
first = load_file(os.path.join(work, "source", "step-000000.safetensors"))
rng = np.random.default_rng(1)
start = {k: v if v.any() else rng.normal(0, 0.02, v.shape).astype(np.float32) for k, v in first.items() if not k.startswith(("ema/", "optimizer.", "run."))}
save_file(start, os.path.join(work, "start.safetensors"))
want, said, code = first_loss(os.path.join(work, "start.safetensors"))
check(code == 0, said)

# In.
half = {k: np.asarray(v * np.float32(0.5)) for k, v in start.items()}
save_file(half, os.path.join(work, "half.safetensors"))
want_half, _, _ = first_loss(os.path.join(work, "half.safetensors"))
check(want_half != want, "half")
same(written("plain.msgpack", tree(start)), "")
same(written("chunks.msgpack", tree(start, chunk=256)), "")
same(written("wide.msgpack", tree({k: v.astype(np.float64) for k, v in start.items()})), "")
state = {"step": 7, "params": tree(start), "ema_params": tree(half), "opt_state": {"0": {"mu": tree(half), "nu": tree(half)}}, "cfg": {"a": [1, 2.5, None, True, "x"], "rng": array(np.arange(2, dtype=np.uint32))}}
same(written("state.msgpack", state), "taken from 'params'")
same("state.msgpack", "averaged weights, taken from 'ema_params'", "--ema", loss=want_half)
name = next(iter(start))
_, said, code = first_loss(os.path.join(work, written("less.msgpack", tree({k: v for k, v in start.items() if k != name}))))
check(code == 2 and f"1 parameters missing ({name})" in said, "less", said, code)
_, said, code = first_loss(os.path.join(work, written("complex.msgpack", tree({**start, name: start[name].astype(np.complex64)}))))
check(code == 1 and f"{name} cannot be read: it holds complex64" in said, "complex", said, code)
_, said, code = first_loss(os.path.join(work, written("other.msgpack", {"params": {"x": array(np.zeros(3, np.float32))}})))
check(code == 2 and "holds no parameter of this model" in said, "other", said, code)
data = open(os.path.join(work, "plain.msgpack"), "rb").read()
for at in len(data) // 2, len(data) - 1, 20:
    with open(os.path.join(work, "hurt.msgpack"), "wb") as f:
        f.write(data[:at])
    _, said, code = first_loss(os.path.join(work, "hurt.msgpack"))
    check(code == 1 and "ends early" in said, "cut at", at, said, code)

# Out, and in again.
source = os.path.join(work, "trained")
done = run("train", *SMALL, "--steps", "2", "--out", source, "--init", os.path.join(work, "start.safetensors"))
check(done.returncode == 0, done.stderr)
saved = load_file(os.path.join(source, "step-000002.safetensors"))
for ema in False, True:
    done = run("export", source, "-o", os.path.join(work, "ours.msgpack"), *["--ema"] * ema)
    check(done.returncode == 0, done.stderr)
    ours = read("ours.msgpack")
    check(set(ours) == set(start), "names", set(ours) ^ set(start))
    for k, v in ours.items():
        x = saved.get("ema/" + k, saved[k]) if ema else saved[k]
        check(v.dtype == np.float32 and v.shape == start[k].shape and np.array_equal(v, x.reshape(v.shape)), k, v.dtype, v.shape, ema)
done = run("export", source, "-o", os.path.join(work, "ours16.msgpack"), "--fp16")
check(done.returncode == 0 and all(v.dtype == np.float16 for v in read("ours16.msgpack").values()), "fp16", done.stderr)
again, said, code = first_loss(os.path.join(work, "ours.msgpack"))
check(code == 0 and said == "", "ours", said, code)
done = run("export", source, "-o", os.path.join(work, "w.ckpt"))
check(done.returncode == 2 and "export writes safetensors, not .ckpt" in done.stderr, "ckpt", done.stderr)

skipped = ""
if subprocess.run([jax, "-c", "import flax, safetensors"], capture_output=True).returncode if os.path.exists(jax) else True:
    skipped = ", skipped: Flax is not installed here (scripts/setup_jax.sh)"
else:
    done = subprocess.run([jax, "-c", WITH_FLAX, work], capture_output=True, text=True)
    check(done.returncode == 0 and done.stdout.strip() == "{'float16'}", "Flax", done.stdout, done.stderr[-2000:])
    back = load_file(os.path.join(work, "back.safetensors"))
    for k, v in read("ours.msgpack").items():
        check(np.array_equal(back[k], v) and back[k].shape == v.shape, "Flax reads", k)
    same("plain.msgpack", "")
    same("chunks.msgpack", "")
    same("state.msgpack", "taken from 'params'")
    same("state.msgpack", "averaged weights, taken from 'ema_params'", "--ema", loss=want_half)
    _, said, code = first_loss(os.path.join(work, "bf16.msgpack"))
    check(code == 0 and said == "taken from 'params'", "bf16", said, code)
print("Flax's files:", "all alike" if not failed else f"{failed} FAILED", skipped)
sys.exit(failed != 0)
