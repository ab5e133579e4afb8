"""Cases of tests/import/aten.py: a line of Python over the operands a, b, c, d, e; A is torch.ops.aten, F torch.nn.functional."""
import math
import torch


class Real:
    """A tensor of numbers that gradients flow to; given: an input of the program instead."""

    def __init__(self, t, given=False):
        self.t, self.given = t, given


class Int:
    """An input of whole numbers or truth values."""

    def __init__(self, t):
        self.t, self.given = t, True


seeds = iter(range(100000))


def draw(shape):
    return torch.rand(shape, generator=torch.Generator().manual_seed(next(seeds)))


def X(*shape):
    """Of both signs, none near 0."""
    u = draw(shape)
    return Real(torch.where(u < 0.5, -1.5 + 2.4 * u, 0.3 + 2.4 * (u - 0.5)))


def POS(*shape):
    return Real(0.3 + 1.2 * draw(shape))


def UNIT(*shape):
    return Real(0.15 + 0.7 * draw(shape))


def APART(*shape):
    """No two are near each other."""
    n = 1
    for k in shape:
        n *= k
    order = torch.randperm(n, generator=torch.Generator().manual_seed(next(seeds)))
    return Real(((order.float() + 0.3) / n * 3 - 1.5).reshape(shape))


def IN(*shape):
    return Real(X(*shape).t, given=True)


def GIVEN(*shape):
    return Real(POS(*shape).t, given=True)


def IDS(high, *shape, low=0):
    return Int(torch.randint(low, high, shape, generator=torch.Generator().manual_seed(next(seeds))))


def LIST(*values):
    return Int(torch.tensor(values))


def TRUTH(*shape):
    return Int(draw(shape) < 0.5)


CASES, SYMBOLIC, RANDOM, REFUSED = [], [], [], []
# Targets that torch.export of this version does not write by itself: of older versions, or of numbers that it folds.
NEVER = {"aten.float.default", "aten.to.prim_Device", "aten.sym_size.int", "aten.sym_numel.default", "aten.item.default", "operator.ne",
         "operator.lt", "operator.gt", "sym_int", "_sym_sqrt", "aten.nll_loss.default", "aten.normal.default", "aten.uniform.default", "aten.lift_fresh.default", "aten.bernoulli.float",
         "aten._grouped_mm.default", "transformers.grouped_mm_fallback.default", "aten._native_batch_norm_legit.default", "aten._native_batch_norm_legit_functional.default",
         "aten._native_batch_norm_legit_no_training.default", "aten._scaled_dot_product_flash_attention.default",
         "aten.conj.default"}


def case(text, *operands):
    CASES.append((text, operands))


def refused(text, *operands, says):
    REFUSED.append((text, operands, says))


# ---- elementwise ----

for name in ("relu silu sigmoid tanh mish log_sigmoid exp exp2 expm1 sin cos tan sinh cosh atan erf square neg abs sign sgn floor "
             "ceil round trunc reciprocal").split():
    case("A.%s(a)" % name, X(3, 4))
for name in "log log2 log1p sqrt rsqrt".split():
    case("A.%s(a)" % name, POS(3, 4))
for name in "asin acos".split():
    case("A.%s(a)" % name, UNIT(3, 4))
case("A.isnan(a / (a - a))", X(3, 4))
case("A.isinf(1 / (a - a))", X(3, 4))
case("A.logical_not(a > 0.5)", X(3, 4))
case("A.logical_not(a)", X(3, 4))
case("A.bitwise_not(a)", TRUTH(3, 4))
case("A.bitwise_not(a)", IDS(7, 3, 4))
for name in "relu_ sigmoid_ exp_ neg_ silu_ tanh_ sin_ abs_".split():
    case("y = a * 1; torch.ops.aten.%s(y); return y" % name, X(3, 4))
case("A.neg(a) + A.abs(a) + A.sign(a) + A.square(a)", IDS(7, 3, 4, low=-5))
case("A.sigmoid(a) + A.sqrt(a) + A.exp(a)", IDS(4, 3, 4))

for text in ("A.add.Tensor(a, b)", "A.add.Tensor(a, b, alpha=2.5)", "A.sub.Tensor(a, b)", "A.sub.Tensor(a, b, alpha=-2)",
             "A.mul.Tensor(a, b)", "A.div.Tensor(a, b)", "A.true_divide.Tensor(a, b)", "A.multiply.Tensor(a, b)",
             "A.subtract.Tensor(a, b)", "A.divide.Tensor(a, b)", "A.maximum(a, b)", "A.minimum(a, b)", "A.max.other(a, b)", "A.min.other(a, b)",
             "A.atan2(a, b)",
             "A.remainder.Tensor(a, b)", "A.fmod.Tensor(a, b)", "A.rsub.Tensor(a, b)",
             "A.rsub.Tensor(a, b, alpha=3)"):
    case(text, X(3, 4), X(3, 4))
for text in ("a + b", "a * b", "a / b", "torch.maximum(a, b)"):
    case(text, X(2, 3, 4), X(4))
    case(text, X(2, 3, 4), X(3, 1))
    case(text, X(3, 1), X(2, 1, 4))
    case(text, X(), X(3, 4))
    case(text, X(3, 4), X(1))
for text in ("A.add.Scalar(a, 1.5)", "A.add.Scalar(a, 2, 3)", "A.sub.Scalar(a, 1.5)", "A.mul.Scalar(a, -2)", "A.div.Scalar(a, 3)",
             "A.remainder.Scalar(a, 0.7)", "A.fmod.Scalar(a, 0.7)", "A.rsub.Scalar(a, 2.5)",
             "A.rsub.Scalar(a, 2, 3)", "1 - a", "2 / a", "a + True"):
    case(text, X(3, 4))
case("A.pow.Tensor_Tensor(a, b)", POS(3, 4), X(3, 4))
case("A.pow.Scalar(2.5, a)", X(3, 4))
for e in (2, 3, 4, 5, 0.5, -0.5, -1, -2, 1, 0, 1.7):
    case("A.pow.Tensor_Scalar(a, %s)" % e, POS(3, 4))
case("a ** 2 + a ** 3 + a ** 5", X(3, 4))
case("a ** 2 + a ** 3 + a ** 5", IDS(5, 3, 4, low=-3))
for mode in ("'floor'", "'trunc'", "None"):
    case("A.div.Tensor_mode(a, b, rounding_mode=%s)" % mode, X(3, 4), X(3, 4))
    case("A.div.Scalar_mode(a, 0.4, rounding_mode=%s)" % mode, X(3, 4))
    case("A.div.Tensor_mode(a, b, rounding_mode=%s)" % mode, IDS(9, 3, 4, low=-9), IDS(4, 3, 4, low=1))
case("A.floor_divide(a, b) * c", IN(3, 4), IN(3, 4), X(3, 4))
case("A.floor_divide.Scalar(a, 0.4) * b", IN(3, 4), X(3, 4))
case("a // 3 + a % 3", IDS(9, 3, 4, low=-9))
case("A.fmod.Scalar(a, 3)", IDS(9, 3, 4, low=-9))
case("a / 3 + a / b", IDS(9, 3, 4), IDS(5, 3, 4, low=1))
case("a + b * 2 - 3", IDS(9, 3, 4), IDS(5, 4))
case("a + b", IDS(9, 3, 4), TRUTH(3, 4))
case("a * b + a * c", X(3, 4), IDS(5, 3, 4), TRUTH(4))
case("(a * b) * 0.5", IDS(5, 3, 4), TRUTH(3, 4))
case("A.add.Tensor(a, b, alpha=3)", IDS(5, 3, 4), IDS(5, 3, 4))
for name in "eq ne lt le gt ge".split():
    case("A.%s.Tensor(a, b)" % name, IDS(4, 3, 4), IDS(4, 4))
    case("A.%s.Scalar(a, 2)" % name, IDS(4, 3, 4))
    case("A.%s.Scalar(a, 0.5) * a" % name, X(3, 4))
    case("A.%s.Tensor(a, b) * a" % name, X(3, 4), X(4))
    case("A.%s.Scalar(a, 1.5)" % name, IDS(4, 3, 4))
    case("A.%s.Tensor(a, b)" % name, IDS(4, 3, 4), X(4))
for name in "bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__".split():
    case("getattr(A, '%s').Tensor(a, b)" % name, IDS(8, 3, 4), IDS(8, 4))
    case("getattr(A, '%s').Tensor(a, b)" % name, TRUTH(3, 4), TRUTH(4))
    case("getattr(A, '%s').Scalar(a, 3)" % name, IDS(8, 3, 4))
for name in "__lshift__ __rshift__".split():
    case("getattr(A, '%s').Tensor(a, b)" % name, IDS(8, 3, 4), IDS(3, 4))
    case("getattr(A, '%s').Scalar(a, 2)" % name, IDS(8, 3, 4))
for name in "logical_and logical_or logical_xor".split():
    case("A.%s(a, b)" % name, TRUTH(3, 4), TRUTH(4))
    case("A.%s(a, b)" % name, IDS(3, 3, 4), IDS(2, 3, 4))
    case("A.%s(a, b)" % name, X(3, 4), IDS(2, 3, 4))
case("A.where.self(c, a, b)", X(3, 4), X(3, 4), TRUTH(3, 4))
case("A.where.self(c, a, b)", X(3, 4), X(1), TRUTH(4))
case("A.where.self(c, a, b)", X(3, 1), X(4), TRUTH(3, 4))
case("A.where.self(b, a, b)", IDS(5, 3, 4), TRUTH(3, 4))
case("A.where.ScalarSelf(b, 0.5, a)", X(3, 4), TRUTH(4))
case("A.where.ScalarOther(b, a, -1)", X(3, 4), TRUTH(4))
case("A.where.Scalar(a, 1.5, -2)", TRUTH(3, 4))
case("torch.where(a > 0, a, 0)", X(3, 4))
case("A.masked_fill.Scalar(a, b, -2.5)", X(3, 4), TRUTH(4))
case("A.masked_fill.Scalar(a, b, -inf).exp()", X(3, 4), TRUTH(3, 4))
case("A.masked_fill.Tensor(a, b, c)", X(3, 4), TRUTH(3, 4), X())
case("A.masked_fill.Scalar(a, b, 3)", IDS(5, 3, 4), TRUTH(4))
case("A.masked_fill.Scalar(a, b, True)", TRUTH(3, 4), TRUTH(4))
case("y = a * 1; y.masked_fill_(b, 2.0); return y", X(3, 4), TRUTH(4))
for text in ("A.clamp(a, -0.5, 0.6)", "A.clamp(a, min=0.1)", "A.clamp(a, None, 0.1)", "A.clip(a, -0.5, 0.6)", "A.clamp_min(a, 0.1)",
             "A.clamp_max(a, 0.1)", "y = a * 1; y.clamp_(-0.5, 0.5); return y", "y = a * 1; y.clamp_min_(0.1); return y"):
    case(text, X(3, 4))
case("A.clamp(a, 1, 3)", IDS(6, 3, 4))
case("A.clamp.Tensor(a, b, c)", X(3, 4), Real(-POS(4).t), POS(3, 1))
case("A.clamp_min.Tensor(a, b)", X(3, 4), X(4))
case("A.clamp_max.Tensor(a, b)", X(3, 4), X(4))
for text in ("A.gelu(a)", "A.gelu(a, approximate='tanh')", "A.softplus(a)", "A.softplus(a, 2, 1.0)", "A.softplus(a * 20)",
             "A.hardsigmoid(a * 4)", "A.hardswish(a * 4)", "A.hardtanh(a)", "A.hardtanh(a, -0.5, 0.7)", "A.relu6(a * 5)",
             "A.leaky_relu(a)", "A.leaky_relu(a, 0.3)", "A.elu(a)", "A.elu(a, 0.7, 1.3, 0.9)", "A.selu(a)", "A.celu(a)",
             "A.celu(a, 0.6)", "F.relu6(a * 5)", "F.hardtanh(a, inplace=False)", "y = a * 1; F.relu(y, inplace=True); return y",
             "y = a * 1; F.leaky_relu(y, 0.2, inplace=True); return y", "y = a * 4; F.hardswish(y, inplace=True); return y",
             "y = a * 1; F.silu(y, inplace=True); return y", "y = a * 5; F.relu6(y, inplace=True); return y",
             "y = a * 1; F.elu(y, inplace=True); return y"):
    case(text, X(3, 4))
case("A.prelu(a, b)", X(2, 3, 4), X(3))
case("A.prelu(a, b)", X(2, 3, 4), X(1))
case("A.prelu(a, b)", X(2, 3), X(3))
case("A._prelu_kernel(a, b)", X(2, 3, 4), X(1, 3, 1))
case("A.addcmul(a, b, c)", X(3, 4), X(3, 4), X(4))
case("A.addcmul(a, b, c, value=0.3)", X(3, 4), X(3, 4), X(4))
case("A.addcdiv(a, b, c, value=0.3)", X(3, 4), X(3, 4), POS(4))
case("A.lerp.Scalar(a, b, 0.3)", X(3, 4), X(4))
case("A.lerp.Tensor(a, b, c)", X(3, 4), X(3, 4), X(3, 1))
case("A.lerp.Tensor(a, b, c)", X(3, 4), X(3, 4), X())

# ---- casts and copies ----

for text in ("A.to.dtype(a, torch.float32)", "A.to.dtype(a, torch.int64)", "A.to.dtype(a, torch.bool)", "A._to_copy(a, dtype=torch.int32)",
             "A._to_copy(a)", "a.to(torch.bfloat16).float()", "a.to(torch.float16).float()", "a.half() * 2", "a.bfloat16() * 2",
             "a.float()", "A.float(a)" if hasattr(torch.ops.aten, "float") else "a.float()", "a.long()", "a.int() + 1", "a.bool()",
             "a.to('cpu')", "A.to.device(a, 'cpu', torch.float32)", "a.double().float()", "A.to.prim_Device(a, 'cpu', torch.float32)",
             "A.to.dtype_layout(a, dtype=torch.float32, layout=torch.strided, device='cpu')",
             "A.to.dtype_layout(a, dtype=torch.int64, layout=torch.strided, device='cpu')",
             "A.clone(a)", "A.lift_fresh_copy(a)", "A.lift_fresh(a * 1)", "A.contiguous(a)", "a.contiguous(memory_format=torch.channels_last)",
             "A.alias(a) * 2", "A.positive(a) * 2", "A.detach(a) * a", "y = a * 2; y.detach_(); return y + a"):
    case(text, X(2, 2, 3, 4) if "channels" in text else X(3, 4))
for text in ("a.float()", "a.to(torch.int32)", "a.bool()", "a.double().float()", "A.to.dtype(a, torch.uint8)", "a.to(torch.int8)"):
    case(text, IDS(5, 3, 4))
    case(text, TRUTH(3, 4))
case("A.to.other(a, b)", X(3, 4), IN(2))
case("A.to.other(a, b)", IDS(5, 3), IN(2))
case("A.type_as(a, b)", X(3, 4), IN(2))
case("A.type_as(a, b)", IDS(5, 3), IN(2))
case("A.copy(a, b) * c", IN(3, 4), IN(4), X(4))
case("A.copy(a, b) * c", IN(3, 4), IDS(5, 4), X(4))
case("A.fill.Scalar(a, 1.5)", X(3, 4))
case("A.fill.Tensor(a, b)", X(3, 4), X())
case("A.zero(a)", X(3, 4))
case("y = a * 1; y.copy_(b); return y", X(3, 4), X(4))
case("y = a * 1; y.fill_(2.5); return y", X(3, 4))
case("y = a * 1; y.zero_(); return y + a", X(3, 4))

# ---- written in place, and through views ----

for text in ("y = a * 1; y += b; return y", "y = a * 1; y *= 2; y -= b; y /= 3; return y", "y = a * 1; y[1] = b; return y",
             "y = a * 1; y[:, 1:3] = b[1:3]; return y", "y = a * 1; y[:, ::2] = b[::2]; return y", "y = a * 1; y[:, 1::2] += 1; return y",
             "y = a * 1; y[-1] *= b; return y", "y = a * 1; v = y[0]; v += b; return y * v", "y = a * 1; v = y.contiguous().view(-1); v[2:5] = 7.0; return v",
             "y = a * 1; v = y.t(); v[1] = 3.0; return y", "y = a * 1; v = y.unsqueeze(0); v += 2; return y", "y = a * 1; v = y.permute(1, 0); v *= 2; return y",
             "y = a * 1; v = y[1:]; w = v[:, 2:]; w += 5; return y + v.sum()", "y = a * 1; z = y * 2; y += b; return z + y",
             "y = a * 1; y[0, 1] = 4.0; return y", "y = torch.zeros_like(a); y[:, :2] = a[:, 2:]; return y",
             "y = torch.empty_like(a); y.copy_(a); y[2] = b; return y", 
             "y = a * 1; y.narrow(1, 1, 2).mul_(3.0); return y",
             "y = a * 1; y.diagonal().add_(1.0); return y", "y = a * 1; y.transpose(0, 1)[2].mul_(2.0); return y",
             "y = (a * 1).contiguous(); y.flatten()[3:6].zero_(); return y",
             "y = a * 1; y[..., 0].fill_(1.0); return y", "y = (a * 1).contiguous(); y.view(2, 6)[0] = 0.5; return y", "y = a * 1; y.T[0] = 0.5; return y",
             "y = a * 1; y.squeeze(0)[0] = 0.5; return y", "y = a * 1; y.mT[1] = 0.5; return y", "y = a * 1; y.movedim(0, 1)[1] = 0.5; return y",
             "y = a * 1; y.expand_as(y)[0] *= 2.0; return y", "y = a * 1; y.unflatten(1, (2, 2))[:, 0] = 0.5; return y",
             "y = a * 1; y[:, 3:0:-1] if False else y[:, 1::3].add_(2.0); return y", "y = a * 1; y[:, torch.tensor([0, 2])] = 1.5; return y",
             "y = a * 1; y[y > 0.5] = 0.25; return y"):
    case(text, X(3, 4), X(4))
case("A.slice_scatter(a, b, 1, 1, 3)", X(3, 4), X(3, 2))
case("A.slice_scatter(a, b, -1, 0, 9, 2)", X(3, 4), X(3, 2))
case("A.slice_scatter(a, b)", X(3, 4), X(3, 4))
case("A.select_scatter(a, b, 1, -2)", X(3, 4), X(3))
case("A.select_scatter(a, b, 0, 1)", X(3, 4), X(4))

# ---- views ----

for text in ("A.view(a.contiguous(), [4, 6])", "A.view(a.contiguous(), [-1])", "A._unsafe_view(a.contiguous(), [6, 4])", "A.reshape(a.transpose(0, 1), [4, -1])", "A.flatten.using_ints(a)",
             "A.flatten.using_ints(a, 1)", "A.flatten.using_ints(a, 0, -2)", "A.unflatten.int(a, -1, [2, 2])", "A.unsqueeze(a, 0)", "A.unsqueeze(a, -1)",
             "A.squeeze(a.unsqueeze(1))", "A.squeeze.dim(a.unsqueeze(1), 1)", "A.squeeze.dim(a, 0)", "A.squeeze.dims(a[:1].unsqueeze(-1), [0, -1])",
             "A.view_as(a.contiguous(), a.new_zeros(6, 4))", "A.reshape_as(a, a.new_zeros(6, 4))", "A.ravel(a.transpose(0, 2))", "A._reshape_alias(a.contiguous(), [6, 4], [4, 1])",
             "A.view_copy(a, [6, 4])", "A.unsqueeze_copy(a, 1)", "A.expand(a.unsqueeze(1), [2, 5, 3, 4])", "A.expand(a[:1], [3, -1, -1])",
             "A.expand_as(a[:, :1], a)", "A.expand_copy(a[:, :1], [2, 3, 4])", "A.broadcast_to(a[0], [3, 3, 4])", "A.transpose.int(a, 0, -1)", "A.swapaxes(a, 1, 2)",
             "A.t(a[0])", "A.t(a[0, 0])", "A.numpy_T(a)", "a.T", "A.mT(a)", "A.permute(a, [2, 0, 1])", "A.permute(a, [-1, 0, -2])", "A.permute_copy(a, [1, 0, 2])",
             "A.movedim.int(a, 0, -1)", "A.movedim.int(a, -1, 0)", "A.movedim.intlist(a, [0, 1], [-1, 0])", "A.select.int(a, -1, 2)", "A.select.int(a, 0, -1)",
             "A.slice.Tensor(a, 1, 1, 3)", "A.slice.Tensor(a, -1, -3, -1)", "A.slice.Tensor(a, 2, 0, 9223372036854775807, 2)", "A.slice.Tensor(a)", "a[:, 5:]",
             "A.narrow(a, 2, 1, 2)", "A.narrow(a, -1, -3, 2)", "A.diagonal(a, 0, 1, 2)", "A.diagonal(a, 1, -2, -1)", "A.diagonal(a, -1, 1, 2)", "A.diagonal(a)",
             "A.unfold(a, 2, 2, 1)", "A.unfold(a, -1, 3, 1)", "A.unfold(a, 1, 2, 1)", "A.flip(a, [0])", "A.flip(a, [-1, 0])", "a.flip(1) * a",
             "A.chunk(a, 2, -1)", "A.chunk(a, 2, 1)", "A.chunk(a, 5, 2)", "A.split.Tensor(a, 2, 1)", "A.split.Tensor(a, 3, -1)", "A.split_with_sizes(a, [1, 3], -1)",
             "A.split_with_sizes(a, [1, 2], 1)", "A.split.sizes(a, [2, 2], 2)", "A.unbind.int(a)", "A.unbind.int(a, -1)", "A.unbind.int(a, 1)[1]", "a.chunk(2, 2)[1] * 2",
             "A.cat([a, a * 2])", "A.cat([a, a[:, :2]], 1)", "A.cat([a.transpose(0, 1), a.transpose(0, 1)], -1)", "A.concat([a, a], 2)", "A.stack([a, a * 2])",
             "A.stack([a, a * 2], -1)", "A.stack([a], 1)", "A.cat([a])", "A.repeat(a, [2, 1, 3])", "A.repeat(a, [2, 1, 1, 2])", "A.repeat(a[0, 0], [3])", "A.tile(a, [2, 1])", "A.tile(a, [1, 2, 1, 1])",
             "A.repeat_interleave.self_int(a, 2)", "A.repeat_interleave.self_int(a, 3, 1)", "A.repeat_interleave.self_int(a, 2, -1)",
             "a.transpose(1, 2).reshape(2, 12)", "a.permute(2, 0, 1).reshape(4, 6) * 2", "a[:, None, :, 1:3].expand(2, 2, 3, 2).reshape(4, 6)",
             "torch.zeros(0, 4) if False else a[:, :0].sum() + a", "torch.cat([a[:, :0], a], 1)", "a[..., 1:].transpose(0, 1).flatten(1)",
             "a.flip(2).transpose(0, 2).reshape(-1)", "a.expand(2, 2, 3, 4).transpose(0, 3).reshape(-1, 4)", "a.unfold(2, 2, 2).reshape(2, 3, 4) * a",
             "A.tensor_split.sections(a, 3, 2)",
             "torch.swapdims(a, 0, 1)", "a.squeeze(-1)", "A.moveaxis.int(a, 0, 2)", "A.adjoint(a)", "A.narrow_copy(a, 1, 0, 2)", "A.moveaxis.intlist(a, [0, 1], [1, 2])"):
    case(text, X(2, 3, 4))
case("torch.cat([a, b], 0)", X(2, 3), IDS(5, 1, 3))
case("torch.cat([a, b], 0)", IDS(5, 1, 3), IDS(5, 2, 3))
case("torch.cat([a, b, c], 1)", X(2, 3, 2), X(2, 1, 2), X(2, 2, 2))
case("torch.cat([a, b], -1)", X(2, 3), TRUTH(2, 2))
case("torch.stack([a, b], 0)", X(2, 3), X(2, 3))
case("torch.stack([a, b], 1)", IDS(3, 2, 3), TRUTH(2, 3))
case("A.meshgrid.indexing([a, b], indexing='xy')", X(3), X(4))
case("A.meshgrid.indexing([a, b, a], indexing='ij')", X(3), X(4))
case("torch.broadcast_tensors(a, b)", X(3, 1), X(4))
case("A.meshgrid([a, b])", X(3), X(4))

# ---- made from nothing ----

for text in ("A.zeros([3, 4]) + a", "A.ones([3, 4]) * a", "A.zeros_like(a) + a", "A.ones_like(a) * a", "A.new_zeros(a, [3, 4]) + a", "A.new_ones(a, [4]) * a",
             "A.new_empty(a, [3, 4]).fill_(2.0) * a", "A.empty_like(a).fill_(1.5) * a", "A.empty.memory_format([3, 4]).fill_(2.0) * a",
             "A.new_empty_strided(a, [3, 4], [4, 1]).zero_() + a", "A.full([3, 4], 2.5) * a", "A.full_like(a, -1) * a", "A.new_full(a, [4], 3) * a",
             "A.full([3, 4], True) * a", "A.full([], -inf).exp() + a", "A.full([4], 3, dtype=torch.int64) * a", "A.arange(4) * a", "A.arange.start(1, 5) * a",
             "A.arange.start_step(0, 8, 2) * a", "A.arange.start_step(0, 1, 0.25) * a", "A.arange(4, dtype=torch.float32) * a", "A.arange.start_step(4, 0, -1) * a",
             "A.linspace(0, 1, 4) * a", "A.linspace(2, -1, 1) * a", "A.logspace(0, 1, 4) * a", "(A.eye(3)[:, :, None] * a).sum(1)", "A.eye.m(3, 4) * a", "A.scalar_tensor(2.5) * a",
             "A.scalar_tensor(2, dtype=torch.int64) * a", "A.tril(a)", "A.tril(a, 1)", "A.triu(a, -1)", "A.triu(a)", "torch.ones(3, 4, dtype=torch.bool).tril() * a",
             "(torch.full((3, 3), -inf).triu(1).exp()[:, :, None] * a).sum(1)", "torch.tensor([1.0, 2.0, 3.0, 4.0]) * a", "torch.tensor(0.5) * a", "torch.ones(3).cumsum(0)[:, None] * a",
             "torch.arange(12).view(3, 4).float().sin() * a", "torch.arange(3)[:, None] <= torch.arange(4)[None]"):
    case(text, X(3, 4))
case("A.item(torch.tensor(2.5)) * a", X(3, 4))
case("torch.tril(a)", IDS(5, 3, 3))

# ---- reductions ----

for text in ("A.sum(a)", "A.sum.dim_IntList(a, [1])", "A.sum.dim_IntList(a, [0, -1], True)", "A.sum.dim_IntList(a, None)", "A.sum.dim_IntList(a, [1], True)",
             "A.mean(a)", "A.mean.dim(a, [1])", "A.mean.dim(a, [-1, -2], True)", "A.mean.dim(a, None, True)", "A.var(a)", "A.var(a, False)", "A.var.dim(a, [1])",
             "A.var.dim(a, [-1], False, True)", "A.var.correction(a, [2], correction=0)", "A.var.correction(a, [0, 1], correction=2, keepdim=True)",
             "A.var.correction(a, None)", "A.std(a)", "A.std.dim(a, [1], True, True)", "A.std.correction(a, [1], correction=0)", "A.var_mean.correction(a, [2], correction=0, keepdim=True)",
             "A.var_mean.correction(a, [1])", "A.var_mean.dim(a, [-1])", "A.linalg_vector_norm(a)", "A.linalg_vector_norm(a, 2, [-1], True)",
             "A.linalg_vector_norm(a, 1, [1])", "A.norm.ScalarOpt_dim(a, 2, [-1])", "A.norm.ScalarOpt_dim(a, None, [-1], True)", "A.norm.Scalar(a, 2)", "A.norm.Scalar(a, 1)",
             "A.linalg_vector_norm(a, 3, [1])", "A.linalg_vector_norm(a, 0.5, [1])",
             "F.normalize(a, dim=1)", "F.normalize(a, p=1, dim=-1)", "A.softmax.int(a, -1)", "A.softmax.int(a, 1)", "A.softmax.int(a, 0, torch.float32)", "A._softmax(a, 1, False)",
             "A.log_softmax.int(a, 1)", "A._log_softmax(a, -1, False)", "A.logsumexp(a, [1])", "A.logsumexp(a, [-1], True)", "A.logsumexp(a, [0, 2])", "A.std_mean.correction(a, [1])",
             "A.softmin.int(a, 1)" if hasattr(A := torch.ops.aten, "softmin") else "F.softmin(a, 1)", "torch.cosine_similarity(a, a * 2 + 1, dim=1)", "a.norm()", "a.norm(dim=1)", "A.nansum(a, [1])",
             "A.count_nonzero(a)", "A.count_nonzero.dim_IntList(a, [1])", "A.frobenius_norm.dim(a, [1, 2])"):
    case(text, X(2, 3, 4))
for text in ("A.amax(a, [1])", "A.amax(a, [0, -1], True)", "A.amin(a, [-1])", "A.amin(a)", "A.max(a)", "A.min(a)", "A.linalg_vector_norm(a, inf, [1])", "A.linalg_vector_norm(a, -inf, [1])", "A.prod.dim_int(a, 1)", "A.prod(a)",
             "A.max.dim(a, 1)", "A.max.dim(a, -1, True)", "A.min.dim(a, 0)", "A.argmax(a)", "A.argmax(a, 1)", "A.argmax(a, -1, True)", "A.argmin(a, 0)", "A.argmin(a)",
             "A.topk(a, 2)", "A.topk(a, 2, 1)", "A.topk(a, 2, -1, False)", "A.sort(a)", "A.sort(a, 1, True)", "A.sort.stable(a, stable=True, dim=0)", "A.argsort(a)",
             "A.argsort(a, 1, True)", "A.cumsum(a, 1)", "A.cumsum(a, -1)", "A.cumprod(a, 2)", "A.cumsum(a, 0, dtype=torch.float32)", "A.diff(a)", "A.diff(a, 1, 0)", "A.diff(a, 2)",
             "A.diff(a, 1, -1, a[..., :1])", "A.aminmax(a, dim=1)", "A.argsort.stable(a, stable=True, dim=1)"):
    case(text, APART(2, 3, 4))
for text in ("a.sum()", "a.sum(1)", "a.sum(1, dtype=torch.float32)", "a.amax(0)", "a.max()", "A.all(a > 0)", "A.all.dim(a > 0, 1)", "A.all.dim(a > 0, 1, True)", "A.any(a > 2)",
             "A.any.dim(a > 2, -1)", "A.any.dims(a > 2, [0, 1], True)", "A.any.dims(a > 2, None)", "A.all.dims(a > 0, [0])", "a.cumsum(0)", "(a > 1).cumsum(1)", "(a > 1).sum()", "a.float().mean()", "A.argmax(a * 7 % 5 + a * 0.01, 1)", "a.any()",
             "A.sort(a * 3 % 11)[0]", "a.diff()", "F.one_hot(a, 5)", "F.one_hot(a[0], 7)", "a.bincount(minlength=6) if False else a"):
    case(text, Int(torch.tensor([[0, 3, 1, 4], [2, 1, 0, 3], [4, 2, 3, 1]])))

# ---- losses ----

for r in (0, 1, 2):
    case("A.mse_loss(a, b, %d)" % r, X(3, 4), X(3, 4))
    case("A.l1_loss(a, b, %d)" % r, X(3, 4), X(3, 4))
    case("A.smooth_l1_loss(a, b, %d, 0.7)" % r, X(3, 4), X(3, 4))
    case("A.huber_loss(a, b, %d, 0.7)" % r, X(3, 4), X(3, 4))
    case("A.binary_cross_entropy(a, b, None, %d)" % r, UNIT(3, 4), UNIT(3, 4))
    case("A.binary_cross_entropy_with_logits(a, b, None, None, %d)" % r, X(3, 4), UNIT(3, 4))
    case("A.cross_entropy_loss(a, b, None, %d)" % r, X(5, 4), IDS(4, 5))
    case("A.cross_entropy_loss(a, b, c, %d)" % r, X(5, 4), IDS(4, 5), GIVEN(4))
    case("A.cross_entropy_loss(a, b, c, %d, 1, 0.1)" % r, X(5, 4, 2), IDS(4, 5, 2), GIVEN(4))
    case("A.cross_entropy_loss(a, b, None, %d, 2)" % r, X(5, 4), LIST(0, 2, 1, 2, 3))
    case("A.cross_entropy_loss(a, b, None, %d, -100, 0.1)" % r, X(5, 4), LIST(0, 2, 1, -100, 3))
    case("A.cross_entropy_loss(a, b, None, %d)" % r, X(5, 4), UNIT(5, 4))
    case("F.nll_loss(F.log_softmax(a, 1), b, reduction='%s')" % ("none", "mean", "sum")[r], X(5, 4), IDS(4, 5))
    case("F.kl_div(F.log_softmax(a, 1), b, reduction='%s')" % ("none", "mean", "sum")[r], X(5, 4), UNIT(5, 4))
    case("F.soft_margin_loss(a, b, reduction='%s')" % ("none", "mean", "sum")[r], X(5, 4), IN(5, 4))
case("A.smooth_l1_loss(a, b, 1, 0.0)", X(3, 4), X(3, 4))
case("F.mse_loss(a, b)", X(3, 1), X(1, 4))
case("A.binary_cross_entropy_with_logits(a, b, c, d)", X(3, 4), UNIT(3, 4), GIVEN(3, 4), GIVEN(4))
case("A.binary_cross_entropy(a, b, c)", UNIT(3, 4), UNIT(3, 4), GIVEN(3, 4))
case("A.cross_entropy_loss(a, b)", X(2, 4, 3), IDS(4, 2, 3))
case("A.cross_entropy_loss(a, b)", X(2, 4, 3, 2), IDS(4, 2, 3, 2))
case("A.cross_entropy_loss(a, b)", X(4), Int(torch.tensor(2)))

# ---- products ----

case("A.linear(a, b, c)", X(2, 3, 4), X(5, 4), X(5))
case("A.linear(a, b)", X(3, 4), X(5, 4))
case("A.linear(a, b)", X(4), X(5, 4))
case("A.linear(a.transpose(1, 2), b, c)", X(2, 4, 3), X(5, 4), X(5))
case("A.linear(a, b.t(), c)", X(2, 3, 4), X(4, 5), X(5))
case("A.linear(a, b * 2, c + 1)", X(2, 3, 4), X(5, 4), X(5))
case("A.linear(a[:, :, 1:], b[1:, 1:])", X(2, 3, 4), X(5, 4))
case("A.linear(a, b)", X(2, 2, 3, 3, 4), X(2, 4))
for sa, sb in (((3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (4,)), ((3, 4), (4,)),
               ((4,), (4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((2, 2, 3, 4), (2, 2, 4, 3)), ((2, 1, 3, 2, 4), (1, 2, 1, 4, 2)), ((1, 4), (4, 1)), ((3, 1), (1, 3))):
    case("A.matmul(a, b)", X(*sa), X(*sb))
case("A.matmul(a, b.transpose(-1, -2))", X(2, 2, 3, 4), X(2, 2, 5, 4))
case("A.matmul(a.permute(0, 2, 1, 3), b.permute(0, 2, 3, 1))", X(2, 3, 2, 4), X(2, 5, 2, 4))
case("A.matmul(a[..., 1:], b[..., 1:, :])", X(2, 3, 4), X(2, 4, 5))
case("A.matmul(a, b.expand(3, 4, 5))", X(3, 2, 4), X(4, 5))
case("(a * 2) @ (b * 2)", X(3, 4), X(4, 5))
case("a @ b.t() + (a * a) @ (b * b).t()", X(3, 4), X(5, 4))
case("A.mm(a, b)", X(3, 4), X(4, 5))
case("A.mm(a * 1, b * 1)", X(3, 4), X(4, 5))
case("A.bmm(a, b)", X(2, 3, 4), X(2, 4, 5))
case("A.bmm(a, b.transpose(1, 2))", X(2, 3, 4), X(2, 5, 4))
case("A.mv(a, b)", X(3, 4), X(4))
case("A.mv(a * 1, b * 1)", X(3, 4), X(4))
case("A.dot(a, b)", X(4), X(4))
case("A.addmm(c, a, b)", X(3, 4), X(4, 5), X(5))
case("A.addmm(c, a, b, beta=0.5, alpha=2)", X(3, 4), X(4, 5), X(3, 5))
case("A.addmm(c, a, b, beta=0, alpha=2)", X(3, 4), X(4, 5), X(3, 5))
case("A.baddbmm(c, a, b)", X(2, 3, 4), X(2, 4, 5), X(2, 3, 5))
case("A.baddbmm(c, a, b, beta=0.5, alpha=2)", X(2, 3, 4), X(2, 4, 5), X(1, 1, 5))
case("A.outer(a, b)", X(3), X(4))
for eq, shapes in (("ij,jk->ik", ((3, 4), (4, 5))), ("bhid,bhjd->bhij", ((2, 2, 3, 4), (2, 2, 5, 4))), ("bij,bjd->bid", ((2, 3, 4), (2, 4, 5))), ("bchw,ck->bkhw", ((2, 3, 2, 2), (3, 4))),
                   ("i,j->ij", ((3,), (4,))), ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 5))), ("ij,ij->", ((3, 4), (3, 4))), ("ij,ij->ij", ((3, 4), (3, 4))), ("ij,ij->i", ((3, 4), (3, 4))),
                   ("bhwc,hkc->bhwk", ((2, 3, 2, 4), (3, 5, 4))), ("nhcwm->chnwm" , ((2, 3, 2, 2, 2),)), ("ij->ji", ((3, 4),)), ("ij->j", ((3, 4),)), ("ij,jk", ((3, 4), (4, 5))),
                   ("bqnh,bknh->bnqk", ((2, 3, 2, 4), (2, 5, 2, 4))), ("ij,k->ik", ((3, 4), (2,))), ("ij,jk,kl->il", ((3, 4), (4, 2), (2, 3))), ("b i d , b j d -> b i j", ((2, 3, 4), (2, 5, 4))),
                   ("bnd,d->bn", ((2, 3, 4), (4,))), ("ijk,jk->i", ((2, 3, 4), (3, 4))), ("...,f->...f", ((2, 3), (4,))), ("b...d,de->b...e", ((2, 3, 2, 4), (4, 3)))):
    case("A.einsum('%s', [%s])" % (eq, ", ".join("abc"[:len(shapes)])), *(X(*s) for s in shapes))
case("A.cdist(a, b)", X(3, 4), X(5, 4))
case("A.cdist(a, b, 1.0)", X(2, 3, 4), X(2, 5, 4))

# ---- convolutions ----

case("A.conv1d(a, b, c)", X(2, 3, 7), X(4, 3, 3), X(4))
case("A.conv1d(a, b, c, [2], [1], [2])", X(2, 3, 9), X(4, 3, 3), X(4))
case("A.conv1d(a, b, None, [1], [1], [1], 3)", X(2, 3, 7), X(6, 1, 3))
case("A.conv1d.padding(a, b, c, [1], 'same')", X(2, 3, 7), X(4, 3, 4), X(4))
case("A.conv1d.padding(a, b, c, [2], 'valid')", X(2, 3, 7), X(4, 3, 3), X(4))
case("A.conv2d(a, b, c)", X(2, 3, 5, 6), X(4, 3, 3, 2), X(4))
case("A.conv2d(a, b, None, [2, 1], [1, 0], [1, 2])", X(2, 3, 6, 6), X(4, 3, 3, 2))
case("A.conv2d(a, b, c, [1], [1], [1], 2)", X(2, 4, 5, 5), X(6, 2, 3, 3), X(6))
case("A.conv2d(a, b, c, [1], [1], [1], 4)", X(2, 4, 5, 5), X(4, 1, 3, 3), X(4))
case("A.conv2d(a, b * 2, c)", X(2, 3, 5, 6), X(4, 3, 3, 2), X(4))
case("A.conv2d(a, b, c) + b.sum()", X(2, 3, 5, 6), X(4, 3, 3, 2), X(4))
case("A.conv2d(a.permute(0, 3, 1, 2), b, c)", X(2, 5, 6, 3), X(4, 3, 1, 1), X(4))
case("A.conv2d.padding(a, b, c, [1], 'same', [2])", X(2, 3, 6, 6), X(4, 3, 3, 2), X(4))
case("A.conv2d(a, b, c)", X(3, 5, 6), X(4, 3, 3, 2), X(4))
case("A.conv1d(a, b, c)", X(3, 7), X(4, 3, 3), X(4))
case("A.conv3d(a, b, c, [1], [1])", X(1, 2, 3, 4, 4), X(3, 2, 3, 3, 3), X(3))
case("A.conv3d(a, b, None, [1, 2, 1], [0, 1, 1], [1], 2)", X(1, 2, 3, 4, 4), X(4, 1, 2, 3, 3))
case("A.conv3d.padding(a, b, c, [1], 'same')", X(1, 2, 3, 4, 4), X(3, 2, 3, 3, 3), X(3))
case("A.conv_transpose1d(a, b, c, [2], [1], [1])", X(2, 3, 5), X(3, 4, 4), X(4))
case("A.conv_transpose1d(a, b, None)", X(2, 3, 5), X(3, 4, 4))
case("A.conv_transpose1d(a, b, c, [2], [0], [0], 3)", X(2, 3, 5), X(3, 2, 3), X(6))
case("A.conv_transpose2d.input(a, b, c, [2], [1], [1])", X(2, 3, 4, 5), X(3, 4, 3, 3), X(4))
case("A.conv_transpose2d.input(a, b, c, [2], [0], [0], 3)", X(2, 3, 4, 5), X(3, 2, 2, 2), X(6))
case("A.conv_transpose2d.input(a, b, None, [1], [1], [0], 1, [2])", X(2, 3, 4, 5), X(3, 4, 3, 3))
case("A.conv_transpose3d.input(a, b, c, [2], [1], [0])", X(1, 2, 3, 3, 3), X(2, 3, 4, 4, 4), X(3))
case("A.convolution(a, b, c, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)", X(2, 3, 5, 6), X(4, 3, 3, 3), X(4))
case("A.convolution(a, b, c, [2, 2], [1, 1], [1, 1], True, [1, 1], 1)", X(2, 3, 4, 4), X(3, 4, 3, 3), X(4))
case("F.conv2d(F.pad(a, (1, 0, 2, 1)), b)", X(2, 3, 5, 6), X(4, 3, 3, 2))

# ---- norms ----

case("A.group_norm(a, 2, b, c)", X(2, 4, 3, 3), X(4), X(4))
case("A.group_norm(a, 4)", X(2, 4, 5))
case("A.group_norm(a, 2, b, c, 1e-3)", X(3, 4), X(4), X(4))
case("A.group_norm(a, 2, b, None)", X(2, 4, 5), X(4))
case("A.instance_norm(a, b, c, None, None, True, 0.1, 1e-5, False)", X(2, 4, 3, 3), X(4), X(4))
case("A.instance_norm(a, None, None, None, None, True, 0.1, 1e-5, False)", X(2, 4, 5))
case("A.layer_norm(a, [4], b, c)", X(2, 3, 4), X(4), X(4))
case("A.layer_norm(a, [3, 4], b, c, 1e-3)", X(2, 3, 4), X(3, 4), X(3, 4))
case("A.layer_norm(a, [4])", X(2, 3, 4))
case("A.layer_norm(a, [4], b)", X(2, 3, 4), X(4))
case("A.layer_norm(a, [4], None, b)", X(2, 3, 4), X(4))
case("A.layer_norm(a.permute(0, 2, 1), [3], b, c)", X(2, 3, 4), X(3), X(3))
case("A.layer_norm(a, [4], b * 1, c + 1)", X(2, 3, 4), X(4), X(4))
case("A.rms_norm(a, [4], b)", X(2, 3, 4), X(4))
case("A.rms_norm(a, [4], None, 1e-3)", X(2, 3, 4))
case("A.rms_norm(a, [3, 4], b, 1e-6)", X(2, 3, 4), X(3, 4))
case("A._fused_rms_norm(a, [4], b, 1e-6)[0]", X(2, 3, 4), X(4))
case("A.batch_norm(a, b, c, None, None, True, 0.1, 1e-5, False)", X(3, 4, 3, 3), X(4), X(4))
case("A.batch_norm(a, b, c, None, None, True, 0.1, 1e-5, False)", X(5, 4), X(4), X(4))
case("A.batch_norm(a, None, None, None, None, True, 0.1, 1e-3, False)", X(3, 4, 5))
case("A._weight_norm(a, b)", X(4, 3, 3), X(4, 1, 1))
case("A._weight_norm(a, b, 0)", X(4, 3), X(4, 1))
case("A._weight_norm(a, b, 1)", X(4, 3), X(1, 3))
case("F.local_response_norm(a, 3)", X(2, 4, 3, 3))

# ---- attention ----

case("A.scaled_dot_product_attention(a, b, c)", X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 4))
case("A.scaled_dot_product_attention(a, b, c)", X(2, 3, 4), X(2, 5, 4), X(2, 5, 4))
case("A.scaled_dot_product_attention(a, b, c)", X(3, 4), X(5, 4), X(5, 4))
case("A.scaled_dot_product_attention(a, b, c)", X(2, 2, 2, 3, 4), X(2, 2, 2, 5, 4), X(2, 2, 2, 5, 4))
case("A.scaled_dot_product_attention(a, b, c, scale=0.3)", X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 6))
case("A.scaled_dot_product_attention(a, b, c, None, 0.0, True)", X(2, 2, 4, 4), X(2, 2, 4, 4), X(2, 2, 4, 4))
case("A.scaled_dot_product_attention(a, b, c, None, 0.0, True)", X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 4))
case("A.scaled_dot_product_attention(a, b, c, d)", X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 4), X(3, 5))
case("A.scaled_dot_product_attention(a, b, c, d)", X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 4), X(2, 1, 3, 5))
case("A.scaled_dot_product_attention(a, b, c, d)", X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 4), X(1, 2, 1, 5))
case("A.scaled_dot_product_attention(a, b, c, d)", X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 4), Int(torch.tensor([[1, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 1, 1, 1, 1]]).bool()))
case("A.scaled_dot_product_attention(a, b, c, d)", X(2, 3, 4), X(2, 5, 4), X(2, 5, 4), X(2, 3, 5))
case("A.scaled_dot_product_attention(a, b, c, d.expand(2, 2, 3, 5))", X(2, 2, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 4), X(2, 1, 1, 5))
case("A.scaled_dot_product_attention(a, b, c, None, 0.0, False, enable_gqa=True)", X(2, 4, 3, 4), X(2, 2, 5, 4), X(2, 2, 5, 4))
case("q, k, v = a.view(2, 3, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0); return A.scaled_dot_product_attention(q, k, v)", X(2, 3, 24))
case("q, k, v = a.view(2, 3, 2, 12).transpose(1, 2).chunk(3, -1); return A.scaled_dot_product_attention(q, k, v)", X(2, 3, 24))
case("q, k, v = a.chunk(3, -1); return A.scaled_dot_product_attention(*(t.view(2, 3, 2, 4).transpose(1, 2) for t in (q, k, v)))", X(2, 3, 24))
case("A.scaled_dot_product_attention(a, a, a)", X(2, 2, 3, 4))
case("A.scaled_dot_product_attention(a, a.roll(1, 2), a * 2)", X(2, 2, 3, 4))
case("A.scaled_dot_product_attention(a, b.expand(2, 2, 5, 4), c.expand(2, 2, 5, 4))", X(2, 2, 3, 4), X(2, 1, 5, 4), X(1, 2, 5, 4))

# ---- indices ----

case("A.embedding(a, b)", X(6, 4), IDS(6, 2, 3))
case("A.embedding(a, b, 2)", X(6, 4), LIST(1, 2, 2, 5))
case("A.embedding(a, b, -1)", X(6, 4), LIST(1, 2, 2, 5))
case("A.index_select(a, 1, b)", X(2, 5, 3), LIST(4, 0, 0))
case("A.index_select(a, -1, b)", X(2, 5), LIST(4, 0, 0))
case("A.index_select(a, 0, b)", IDS(9, 4, 2), LIST(3, 1))
case("A.index.Tensor(a, [b])", X(5, 3), LIST(4, 0, -1, 2))
case("A.index.Tensor(a, [b])", X(5, 3), IDS(5, 2, 2))
case("A.index.Tensor(a, [None, b])", X(2, 5, 3), LIST(4, 0, 2))
case("A.index.Tensor(a, [b, c])", X(4, 5, 3), LIST(0, 3, 2), LIST(4, 0, 0))
case("A.index.Tensor(a, [b, c])", X(4, 5), IDS(4, 3, 1), IDS(5, 2))
case("A.index.Tensor(a, [None, b, c])", X(2, 4, 5), LIST(0, 3, 2), LIST(4, 0, 0))
case("A.index.Tensor(a, [None, None, b, c])", X(2, 2, 4, 5), IDS(4, 3, 1), IDS(5, 2))
case("A.index.Tensor(a, [b, None, c])", X(4, 2, 5), LIST(0, 3, 2), LIST(4, 0, 0))
case("A.index.Tensor(a, [b, c, d])", X(4, 3, 5, 2), LIST(0, 3), LIST(2, 0), LIST(1, 4))
case("A._unsafe_index.Tensor(a, [None, b])", X(2, 5, 3), LIST(4, 0, 2))
case("a[torch.arange(3), b]", X(3, 5), LIST(4, 0, 2))
case("a[:, torch.tensor([2, 0])]", X(3, 5))
case("a[b, 1:3]", X(4, 5), LIST(3, 0))
case("a[1, b]", X(4, 5), LIST(3, 0))
case("a[torch.arange(2), torch.tensor([1, 0])]", X(2, 5))
case("A.index_put(a, [b], c)", X(5, 3), LIST(3, 1), X(2, 3))
case("A.index_put(a, [b], c, True)", X(5, 3), LIST(3, 1, 3), X(3, 3))
case("A.index_put(a, [b], c)", X(5, 3), LIST(3, 1), X())
case("A.index_put(a, [b, c], d)", X(5, 3), LIST(3, 1), LIST(0, 2), X(2))
case("A.index_put(a, [b, c], d, True)", X(5, 3, 2), LIST(3, 3), LIST(2, 2), X(2, 2))
case("A.index_put(a, [None, b], c)", X(2, 5), LIST(3, 1), X(2, 2))
case("A.gather(a, 1, b)", X(3, 5), IDS(5, 3, 2))
case("A.gather(a, -1, b)", X(2, 3, 5), IDS(5, 2, 3, 1))
case("A.gather(a, 0, b)", X(4, 3), IDS(4, 2, 3))
case("A.scatter.src(a, 1, b, c)", X(2, 5), Int(torch.tensor([[0, 3], [4, 2]])), X(2, 2))
case("A.scatter.value(a, -1, b, 1.5)", X(2, 5), Int(torch.tensor([[0, 3], [4, 2]])))
case("A.scatter_add(a, 1, b, c)", X(2, 5), IDS(5, 2, 4), X(2, 4))
case("y = a * 1; y.scatter_add_(0, b, c); return y", X(4, 2), IDS(4, 3, 2), X(3, 2))
case("y = a * 1; y.scatter_(1, b, 2.0); return y", X(2, 5), Int(torch.tensor([[0, 3], [4, 2]])))
case("A.index_add(a, 0, b, c)", X(5, 3), LIST(3, 1, 3), X(3, 3))
case("A.index_copy(a, 0, b, c)", X(5, 3), LIST(3, 1), X(2, 3))
case("A.index_fill.int_Scalar(a, 1, b, 2.0)", X(3, 5), LIST(3, 1))
case("A.masked_scatter(a, b, c) if False else a", X(3, 4), TRUTH(3, 4), X(12))
for text in ("A.pad(a, [1, 2])", "A.pad(a, [1, 0, 2, 1], 'constant', 0.5)", "A.pad(a, [1, 2, 1, 1], 'reflect')", "A.pad(a, [1, 2, 2, 1], 'replicate')", "A.pad(a, [1, 2, 2, 1], 'circular')",
             "A.pad(a, [0, 0])", "A.pad(a, [-1, 0])", "A.pad(a, [-1, 2, 1, -1])", "A.constant_pad_nd(a, [1, 2], 0.5)", "A.constant_pad_nd(a, [0, 0, 0, 0, 1, 0])", "A.roll(a, [1], [0])", "A.roll(a, [1, -2], [2, -1])", "A.roll(a, [3])",
             "A.roll(a, [5], [3])", "A.roll(a, [1, 1], [2, 2])"):
    case(text, X(2, 3, 4, 5))
case("A.one_hot(a, 6)", IDS(6, 2, 3))
case("A.cumsum(a, 0)", IDS(6, 4, 3))

# ---- sampling ----

for text in ("A.max_pool2d(a, [2])", "A.max_pool2d(a, [3, 2], [2, 1], [1, 0])", "A.max_pool2d(a, 3, 2, 1, 1, True)", "A.max_pool2d(a, 2, 1, 0, 2)", "A.avg_pool2d(a, [2])",
             "A.avg_pool2d(a, 3, 2, 1)", "A.avg_pool2d(a, 3, 2, 1, False, False)", "A.avg_pool2d(a, 3, 2, 1, True, True)", "A.avg_pool2d(a, 2, 2, 0, False, True, 3)", "A.adaptive_avg_pool2d(a, [1, 1])",
             "A.adaptive_avg_pool2d(a, [3, 4])", "A.adaptive_avg_pool2d(a, [2, 6])", "F.adaptive_avg_pool2d(a, (None, 2))", "A.adaptive_max_pool2d(a, [2, 3])[0]", "A.upsample_nearest2d.vec(a, [7, 9], None)",
             "A.upsample_nearest2d.vec(a, None, [2.0, 2.0])", "A.upsample_nearest2d.vec(a, [3, 3], None)", "A._upsample_nearest_exact2d.vec(a, [7, 9], None)", "A.upsample_bilinear2d.vec(a, [7, 9], False, None)",
             "A.upsample_bilinear2d.vec(a, [7, 9], True, None)", "A.upsample_bilinear2d.vec(a, None, False, [1.5, 2.0])", "A.upsample_bilinear2d.vec(a, [3, 2], False, None)", "A.upsample_bicubic2d.vec(a, [7, 9], False, None)",
             "A.upsample_bicubic2d.vec(a, [7, 9], True, None)", "A._upsample_bilinear2d_aa.vec(a, [3, 4], False, None)", "A._upsample_bicubic2d_aa.vec(a, [3, 4], False, None)", "A.max_pool2d(a[0], [2])", "A.avg_pool2d(a[0], [2])",
             "A.adaptive_avg_pool2d(a[0], [2, 2])", "F.interpolate(a, scale_factor=2, mode='nearest')", "F.interpolate(a, scale_factor=0.5, mode='bilinear')", "F.interpolate(a, scale_factor=1.7, mode='bilinear', recompute_scale_factor=True)",
             "F.lp_pool2d(a, 2, 2)", "F.unfold(a, (2, 2))", "F.unfold(a, (3, 3), stride=2, padding=1)", "A.im2col(a, [2, 2], [1, 1], [0, 0], [2, 2])",
             "A.channel_shuffle(a, 3)", "F.dropout(a, 0.0)", "A.glu(a, -1)", "F.interpolate(a, size=(7, 9), mode='area')"):
    case(text, APART(2, 3, 5, 6))
for text in ("A.max_pool1d(a, [2])", "A.max_pool1d(a, 3, 2, 1)", "A.avg_pool1d(a, [2])", "A.avg_pool1d(a, [3], [2], [1], True, False)", "A.adaptive_avg_pool1d(a, [3])", "A.adaptive_max_pool1d(a, [3])[0]", "A.upsample_nearest1d.vec(a, [11], None)",
             "A._upsample_nearest_exact1d.vec(a, [11], None)", "A.upsample_linear1d.vec(a, [11], False, None)", "A.upsample_linear1d.vec(a, [11], True, None)", "F.interpolate(a, scale_factor=2.0, mode='linear')"):
    case(text, APART(2, 3, 7))
for text in ("A.max_pool3d(a, [2])", "A.avg_pool3d(a, [2])", "A.avg_pool3d(a, 3, 2, 1, False, False)", "A.adaptive_avg_pool3d(a, [1, 2, 2])", "A.adaptive_max_pool3d(a, [1, 2, 2])[0]", "A.upsample_nearest3d.vec(a, [4, 7, 5], None)", "A.upsample_nearest3d.vec(a, None, [1.0, 2.0, 2.0])",
             "A._upsample_nearest_exact3d.vec(a, [4, 7, 5], None)", "A.upsample_trilinear3d.vec(a, [4, 7, 5], False, None)", "A.upsample_trilinear3d.vec(a, [4, 7, 5], True, None)"):
    case(text, APART(1, 2, 3, 4, 4))
for mode in (0, 1, 2):
    for padding in (0, 1, 2):
        case("A.grid_sampler(a, b, %d, %d, %s)" % (mode, padding, padding != 1), X(2, 3, 5, 6), Real(X(2, 3, 4, 2).t * 0.83 + 0.013))
case("A.grid_sampler_2d(a, b, 0, 0, False)", X(2, 3, 5, 6), Real(X(2, 3, 4, 2).t * 0.83 + 0.013))
case("A.pixel_shuffle(a, 2)", X(2, 8, 3, 4))
case("A.pixel_unshuffle(a, 2)", X(2, 3, 4, 6))
case("A.pixel_shuffle(a.permute(0, 3, 1, 2), 2) * 2", X(2, 3, 4, 8))

# ---- further functions ----

for name in "asinh arcsinh sinc special_sinc erfc special_erfc frac deg2rad rad2deg absolute negative fix special_expit special_erf special_exp2 special_expm1 arctan".split():
    case("A.%s(a)" % name, X(3, 4))
for name in "log10 special_log1p".split():
    case("A.%s(a)" % name, POS(3, 4))
for name in "atanh arctanh logit special_logit arcsin arccos".split():
    case("A.%s(a)" % name, UNIT(3, 4))
case("A.acosh(a + 1) + A.arccosh(a + 1.5)", POS(3, 4))
case("A.asinh(a * 1e-3) * 1e3 + A.asinh(a * 1e3)", X(3, 4))
case("A.logit(a, eps=0.3)", UNIT(3, 4))
case("A.isfinite(a / (a - a).relu()) * a + A.isposinf(a / 0.0) + A.isneginf(a / 0.0) * 2.0", X(3, 4))
case("A.signbit(a) * b", X(3, 4), X(3, 4))
for text in ("A.hypot(a, b)", "A.logaddexp(a, b)", "A.fmax(a, b)", "A.fmin(a, b)", "A.copysign.Tensor(a, b)", "A.copysign.Scalar(a, -1.0) + b", "A.ldexp.Tensor(a, b.round())", "A.heaviside(a.detach(), b.detach()) * a",
             "A.multiply.Scalar(a, 3) + A.subtract.Scalar(b, 2) + A.divide.Scalar(a, 3) + A.true_divide.Scalar(a, 7)", "A.arctan2(a, b)", "A.greater.Tensor(a, b) * a + A.less.Scalar(b, 0.5) * b",
             "A.greater_equal.Tensor(a, b) * a + A.less_equal.Tensor(a, b) * b", "A.greater.Scalar(a, 0) * a + A.less.Tensor(a, b) * b", "A.greater_equal.Scalar(a, 0) * a + A.less_equal.Scalar(a, 0) * b",
             "A.not_equal.Tensor(a, b) * a + A.not_equal.Scalar(a, 0) * b", "A.clip.Tensor(a, b - 1, b + 1)", "A.divide.Tensor_mode(a, b, rounding_mode='floor') * a", "A.divide.Scalar_mode(a, 0.3, rounding_mode='trunc') * b"):
    case(text, X(3, 4), X(3, 4))
for text in ("A.xlogy.Tensor(a, b)", "A.xlogy.Scalar_Other(a, 2.5) + b", "A.special_xlogy(a, b)", "A.float_power.Tensor_Tensor(b, a).float()", "A.float_power.Tensor_Scalar(b, 2.5).float() + a"):
    case(text, X(3, 4), POS(3, 4))
case("A.fmax(a.detach().sqrt(), b) + A.fmin(b, a.detach().sqrt())", X(3, 4), X(3, 4))
case("A.nan_to_num((b / (a - a).abs()).detach(), 1.0, 2.0, -3.0) + a", X(3, 4), X(3, 4))
for text in ("A.softshrink(a)", "A.softshrink(a, 0.2)", "A.hardshrink(a, 0.4)", "A.threshold(a, 0.1, 0.3)", "A.rrelu(a, 0.1, 0.3, False)", "A.rrelu(a, 0.2, 0.2, True)", "A.round.decimals(a, decimals=1) * a"):
    case(text, X(3, 4))
case("A.bitwise_left_shift.Tensor_Scalar(a, 2) * b + A.bitwise_right_shift.Tensor_Scalar(a, 1)", IDS(9, 3, 4), X(3, 4))
case("A.bitwise_left_shift.Tensor(a, a) * b + A.bitwise_right_shift.Tensor(a, a)", IDS(4, 3, 4), X(3, 4))
case("A.pairwise_distance(a, b)", X(3, 4), X(3, 4))
case("A.pairwise_distance(a, b, 2.0, 1e-3, True)", X(3, 4), X(3, 4))
for more in ("", ", reduction=2", ", reduction=0", ", 0.5, swap=True"):
    case("A.triplet_margin_loss(a, b, c%s)" % more, X(3, 4), X(3, 4), X(3, 4))
case("A.margin_ranking_loss(a, b, c.sign(), 0.2)", X(7), X(7), IN(7))
case("A.hinge_embedding_loss(a, b.sign(), 0.7)", X(3, 4), IN(3, 4))
for more in ("True, False, 1e-8, 1", "False, True, 1e-3, 2", "True, True, 1e-8, 0"):
    case("A.poisson_nll_loss(a, b * 2, %s)" % more, POS(3, 4), GIVEN(3, 4))

# ---- lists, blocks, groups ----

for text in ("A.concatenate([a, b], 1)", "A.hstack([a, b])", "A.vstack([a, b])", "A.row_stack([a, b])", "A.dstack([a, b])", "A.column_stack([a, b])", "A.hstack([a[0], b[0]])", "A.column_stack([a[0], b[1]])",
             "A.dstack([a[0], b[0]])", "A.tensordot(a, b, [1], [1])", "A.tensordot(a, b, [0, 1], [0, 1])", "A.inner(a, b)"):
    case(text, X(3, 4), X(3, 4))
case("A.tensordot(a, b, [2, 0], [0, 2])", X(3, 4, 5), X(5, 2, 3))
case("A.unsafe_split.Tensor(a, 2)[1] * A.unsafe_chunk(b, 2)[0][:1]", X(3, 4), X(4, 4))
case("torch.stack([x * (i + 1) for i, x in enumerate(a.unbind(1))], 1)", X(2, 70, 3))
case("torch.cat([x * (i + 1) for i, x in enumerate(a.split(1, 1))], 1)", X(2, 67, 3))
case("A.squeeze_copy.dim(a, 1)", X(3, 1, 4))
case("A.col2im(a, [5, 6], [2, 3], [1, 1], [0, 0], [1, 1])", X(2, 18, 16))
case("A.col2im(a, [7, 6], [3, 2], [1, 2], [1, 0], [2, 1])", X(2, 12, 16))
case("F.fold(F.unfold(a, 3, padding=1, stride=2), (6, 6), 3, padding=1, stride=2)", X(2, 3, 6, 6))
case("A.histc(a, 4, 0, 3) * b", LIST(0.0, 1.0, 1.0, 3.0, 2.0, 1.0), X(4))
case("A.reflection_pad1d(a, [2, 1])", X(2, 3, 5))
case("A.reflection_pad2d(a, [2, 1, 1, 0]) * 1", X(2, 3, 4, 5))
case("A.reflection_pad3d(a, [1, 1, 1, 0, 0, 2])", X(2, 3, 4, 5, 4))
case("A.replication_pad1d(a, [2, 1])", X(2, 3, 5))
case("A.replication_pad2d(a, [2, 1, 1, 0])", X(2, 3, 4, 5))
case("A.replication_pad3d(a, [1, 1, 1, 0, 0, 2])", X(2, 3, 4, 5, 4))

# ---- recurrent layers ----

for text, width in (("A.lstm.input(a, [b, c], [d, e, d[:, 0], e[:, 1]], True, 1, 0.0, True, False, False)", 4), ("A.lstm.input(a, [b, c], [d, e], False, 1, 0.0, True, False, True)", 4)):
    case(text, X(3, 3, 4), X(1, 3, 5), X(1, 3, 5), X(20, 4), X(20, 5))
case("A.gru.input(a, b, [c, d, c[:, 0], d[:, 1]], True, 1, 0.0, True, False, False)", X(3, 2, 4), X(1, 2, 5), X(15, 4), X(15, 5))
case("A.gru.input(a, b, [c, d, c, d, c.repeat(1, 2), d * 0.5, c.repeat(1, 2), d * 0.7], False, 2, 0.0, True, True, True)", X(2, 35, 5), X(4, 2, 5), X(15, 5), X(15, 5))
case("A.rnn_tanh.input(a, b, [c, d], False, 1, 0.0, True, False, False)", X(3, 2, 4), X(1, 2, 5), X(5, 4), X(5, 5))
case("A.rnn_relu.input(a, b, [c, d], False, 1, 0.0, True, False, False)[0]", X(3, 2, 4), X(1, 2, 5), X(5, 4), X(5, 5))
case("A.lstm_cell(a, [b, c], d, e, d[:, 0], e[:, 0])", X(2, 4), X(2, 5), X(2, 5), X(20, 4), X(20, 5))
case("A.gru_cell(a, b, c, d)", X(2, 4), X(2, 5), X(15, 4), X(15, 5))
case("A.rnn_tanh_cell(a, b, c, d, c[:, 0], d[:, 0])", X(2, 4), X(2, 5), X(5, 4), X(5, 5))
case("A.rnn_relu_cell(a, b, c, d)", X(2, 4), X(2, 5), X(5, 4), X(5, 5))

# ---- operators of decomposed programs ----

case("A.native_layer_norm(a, [4], b, c, 1e-5)[0]", X(3, 4), X(4), X(4))
case("A.native_group_norm(a.contiguous(), b.contiguous(), c.contiguous(), 2, 4, 6, 2, 1e-5)[0]", X(2, 4, 6), X(4), X(4))
case("A._native_batch_norm_legit.no_stats(a, b, c, True, 0.1, 1e-5)[0]", X(4, 3, 5), X(3), X(3))
case("A.max_pool2d_with_indices(a, [2, 2])[0]", APART(2, 3, 4, 6))
case("A.max_pool3d_with_indices(a, [2, 2, 2])[0]", APART(2, 3, 4, 6, 4))
case("A._adaptive_avg_pool2d(a, [2, 3])", X(2, 3, 5, 7))
case("A._adaptive_avg_pool3d(a, [2, 3, 1])", X(2, 3, 5, 7, 2))
for name, shape in (("nearest1d", (7,)), ("nearest2d", (7, 9)), ("nearest3d", (3, 7, 9))):
    case("A.upsample_%s.default(a, %s)" % (name, list(shape)), X(2, 3, *[(k + 1) // 2 for k in shape]))
for name, shape in (("linear1d", (7,)), ("bilinear2d", (7, 9)), ("trilinear3d", (3, 7, 9)), ("bicubic2d", (7, 9))):
    case("A.upsample_%s.default(a, %s, False)" % (name, list(shape)), X(2, 3, *[(k + 1) // 2 for k in shape]))
case("A._scaled_dot_product_flash_attention_for_cpu(a.contiguous(), b.contiguous(), c.contiguous())[0]", X(2, 2, 5, 8), X(2, 2, 5, 8), X(2, 2, 5, 8))
case("torch.cat([x.flatten() for x in A.std_mean.default(a)[:1]] + [A.std_mean.dim(a, [1])[1], A.var_mean.default(a)[0][None]])", X(3, 4))

# ---- frames of a signal ----

for more in ("return_complex=True", "hop_length=3, return_complex=True", "window=torch.hann_window(16), return_complex=True", "win_length=10, window=torch.hamming_window(10), return_complex=True",
             "center=False, return_complex=True", "normalized=True, onesided=False, return_complex=True"):
    case("torch.view_as_real(torch.stft(a, 16, %s))" % more, X(2, 40))
case("torch.stft(a, 64, 16, window=torch.hann_window(64, periodic=False), return_complex=True).abs()", X(300))
case("torch.view_as_real(A.stft.center(a, 16, 4, 16, None, True, 'reflect', False, True, True))", X(2, 40))
case("torch.hamming_window(10, False) * a", X(10))

# ---- complex numbers, as pairs ----


def paired(text, *operands):
    """z, w and v are a, b and c as complex numbers; the result is shown as pairs."""
    names = "".join("%s = torch.view_as_complex(%s.contiguous()); " % pair for pair in list(zip("zwv", "abc"))[:len(operands)])
    case(names + "return torch.view_as_real(%s)" % text, *operands)


for text in ("z + w", "z - w", "z * w", "z / w", "z * w * z", "1 - z", "2 / (1 + z)", "z.reciprocal()", "z + 1j", "z * (0.5 - 2j)", "z.exp()", "z.square()",
             "z ** 2", "z ** -1", "z.conj() * w", "z.conj().resolve_conj() + w", "torch.conj_physical(z)", "A._conj_physical(z) * w", "A.resolve_neg(z) * w", "-z", "z * w.real", "w.imag / 2 * z", "z / w.real",
             "torch.where(z.real > 0.5, z, w)", "z.masked_fill(w.real > 0.5, 0)", "torch.cat([z, w], 1)", "torch.stack([z, w])", "z.to(torch.complex128).to(torch.complex64) * w",
             "torch.complex(z.real, w.imag)", "torch.complex(z.real, w.imag[0])", "torch.polar(z.real.square(), w.imag)", "torch.zeros_like(z) + w", "torch.ones_like(z) * w", "torch.full_like(z, 2) * w",
             "torch.full((3, 4), 1 + 2j) * w", "torch.zeros(3, 4, dtype=torch.complex64) + w", "torch.ones(3, 4, dtype=torch.complex64) * w", "torch.view_as_complex(torch.view_as_real(z)) * w",
             "z.mT @ w", "torch.matmul(z, w.mT)", "torch.einsum('ij,kj->ik', z, w)", "torch.einsum('ij,ij->i', z, w)", "z @ (w.real + 0j).mT",
              "torch.view_as_complex(torch.stack([z.real, w.real], -1))"):
    paired(text, X(3, 4, 2), X(3, 4, 2))
for text in ("z.abs()", "z.angle()", "z.real * z.imag", "z.abs().square()", "torch.fft.rfft(z.real).abs()", "torch.fft.irfft(z)", "torch.fft.irfft(z, n=7)", "torch.fft.irfft(z, n=6, norm='ortho')",
             "torch.fft.irfft(z, n=10, norm='forward')", "torch.fft.irfft2(z)", "torch.fft.irfft2(z, s=(4, 6))", "torch.fft.irfftn(z)"):
    case("z = torch.view_as_complex(a.contiguous()); return " + text, X(3, 4, 2))
for text in ("z.sum()", "z.sum(1)", "z.mean(0, keepdim=True)", "z.cumsum(1)", "z.view(2, 6)", "z.reshape(6, 2).T", "z.permute(1, 0)", "z[1:, ::2]", "z[:, None].expand(3, 2, 4)", "z.flip(1)",
             "z.roll(1, 1)", "F.pad(z, (1, 2))", "z.repeat(2, 1)", "z.chunk(2, 1)[1]", "z.unbind(0)[1]", "z.split([1, 3], 1)[1]", "z.flatten().unsqueeze(0).squeeze()", "z.clone().contiguous()",
             "torch.fft.fft(z)", "torch.fft.fft(z, dim=0)", "torch.fft.ifft(z)", "torch.fft.ifft(z, norm='ortho')", "torch.fft.fft(z, n=3)", "torch.fft.fft(z, n=6, norm='forward')", "torch.fft.fft2(z)",
             "torch.fft.ifft2(z)", "torch.fft.fftn(z)", "torch.fft.ifftn(z)", "torch.fft.fftn(z, dim=(0,))", "torch.fft.fftshift(z)", "torch.fft.ifftshift(z, dim=1)", "torch.fft.fft(z.real)",
             "torch.fft.rfft(z.real)", "torch.fft.rfft(z.real, n=7)", "torch.fft.rfft(z.real, n=3, norm='ortho')", "torch.fft.rfft(z.real, dim=0)", "torch.fft.rfft2(z.real)", "torch.fft.rfftn(z.real)",
             "torch.fft.rfft2(z.real, norm='ortho')"):
    paired(text, X(3, 4, 2))
case("y = torch.zeros(3, 4, dtype=torch.complex64, device=a.device); z = torch.view_as_complex(a.contiguous()); y[:, 1:3] = z[:, :2] * z[:, 2:]; return torch.view_as_real(y)", X(3, 4, 2))
case("z = torch.view_as_complex(a.contiguous()); y = z * 1; y.mul_(z); y += 2; return torch.view_as_real(y)", X(3, 4, 2))
case("torch.view_as_real(torch.fft.rfft(a))", X(2, 3, 96))
case("torch.view_as_real(torch.fft.rfft(a, dim=0, norm='ortho'))", X(100, 20))
case("torch.view_as_real(torch.fft.rfft(a, dim=1))", X(2, 72, 20))
case("torch.fft.irfft(torch.view_as_complex(a.contiguous()), n=96)", X(3, 49, 2))
case("torch.fft.irfft(torch.view_as_complex(a.contiguous()), n=99, dim=0)", X(50, 2, 2))
case("torch.fft.irfft(torch.view_as_complex(a.contiguous()), dim=1, norm='ortho')", X(2, 41, 17, 2))
case("torch.fft.irfft(torch.fft.rfft(a, n=134) * torch.fft.rfft(b, n=134), n=134)[..., :67]", X(2, 67), X(2, 67))
case("torch.fft.fftshift(a) + torch.fft.ifftshift(a, dim=(0,))", X(3, 4))
case("torch.fft.fftfreq(5, 0.5) * a + torch.fft.rfftfreq(9) * a", X(5))
case("z = torch.view_as_complex(a.reshape(2, 3, 2, 2).contiguous()); f = torch.polar(torch.ones(3, 2), torch.outer(torch.arange(3.0), torch.tensor([1.0, 0.1]))); return torch.view_as_real(z * f).flatten(2)", X(2, 3, 4))

# ---- matrices, order, bags, regions without gradients ----


def quiet(f):
    """Under no_grad."""
    with torch.no_grad():
        return f()


def loud(f):
    with torch.enable_grad():
        return f()


def over(a, f):
    """What f writes over a copy under no_grad: the gradient of the copy passes."""
    y = a * 2
    quiet(lambda: f(y))
    return y * y


for text in ("quiet(lambda: a * b) * a", "quiet(lambda: (a.exp(), a[None]))[1].reshape(3, 4) * b", "quiet(lambda: a @ b.T).sum() * a", "quiet(lambda: a.T).T * b + a", "a * quiet(lambda: loud(lambda: b * b) * 2)",
             "quiet(lambda: (loud(lambda: a * b), a))[0] * a", "over(a, lambda y: y.mul_(b))", "over(a, lambda y: y[1:].clamp_(max=0.1)) * b", "quiet(lambda: F.normalize(a.mv(b[0]), dim=0, out=a.new_zeros(3)))[:, None] * a"):
    case(text, X(3, 4), X(3, 4))
case("quiet(lambda: torch.view_as_complex(a.contiguous()) * 2j).real * a[..., 1]", X(3, 4, 2))
case("A.vdot(a, b) * a", X(5), X(5))
case("a.mH @ b + A.matrix_H(a) @ b", X(3, 4), X(3, 2))
case("F.bilinear(a, b, c, d)", X(2, 3, 4), X(2, 3, 5), X(6, 4, 5), X(6))
case("F.bilinear(a, b, c)", X(3, 4), X(3, 5), X(2, 4, 5))
case("torch.kron(a.contiguous(), b.contiguous())", X(2, 3), X(3, 2))
case("torch.kron(a.contiguous(), b.contiguous())", X(3), X(2, 2))
case("torch.trace(a)", X(3, 5))
case("torch.linalg.matrix_norm(a)", X(2, 3, 4))
case("torch.linalg.matrix_norm(a, 'fro', dim=(0, 2), keepdim=True)", X(2, 3, 4))
case("torch.linalg.cross(a, b)", X(2, 4, 3), X(2, 4, 3))
case("torch.cross(a, b, dim=0)", X(3, 4), X(3, 4))
case("F.affine_grid(a, (2, 3, 4, 5), align_corners=False)", X(2, 2, 3))
case("F.affine_grid(a, (2, 3, 4, 5), align_corners=True)", X(2, 2, 3))
case("F.affine_grid(a, (1, 3, 4, 5, 2), align_corners=False)", X(1, 3, 4))
for text in ("torch.einsum('bHHi->bi', a)", "torch.einsum('...BB->...B', a)", "torch.einsum('BHWC,BHDC->BWD', a, a)"):
    case(text, X(2, 3, 3, 4) if "BB" not in text else X(2, 4, 3, 3))
case("a.kthvalue(2, 1)[0]", APART(3, 5))
case("a.kthvalue(4, 0, keepdim=True)[0] * a", APART(5, 3))
case("a.median() * a", APART(3, 4))
case("a.median(1)[0]", APART(3, 4))
case("a.median(0, keepdim=True)[0] * a", APART(5, 3))
for text in ("a.cummax(1)[0]", "a.cummin(0)[0]", "a.cummax(0)[1] * a", "a.logcumsumexp(1)", "(30 * a).logcumsumexp(0)"):
    case(text, APART(4, 5))
case("torch.bucketize(b, torch.tensor([-1.0, -0.5, 0.1, 0.8])) * a", X(3, 4), IN(3, 4))
case("torch.bucketize(b, torch.tensor([1, 3, 3, 5]), right=True) * a", X(3, 4), IDS(7, 3, 4))
case("torch.searchsorted(b.sort(-1)[0], c) * a", X(3, 4), IN(3, 6), IN(3, 4))
case("torch.searchsorted(b.sort()[0], c, right=True, out_int32=True) * a", X(3, 4), IN(6), IN(3, 4))
case("a.masked_scatter(c, b)", X(3, 4), X(12), TRUTH(3, 4))
case("a.masked_scatter(c[:, None], b)", X(3, 4), X(4, 4), TRUTH(3))
for how in ("sum", "mean", "amax", "amin"):
    case("a.scatter_reduce(0, b, c, '%s')" % how, X(3, 4), IDS(3, 6, 4), APART(6, 4))
    case("a.scatter_reduce(1, b, c, '%s', include_self=False)" % how, X(3, 7), IDS(6, 3, 4), APART(3, 4))
case("torch.take_along_dim(a, b, 1)", X(3, 5), IDS(5, 1, 2))
case("torch.take_along_dim(a.contiguous(), b)", X(3, 5), IDS(15, 4))
for text in ("torch.diag_embed(a)", "torch.diag_embed(a, 1)", "torch.diag_embed(a, -2)", "torch.diag(a[0])", "torch.diag(a)", "torch.diag(a, 1)"):
    case(text, X(3, 4))
for mode in ("sum", "mean", "max"):
    case("F.embedding_bag(b, a, mode='%s')" % mode, X(7, 3), IDS(7, 4, 2))
    case("F.embedding_bag(b, a, c, mode='%s')" % mode, X(7, 3), IDS(7, 9), LIST(0, 2, 2, 5))
    case("F.embedding_bag(b, a, c, mode='%s', include_last_offset=True, padding_idx=2)" % mode, X(7, 3), IDS(7, 9), LIST(0, 2, 2, 5, 9))
    case("F.embedding_bag(b, a, mode='%s', padding_idx=-1)" % mode, X(4, 3), IDS(4, 4, 5))
case("torch.embedding_bag(a, b, c)[0]", X(7, 3), IDS(7, 9), LIST(0, 2, 5))  # without padding_idx
case("F.embedding_bag(b, a, mode='sum', per_sample_weights=c)", X(7, 3), IDS(7, 4, 2), X(4, 2))
case("F.embedding_bag(b, a, c, mode='sum', per_sample_weights=d)", X(7, 3), IDS(7, 9), LIST(0, 2, 5), X(9))
for more in ("", ", length=30", ", length=40", ", center=False, window=torch.ones(8)", ", normalized=True", ", window=torch.hann_window(8) + 0.1", ", win_length=6, window=torch.ones(6)"):
    case("torch.istft(torch.stft(a, 8, 4, return_complex=True, window=torch.ones(8)), 8, 4%s) ** 2" % more, X(2, 36))
case("torch.istft(torch.stft(a, 64, 16, return_complex=True, window=torch.ones(64)), 64, 16, window=torch.hann_window(64), length=100) ** 2", X(100))
for dim in (0, 1, -1):
    case("torch._weight_norm(a, b, %d)" % dim, X(3, 4), Real(X(3, 4).t.norm(dim=1 - dim, keepdim=True)) if dim >= 0 else POS())

# ---- volumes at points, square matrices, recurrent layers ----

for mode in (0, 1):
    for padding in (0, 1, 2):
        case("A.grid_sampler(a, b, %d, %d, %s)" % (mode, padding, padding != 1), X(2, 3, 4, 5, 6), Real(X(2, 3, 4, 2, 3).t * 0.83 + 0.013))
case("A.grid_sampler_3d(a, b, 0, 0, False)", X(2, 3, 4, 1, 6), Real(X(2, 3, 4, 2, 3).t * 0.83 + 0.013))
for text in ("torch.linalg.inv(a)", "torch.inverse(a)", "torch.linalg.inv_ex(a)[0]", "torch.linalg.det(a)", "torch.det(a)", "torch.linalg.slogdet(a)", "torch.slogdet(a)[1]", "torch.logdet(a @ a.mT)", "torch.linalg.matrix_power(a, 5)", "torch.matrix_power(a, -2)",
             "torch.linalg.solve(a, a.mT[..., :2])", "torch.linalg.solve(a, a[..., 0])", "torch.linalg.solve(a, a, left=False)", "torch.linalg.solve_triangular(a, a, upper=True)", "torch.linalg.solve_triangular(a, a, upper=False, unitriangular=True)", "torch.linalg.solve_ex(a, a)[0]"):
    case(text, Real(X(2, 3, 3).t + 3 * torch.eye(3)))
case("torch.linalg.inv(a)", Real(X(4, 4).t + 3 * torch.eye(4).flip(0)))
case("A.lstm.input(a, [b[:, :, :3], b], [c, d, d[:, 0], d[:, 1], e], True, 1, 0.0, False, False, False)", X(4, 2, 5), X(1, 2, 6), X(24, 5), X(24, 3), X(3, 6))

# ---- calls that are a few others ----

for text in ("torch.fliplr(a)", "torch.flipud(a)", "torch.rot90(a, 1)", "torch.rot90(a, 2, (1, 2))", "torch.rot90(a, 3, (0, -1))", "torch.rot90(a, -3, (1, 2))", "torch.tensor_split(a, (1, 3), dim=2)", "torch.tensor_split(a, (-1,), dim=1)[1]", "a[0].take(torch.tensor([0, 5, 7, 5]))", "A.put(a, torch.tensor([1, 2]), a[0, 0, :2])",
             "A.put(a, torch.tensor([1, 1]), a[0, 0, :2], True)", "torch.as_strided(a.contiguous(), (3, 2), (2, 5), 1)", "torch.block_diag(a[0], a[1, 0], a[0, :1])", "torch.cartesian_prod(a[0, 0], a[0, 1], a[1, 0])", "torch.cartesian_prod(a[0, 0])", "A.special_ndtr(a)",
             "torch.addr(a[0], a[0, :, 0], a[0, 0])", "torch.addr(a[0], a[0, :, 0], a[0, 0], beta=0.5, alpha=2)", "torch.addmv(a[0, :, 0], a[0], a[0, 0])", "torch.addbmm(a[0], a, a.mT @ a, beta=2)", "torch.chain_matmul(a[0], a[0].T, a[0])", "torch.linalg.multi_dot([a[0, :, 0], a[0], a[0].T])",
             "torch.linalg.multi_dot([a[0], a[0].T, a[0]])", "torch.linalg.vecdot(a, a * 2)", "torch.linalg.vecdot(a, a[:1], dim=1)", "torch.trapezoid(a, dx=0.5)", "torch.trapezoid(a, dim=1)", "torch.dist(a, a * 2)", "torch.dist(a, a * 2 + 1, 1)", "torch.dist(a, a * 2 + 1, 3)", "A.renorm(a, 2, 1, 1.0)", "A.renorm(a, 1, -1, 50.0)", "torch.linalg.norm(a)", "torch.linalg.norm(a, dim=-1)",
             "torch.linalg.norm(a, 3, dim=1, keepdim=True)", "torch.linalg.norm(a, 'fro', dim=(0, 1))", "torch.linalg.norm(a, dim=(1, 2))", "torch.nanmean(torch.where(a > 0, a, torch.nan))", "torch.nanmean(torch.where(a > -1, a, torch.nan), dim=1)", "torch.atleast_1d(a.sum()) * 2", "torch.atleast_2d(a[0, 0])", "torch.atleast_3d(a[0, 0])", "torch.atleast_3d(a[0])",
             "F.cosine_embedding_loss(a[0], a[1], torch.tensor([1, -1, -1]), margin=-0.9)", "F.cosine_embedding_loss(a[0], a[1], torch.tensor([1, -1, 1]), reduction='none')", "F.cosine_embedding_loss(a[0], a[1], torch.tensor([1, -1, 1]), reduction='sum')", "torch.logaddexp2(a, -a)", "torch.lgamma(a.abs() + 0.01)", "torch.lgamma(a * 3 + 0.4)", "torch.lgamma(a.abs() * 40)",
             "F.pairwise_distance(a, a * 2, p=1)", "F.pairwise_distance(a, a * 2, p=3.0)", "torch.cdist(a, a * 2, p=3.0)"):
    case(text, X(2, 3, 4))
case("torch.special.entr(a)", POS(3, 4))

# ---- at zero, where roots have no derivative: PyTorch's gradients are 0 there ----

for text in ("A.linalg_vector_norm(a * b, 2, [-1])", "A.linalg_vector_norm(a * b)", "A.linalg_vector_norm(a * b, 3, [-1])", "A.linalg_vector_norm(a * b, 1.5, [-1])", "A.linalg_vector_norm(a * b, inf, [-1])", "(a * b).norm(dim=-1, keepdim=True)",
             "torch.linalg.matrix_norm(a * b)", "F.normalize(a * b, dim=-1)", "A.std.correction(a * b, [-1])", "A.std(a * b)", "A.std_mean.correction(a * b, [-1])[0]", "torch.cdist(a * b, a)", "torch.cdist(a, a)", "F.cosine_similarity(a * b, a)", "F.pairwise_distance(a * b, a)", "torch.dist(a * b, a * b * 2)",
             "A.prod.dim_int(a * b, 1)", "A.prod(a * b)", "A.cumprod(a * b, 1)", "torch.complex(a * b, a * b).abs()", "torch.polar(torch.complex(a * b, a * 0).abs(), a).real", "torch.stft(a * b, 4, 2, window=torch.ones(4), return_complex=True).abs()", "torch.hypot(a * b + 1, a * 0)",
             "torch.logsumexp(a * b, 1)", "F.pairwise_distance(a * b, b * 0, eps=0)", "torch.linalg.norm(a * b)", "torch.linalg.norm(a * b, dim=-1)", "torch.view_as_complex((a * b).reshape(3, 2, 2).contiguous()).abs()", "A.renorm(a * b, 2, 0, 1.0)"):
    case(text, X(3, 4), Real(torch.tensor([[0.0, 0, 0, 0], [0.5, 0.75, -1, 1.5], [0, 1, 0, 0.25]]), given=True))

# ---- numbers of sizes: axis 0 of every input is free ----


def symbolic(text, *operands):
    SYMBOLIC.append((text, operands))


for text in ("b.new_zeros(b.shape[0], 4) + a", "a * b.shape[0]", "a * (b.shape[0] + 1)", "a * (b.shape[0] - 1)", "a * (b.shape[0] * 3)", "a * (b.shape[0] // 2)", "a * (b.shape[0] % 2)", "a * (b.shape[0] / 2)",
             "a * b.shape[0] ** 2", "a * -b.shape[0]", "a * torch.sym_max(b.shape[0], 3)", "a * torch.sym_min(b.shape[0], 3)", "a * torch.sym_int(b.shape[0] / 2)", "a * torch.sym_float(b.shape[0])", "a * b.numel()",
             "a * int(b.shape[0] / 2)", "a * b.shape[0] ** 0.5", "a * (b.shape[0] / 2 + 0.5)", "torch.arange(b.shape[0])[:, None] * a.sum() + b", "b.reshape(b.shape[0], 2, 2).transpose(1, 2).flatten(1) * a", "torch.cat([b, b]).mean(0) * a",
             "b[: b.shape[0] - 1] * a", "b.expand(2, b.shape[0], 4) * a", "b.view(-1) * a.sum()", "torch.ones(b.shape[0], 1).cumsum(0) * b * a", "torch.full((b.shape[0],), 2.0)[:, None] * b * a", "b.repeat(2, 1) * a", "b.split(2, 1)[0] * a[:2]", "A.sym_size.int(b, 0) * a", "A.sym_numel(b) * a",
             "F.interpolate(b[:, None], scale_factor=2, mode='linear') * a.sum()", "b.sum(0) / b.shape[0] * a", "b.view(b.shape[0] * 2, 2).view(b.shape[0], 4) * a"):
    symbolic(text, X(4), IN(6, 4))

# ---- random numbers, which are given ----


def random(text, *operands):
    RANDOM.append((text, operands))


for text in ("A.rand.generator([3, 4], generator=None) * a", "A.randn.generator([3, 4], generator=None) * a", "A.randint.generator(5, [3, 4], generator=None) * a",
             "A.randint.low_generator(2, 5, [3, 4], generator=None) * a", "A.rand([3, 4]) * a", "A.rand_like(a) * a", "A.randn([3, 4]) * a", "A.randn_like(a) + a", "A.randint(5, [3, 4]) * a", "A.randint.low(2, 5, [3, 4]) * a", "A.randint_like(a, 5) * a", "A.randint_like.low_dtype(a, 2, 5) * a",
             "torch.randint(0, 5, (3,))[:, None] * a", "A.normal_functional(a, 0.5, 2.0) * a", "y = torch.empty(3, 4); y.normal_(); return y * a", "y = torch.empty(3, 4); y.normal_(0.5, 2.0); return y * a", "y = torch.empty(3, 4); y.uniform_(); return y * a",
             "y = torch.empty(3, 4); y.uniform_(-1.0, 2.0); return y * a", "A.bernoulli(torch.full((3, 4), 0.3)) * a", "A.bernoulli.p(a, 0.3) * a", "y = torch.empty(3, 4); y.bernoulli_(0.7); return y * a", "A.dropout(a, 0.5, True)", "A.dropout(a, 0.5, False)", "A.dropout(a, 0.0, True)",
             "A.native_dropout(a, 0.5, True)[0]", "F.dropout(a, 0.5)", "y = a * 1; F.dropout(y, 0.5, inplace=True); return y", "torch.randn(3, 4, dtype=torch.float32).abs() * a"):
    random(text, X(3, 4))

for text in ("y = torch.empty(3, 4); y.exponential_(); return y * a", "y = torch.empty(3, 4); y.exponential_(2.5); return y * a", "y = torch.empty(3, 4); y.log_normal_(0.5, 0.25); return y * a",
             "y = torch.empty(3, 4); y.cauchy_(0.5, 2.0); return y * a", "y = torch.empty(3, 4); y.geometric_(0.3); return y * a", "F.dropout1d(a[None], 0.4)[0]", "F.alpha_dropout(a, 0.3, True)", "y = a[None] * 1; F.dropout1d(y, 0.4, True, inplace=True); return y[0]", "y = a * 1; F.alpha_dropout(y, 0.3, True, inplace=True); return y", "F.feature_alpha_dropout(a[None], 0.3, True)[0]",
             "A.exponential(torch.zeros(3, 4), 2.5) * a", "A.log_normal(torch.zeros(3, 4), 0.5, 0.25) * a", "A.cauchy(torch.zeros(3, 4), 0.5, 2.0) * a", "A.geometric(torch.zeros(3, 4), 0.3) * a", "a[A.randperm.generator(3, generator=None)]", "a[torch.randperm(3)]", "a[:, torch.multinomial(torch.ones(4), 2)]", "F.gumbel_softmax(a)"):
    random(text, X(3, 4))

# ---- refused, in one sentence ----

refused("a[b] * 1", X(3, 4), TRUTH(3, 4), says="depends on the data")
refused("torch.fft.fft(a).abs()", X(3, 1031), says="1031 samples; up to 1024 are supported")
refused("torch.view_as_complex(a.contiguous()).sin().real", X(3, 4, 2), says="is not supported for complex numbers")
refused("torch.linalg.svdvals(a)", X(3, 3), says="does not support")
refused("a.scatter_reduce(0, b, a, 'prod')", X(3, 4), IDS(3, 3, 4), says="sum, mean, amax and amin are")
