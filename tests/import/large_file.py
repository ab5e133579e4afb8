"""A program of torch.export with as many nodes as are asked for, written without PyTorch: what the reader has to do in a second.

    large_file.py NODES FILE.pt2

Decoder blocks of two kinds follow each other: one as torch.nn writes it (layer norm, packed q, k and v, GELU), one whose RMS norm,
rotary positions and gated MLP are the small operators that public models consist of. Nodes carry the sizes, source lines and
module paths that PyTorch 2.13 writes, about 1.2 KB each. The weights have sizes and no contents.
"""
import json
import sys
import zipfile

TOKENS, WIDTH, HEADS = 64, 64, 4
DIM = WIDTH // HEADS
BATCH = {"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 4}}}
F32 = 7


class Program:
    def __init__(self):
        self.nodes, self.tensors, self.parameters, self.counts, self.module, self.line = [], {}, [], {}, "", 0

    def tensor(self, name, sizes, grad):
        strides, step = [], 1
        for n in reversed(sizes):
            strides.insert(0, {"as_int": step})
            step *= 4 if n == "B" else n
        self.tensors[name] = {"dtype": F32, "sizes": [BATCH if n == "B" else {"as_int": n} for n in sizes], "requires_grad": grad,
                              "device": {"type": "cpu", "index": None}, "strides": strides, "storage_offset": {"as_int": 0}, "layout": 7}
        return name

    def parameter(self, name, *sizes):
        path = f"{self.module}.{name}"
        graph_name = self.tensor("p_" + path.replace(".", "_"), sizes, True)
        self.parameters.append((graph_name, path, sizes))
        return graph_name

    def fresh(self, stem):
        n = self.counts.get(stem, 0)
        self.counts[stem] = n + 1
        return f"{stem}_{n}" if n else stem

    def metadata(self, what):
        self.line += 1
        block = self.module
        return {"stack_trace": f'File "/home/user/models/decoder.py", line 310, in forward\n    h = block(h, mask=mask)\n'
                               f'  File "/home/user/models/decoder.py", line {40 + self.line % 60}, in forward\n    h = self.{what}(h)\n'
                               '  File "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", line 134, in forward\n    return run(x)',
                "nn_module_stack": f"L__self__,,models.Decoder;L__self__{block},{block},models.Block;L__self__{block}.f,{block},torch.nn.Linear",
                "torch_fn": f"{what}_{self.line};builtin_function_or_method.{what}"}

    def call(self, target, sizes, inputs, several=0):
        """The name of the result, or a list of them."""
        stem = target.split(".")[0]
        names = [self.tensor(self.fresh("getitem" if several else stem), sizes, True) for _ in range(several or 1)]
        outputs = [{"as_tensors": [{"name": n} for n in names]}] if several else [{"as_tensor": {"name": names[0]}}]
        self.nodes.append({"target": "torch.ops.aten." + target, "outputs": outputs, "metadata": self.metadata(stem), "name": names[0],
                           "inputs": [{"name": k, "arg": argument(v), "kind": 1} for k, v in inputs.items()],
                           "is_hop_single_tensor_return": None})
        return names if several else names[0]


def argument(v):
    if isinstance(v, str):
        return {"as_tensor": {"name": v}}
    if isinstance(v, bool):
        return {"as_bool": v}
    if isinstance(v, int):
        return {"as_int": v}
    if isinstance(v, float):
        return {"as_float": v}
    if v and all(isinstance(x, str) and x != "B" for x in v):
        return {"as_tensors": [{"name": x} for x in v]}
    if "B" in v:
        return {"as_sym_ints": [{"as_name": "sym_size_int"} if x == "B" else {"as_int": x} for x in v]}
    return {"as_ints": list(v)}


ROWS, SPLIT, HEADED = ("B", TOKENS, WIDTH), ("B", TOKENS, HEADS, DIM), ("B", HEADS, TOKENS, DIM)


def linear(p, x, name, n_in, n_out, bias):
    inputs = {"input": x, "weight": p.parameter(name + ".weight", n_out, n_in)}
    if bias:
        inputs["bias"] = p.parameter(name + ".bias", n_out)
    return p.call("linear.default", ("B", TOKENS, n_out), inputs)


def layer_norm(p, x, name):
    weight, bias = p.parameter(name + ".weight", WIDTH), p.parameter(name + ".bias", WIDTH)
    return p.call("layer_norm.default", ROWS, {"input": x, "normalized_shape": [WIDTH], "weight": weight, "bias": bias, "eps": 1e-5})


def merged(p, a, x, name, bias):
    t = p.call("transpose.int", SPLIT, {"self": a, "dim0": 1, "dim1": 2})
    r = p.call("reshape.default", ROWS, {"self": t, "shape": ["B", TOKENS, WIDTH]})
    return p.call("add.Tensor", ROWS, {"self": x, "other": linear(p, r, name, WIDTH, WIDTH, bias)})


def plain_block(p, x):
    h = linear(p, layer_norm(p, x, "n1"), "qkv", WIDTH, 3 * WIDTH, True)
    h = p.call("view.default", ("B", TOKENS, 3, HEADS, DIM), {"self": h, "size": ["B", TOKENS, 3, HEADS, DIM]})
    h = p.call("permute.default", (3, "B", HEADS, TOKENS, DIM), {"self": h, "dims": [2, 0, 3, 1, 4]})
    q, k, v = p.call("unbind.int", HEADED, {"self": h}, several=3)
    x = merged(p, p.call("scaled_dot_product_attention.default", HEADED, {"query": q, "key": k, "value": v}), x, "o", True)
    h = linear(p, layer_norm(p, x, "n2"), "up", WIDTH, 4 * WIDTH, True)
    h = p.call("gelu.default", ("B", TOKENS, 4 * WIDTH), {"self": h})
    return p.call("add.Tensor", ROWS, {"self": x, "other": linear(p, h, "down", 4 * WIDTH, WIDTH, True)})


def rms_norm(p, x, name):
    h = p.call("pow.Tensor_Scalar", ROWS, {"self": x, "exponent": 2})
    h = p.call("mean.dim", ("B", TOKENS, 1), {"self": h, "dim": [-1], "keepdim": True})
    h = p.call("add.Tensor", ("B", TOKENS, 1), {"self": h, "other": 1e-6})
    h = p.call("rsqrt.default", ("B", TOKENS, 1), {"self": h})
    h = p.call("mul.Tensor", ROWS, {"self": x, "other": h})
    return p.call("mul.Tensor", ROWS, {"self": p.parameter(name + ".weight", WIDTH), "other": h})


def rotated(p, x, cos, sin):
    half = ("B", HEADS, TOKENS, DIM // 2)
    a = p.call("slice.Tensor", half, {"self": x, "dim": 3, "start": 0, "end": DIM // 2})
    b = p.call("slice.Tensor", half, {"self": x, "dim": 3, "start": DIM // 2, "end": 9223372036854775807})
    b = p.call("neg.default", half, {"self": b})
    crossed = p.call("cat.default", HEADED, {"tensors": [b, a], "dim": -1})
    straight = p.call("mul.Tensor", HEADED, {"self": x, "other": cos})
    crossed = p.call("mul.Tensor", HEADED, {"self": crossed, "other": sin})
    return p.call("add.Tensor", HEADED, {"self": straight, "other": crossed})


def rotary_block(p, x, cos, sin):
    h, heads = rms_norm(p, x, "n1"), []
    for name in "qkv":
        y = linear(p, h, name, WIDTH, WIDTH, False)
        y = p.call("view.default", SPLIT, {"self": y, "size": ["B", TOKENS, HEADS, DIM]})
        heads.append(p.call("transpose.int", HEADED, {"self": y, "dim0": 1, "dim1": 2}))
    q, k = (rotated(p, y, cos, sin) for y in heads[:2])
    a = p.call("scaled_dot_product_attention.default", HEADED, {"query": q, "key": k, "value": heads[2], "is_causal": True})
    x = merged(p, a, x, "o", False)
    h = rms_norm(p, x, "n2")
    gate = p.call("silu.default", ("B", TOKENS, 2 * WIDTH), {"self": linear(p, h, "gate", WIDTH, 2 * WIDTH, False)})
    h = p.call("mul.Tensor", ("B", TOKENS, 2 * WIDTH), {"self": gate, "other": linear(p, h, "up", WIDTH, 2 * WIDTH, False)})
    return p.call("add.Tensor", ROWS, {"self": x, "other": linear(p, h, "down", 2 * WIDTH, WIDTH, False)})


def program(n_nodes):
    p = Program()
    x = p.tensor("x", ROWS, False)
    p.nodes.append({"target": "torch.ops.aten.sym_size.int", "metadata": {}, "name": "sym_size_int",
                    "inputs": [{"name": "self", "arg": argument(x), "kind": 1}, {"name": "dim", "arg": {"as_int": 0}, "kind": 1}],
                    "outputs": [{"as_sym_int": {"as_name": "sym_size_int"}}]})
    p.module = "rotary"
    angle = p.call("arange.default", (TOKENS * DIM,), {"end": TOKENS * DIM})
    angle = p.call("view.default", (TOKENS, DIM), {"self": angle, "size": [TOKENS, DIM]})
    cos, sin = (p.call(f + ".default", (TOKENS, DIM), {"self": angle}) for f in ("cos", "sin"))
    for i in range(1 << 30):
        p.module = f"blocks.{i}"
        if len(p.nodes) + 62 > n_nodes:
            break
        x = rotary_block(p, x, cos, sin) if i % 2 else plain_block(p, x)
    p.module = "tail"
    while len(p.nodes) < n_nodes - 2:
        x = p.call("silu.default", ROWS, {"self": x})
    x = p.call("pow.Tensor_Scalar", ROWS, {"self": x, "exponent": 2})
    return p, p.call("mean.default", (), {"self": x})


def document(p, loss):
    specs = [{"parameter": {"arg": {"name": g}, "parameter_name": n}} for g, n, _ in p.parameters]
    graph = {"inputs": [argument(g) for g, _, _ in p.parameters] + [argument("x")], "outputs": [argument(loss)], "nodes": p.nodes,
             "tensor_values": p.tensors, "sym_int_values": {"sym_size_int": BATCH}, "sym_bool_values": {}, "sym_float_values": {}}
    signature = {"input_specs": specs + [{"user_input": {"arg": argument("x")}}], "output_specs": [{"user_output": {"arg": argument(loss)}}]}
    return {"graph_module": {"graph": graph, "signature": signature}, "schema_version": {"major": 8, "minor": 20}, "torch_version": "2.13.0",
            "range_constraints": {"s77": {"min_val": 2, "max_val": None}}}


def write(path, n_nodes):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/archive_format", "pt2")
        archive.writestr("model/models/model.json", json.dumps(document(*program(n_nodes))))
        archive.writestr("model/data/weights/model_weights_config.json", '{"config": {}}')


if __name__ == "__main__":
    write(sys.argv[2], int(sys.argv[1]))
