"""Files of torch.save, written by PyTorch in both of its forms: every tensor as torch.load gives it.

    test_torch_file.py PROGRAM WORK_FOLDER

PROGRAM is tests/reference/torch_file.c. Among the files: all element types, strided and shared storages, state dicts under
keys, whole modules, a checkpoint as Lightning writes it with objects of classes that exist nowhere, tensor subclasses,
deflated, big-endian and damaged archives, and pickles that would call the system if they were executed."""
import collections
import json
import os
import pickle
import shutil
import subprocess
import sys
import types
import zipfile
import zlib

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import torch  # noqa: E402

program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
failed = checked = 0


def check(ok, *what):
    global failed, checked
    checked += 1
    if not ok:
        failed += 1
        print("FAILED:", *what)


def read(path):
    """The groups that our program finds: path -> name -> [type, checksum, storage, sizes...]."""
    done = subprocess.run([program, path], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip()
    return {g["path"]: g["tensors"] for g in json.loads(done.stdout)}


def crc(t):
    raw = t.detach().contiguous().reshape(-1)
    return "%08x" % zlib.crc32(bytes(raw.view(torch.uint8).numpy()) if raw.numel() else b"")


def expect(path, groups):
    """groups: path -> name -> tensor."""
    found = read(path)
    if isinstance(found, str):
        check(False, path, found)
        return
    check(set(found) == set(groups), path, "groups", sorted(found), "should be", sorted(groups))
    for g in set(found) & set(groups):
        check(list(found[g]) == list(groups[g]), path, g, "names", list(found[g])[:5], list(groups[g])[:5])
        for name in set(found[g]) & set(groups[g]):
            t, f = groups[g][name], found[g][name]
            want = [str(t.dtype).split(".")[1], crc(t)]
            check(f[:2] == want and f[3:] == list(t.shape), path, g, name, f, want, list(t.shape))
    return found


def both(name, obj, groups):
    """In the zip form and in the one before PyTorch 1.6."""
    for form in ("zip", "old"):
        path = os.path.join(work, f"{name}-{form}.pt")
        torch.save(obj, path, _use_new_zipfile_serialization=form == "zip")
        expect(path, groups)


def refuse(path, part):
    found = read(path)
    check(isinstance(found, str) and part in found and "\n" not in found, path, "said", found, "wanted", part)


torch.manual_seed(1)
TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
         torch.complex64, torch.complex128, torch.bool, torch.bfloat16]
LATE = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]   # no storage class of their own
plain = collections.OrderedDict((str(t).split(".")[1], (torch.randn(3, 5) * 9).to(t)) for t in TYPES)
both("types", plain, {"": plain})
late = {str(t).split(".")[1]: torch.arange(12).to(t) for t in LATE}
torch.save(late, os.path.join(work, "late.pt"))
expect(os.path.join(work, "late.pt"), {"": late})

base = torch.randn(6, 8, 4)
views = {"whole": base, "transposed": base.transpose(0, 2), "slice": base[1:3, ::2, 1], "row": base[2], "expanded": base[0, 0, :1].expand(7),
         "scalar": base[0, 0, 0], "empty": base[:0], "permuted": base.permute(2, 0, 1)[1:]}
both("views", views, {"": views})
found = read(os.path.join(work, "views-zip.pt"))
check(len({f[2] for f in found[""].values()}) == 1, "views share one storage", found)

net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Conv1d(3, 2, 3))
net.add_module("tied", torch.nn.Linear(4, 3))
net.tied.weight = net[0].weight
state = net.state_dict()
both("state", state, {"": state})
optimizer = torch.optim.AdamW(net.parameters())
for p in net.parameters():
    p.grad = torch.ones_like(p)
optimizer.step()
moments = {f"optimizer.state.{k}": dict(v) for k, v in optimizer.state_dict()["state"].items()}
both("nested", {"epoch": 3, "model": state, "ema": {k: v.float() * 2 for k, v in state.items()}, "optimizer": optimizer.state_dict()},
     {"model": state, "ema": {k: v.float() * 2 for k, v in state.items()}, **moments})
both("tuple", (state, [torch.ones(2)], "text"), {"0": state, "1": {"0": torch.ones(2)}})
both("one", torch.arange(5.0), {"": {"": torch.arange(5.0)}})
both("parameter", torch.nn.Parameter(torch.arange(6.0).reshape(2, 3)), {"": {"": torch.arange(6.0).reshape(2, 3)}})
both("module", net, {"": dict(state)})
both("module-in-dict", {"model": net, "epoch": 1}, {"model": dict(state)})
both("nothing", {"a": 1, "b": [None, "x", 2.5, (True, False)]}, {})

# A checkpoint of Lightning: callbacks keyed by strings, hyperparameters of classes that our program (and this one, once
# the module is gone) does not have.
gone = types.ModuleType("gone.callbacks")
exec("import enum\nclass Early:\n    def __init__(self): self.best = {'a': [1, 2]}; self.me = self\n"
     "class Kind(enum.Enum):\n    A = 1\nclass D(dict):\n    pass\nclass L(list):\n    pass\n", gone.__dict__)
for c in ("Early", "Kind", "D", "L"):
    getattr(gone, c).__module__ = "gone.callbacks"
sys.modules["gone"], sys.modules["gone.callbacks"] = types.ModuleType("gone"), gone
lightning = {"epoch": 4, "global_step": 1000, "pytorch-lightning_version": "2.4.0", "state_dict": collections.OrderedDict(("model." + k, v) for k, v in state.items()),
             "loops": {"fit_loop": {"state_dict": {}, "epoch_progress": {"total": {"ready": 4}}}}, "callbacks": {"ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5), "best_k_models": {}}, "early": gone.Early()},
             "hyper_parameters": gone.D(kind=gone.Kind.A, sizes=gone.L([1, 2])), "lr_schedulers": [{"_last_lr": [0.1], "counter": collections.Counter("aab"), "d": collections.defaultdict(list)}],
             "optimizer_states": [optimizer.state_dict()], "big": 1 << 80, "set": {1, 2}, "frozen": frozenset("ab"), "bytes": b"\0\1", "slice": slice(1, 2), "path": types.SimpleNamespace(a=1)}
moments = {f"optimizer_states.0.state.{k}": dict(v) for k, v in optimizer.state_dict()["state"].items()}
both("lightning", lightning, {"state_dict": lightning["state_dict"], "callbacks.ModelCheckpoint{'monitor': None}": {"best_model_score": torch.tensor(0.5)}, **moments})
del sys.modules["gone"], sys.modules["gone.callbacks"]


class Sub(torch.Tensor):
    pass


class Unknown:
    def __reduce__(self):
        return (Unknown.build, (torch.arange(3.0), 1))

    @staticmethod
    def build(t, n):
        return t


both("subclass", {"a": torch.arange(4.0).as_subclass(Sub)}, {"": {"a": torch.arange(4.0)}})
torch.save({"a": torch.ones(2), "odd": Unknown(), "sparse": torch.eye(3).to_sparse()}, os.path.join(work, "unknown.pt"))
found = read(os.path.join(work, "unknown.pt"))
check(isinstance(found, dict) and isinstance(found[""]["a"], list) and "which is unknown" in found[""]["odd"], "unknown.pt", found)
torch.save({"m": torch.empty(2, 3, device="meta")}, os.path.join(work, "meta.pt"))
found = read(os.path.join(work, "meta.pt"))
check(isinstance(found, dict) and found[""]["m"][1] == "none" and found[""]["m"][3:] == [2, 3], "meta.pt", found)

# The same archive, deflated as other tools write it.
whole = os.path.join(work, "nested-zip.pt")
deflated = os.path.join(work, "deflated.pt")
with zipfile.ZipFile(whole) as a, zipfile.ZipFile(deflated, "w", zipfile.ZIP_DEFLATED) as b:
    for name in a.namelist():
        b.writestr(name, a.read(name))
check(read(deflated) == read(whole), "deflated")

# Nothing is executed: every callable of these would leave a file behind.
mark = os.path.abspath(os.path.join(work, "executed"))


class Attack:
    def __init__(self, function, *args):
        self.call = (function, args)

    def __reduce__(self):
        return self.call


for n, attack in enumerate([Attack(os.system, f"touch {mark}"), Attack(eval, f"open({mark!r}, 'w')"),
                            Attack(subprocess.Popen, ["touch", mark]), Attack(__import__, "antigravity")]):
    for protocol in range(6):
        path = os.path.join(work, f"attack-{n}-{protocol}.pt")
        with zipfile.ZipFile(path, "w") as z:
            z.writestr("a/data.pkl", pickle.dumps({"state_dict": attack, "w": 1}, protocol=protocol))
        check(read(path) == {}, path, read(path))
for protocol in (2, 4):
    path = os.path.join(work, f"attack-torch-{protocol}.pt")
    torch.save({"w": torch.ones(2), "x": Attack(os.system, f"touch {mark}")}, path, pickle_protocol=protocol)
    expect(path, {"": {"w": torch.ones(2)}})
check(not os.path.exists(mark), "a pickle was executed")

# Damage: cut off anywhere, and every byte of a small file changed; never more than one sentence, never a crash.
small = os.path.join(work, "small.pt")
for form in (True, False):
    torch.save({"a": torch.arange(3.0), "b": torch.ones(2, 2).to(torch.bfloat16)}, small, _use_new_zipfile_serialization=form)
    data = open(small, "rb").read()
    hurt = os.path.join(work, "hurt.pt")
    step = max(1, len(data) // 60)
    for at in list(range(0, len(data), step)):
        with open(hurt, "wb") as f:
            f.write(data[:at])
        found = read(hurt)
        check(isinstance(found, str) and "\n" not in found, "cut at", at, found)
    for at in range(0, len(data), step):
        with open(hurt, "wb") as f:
            f.write(data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1:])
        done = subprocess.run([program, hurt], capture_output=True)
        check(done.returncode in (0, 1), "changed at", at, done.returncode)
with open(hurt, "wb") as f:
    f.write(b"not a file of torch at all")
refuse(hurt, "torch.save")
with open(hurt, "wb") as f:
    pickle.dump({"a": 1}, f)
refuse(hurt, "torch.save did not write it")
with zipfile.ZipFile(hurt, "w") as z:
    z.writestr("other.txt", "x")
refuse(hurt, "data.pkl")
# As a big-endian machine writes it: the elements of the archive reversed, "big" beside them; torch.load agrees. The old form
# is little endian everywhere.
torch.save({k: v for k, v in plain.items()}, small)
big = os.path.join(work, "big.pt")
with zipfile.ZipFile(small) as a, zipfile.ZipFile(big, "w") as b:
    for name in a.namelist():
        data, last = a.read(name), name.split("/")[-1]
        if "/data/" in name:
            dtype = list(plain.values())[int(last)].dtype
            size = torch.zeros(1, dtype=dtype).element_size() // (2 if dtype.is_complex else 1)
            data = b"".join(data[i:i + size][::-1] for i in range(0, len(data), size))
        b.writestr(name, b"big" if last == "byteorder" else data)
check(all(torch.equal(v, plain[k]) for k, v in torch.load(big).items()), "torch.load reads big.pt")
expect(big, {"": plain})

print(f"torch files: {checked} checks, {failed} failed")
sys.exit(failed != 0)
