"""JAX models for the tests of StableHLO: few-shot set diffusion ("lag") in Flax, and small ones.

    python jax_models.py WORK [NAME...]    writes WORK/NAME/model.mlir, weights, batch and JAX's loss
                                           and gradients, as safetensors
"""
import inspect
import os
import sys

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn
from flax.traverse_util import flatten_dict, unflatten_dict
from safetensors.numpy import save_file

jax.config.update("jax_platforms", "cpu")
norm = lambda **more: nn.LayerNorm(epsilon=1e-6, **more)
plain = lambda x: nn.LayerNorm(epsilon=1e-6, use_bias=False, use_scale=False)(x)


# ---- lag: tests/ref/lag.py in Flax ----

class FeedForward(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, x):
        return nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(self.hidden)(x)))


class LSA(nn.Module):
    """A learned temperature, and no token sees itself."""
    heads: int
    width: int

    @nn.compact
    def __call__(self, x):
        start = lambda key: jnp.log(jnp.array(self.width ** -0.5))
        temperature = self.param("temperature", start)
        y = nn.Dense(3 * self.heads * self.width, use_bias=False)(x)
        split = lambda a: a.reshape(*a.shape[:2], self.heads, -1).transpose(0, 2, 1, 3)
        q, k, v = map(split, jnp.split(y, 3, -1))
        dots = jnp.einsum("bhid,bhjd->bhij", q, k) * jnp.exp(temperature)
        dots = jnp.where(jnp.eye(x.shape[1], dtype=bool), -jnp.inf, dots)
        y = jnp.einsum("bhij,bhjd->bhid", nn.softmax(dots), v)
        return nn.Dense(x.shape[-1])(y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1))


class EncoderLayer(nn.Module):
    heads: int
    width: int
    hidden: int

    @nn.compact
    def __call__(self, x):
        x = x + LSA(self.heads, self.width)(norm()(x))
        return x + FeedForward(self.hidden)(norm()(x))


class Encoder(nn.Module):
    context: int = 32
    depth: int = 2
    patch: int = 2

    @nn.compact
    def __call__(self, sets, time):
        b, ns, c, side, _ = sets.shape
        p, g = self.patch, side // self.patch
        x = sets.transpose(0, 2, 1, 3, 4).reshape(b, c * ns, g, p, g, p)
        x = x.transpose(0, 2, 4, 3, 5, 1).reshape(b, g * g, -1)
        x = nn.Dense(self.context, name="proj")(norm(name="norm")(x))
        token = self.param("cls_token", nn.initializers.normal(1), (1, 1, self.context))
        where = self.param("pos_embedding", nn.initializers.normal(1),
                           (1, g * g + 2, self.context))
        time = nn.Dense(self.context, name="to_time_embedding")(time)[:, None]
        token = jnp.broadcast_to(token, (b, 1, self.context))
        x = jnp.concatenate([token, time, x], 1) + where
        for i in range(self.depth):
            x = EncoderLayer(3, 16, 32, name=f"layer_{i}")(x)
        return x[:, 2:]


def embed(t, width):
    rate = jnp.exp(-np.log(10000) * jnp.arange(width // 2) / (width // 2))
    angle = t[:, None].astype(jnp.float32) * rate
    return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], -1)


class TimeMlp(nn.Module):
    width: int
    out: int

    @nn.compact
    def __call__(self, t):
        return nn.Dense(self.out)(nn.silu(nn.Dense(self.out)(embed(t, self.width))))


class DiTBlock(nn.Module):
    heads: int
    ratio: int

    @nn.compact
    def __call__(self, x, c, context):
        rows = jnp.split(nn.Dense(6 * x.shape[-1])(nn.silu(c))[:, None], 6, -1)
        shift1, scale1, gate1, shift2, scale2, gate2 = rows
        y = plain(x) * (1 + scale1) + shift1
        x = x + gate1 * nn.MultiHeadDotProductAttention(self.heads)(y, y)
        x = x + nn.MultiHeadDotProductAttention(self.heads)(
            plain(x), nn.Dense(x.shape[-1])(context))
        y = plain(x) * (1 + scale2) + shift2
        return x + gate2 * FeedForward(self.ratio * x.shape[-1])(y)


class DiT(nn.Module):
    hidden: int = 36
    depth: int = 2
    patch: int = 2

    @nn.compact
    def __call__(self, x, t, context):
        b, ch, side, _ = x.shape
        p, g = self.patch, side // self.patch
        x = nn.Conv(self.hidden, (p, p), (p, p))(x.transpose(0, 2, 3, 1))
        at = np.stack(np.meshgrid(np.arange(g), np.arange(g)), -1).reshape(-1, 2)
        half = [embed(jnp.array(at[:, i]), self.hidden // 2) for i in (0, 1)]
        x = x.reshape(b, g * g, -1) + jnp.concatenate(half, -1)[None]
        c = TimeMlp(256, self.hidden)(t)
        for i in range(self.depth):
            x = DiTBlock(3, 3)(x, c, context)
        shift, scale = jnp.split(nn.Dense(2 * self.hidden)(nn.silu(c))[:, None], 2, -1)
        x = nn.Dense(p * p * ch)(plain(x) * (1 + scale) + shift)
        x = x.reshape(b, g, g, p, p, ch).transpose(0, 5, 1, 3, 2, 4)
        return x.reshape(b, ch, side, side)


class Lag(nn.Module):
    @nn.compact
    def __call__(self, sets, x, t):
        ns, encoder = sets.shape[1], Encoder()
        time = TimeMlp(16, 32)(t)
        out = []
        for i in range(ns):
            others = np.array([k for k in range(ns) if k != i])
            rest = jnp.concatenate([sets[:, others], jnp.zeros_like(sets[:, :1])], 1)
            out.append(encoder(rest, time))
        context = jnp.stack(out, 1).reshape(-1, *out[0].shape[1:])
        return DiT()(x, jnp.repeat(t, ns), context)


def lag():
    model, rng = Lag(), np.random.default_rng(1)
    kept = np.cumprod(1 - np.linspace(4e-4, 0.08, 250)).astype(np.float32)
    batch = {"images": rng.uniform(-1, 1, (2, 3, 3, 16, 16)).astype(np.float32),
             "noise": rng.normal(size=(6, 3, 16, 16)).astype(np.float32),
             "t": rng.integers(0, 250, 2, dtype=np.int32)}

    def loss(params, batch):
        sets, noise = batch["images"], batch["noise"]
        abar = jnp.asarray(kept)[jnp.repeat(batch["t"], sets.shape[1])][:, None, None, None]
        x = sets.reshape(noise.shape) * jnp.sqrt(abar) + noise * jnp.sqrt(1 - abar)
        return jnp.mean((model.apply({"params": params}, sets, x, batch["t"]) - noise) ** 2)

    first = jax.jit(model.init)(jax.random.key(0), batch["images"], batch["noise"], batch["t"])
    return loss, first["params"], batch


# ---- small ones ----

class Net(nn.Module):
    @nn.compact
    def __call__(self, x, ids):
        x = nn.relu(nn.GroupNorm(2)(nn.Conv(8, (3, 3), strides=(2, 2))(x)))
        x = nn.Conv(8, (3, 3), feature_group_count=4, kernel_dilation=(2, 2))(x)
        x = nn.avg_pool(nn.max_pool(x, (2, 2), strides=(2, 2)), (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], -1, 8) + nn.Embed(10, 8)(ids)[:, None]
        x = nn.MultiHeadDotProductAttention(2)(nn.LayerNorm()(x))
        x = nn.silu(nn.Dense(8)(nn.gelu(x, approximate=False)))
        return nn.Dense(10)(x.mean(1))


def net():
    """Convolutions, pooling, embedding, attention, cross-entropy, numbers of a fixed key."""
    model, rng = Net(), np.random.default_rng(2)
    batch = {"x": rng.normal(size=(2, 16, 16, 3)).astype(np.float32),
             "ids": np.array([1, 7], np.int32)}

    def loss(params, batch):
        y = model.apply({"params": params}, batch["x"], batch["ids"])
        y = nn.log_softmax(y + jax.random.normal(jax.random.key(3), y.shape))
        return -jnp.mean(jnp.take_along_axis(y, batch["ids"][:, None], 1))

    return loss, jax.jit(model.init)(jax.random.key(0), batch["x"], batch["ids"])["params"], batch


def scan():
    """A loop of four turns."""
    rng = np.random.default_rng(3)
    params = {"w": rng.normal(size=(4, 8, 8)).astype(np.float32) / 3}
    batch = rng.normal(size=(2, 8)).astype(np.float32)

    def loss(params, x):
        y, _ = jax.lax.scan(lambda y, w: (jnp.tanh(y @ w), None), x, params["w"])
        return jnp.mean(y ** 2)

    return loss, params, batch


def gpt2():
    """A public model: Hugging Face's FlaxGPT2LMHeadModel, small, next-token cross-entropy."""
    from transformers import FlaxGPT2LMHeadModel, GPT2Config
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=4,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model, rng = FlaxGPT2LMHeadModel(config, input_shape=(1, 16)), np.random.default_rng(4)

    def loss(params, ids):
        y = nn.log_softmax(model(ids, params=params, train=False).logits[:, :-1])
        return -jnp.mean(jnp.take_along_axis(y, ids[:, 1:, None], -1))

    return loss, model.params, rng.integers(0, 64, (2, 16), dtype=np.int32)


MODELS = {"net": net, "scan": scan, "lag": lag, "gpt2": gpt2}


def write(folder, loss, params, batch):
    """Zeros become N(0, 0.02): else most gradients are zero and prove nothing."""
    rng = np.random.default_rng(9)
    flat = {name: np.asarray(p, np.float32) for name, p in flatten_dict(params, sep=".").items()}
    flat = {name: p if p.any() else rng.normal(0, 0.02, p.shape).astype(np.float32)
            for name, p in flat.items()}
    params = unflatten_dict(flat, sep=".")
    lowered = jax.jit(loss).lower(params, batch)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.mlir"), "w") as f:
        f.write(lowered.as_text(debug_info=True))
    root = list(inspect.signature(loss).parameters)[1]
    names = {f"{root}.{k}": v for k, v in batch.items()} if isinstance(batch, dict) else {root: batch}
    with jax.default_matmul_precision("highest"):
        value, grads = jax.jit(jax.value_and_grad(loss))(params, batch)
    wide = lambda a: a.astype(np.int64) if a.dtype.kind == "i" else a
    save_file(flat, os.path.join(folder, "weights.safetensors"))
    save_file({name: wide(a) for name, a in names.items()}, os.path.join(folder, "batch.safetensors"))
    save_file({"loss": np.asarray(value, np.float32).reshape(1),
               **{"grad." + name: np.asarray(g) for name, g in flatten_dict(grads, sep=".").items()}},
              os.path.join(folder, "jax.safetensors"))


if __name__ == "__main__":
    for name in sys.argv[2:] or MODELS:
        write(os.path.join(sys.argv[1], name), *MODELS[name]())
        print(name, flush=True)
