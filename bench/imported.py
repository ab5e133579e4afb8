"""Public models at real size on the GPU: the exported program trained by us, the same module trained by PyTorch, in one job.

    imported.py BUILD [--limit S] [--each S] [--steps N] [--together N] [--forms eager,compile,graphs] [--json FILE] [MODEL ...]

Every model is written by torch.export without weights (ours are drawn). PyTorch trains it with bf16 autocast and fused AdamW, as a
user would: eager, torch.compile, and torch.compile(mode="reduce-overhead"), which captures CUDA graphs. Neither keeps an EMA or
clips. Processes, pauses and what the bytes mean are as in bench/cuda.py; S = fp32 parameters, gradients and Adam's moments. "half" is
our step planned within S + (peak - S) / 2 by exact levers. Needs diffusers and transformers; no model is downloaded."""
import argparse
import gc
import os
import sys
import time

import cuda
import results_file

MIB = 2 ** 20
FORMS = ["eager", "compile", "graphs"]
PLAIN = ["optimizer.clip=0", "ema.rule=none", "accumulate=1", "precision=bf16"]
MODELS = {}


def model(make):
    MODELS[make.__name__.replace("_", "-")] = make
    return make


def ids(n, *shape):
    import torch
    return torch.randint(0, n, shape)


def noise(*shape):
    import torch
    return torch.randn(*shape)


# Each gives (model, inputs by name, whether the first output is the loss; otherwise it is the output's mean square).

@model
def gpt2_medium():
    from transformers import GPT2Config, GPT2LMHeadModel
    tokens = ids(50257, 4, 1024)
    return GPT2LMHeadModel(GPT2Config(n_embd=1024, n_layer=24, n_head=16)), {"input_ids": tokens, "labels": tokens.clone()}, True


@model
def sd15_unet():
    from diffusers import UNet2DConditionModel
    return UNet2DConditionModel(sample_size=64, cross_attention_dim=768), {
        "sample": noise(2, 4, 64, 64), "timestep": ids(1000, 2), "encoder_hidden_states": noise(2, 77, 768)}, False


@model
def sd_autoencoder():
    from diffusers import AutoencoderKL
    return AutoencoderKL(block_out_channels=(128, 256, 512, 512), down_block_types=("DownEncoderBlock2D",) * 4,
                         up_block_types=("UpDecoderBlock2D",) * 4, layers_per_block=2), {"sample": noise(1, 3, 256, 256)}, False


@model
def dit_xl2():
    from diffusers import DiTTransformer2DModel
    return DiTTransformer2DModel(num_attention_heads=16, attention_head_dim=72, in_channels=4, out_channels=8, num_layers=28,
                                 sample_size=32, patch_size=2), {
        "hidden_states": noise(8, 4, 32, 32), "timestep": ids(1000, 8), "class_labels": ids(1000, 8)}, False


@model
def vit_l16():
    from transformers import ViTConfig, ViTForImageClassification
    return ViTForImageClassification(ViTConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096,
                                               num_labels=1000)), {"pixel_values": noise(16, 3, 224, 224), "labels": ids(1000, 16)}, True


@model
def wan_8_layers():
    from diffusers import WanTransformer3DModel
    return WanTransformer3DModel(num_attention_heads=12, attention_head_dim=128, ffn_dim=8960, num_layers=8), {
        "hidden_states": noise(1, 16, 5, 60, 104), "timestep": ids(1000, 1), "encoder_hidden_states": noise(1, 226, 4096)}, False


@model
def unet2d_256():
    from diffusers import UNet2DModel
    return UNet2DModel(sample_size=256, layers_per_block=2, block_out_channels=(128, 128, 256, 256, 512, 512),
                       down_block_types=("DownBlock2D",) * 4 + ("AttnDownBlock2D", "DownBlock2D"),
                       up_block_types=("UpBlock2D", "AttnUpBlock2D") + ("UpBlock2D",) * 4), {
        "sample": noise(4, 3, 256, 256), "timestep": ids(1000, 4)}, False


def with_loss(name, device):
    """-> (module whose forward takes the batch and returns the loss, the batch)."""
    import torch
    torch.manual_seed(0)
    with torch.device(device):
        made, batch, has_loss = MODELS[name]()
    made.train()
    made.config.use_cache = False

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = made

        def forward(self, *values):
            first = self.model(**dict(zip(batch, values)), return_dict=False)[0]
            return first if has_loss else first.float().square().mean()
    return WithLoss(), tuple(batch.values())


def export(name, path):
    """The program alone: weights on the meta device have sizes and no bytes."""
    import torch
    module, batch = with_loss(name, "meta")
    batch = tuple(torch.zeros(x.shape, dtype=x.dtype, device="meta") for x in batch)
    program = torch.export.export(module, batch)
    torch.export.save(program, path)


def run_torch(name, form, steps):
    import torch
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    module, batch = with_loss(name, "cuda")
    run = module if form == "eager" else torch.compile(module, mode="reduce-overhead" if form == "graphs" else "default")
    adamw = torch.optim.AdamW(module.parameters(), lr=1e-5, fused=True)

    def step():
        if form == "graphs":
            torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(*batch)
        loss.backward()
        adamw.step()
        adamw.zero_grad(set_to_none=True)
        return loss

    static = 16 * sum(p.numel() for p in module.parameters())
    cuda.timed_steps(torch, step, steps, form, {"work": name, "static": static})


def our_step(args, name, *more):
    found, why = cuda.Run([os.path.join(args.build, "bench_step"), "--device", "cuda", "--steps", str(args.steps), *more,
                           path_of(args, name), *PLAIN], args.each).result(args.each)
    told = f"{found['ms']} ms (predicted {found['predicted']:.2f}), {found['arena'] / MIB:.0f} MiB" if found else why[:300]
    print(f"  {name}, ours{''.join(' ' + m for m in more)}: {told}", file=sys.stderr, flush=True)
    return found


def path_of(args, name):
    return os.path.join(args.build, f"bench-imported-{name}.pt2")


def half_of(best):
    return best["static"] + (best["bytes"] - best["static"]) // 2


def rows_of(name, ours, theirs, half):
    def row(variant, found, memory, **more):
        return {"work": name, "variant": variant, "precision": "bf16", "ms": results_file.figure(found["ms"]), "mib": found[memory] // MIB, **more}
    static = {"static_mib": cuda.best_of(theirs)["static"] // MIB} if theirs else {}
    rows = [row("Plimsoll", ours, "arena", predicted_ms=results_file.figure(ours["predicted"]), **static)] if ours else []
    rows += [row("PyTorch " + form, found, "bytes") for form, found in theirs.items()]
    return rows + ([row("Plimsoll, half", half, "arena")] if half else [])


def main():
    parser = argparse.ArgumentParser(description="public models on a GPU, against PyTorch")
    parser.add_argument("build")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--limit", type=float, default=3600, help="seconds for all")
    parser.add_argument("--each", type=float, default=400, help="seconds for one run")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--together", type=int, default=1, help="PyTorch processes that warm up at the same time")
    parser.add_argument("--forms", default=",".join(FORMS))
    results_file.add_option(parser)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_intermixed_args()
    forms = [form for form in args.forms.split(",") if form]
    for name in args.models:
        if name not in MODELS:
            parser.error(f"there is no model {name}; there are {', '.join(MODELS)}")
    if args.here:
        run_torch(args.models[0], forms[0], args.steps)
        return 0
    try:
        import diffusers  # noqa: F401
        import torch
    except ImportError as missing:
        print(f"skipped: {missing.name} is not installed here")
        return 77
    if not torch.cuda.is_available():
        print("skipped: no CUDA GPU here")
        return 77
    deadline, names = time.monotonic() + args.limit, args.models or list(MODELS)
    for name in names:
        if not os.path.exists(path_of(args, name)):
            export(name, path_of(args, name))
            gc.collect()
    ours, theirs = {name: our_step(args, name) for name in names}, {name: {} for name in names}

    def command(name, form):
        return [sys.executable, os.path.abspath(__file__), args.build, name, "--forms", form, "--here", "--steps", str(args.steps)]
    for name, form, found, why in cuda.torch_runs(args, [(n, f) for f in forms for n in names], command, deadline):
        if found:
            theirs[name][form] = found
        told = f"{found['ms']} ms, {found['bytes'] / MIB:.0f} MiB, warm after {found['warm_s']} s" if found else f"left out, {why[:120]}"
        print(f"  {name} {form}: {told}", file=sys.stderr, flush=True)
    rows = []
    for name in names:
        half = None
        if ours[name] and theirs[name] and ours[name]["arena"] > half_of(cuda.best_of(theirs[name])) and time.monotonic() < deadline:
            half = our_step(args, name, "--budget", str(half_of(cuda.best_of(theirs[name]))))
        rows += rows_of(name, ours[name], theirs[name], half)
        for row in rows_of(name, ours[name], theirs[name], half):
            print(f"{row['work']:16} {row['variant']:18} {row['ms']:9.2f} ms {row['mib']:8} MiB", flush=True)
    results_file.write(args.json, rows, "bench/imported.py BUILD", "mib: our arena; PyTorch's max_memory_allocated. static_mib: S.",
                       gpu=torch.cuda.get_device_name(), versions={"pytorch": torch.__version__})
    return 0


if __name__ == "__main__":
    sys.exit(main())
