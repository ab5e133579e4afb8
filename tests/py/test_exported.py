"""Programs of torch.export, written by PyTorch: calls, arguments, sizes, regions, lines and weights as PyTorch holds them.

    test_exported.py PROGRAM WORK_FOLDER

PROGRAM is tests/reference/exported.c. Files of the installed PyTorch are real; those of older layouts (2.5 to 2.8) are
written by this test from the same programs after the published schemas, because those versions are not at hand."""
import io
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time
import zipfile
import zlib

sys.path.insert(0, os.path.dirname(__file__))
import find_torch  # noqa: F401,E402
import sympy  # noqa: E402
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.utils._sympy.functions as tf  # noqa: E402

program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
failed = checked = 0
(NONE, VALUE, VALUES, INT, INTS, FLOAT, FLOATS, BOOL, BOOLS, TEXT, TYPE, LAYOUT, MEMORY_FORMAT, DEVICE, COMPLEX, OTHER) = range(16)


def check(ok, *what):
    global failed, checked
    checked += 1
    if not ok:
        failed += 1
        if failed < 40:
            print("FAILED:", *what)


def read(path, *symbols):
    done = subprocess.run([program, path, *symbols], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip()


def refuse(path, part):
    found = read(path)
    check(isinstance(found, str) and part in found and "\n" not in found, path, "said", found, "wanted", part)


# ---- the programs ----

class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.conv, self.drop, self.bn = nn.GroupNorm(4, c), nn.Conv2d(c, c, 3, padding=1), nn.Dropout(0.1), nn.BatchNorm2d(c)

    def forward(self, x):
        y = self.conv(torch.nn.functional.silu(self.norm(x)))                       # LINE conv
        return x + self.drop(self.bn(y))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.blocks = nn.Conv2d(3, 16, 3, padding=1), nn.ModuleList([Block(16) for _ in range(2)])
        self.out, self.tied = nn.Linear(16, 8), nn.Linear(16, 8, bias=False)
        self.tied.weight = self.out.weight
        self.register_buffer("scale", torch.ones(3), persistent=False)
        self.k = torch.tensor([1., 2.])
        self.strided = nn.Parameter(torch.randn(4, 6).t())

    def forward(self, x, t, scale: float = 2.0, flag=None):
        h = self.inp(x * self.scale[:, None, None])
        for b in self.blocks:
            h = b(h)
        h = h.mean((2, 3))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = self.out(h)                                                          # LINE autocast
        with torch.no_grad():
            c = self.tied(h).float()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                d = self.out(h).float()
            with torch.autocast("cpu", enabled=False):
                d = d + self.out(h)
        q, r = a.chunk(2, dim=-1)
        y = torch.cat([q, r], -1).float() * scale + c + d
        n = x.shape[0] * 2 + x.shape[2] // 2
        y = y.reshape(x.shape[0], -1) + torch.arange(8) * n
        y = y + self.k.sum() + self.strided.sum() + torch.full((1,), float("inf")).clamp(max=1.0)
        v, i = torch.max(y, 1)
        loss = (y[:, :, None] - t[:, None, None]).square().mean() + v.mean() * (1.0 / x.shape[0])
        noise = torch.randn_like(x)
        m = torch.nn.functional.interpolate(x, scale_factor=2.0)
        idx = x[:, :, torch.tensor([0, 1])]
        return loss + (noise * x).mean() * 1e-3 + m.mean() + idx.mean(), y


class Branch(nn.Module):
    def forward(self, x):
        y = torch.cond(x.sum() > 0, lambda q: q.sin(), lambda q: q.cos(), (x,))
        n = x.abs().sum().to(torch.int64).item()
        torch._check(n >= 0)
        torch._check(n < 100)
        return y.sum() * n, x.to(torch.complex64) * (1 + 2j)


class Free(nn.Module):                                  # a function and modules of torch alone
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))

    def forward(self, batch):
        return self.net(batch["x"]).sub(batch["y"]).pow(2).mean()


def programs():
    torch.manual_seed(0)
    B, H = torch.export.Dim("B", min=2, max=64), torch.export.Dim("H", min=4, max=128)
    args, kwargs = (torch.randn(4, 3, 8, 8), torch.randn(4)), {"scale": 3.0, "flag": None}
    yield "net", torch.export.export(Net().train(), args, kwargs)
    yield "net-symbolic", torch.export.export(Net().train(), args, kwargs,
                                              dynamic_shapes={"x": {0: B, 2: 2 * H}, "t": {0: B}, "scale": None, "flag": None})
    yield "net-strict", torch.export.export(Net().train(), args, kwargs, strict=True)
    yield "branch", torch.export.export(Branch(), (torch.randn(4, 8),))
    yield "free", torch.export.export(Free(), ({"x": torch.randn(5, 4), "y": torch.randn(5, 2)},))
    yield "decomposed", torch.export.export(Net().train(), args, kwargs).run_decompositions({})


# ---- what PyTorch holds, by a reading of its own ----

def target_text(target):
    if isinstance(target, torch._ops.OpOverload):
        text = str(target)
        return text[5:] if text.startswith("aten.sym_") else text
    if isinstance(target, torch._ops.HigherOrderOperator):
        return "higher_order." + target.name()
    module = target.__module__.lstrip("_")
    return target.__name__.lstrip("_") if module == "torch" else f"{module}.{target.__name__}"


REGIONS = {"wrap_with_autocast", "wrap_with_set_grad_enabled"}


class Reading:
    """Calls in order, each with what it reads: ("input", i) or (ordinal, output)."""

    def __init__(self, ep):
        self.calls, self.ordinal = [], 0
        specs = {s.arg.name: i for i, s in enumerate(ep.graph_signature.input_specs)}
        env = {n.name: ("input", specs[n.name]) for n in ep.graph.nodes if n.op == "placeholder"}
        self.graph(ep.graph_module, ep.graph, env, {"no_grad": False, "autocast": "none"})

    def graph(self, module, graph, env, region):
        for node in graph.nodes:
            if node.op == "output":
                return [env.get(a.name) if isinstance(a, torch.fx.Node) else None for a in node.args[0]]
            if node.op != "call_function":
                continue
            if node.target.__name__ == "getitem" and isinstance(env.get(node.args[0].name), list):
                env[node.name] = env[node.args[0].name][node.args[1]]
                continue
            name = getattr(node.target, "_name", "") or ""
            if name in REGIONS:
                inner, at = dict(region), 4 if name == "wrap_with_autocast" else 1
                if name == "wrap_with_autocast":
                    inner["autocast"] = str(node.args[1]).split(".")[1] if node.args[2] else "off"
                else:
                    inner["no_grad"] = not node.args[0]
                body = getattr(module, node.args[at].target)
                names = [n.name for n in body.graph.nodes if n.op == "placeholder"]
                given = [env.get(a.name) if isinstance(a, torch.fx.Node) else None for a in node.args[at + 1:]]
                env[node.name] = self.graph(body, body.graph, dict(zip(names, given)), inner)
                self.ordinal += 1
                continue
            self.call(node, env, region)

    def call(self, node, env, region):
        value, tensors = node.meta.get("val"), []
        for a in torch.utils._pytree.tree_leaves((node.args, node.kwargs)):
            if isinstance(a, torch.fx.Node) and isinstance(a.meta.get("val"), torch.Tensor):
                tensors.append(env[a.name])
        outs = list(value) if isinstance(value, (tuple, list)) else [value]
        self.calls.append({"target": target_text(node.target), "ordinal": self.ordinal, "tensors": tensors,
                           "out": [o for o in outs], "module": node.meta.get("nn_module_stack"), **region})
        several = isinstance(value, (tuple, list))
        env[node.name] = [(self.ordinal, i) for i in range(len(outs))] if several else (self.ordinal, 0)
        self.ordinal += 1


def size_at(s, subs):
    if isinstance(s, int):
        return s
    return int(s.node.expr.subs(subs))


def compare(path, ep, subs):
    """subs: sympy symbol -> value."""
    found = read(path, *(f"{k}={v}" for k, v in subs.items()))
    if isinstance(found, str):
        check(False, path, found)
        return None
    theirs = Reading(ep)
    source = {}                                  # our value -> ("input", i) or (ordinal, output)
    for i, inp in enumerate(found["inputs"]):
        if inp["value"] >= 0:
            source[inp["value"]] = ("input", i)
    for c in found["calls"]:
        for k, v in enumerate(c["out"]):
            if v >= 0:
                source[v] = (c["ordinal"], k)
    check(len(found["calls"]) == len(theirs.calls), path, "calls", len(found["calls"]), len(theirs.calls))
    for ours, ref in zip(found["calls"], theirs.calls):
        where = (path, ours["ordinal"], ours["target"])
        for key in ("target", "ordinal", "no_grad", "autocast"):
            check(ours[key] == ref[key], *where, key, ours[key], ref[key])
        reads = [source[v] for a in ours["args"] if a["kind"] in (VALUE, VALUES) for v in a["values"] if v >= 0]
        check(reads == ref["tensors"], *where, "reads", reads, ref["tensors"])
        outs = [o for o in ref["out"] if o is not None]
        check(len([v for v in ours["out"] if v >= 0]) == len(outs), *where, "outputs", ours["out"], len(outs))
        for v, o in zip(ours["out"], ref["out"]):
            if isinstance(o, torch.Tensor) and v >= 0:
                want = [str(o.dtype).split(".")[1], o.dim(), *(size_at(s, subs) for s in o.shape)]
                check(found["values"][v][1:] == want, *where, found["values"][v], want)
        stack = ref["module"]
        if stack:
            last = list(stack.values())[-1][0]
            last = "" if last.startswith("_empty_nn") else last
            check(ours["module"] == last, *where, "module", ours["module"], last)
    names = [v[0] for v in found["values"]]
    check(len(set(names)) == len(names), path, "names of values are unique")
    return found


def weights_compare(path, found, ep):
    everything = {**ep.state_dict, **{k: v for k, v in ep.constants.items() if isinstance(v, torch.Tensor)}}
    check(set(found["weights"]) == set(everything), path, "weights", set(found["weights"]) ^ set(everything))
    for name, t in everything.items():
        raw = t.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        want = [str(t.dtype).split(".")[1], "%08x" % zlib.crc32(raw), *t.shape]
        check(found["weights"].get(name) == want, path, name, found["weights"].get(name), want)


def arguments(found, target, n=0):
    call = [c for c in found["calls"] if c["target"] == target][n]
    return {a["name"]: a for a in call["args"]}, call


def lines_compare(found):
    """The lines that carry a mark are those that the calls name."""
    source = open(__file__).read().split("\n")
    conv = next(i + 1 for i, s in enumerate(source) if "# LINE conv" in s and "self.conv(" in s)
    auto = next(i + 1 for i, s in enumerate(source) if "# LINE autocast" in s and "self.out(" in s)
    _, call = arguments(found, "aten.conv2d.default", 1)
    check((call["file"], call["line"]) == ("test_exported.py", conv), "line", call["file"], call["line"], conv)
    check(call["path"].endswith("/tests/py/test_exported.py") and call["text"].startswith("y = self.conv("), call["path"], call["text"])
    check(call["module"] == "blocks.0.conv", call["module"])
    call = next(c for c in found["calls"] if c["autocast"] == "bfloat16")
    check((call["file"], call["line"]) == ("test_exported.py", auto), "line in autocast", call["line"], auto)


def net_details(found):
    """Arguments of each kind, by hand."""
    args, _ = arguments(found, "aten.conv2d.default")
    check(args["stride"]["ints"] == [1, 1] and args["stride"]["kind"] == INTS, args["stride"])
    check("groups" not in args, "an argument with its default is not written")
    args, _ = arguments(found, "aten.group_norm.default")
    check(args["num_groups"]["kind"] == INT and args["eps"]["floats"] == [1e-5] and args["eps"]["kind"] == FLOAT, args)
    args, _ = arguments(found, "aten.dropout.default")
    check(args["train"]["kind"] == BOOL and args["train"]["ints"] == [1], args["train"])
    args, _ = arguments(found, "aten.to.dtype")
    check(args["dtype"]["kind"] == TYPE and args["dtype"]["ints"] == [7], args["dtype"])
    args, _ = arguments(found, "aten.index.Tensor")
    check(args["indices"]["kind"] == VALUES and args["indices"]["values"][:2] == [-1, -1] and args["indices"]["values"][2] >= 0, args)
    args, _ = arguments(found, "aten.full.default")
    check(args["fill_value"]["floats"] == ["Infinity"], args["fill_value"])
    kinds = {i["name"]: i["kind"] for i in found["inputs"]}
    check(kinds["inp.weight"] == 1 and kinds["blocks.0.bn.running_mean"] == 2 and kinds["k"] == 3 and kinds["x"] == 0, kinds)
    check(kinds["flag"] == 4 and [n["kind"] for n in found["numbers"]] == [FLOAT, NONE] and found["numbers"][0]["floats"] == [3.0], found["numbers"])
    inputs = found["inputs"]
    tied = {i["name"]: inputs[i["tied"]]["name"] for i in inputs if i["tied"] >= 0}
    both = {i["name"] for i in inputs} >= {"tied.weight", "out.weight"}         # strict exports name one of the two
    check(tied == ({"tied.weight": "out.weight"} if both else {}), "tied", tied)
    check([i["persistent"] for i in inputs if i["name"] == "scale" and i["kind"] == 2] == [False], "persistent")


# ---- older layouts ----

def older(node, plain):
    """JSON as schema 7.3 (plain: expressions as Python writes them) or 8.8 has it."""
    if isinstance(node, list):
        return [older(n, plain) for n in node]
    if not isinstance(node, dict):
        return node
    out = {}
    for k, v in node.items():
        if k in ("kind", "is_hop_single_tensor_return", "guards_code", "treespec_namedtuple_fields") or (k == "name" and "target" in node):
            continue
        if k == "as_none" and plain:
            v = []
        elif k == "expr_str" and plain:
            names = {**vars(sympy), **{n: getattr(tf, n) for n in tf.__all__}}
            v = str(eval(v, names))
        out[k] = older(v, plain)
    return out


def saved(obj):
    out = io.BytesIO()
    torch.save(obj, out)
    return out.getvalue()


def write_l(path, ep, text, method):
    """2.5 to 2.7: a plain archive with members at its root."""
    j = older(json.loads(text), True)
    j["schema_version"], j["torch_version"] = {"major": 7, "minor": 3}, "2.5.1"
    with zipfile.ZipFile(path, "w", method) as z:
        z.writestr("version", "7.3")
        z.writestr("serialized_exported_program.json", json.dumps(j))
        z.writestr("serialized_state_dict.pt", saved(ep.state_dict))
        z.writestr("serialized_constants.pt", saved(ep.constants))
        z.writestr("serialized_example_inputs.pt", b"")


def write_28(path, ep, text):
    """2.8: the new folders, weights still in files of torch.save."""
    j = older(json.loads(text), False)
    j["schema_version"], j["torch_version"] = {"major": 8, "minor": 8}, "2.8.0"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("m/archive_format", "pt2")
        z.writestr("m/byteorder", "little")
        z.writestr("m/.data/version", "6\n")
        z.writestr("m/models/model.json", json.dumps(j))
        z.writestr("m/data/weights/model.pt", saved(ep.state_dict))
        z.writestr("m/data/constants/model.pt", saved(ep.constants))


def deflated(path, out):
    with zipfile.ZipFile(path) as a, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as b:
        for name in a.namelist():
            b.writestr(name, a.read(name))


def program_json(path):
    with zipfile.ZipFile(path) as z:
        return z.read(next(n for n in z.namelist() if n.endswith("models/model.json"))).decode()


def same_but_version(a, b):
    return {k: v for k, v in a.items() if k not in ("torch", "major", "minor")} == {k: v for k, v in b.items() if k not in ("torch", "major", "minor")}


# ---- expressions ----

def random_expr(rng, symbols, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(symbols) if rng.random() < 0.7 else sympy.Integer(rng.randint(-3, 9))
    sub = lambda: random_expr(rng, symbols, depth - 1)                              # noqa: E731
    n = sympy.Integer(rng.randint(1, 9))
    kind = rng.randrange(13)
    return (sub() + sub() if kind < 2 else sub() * sub() if kind < 4 else sub() - sub() if kind == 4 else
            tf.FloorDiv(sub(), n) if kind == 5 else tf.ModularIndexing(sub(), n, sympy.Integer(rng.randint(1, 5))) if kind == 6 else
            tf.Mod(sub() * sub() + 40, n) if kind == 7 else sympy.Max(sub(), sub()) if kind == 8 else sympy.Min(sub(), sub()) if kind == 9 else
            tf.CeilToInt(tf.IntTrueDiv(sub(), n)) if kind == 10 else tf.PythonMod(sub(), n) if kind == 11 else sympy.Rational(1, 2) * (2 * sub()))


def expressions():
    rng = random.Random(7)
    s = sympy.symbols("s0 s1 s77", positive=True, integer=True)
    lines, want = [], []

    def add(text, values, value):
        lines.append(text + "\t" + ",".join(f"{k}={v}" for k, v in values.items()))
        want.append(value)

    for _ in range(1500):
        try:
            e = random_expr(rng, s, 4)
        except (AssertionError, TypeError, ZeroDivisionError, NotImplementedError):
            continue
        values = {str(x): rng.randint(2, 40) for x in s}
        try:
            value = e.subs({x: values[str(x)] for x in s}) if hasattr(e, "subs") else e
            value = int(value) if value == int(value) else None
        except (AssertionError, TypeError, ValueError, NotImplementedError):
            continue
        add(sympy.srepr(e), values, value)
        add(str(e), values, value)
    x, y, z = s
    for e, values in itertools.product(
            [tf.FloorDiv(x, 3), tf.CleanDiv(x * 8, 8), tf.CeilDiv(x, 3), tf.TruncToInt(tf.IntTrueDiv(-x, 4)), tf.FloorToInt(tf.IntTrueDiv(x, 4)),
             tf.PowByNatural(x, 3), tf.LShift(x, 2), tf.RShift(x, 1), tf.Where(sympy.Lt(x, 5), y, z), tf.Identity(x + 1), x ** 2 * y, (x + y) ** 3,
             sympy.Eq(x, y), sympy.Ne(x, y), sympy.Le(x, 5), sympy.And(sympy.Lt(x, 9), sympy.Gt(y, 2)), sympy.Or(sympy.Lt(x, 3), sympy.Ge(y, 9)),
             sympy.Abs(x - y), sympy.floor(x / 2), sympy.ceiling(x / 2), tf.RoundToInt(tf.IntTrueDiv(x, 2)), sympy.Max(x, y, 7, z)],
            [{"s0": 3, "s1": 7, "s77": 2}, {"s0": 11, "s1": 2, "s77": 30}, {"s0": 6, "s1": 6, "s77": 1}]):
        value = e.subs({k: values[str(k)] for k in s})
        value = int(bool(value)) if value in (sympy.true, sympy.false) else int(value)
        add(sympy.srepr(e), values, value)
        add(str(e), values, value) if "IntTrueDiv" not in str(e) else None
    hand = [("2*s0 + 1", 7), ("((s0//2))", 1), ("s0**2", 9), ("-s0**2", -9), ("s0/2", None), ("(s0 + 1)/2", 2), ("Mod(s0, 2)", 1), ("7 % s0", 1), ("-7 % s0", 2),
            ("-7//s0", -3), ("s0 << 2", 12), ("9223372036854775807", 9223372036854775807), ("9223372036854775807*s0", None), ("s0 < 4", 1), ("Eq(s0, 2)", 0), ("s0/0", None),
            ("Symbol('s0', integer=True, positive=True)", 3), ("Symbol('s0')", 3), ("Mul(Rational(1, 3), Symbol('s0'))", 1), ("Pow(Integer(2), Symbol('s0'))", 8),
            ("Pow(Symbol('s0'), Integer(-1))", None), ("ToFloat(Symbol('s0'))", 3), ("Float('2.5', precision=53)", None), ("Float('3.0', precision=53)", 3),
            ("OpaqueUnaryFn_sqrt(Integer(16))", 4), ("Max(1, s0)", 3), ("", None), ("(", None), ("s0 +", None), ("Unheard(s0)", None), ("s0 s1", None), ("Mod(s0)", None),
            ("(" * 5000, None), ("-" * 5000 + "1", None), ("+".join(["s0"] * 20000), None), ("u9", None), ("Integer(" + "9" * 40 + ")", None), ("True", 1)]
    for text, value in hand:
        add(text, {"s0": 3}, value)
    path = os.path.join(work, "sizes.txt")
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    done = subprocess.run([program, "--sizes", path], capture_output=True, text=True)
    got = done.stdout.split("\n")[:-1]
    check(done.returncode == 0 and len(got) == len([x for x in lines]), "sizes", done.returncode, len(got), len(lines), done.stderr)
    for line, g, w in zip(lines, got, want):
        check(g == str(w) if w is not None else g.startswith("-") and not g[1:2].isdigit(), "size", line[:200], "is", g, "should be", w)
    return len(lines)


# ---- speed ----

def renamed(node, names):
    if isinstance(node, dict):
        return {k: names.get(v, v) if k in ("name", "as_name") and isinstance(v, str) else renamed(v, names) for k, v in node.items()}
    return [renamed(n, names) for n in node] if isinstance(node, list) else node


def large(path, out, n):
    """The program's calls repeated until there are n, with longer stack traces, as deep models have them."""
    j = json.loads(program_json(path))
    g = j["graph_module"]["graph"]
    base = [x for x in g["nodes"] if "as_graph" not in json.dumps(x)]
    for x in base:
        trace = x["metadata"].get("stack_trace", "")
        x["metadata"]["stack_trace"] = trace + "\n" + trace + "\n" + trace
    nodes, k = list(g["nodes"]), 0
    tables = ["tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values"]
    first = {t: dict(g[t]) for t in tables}
    while len(nodes) < n:
        k += 1
        outs = [t.get("name") or t.get("as_name") for x in base for o in x["outputs"] for v in o.values() for t in (v if isinstance(v, list) else [v])]
        names = {o: f"{o}_r{k}" for o in outs if o}
        nodes += [renamed(x, names) for x in base]
        for t in tables:
            g[t].update({names[o]: first[t][o] for o in names if o in first[t]})
    g["nodes"] = nodes
    with zipfile.ZipFile(path) as a, zipfile.ZipFile(out, "w") as b:
        for name in a.namelist():
            b.writestr(name, json.dumps(j) if name.endswith("models/model.json") else a.read(name))
    return len(nodes)


# ---- damage ----

def damage(path):
    text = program_json(path)
    top = zipfile.ZipFile(path).namelist()[0].split("/")[0]
    hurt = os.path.join(work, "hurt.pt2")

    def with_json(j):
        with zipfile.ZipFile(hurt, "w") as z:
            z.writestr("m/archive_format", "pt2")
            z.writestr("m/models/model.json", j if isinstance(j, str) else json.dumps(j))

    def changed(**fields):
        j = json.loads(text)
        j.update(fields)
        with_json(j)
    changed(schema_version={"major": 9, "minor": 0})
    refuse(hurt, "schema 9.0")
    changed(graph_module=None)
    refuse(hurt, "graph_module")
    with_json(text[:-100])
    refuse(hurt, "models/model.json")
    j = json.loads(text)
    j["graph_module"]["graph"]["nodes"].pop(3)
    with_json(j)
    refuse(hurt, "nothing before its use makes")
    j = json.loads(text)
    node = j["graph_module"]["graph"]["nodes"][5]
    j["graph_module"]["graph"]["nodes"].insert(6, node)
    with_json(j)
    refuse(hurt, "two things are called")
    data = open(path, "rb").read()
    with open(hurt, "wb") as f:
        f.write(data[:len(data) // 2])
    refuse(hurt, "damaged or incomplete")
    with zipfile.ZipFile(path) as a, zipfile.ZipFile(hurt, "w") as b:
        for name in a.namelist():
            b.writestr(name, a.read(name)[:-4] if name.endswith("weight_0") else a.read(name))
    refuse(hurt, "past the end of its data")
    with zipfile.ZipFile(path) as a, zipfile.ZipFile(hurt, "w") as b:      # exported without data: sizes are enough
        for name in a.namelist():
            b.writestr(name, b"" if "/weight_" in name else a.read(name))
    found = read(hurt)
    check(isinstance(found, dict) and found["weights"]["inp.weight"] == ["float32", "none", 16, 3, 3, 3], "without data", str(found)[:200])
    torch.save({"a": torch.ones(2)}, hurt)
    refuse(hurt, "torch.save, not an exported program")
    torch.jit.save(torch.jit.script(nn.Linear(2, 2)), hurt)
    refuse(hurt, "TorchScript")
    with open(hurt, "w") as f:
        f.write("import torch\n")
    refuse(hurt, "is not a zip archive")
    # any one byte of the program changed: one sentence or a program, never a crash
    rng = random.Random(3)
    for _ in range(150):
        at = rng.randrange(len(text))
        with_json(text[:at] + rng.choice('{}[]",:0a-') + text[at + 1:])
        done = subprocess.run([program, hurt], capture_output=True)
        check(done.returncode in (0, 1), "changed at", at, done.returncode, done.stderr[-300:])
    return top


def main():
    files = {}
    for name, ep in programs():
        path = os.path.join(work, name + ".pt2")
        torch.export.save(ep, path)
        files[name] = (path, ep)
        shape_env = [s for s in ep.range_constraints if isinstance(s, sympy.Symbol)]
        hints = {}
        found = read(path)
        if isinstance(found, str):
            check(False, path, found)
            continue
        for s in shape_env:
            known, hint, low, high = found["symbols"][str(s)]
            r = ep.range_constraints[s]
            check(low == int(r.lower) and (high == int(r.upper) if r.upper < 2 ** 62 else True), "range of", s, low, high, r)
            if known:
                hints[s] = hint
        compare(path, ep, hints)
        for change in (1, 3) if hints else ():
            compare(path, ep, {s: v + change for s, v in hints.items()})
        weights_compare(path, found, ep)
        if name.startswith("net"):
            net_details(found)
            lines_compare(found)
    path, ep = files["net-symbolic"]
    found = read(path)
    check(found["symbols"] == {str(s): [True, {"B": 4, "H": 4}[n], *{"B": (2, 64), "H": (4, 128)}[n]] for s, n in
                               zip(sorted((s for s in ep.range_constraints if isinstance(s, sympy.Symbol)), key=lambda s: ep.range_constraints[s].lower), "BH")},
          "symbols", found["symbols"])
    branch = read(files["branch"][0])
    args, _ = arguments(branch, "higher_order.cond")
    check([a["kind"] for a in arguments(branch, "higher_order.cond")[1]["args"]] == [VALUE, OTHER, OTHER, VALUES], "cond", args)
    check(any(not s[0] for s in branch["symbols"].values()), "an unbacked symbol is not known", branch["symbols"])
    check(any(a["kind"] == COMPLEX and a["floats"] == [1.0, 2.0] for c in branch["calls"] for a in c["args"]), "a complex number")
    check(any(o["kind"] == 2 for o in read(files["decomposed"][0])["outputs"]), "buffer mutations")
    for name in ("net", "net-symbolic", "branch", "free"):
        path, ep = files[name]
        text, want = program_json(path), read(path)
        for out, write in (("l.pt2", lambda p: write_l(p, ep, text, zipfile.ZIP_STORED)), ("l-deflated.pt2", lambda p: write_l(p, ep, text, zipfile.ZIP_DEFLATED)),
                           ("p28.pt2", lambda p: write_28(p, ep, text)), ("deflated.pt2", lambda p: deflated(path, p))):
            out = os.path.join(work, f"{name}-{out}")
            write(out)
            found = read(out)
            check(isinstance(found, dict) and same_but_version(found, want), out, found if isinstance(found, str) else
                  [k for k in want if found[k] != want[k]])
    check(read(os.path.join(work, "net-l.pt2"))["major"] == 7, "schema 7")
    n_sizes = expressions()
    damage(files["net"][0])
    out = os.path.join(work, "large.pt2")
    n = large(files["net-symbolic"][0], out, 20000)
    start = time.time()
    done = subprocess.run([program, out], stdout=subprocess.DEVNULL)
    check(done.returncode == 0, "large")
    size = len(program_json(out))
    print(f"exported programs: {checked} checks, {failed} failed; {n_sizes} expressions; {n} calls ({size / 1e6:.0f} MB) read and printed in {time.time() - start:.2f} s")
    return failed != 0


sys.exit(main())
