"""Runs an exported program in PyTorch, in fp64, with the random numbers that `plimsoll train --dump-random` wrote.

    replay.py CASE_FOLDER

Reads model.pt2, weights, batch and random.safetensors; writes ref.safetensors (loss, gradients, three AdamW updates) for
tests/reference/model_case.c.
"""
import json
import math
import operator
import os
import sys

import torch
from safetensors.torch import load_file, save_file


def wide(x):
    return torch.float64 if x is torch.float32 else x


def attention(mask, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if k.shape[-3] != q.shape[-3]:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    if is_causal:
        scores = scores.masked_fill(~torch.ones_like(scores, dtype=torch.bool).tril(), -math.inf)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    return (scores.softmax(-1) * mask.reshape(scores.shape)) @ v


def from_one(kind, u, a=None, b=None, lambd=1.0, mean=1.0, std=2.0, median=0.0, sigma=1.0, p=0.5, generator=None):
    """Numbers of a distribution, each from one that is uniform or normal."""
    if kind == "exponential":
        return -u.log() / (lambd if a is None else a)
    if kind == "geometric":
        return (u.log() / math.log1p(-(p if a is None else a))).ceil()
    if kind == "cauchy":
        return (median if a is None else a) + (sigma if b is None else b) * torch.tan(math.pi * (u - 0.5))
    return ((mean if a is None else a) + (std if b is None else b) * u).exp()


def dropped(kind, x, u, p):
    keep = (u >= p).to(x.dtype)
    if "alpha" not in kind:
        return x * keep / (1 - p)
    alpha = 1.7580993408473766
    a = 1 / math.sqrt((alpha * alpha * p + 1) * (1 - p))
    return x * keep * a + (keep - 1) * alpha * a + alpha * a * p


def replaced(target, drawn, args, kwargs):
    """What the call gives with these numbers in place of its own."""
    name = target.split(".")[1]
    kind = name.rstrip("_")
    if kind == "dropout":
        out = args[0] * drawn
    elif kind == "native_dropout":
        return args[0] * drawn, drawn != 0
    elif kind == "scaled_dot_product_attention":
        return attention(drawn, *args, **kwargs)
    elif kind == "bernoulli":
        p = args[1] if len(args) > 1 else kwargs.get("p", 0.5 if name.endswith("_") else args[0])
        out = (drawn < p).to(args[0].dtype)
    elif kind in ("normal", "uniform"):
        low, high = (list(args[1:]) + [0, 1][len(args) - 1:])[:2]
        out = low + drawn * (high - low if kind == "uniform" else high)
    elif kind in ("exponential", "log_normal", "cauchy", "geometric"):
        out = from_one(kind, drawn, *args[1:], **kwargs)
    elif kind == "randperm":
        out = drawn.argsort(stable=True)
    elif kind == "multinomial":
        out = (drawn.log() / args[0]).topk(args[1]).indices
    elif kind in ("feature_dropout", "alpha_dropout", "feature_alpha_dropout"):
        out = dropped(kind, args[0], drawn, args[1])
    else:
        out = drawn.long() if kind.startswith("randint") else drawn
    return args[0].copy_(out) if name.endswith("_") else out


def recurrent(kind, masks, x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """Layer by layer: what each gives to the next is multiplied by its mask."""
    call, per, sides = getattr(torch.ops.aten, kind).input, len(params) // num_layers, 2 if bidirectional else 1
    states, ends = hx if kind == "lstm" else [hx], []
    for layer in range(num_layers):
        first = [h[layer * sides:(layer + 1) * sides] for h in states]
        x, *last = call(x, first if kind == "lstm" else first[0], params[layer * per:(layer + 1) * per], has_biases, 1, 0.0, train,
                        bidirectional, batch_first)
        ends.append(last)
        if layer in masks:  # (steps, samples, width)
            x = x * (masks[layer].transpose(0, 1) if batch_first else masks[layer]).reshape(x.shape)
    return (x, *[torch.cat(list(h)) for h in zip(*ends)])


class Replay(torch.fx.Interpreter):
    def __init__(self, module, drawn):
        super().__init__(module)
        self.drawn, self.used = drawn, set()

    def run_node(self, n):
        self.node = n
        return super().run_node(n)

    def call_function(self, target, args, kwargs):
        target_name = str(target)
        if "_assert_tensor_metadata" in target_name:
            return None
        args, kwargs = torch.fx.node.map_aggregate(args, wide), torch.fx.node.map_aggregate(kwargs, wide)
        if self.node.name in self.drawn:
            self.used.add(self.node.name)
            return replaced(target_name, self.drawn[self.node.name], args, dict(kwargs))
        layers = {int(name.rsplit(".", 1)[1]) - 1: m for name, m in self.drawn.items() if name.startswith(self.first_result() + ".")}
        if layers and target is not operator.getitem:
            self.used.update(name for name in self.drawn if name.startswith(self.first_result() + "."))
            return recurrent(target_name.split(".")[1], layers, *args)
        return super().call_function(target, args, kwargs)

    def first_result(self):
        """The name that the file gives to the first of several results."""
        users = [u.name for u in self.node.users if u.target is operator.getitem and u.args[1] == 0]
        return users[0] if users else self.node.name


def main(folder):
    with open(os.path.join(folder, "config.json")) as f:
        rule = json.load(f)["optimizer"]
    program = torch.export.load(os.path.join(folder, "model.pt2"))
    drawn = load_file(os.path.join(folder, "random.safetensors"))
    batch = load_file(os.path.join(folder, "batch.safetensors"))
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    inputs = [batch["micro0." + n] for n in names]
    inputs = [x.double() if x.is_floating_point() else x for x in inputs]
    module = program.module().double()
    params = dict(module.named_parameters(remove_duplicate=False))
    used = [s.target for s, n in zip(program.graph_signature.input_specs, program.graph.nodes) if s.kind.name == "PARAMETER" and n.users]
    for k, p in list(params.items()):  # of tied weights the program reads one name
        same = [params[u] for u in used if k not in used and params[u].shape == p.shape and torch.equal(params[u], p)]
        params[k] = same[0] if len(same) == 1 else p
    optimizer = torch.optim.AdamW(module.parameters(), lr=rule["lr"], betas=(rule["beta1"], rule["beta2"]), eps=rule["eps"],
                                  weight_decay=rule["decay"])
    found = {}
    for step in range(3):
        optimizer.zero_grad()
        run = Replay(module, {k: v[step].double() for k, v in drawn.items()})
        out = run.run(*inputs)
        loss = out[0] if isinstance(out, (list, tuple)) else out
        if run.used != set(drawn):
            sys.exit("random numbers of calls that PyTorch does not run: %s" % sorted(set(drawn) - run.used))
        loss.backward()
        if step == 0:
            found["loss"] = loss.detach().reshape(1)
            for k, p in params.items():
                if p.grad is not None:
                    found["grad." + k] = found["first." + k] = p.grad.detach().clone()
        optimizer.step()
    found.update({"param." + k: p.detach() for k, p in params.items()})
    save_file({k: v.float().contiguous().clone() for k, v in found.items()}, os.path.join(folder, "ref.safetensors"))
    print("%d random tensors, of which %d zero some numbers" % (len(drawn), sum(bool((v == 0).any()) for v in drawn.values())))


if __name__ == "__main__":
    main(sys.argv[1])
