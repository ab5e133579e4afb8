"""Every operator of the importer against PyTorch in fp64: value and gradients of small expressions.

    aten.py PROGRAM WORK_FOLDER [--only TEXT] [--keep]

PROGRAM is tests/reference/aten.c. A case is a line of Python (tests/import/aten_cases.py). Many cases make one module,
whose loss is the sum over cases of s_k sum(w y_k): the gradient of s_k is the case's value, and its operands are
parameters of their own, so that each case is checked alone although a file holds many. Every case is exported in three
forms: operands that are parameters, constants (which the importer computes on the host), and parameters whose axes lie
the other way round or that are slices of larger ones. An operator of the importer's tables that no case calls is a failure.
"""
import os
import re
import shutil
import subprocess
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "py"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import find_torch  # noqa: F401,E402
import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402
import aten_cases  # noqa: E402
import replay  # noqa: E402
from aten_cases import Int, Real  # noqa: E402

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
FORMS = ("plain", "constant", "strided")
GROUP = 48


def code_of(text):
    """A line of Python over a, b, c, d; statements are separated by "; " and the last returns."""
    if "return " not in text:
        text = "return " + text
    scope = {"torch": torch, "F": torch.nn.functional, "A": torch.ops.aten, "inf": float("inf"), **aten_cases.__dict__}
    exec("def f(a=None, b=None, c=None, d=None, e=None): " + text, scope)
    return scope["f"]


class Case:
    def __init__(self, text, operands, form):
        self.text, self.operands, self.form, self.code = text, operands, form, code_of(text)

    @property
    def name(self):
        return "%s   (%s)" % (self.text, self.form)


def stored(t, form):
    """How the parameter lies, and the way from it to the operand."""
    if form != "strided" or t.dim() == 0:
        return t.clone(), lambda p: p
    if t.dim() == 1:
        wide = torch.zeros(2 * len(t) + 1)
        wide[1::2] = t
        return wide, lambda p: p[1::2]
    axes = list(range(t.dim()))[::-1]
    transposed = t.permute(axes)
    wide = torch.cat([transposed, torch.ones_like(transposed[:1])]).contiguous()
    return wide, lambda p: p[:-1].permute(axes)


class Group(torch.nn.Module):
    """Forward: the inputs of all cases, in order."""

    free = False  # sizes are free: no weights of a fixed size

    def __init__(self, cases, shapes):
        super().__init__()
        self.cases, self.inputs, self.reach = cases, [], {}
        for k, case in enumerate(cases):
            self.register_parameter("s%d" % k, torch.nn.Parameter(torch.ones(())))
            for j, x in enumerate(case.operands):
                if isinstance(x, Int) or x.given:
                    if case.form == "constant":
                        self.register_buffer("c%d_%d" % (k, j), x.t.clone())
                    else:
                        self.inputs.append(x.t)
                elif case.form == "constant":
                    self.register_buffer("c%d_%d" % (k, j), x.t.clone())
                else:
                    p, self.reach[k, j] = stored(x.t, case.form)
                    self.register_parameter("p%d_%d" % (k, j), torch.nn.Parameter(p))
        g = torch.Generator().manual_seed(5)
        for k, found in enumerate(shapes):
            for j, shape in enumerate(found):
                self.register_buffer("w%d_%d" % (k, j), 0.3 + torch.rand(shape, generator=g))

    def outputs(self, k, given):
        args = []
        for j in range(len(self.cases[k].operands)):
            if (k, j) in self.reach:
                args.append(self.reach[k, j](getattr(self, "p%d_%d" % (k, j))))
            elif hasattr(self, "c%d_%d" % (k, j)):
                args.append(getattr(self, "c%d_%d" % (k, j)))
            else:
                args.append(next(given))
        y = self.cases[k].code(*args)
        return list(y) if isinstance(y, (list, tuple)) else [y]

    def forward(self, *inputs):
        given, total = iter(inputs), 0
        for k in range(len(self.cases)):
            value = 0
            for j, y in enumerate(self.outputs(k, given)):
                w = getattr(self, "w%d_%d" % (k, j))
                value = value + ((y.to(w.dtype) * w).sum() if not self.free else y.to(w.dtype).square().sum() + y.to(w.dtype).sum())
            total = total + getattr(self, "s%d" % k) * value
        return total


def group_of(cases):
    first = Group(cases, [])
    given, shapes = iter(first.inputs), []
    torch.manual_seed(1)
    with torch.no_grad():
        for k in range(len(cases)):
            shapes.append([tuple(y.shape) for y in first.outputs(k, given)])
    return Group(cases, shapes)


class Replay(torch.fx.Interpreter):
    """Runs a program with the random numbers that are given instead of drawn."""

    KINDS = ("rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "normal", "normal_functional", "uniform",
             "bernoulli", "dropout", "native_dropout")
    OTHERS = ("exponential", "log_normal", "cauchy", "geometric", "randperm", "multinomial", "feature_dropout", "alpha_dropout", "feature_alpha_dropout")

    def __init__(self, module, drawn):
        super().__init__(module)
        self.drawn = drawn

    def run_node(self, n):
        words = str(n.target).split(".") if n.op == "call_function" else [""]
        kind = words[1].rstrip("_") if len(words) > 1 else ""
        if "_assert" in kind:
            return None
        if kind in self.OTHERS:
            return self.other(n, kind)
        if kind not in self.KINDS:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        args = list(args) + [kwargs[k] for k in ("p", "mean", "std", "from", "to") if k in kwargs]
        shape = n.meta["val"][0].shape if isinstance(n.meta["val"], tuple) else n.meta["val"].shape
        name = n.name
        if isinstance(n.meta["val"], tuple):
            name = next(u.name for u in n.users if u.args[1] == 0)
        if name not in self.drawn:
            g = torch.Generator().manual_seed(len(self.drawn))
            self.drawn[name] = (torch.randint(2, 5, shape, generator=g) if "randint" in kind else
                                  torch.randn(shape, generator=g) if kind in ("randn", "randn_like", "normal", "normal_functional") else
                                  (torch.rand(shape, generator=g) < 0.5).float() * 2 if "dropout" in kind else torch.rand(shape, generator=g))
        x = self.drawn[name]
        if "dropout" in kind:
            y = args[0] * x if args[1] and args[2] else args[0]
        elif kind in ("normal", "normal_functional", "uniform"):
            low, high = (list(args[1:]) + [0, 1][len(args) - 1:])[:2]
            y = low + x * ((high - low) if kind == "uniform" else high)
        elif kind == "bernoulli":
            y = (x < (args[1] if len(args) > 1 and args[1] is not None else args[0])).to(torch.float64)
        else:
            y = x
        if words[1].endswith("_"):
            y = args[0].copy_(y)
        return (y, None) if isinstance(n.meta["val"], tuple) else y


    def other(self, n, kind):
        """What follows from uniform or normal numbers; an order is given as it is."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        g = torch.Generator().manual_seed(len(self.drawn))
        x = args[0] if isinstance(args[0], torch.Tensor) else torch.zeros(args[0])
        shape = x.shape[:2] + (1,) * (x.dim() - 2) if kind.startswith("feature") else x.shape
        if kind == "randperm":
            self.drawn[n.name] = torch.randperm(args[0], generator=g)
            return self.drawn[n.name]
        u = self.drawn[n.name] = torch.randn(shape, generator=g) if kind == "log_normal" else 0.05 + 0.9 * torch.rand(shape, generator=g)
        if "dropout" in kind or kind == "multinomial":
            return replay.replaced(str(n.target), u.double(), args, dict(kwargs))
        return x.copy_(replay.from_one(kind, u.double(), *args[1:], **kwargs))


def export(group, folder, dynamic):
    os.makedirs(folder)
    shapes, group.free = None, dynamic
    if dynamic:
        shapes = (tuple({0: torch.export.Dim.DYNAMIC} if x.dim() else None for x in group.inputs),)
    torch.manual_seed(1)
    program = torch.export.export(group, tuple(group.inputs), dynamic_shapes=shapes)
    torch.export.save(program, os.path.join(folder, "model.pt2"))
    with open(os.path.join(folder, "config.json"), "w") as f:
        f.write('{"system": "import", "model": {"file": "%s"}, "batch": %d, "accumulate": 1}' %
                (os.path.join(folder, "model.pt2"), group.inputs[0].shape[0] if group.inputs and group.inputs[0].dim() else 1))
    drawn = {}
    inputs = [x.double() if x.is_floating_point() else x for x in group.inputs]
    if any(re.search(r"rand|normal[_(.]|normal_functional|uniform|bernoulli|dropout|exponential|cauchy|geometric|multinomial|gumbel", c.text) for c in group.cases):
        module = program.module().double()
        loss = Replay(module, drawn).run(*inputs)
        loss.backward()
        found = {k: p.grad for k, p in module.named_parameters()}
    else:
        group.double()
        loss = group(*inputs)
        loss.backward()
        found = {k: p.grad for k, p in group.named_parameters()}
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    batch = {n: x for n, x in list(zip(names, group.inputs)) + list(drawn.items())}
    batch["none"] = torch.zeros(1)
    save_file({n: (x.float() if x.is_floating_point() else x.long()).contiguous().clone() for n, x in batch.items()},
              os.path.join(folder, "batch.safetensors"))
    return loss.detach(), found


def compare(group, folder, found):
    """Sentences, one per case that is wrong; None: the program was not run."""
    if not os.path.exists(os.path.join(folder, "ours.safetensors")):
        return None
    ours = load_file(os.path.join(folder, "ours.safetensors"))
    wrong = []
    for k, case in enumerate(group.cases):
        for name, want in found.items():
            if name != "s%d" % k and not name.startswith("p%d_" % k):
                continue
            have = ours.get("grad." + name)
            want = torch.zeros(1) if want is None else want.flatten()
            have = torch.zeros(len(want)) if have is None else have.double()
            if len(have) != len(want) and not want.any():
                want = torch.zeros(len(have))
            off = (have - want).norm().item() if len(have) == len(want) else float("inf")
            # PyTorch rounds the gradient of a cast to 16 bits to that type too; a fused group need not.
            short = re.search(r"bfloat16|float16|half", case.name)
            if not off <= (5e-3 if short else 1e-4) * want.norm().item() + 2e-5:
                wrong.append("%s: %s is off by %.3g of %.3g" % (case.name, "the value" if name[0] == "s" else "the gradient of operand " + "abcde"[int(name.split("_")[1])],
                                                              off, want.norm().item()))
                break
    return wrong


def said(folder):
    path = os.path.join(folder, "said.txt")
    return open(path).read().strip().replace("\n", " ") if os.path.exists(path) else "the program ended early"


def run(program, folders):
    if not folders:
        return
    for folder in folders:
        if os.path.exists(os.path.join(folder, "ours.safetensors")):
            os.remove(os.path.join(folder, "ours.safetensors"))
    subprocess.run([program, *folders], env={**os.environ, "OMP_WAIT_POLICY": "passive"})


def check_alone(program, case, folder, dynamic):
    shutil.rmtree(folder, ignore_errors=True)
    try:
        group = group_of([case])
        _, found = export(group, folder, dynamic)
    except Exception as error:
        return ["%s: not exported: %s %s" % (case.name, type(error).__name__, str(error).strip().split("\n")[0])]
    run(program, [folder])
    wrong = compare(group, folder, found)
    return ["%s: %s" % (case.name, said(folder))] if wrong is None else wrong


def check(program, groups, work):
    """Cases of groups that cannot be exported or run are tried one by one."""
    wrong, folders, made = [], [], []
    for i, (cases, dynamic) in enumerate(groups):
        folder = os.path.join(work, "group%d" % i)
        try:
            group = group_of(cases)
            made.append((group, folder, export(group, folder, dynamic)[1], dynamic))
            folders.append(folder)
        except Exception:
            for k, case in enumerate(cases):
                wrong += check_alone(program, case, folder + "_%d" % k, dynamic)
    run(program, folders)
    for group, folder, found, dynamic in made:
        lines = compare(group, folder, found)
        if lines is None:
            for k, case in enumerate(group.cases):
                lines = check_alone(program, case, folder + "_%d" % k, dynamic)
                wrong += lines
        else:
            wrong += lines
    return wrong


def check_refusals(program, work):
    wrong = []
    for k, (text, operands, part) in enumerate(aten_cases.REFUSED):
        folder = os.path.join(work, "refused%d" % k)
        export(group_of([Case(text, operands, "plain")]), folder, False)
        run(program, [folder])
        sentence = said(folder)
        if os.path.exists(os.path.join(folder, "ours.safetensors")) or part not in sentence:
            wrong.append("%s: said '%s', not '%s'" % (text, sentence, part))
    return wrong


def all_groups(only):
    groups = []
    for cases, dynamic in ((aten_cases.CASES, False), (aten_cases.SYMBOLIC, True), (aten_cases.RANDOM, False)):
        for form in FORMS if not dynamic and cases is not aten_cases.RANDOM else FORMS[:1]:
            chosen = [Case(text, operands, form) for text, operands in cases if only in text]
            chosen = [c for c in chosen if form == "plain" or any(isinstance(x, Real) for x in c.operands)]
            groups += [(chosen[i:i + GROUP], dynamic) for i in range(0, len(chosen), GROUP)]
    return groups


def main():
    program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    if "--part" in sys.argv:
        part = int(sys.argv[sys.argv.index("--part") + 1])
        os.makedirs(work, exist_ok=True)
        wrong = check(program, all_groups(only)[part::2], work)
        if part == 0 and not only:
            wrong += check_refusals(program, work)
        print("\n".join(wrong))
        return 0
    shutil.rmtree(work, ignore_errors=True)
    parts = [subprocess.Popen([sys.executable, os.path.abspath(__file__), program, os.path.join(work, str(i)), "--part", str(i)] +
                              (["--only", only] if only else []), stdout=subprocess.PIPE, text=True) for i in range(2)]
    wrong = []
    for p in parts:
        text = p.communicate()[0].strip()
        wrong += text.split("\n") if text else []
        if p.returncode:
            wrong.append("a half of the cases ended with status %d" % p.returncode)
    used = set()
    for root, _, files in os.walk(work):
        if "used.txt" in files:
            used |= set(open(os.path.join(root, "used.txt")).read().split())
    if not only:
        for target in subprocess.run([program, "--targets"], capture_output=True, text=True).stdout.split():
            if target not in used and target not in aten_cases.NEVER:
                wrong.append("%s: no case calls it" % target)
    n = sum(len(g[0]) for g in all_groups(only))
    for line in wrong:
        print(line)
    print("%d cases of %d targets, %d wrong" % (n, len(used), len(wrong)))
    if "--keep" not in sys.argv and not wrong:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
