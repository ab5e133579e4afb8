"""What five users wrote about the memory of their training, line by line, and where the true figure is.

Each seed: title, the recipe that is its setting, others it mentions, and its claims as (what it says, the true
figure, why). The middle one is computed from `plimsoll explain --json`; R is a dictionary of those by recipe.
"""


def count(n):
    return f"{n:,}"


def size(n):
    sign, n = ("-", -n) if n < 0 else ("", n)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if n < 1024 or unit == "TiB":
            return sign + (f"{n:.0f}" if unit == "B" or n >= 100 else f"{n:.1f}" if n >= 10 else f"{n:.2f}") + " " + unit
        n /= 1024


def both(n):
    return f"{count(n)} B ({size(n)})"


class Report:
    """One explain --json with the questions the claims ask of it."""

    def __init__(self, json):
        self.json, self.peak, self.classes = json, json["peak_bytes"], json["classes"]

    def maps(self, *shape, cls=None):
        """(how many at the peak, bytes of one) of tensors of a shape."""
        found = [t["bytes"] for t in self.json["tensors_at_peak"] if t.get("shape") == list(shape) and (not cls or t["class"] == cls)]
        if not found:
            raise KeyError(f"{self.json['model']}: no tensor of shape {shape} at the peak")
        return len(found), found[0]

    def weights(self, prefix):
        return sum(t["bytes"] // 4 for t in self.json["tensors_at_peak"] if t["class"] == "parameters" and t["name"].startswith(prefix))

    def batch(self, name):
        return next(b["bytes"] for b in self.json["batch"] if b["name"] == name)

    def avoided(self, word):
        """(how many, bytes of the largest, bytes of all) that a plain implementation would store."""
        rows = [a for a in self.json["avoided"] if a["name"].startswith(word)]
        return sum(a["count"] for a in rows), max(a["bytes"] for a in rows), sum(a["total_bytes"] for a in rows)

    def saves(self, name):
        row = next(w for w in self.json["what_if"] if name in w["name"])
        if row["failed"]:
            return "not possible: " + row["note"]
        return f"saves {size(row['saved_bytes'])} of {size(self.peak)}, {100 * (row['slowdown'] - 1):+.1f} % time"

    def belief(self, word):
        return next(b["truth"] for b in self.json["beliefs"] if word in b["belief"])

    def dynamic(self):
        return self.classes["activations"] + self.classes["attention"] + self.classes["skips"]


def stdiff(R):
    r = R["stdiff-64x2048"]
    n_att, att, att_all = r.avoided("attention scores")
    frame = r.batch("future")
    masks = r.batch("mask") + r.batch("observed_mask") + r.batch("observed_last_mask")
    level = [r.maps(10, 64 >> k, 2048 >> k, c) for k, c in enumerate((128, 256, 256, 512, 512))]
    block = ["(10,64,2048,128)", "(10,32,1024,256)", "(10,16,512,256)", "(10,8,256,512)", "(10,4,128,512)"]
    said = ["~16.8 MB", "~8.4 MB", "~2.1 MB", "~1.0 MB", "~0.25 MB"]
    rank = r.json["bottlenecks"]
    return [
        ("Vo, Vp: ~5.2 MB each", f"right: {count(frame)} B each", "2 x 5 frames of 64 x 2048 in fp32"),
        ("Vo_last_frame: ~1 MB", f"{count(r.batch('observed_last'))} B, a view", "it shares the bytes of Vo; nothing is added"),
        ("Vo_mask, Vp_mask: ~10.4 MB", f"{count(masks)} B", "masks take one byte per pixel, not four, and half of them are never read"),
        ("total batch data: ~22 MB", f"{both(r.json['batch_bytes'])}", "the masks were counted as fp32"),
        ("flatten(0, 1) creates a new tensor, ~5.2 MB", "0 B", "a view with another shape"),
        ("noise, noisy images: ~5.2 MB each", f"right: {count(frame)} B each", "but neither is live at the peak"),
        ("context encoding: 2 x 64 x 64 x 2048 x 4 B", f"{both(r.maps(2, 16, 512, 256)[1])}", "256 channels at a quarter of each side"),
        ("future motion, C=64: ~33 MB", f"{both(r.maps(10, 16, 512, 256)[1])} for the five frames; "
         f"{r.maps(2, 16, 512, 256)[0]} maps of {size(r.maps(2, 16, 512, 256)[1])} are kept for backward",
         "each frame takes ten steps of the motion equation, and backward needs them all"),
    ] + [
        (f"down block {k + 1}: {said[k]}", f"{both(level[k][1])} per map {block[k]}, {level[k][0]} of them at the peak",
         "the map is one level too small and the batch of ten is missing; every layer keeps maps, not one per block")
        for k in range(5)
    ] + [
        ("attention O(512 x 512) ~1 MB, ~16-32 MB a layer", f"a score matrix would be {both(att)}",
         "tokens are height x width: 16 x 512 after two halvings is 8,192, and 32 x 1024 is 32,768"),
        ("4 attention layers, 64-128 MB", f"{n_att} layers; scores would be {size(att_all)}; q, k, v and outputs take {both(r.classes['attention'])}",
         "the down, middle and up paths all have attention; scores are never stored here"),
        ("skip connections: ~30-50 MB", f"{both(r.classes['skips'])}", "fifteen tensors, three of them at full size"),
        ("UNet activations: ~150-200 MB", f"{both(r.dynamic())}", "activations, attention and skips at the peak"),
        ("loss per pixel: ~5.2 MB", "0 B", "the masked loss is summed as it is computed; nothing is kept per pixel"),
        ("parameters: 50-100 M, 200-400 MB", f"{count(r.json['parameters']['count'])}, {both(r.classes['parameters'])}", "counted, not guessed"),
        ("gradients: 2-3 x the model", f"{both(r.classes['gradients'])}", "one number per weight: exactly the model's size"),
        ("EMA: 200-400 MB", f"{both(r.classes['ema'])}", "a full copy in fp32"),
        ("optimizer: not mentioned", f"{both(r.classes['optimizer'])}", "AdamW keeps two numbers per weight"),
        ("accumulation doubles gradient memory", "0 B more", r.belief("accumulation")),
        ("fp32 peak: ~1.2-1.5 GB", f"**{both(r.peak)}**", "PyTorch measured: 118,389 MiB ([TORCH_MEMORY.md](../TORCH_MEMORY.md))"),
        ("fp16 peak: ~700-900 MB", r.saves("bf16"), r.belief("Half precision")),
        ("bottleneck 1: attention, 2: EMA, 3: gradients",
         "; ".join(f"{i + 1}: {b['what']} {size(b['bytes'])}" for i, b in enumerate(rank[:3])), "maps of the two widest levels come first, state comes last"),
        ("recommends gradient checkpointing", r.saves("recompute as"), "half of that saving: " + r.saves("recompute for")),
        ("recommends head width 128 -> 64", r.saves("head width"), "q, k and v keep their size; scores are not stored"),
        ("recommends a smaller batch", r.saves("micro-batches"), "with accumulation the effective batch stays"),
        ("recommends disabling EMA (200-400 MB)", r.saves("no average"), "one percent of the peak"),
        ("recommends 5 -> 3 frames", r.saves("predicted frames"), "predicted frames are the batch of the UNet"),
        ("recommends fewer channels", r.saves("half the channels"), "maps are halved, weights quartered"),
    ]


def stablesr(R):
    a, b = R["stablesr-edge-before"], R["stablesr-edge-after"]
    n_map, one = a.maps(6, 512, 512, 1024)
    m_map, small = b.maps(2, 256, 256, 256)
    return [
        ("request of 6.00 GiB in BatchNorm", f"right: {count(one)} B", "one map (6,1024,512,512) of stage 1"),
        ("23.53 GiB GPU, 13.04 GiB allocated", f"stage 1 alone keeps {n_map} such maps: {size(n_map * one)}; the step needs {both(a.peak)}",
         "no allocator setting could have helped"),
        ("before: 5 layers of 1024 channels at 512 x 512", f"{n_map} maps of {size(one)}", "each layer keeps the convolution's and the norm's output"),
        ("after: 3 layers of 256 channels", f"{m_map} maps of {size(small)}", "batch 2 and half the side as well"),
        ("channel reduction 75 %, layer reduction 40 %", f"stage 1: {size(n_map * one)} -> {size(m_map * small)}, {n_map * one / (m_map * small):.0f} times less",
         "a quarter of the channels, a quarter of the pixels, a third of the batch, 3 of 5 layers"),
        ("effective batch maintained at 12 (2 x 6 vs 6 x 4)", f"{a.json['plan']['micro_batch'] * a.json['plan']['accumulate']} -> "
         f"{b.json['plan']['micro_batch'] * b.json['plan']['accumulate']}", "it was halved"),
        ("gradient checkpointing: ~50 % in backward", a.saves("recompute as"), "down to the smallest arena with the first edge processor"),
        ("checkpointing costs 10-20 % time", a.saves("recompute for"), "a plan recomputes what is cheap; the last bytes saved are the expensive ones"),
        ("expected peak after: 15-18 GB", f"**{both(b.peak)}** for the whole step", "frozen weights "
         f"{size(4 * (b.json['parameters']['count'] - b.json['parameters']['trainable']))}, state of the trained ones "
         f"{size(b.classes['gradients'] + b.classes['optimizer'] + b.classes['ema'])}"),
        ("expected peak before: 20+ GB", f"**{both(a.peak)}**", "four times the memory of the GPU"),
        ("original edge processor works at batch 6 standalone", f"not in training: {size(n_map * one)} of maps", "forward alone needs three of them at a time"),
        ("works at batch 1, 2, 4, 6, 8", "largest batch with everything kept: " + ", ".join(
            f"{size(x['budget_bytes'])}: {x['largest_batch']}" for x in b.json["budgets"]), "each was placed, not tried out"),
        ("mixed precision as a future improvement", b.saves("bf16"), b.belief("Half precision")),
        ("reduce the resolution to 256 x 256", b.saves("half the resolution"), "weights do not shrink"),
        ("max_split_size_mb:128 reduces fragmentation", f"gaps are {count(b.classes['gaps'])} B", "every buffer is placed before the first step"),
    ]


def lag(R):
    r, low, ultra = R["lag-32x6"], R["lag-8x4"], R["lag-4x3"]
    n, tokens = r.maps(192, 256, 468, cls="activations")
    n_att, att, att_all = r.avoided("attention scores")
    enc, enc_token = r.maps(192, 258, 256)
    return [
        ("DiT: ~15M parameters, ~60 MB", f"{count(r.weights('dit'))}, {both(4 * r.weights('dit'))}", "counted"),
        ("encoder: ~10M parameters, ~40 MB", f"{count(r.weights('encoder'))}, {both(4 * r.weights('encoder'))}", "counted"),
        ("parameters ~100 MB, Adam ~200 MB, EMA ~100 MB", f"{size(r.classes['parameters'])}, {size(r.classes['optimizer'])}, {size(r.classes['ema'])}",
         f"{count(r.json['parameters']['trainable'])} of {count(r.json['parameters']['count'])} weights are trained"),
        ("context (192,256,256): 50.3 MB", f"right: {count(r.maps(192, 256, 256)[1])} B", "and it is stored once, not 10-50 times"),
        ("encoder input (32,5,3,32,32): ~3 MB", f"{count(r.batch('images'))} B for the whole batch", "six images, three channels, fp32"),
        ("patch tokens (32,256,256): ~8 MB", f"{both(enc_token // 6)} for one image left out", "258 tokens: class and time are two more; all six are encoded together"),
        ("encoder: 50-100 MB a layer, 3-6 GB", f"{enc} token maps of {size(enc_token)}, q, k, v of {size(r.maps(192, 258, 2304)[1])} x "
         f"{r.maps(192, 258, 2304)[0]}", "six layers over all six images left out; probabilities are not stored"),
        ("DiT input (192,3,32,32): ~0.7 MB", f"{count(r.maps(192, 32, 32, 3, cls='inputs')[1])} B", "four bytes per number"),
        ("patch embeddings (192,256,468): ~90 MB", f"right: {both(tokens)}", "but a layer keeps many of that size"),
        ("DiT layers: 200-500 MB each, 1.2-3 GB", f"{n} maps of {size(tokens)} as activations, {r.maps(192, 256, 468, cls='attention')[0]} for attention, "
         f"{r.maps(192, 256, 1404)[0]} of {size(r.maps(192, 256, 1404)[1])}", "about 2.6 GiB per layer"),
        ("cross-attention: ~50 MB a layer, ~300 MB", f"{n_att} attention calls; scores would be {size(att_all)}, none is stored", "the context is shared, q, k and v are not"),
        ("backward gradients: ~2 x activations, 8-18 GB", "those of one layer at a time", "gradients of activations are freed as soon as they are used; the peak is where backward begins"),
        ("total 18-37 GB, actual 50-100 GB", f"**{both(r.peak)}**", "PyTorch measured: 26,674 MiB in fp32 ([TORCH_MEMORY.md](../TORCH_MEMORY.md))"),
        ("330 GB fit 3-6 batches at once", "one step holds one batch", "the number has no meaning; largest batch with everything kept on 80 GiB: "
         f"{next(x['largest_batch'] for x in r.json['budgets'] if x['budget_bytes'] == 80 << 30)} sets"),
        ("ultra low (4 sets of 3): context ~3 MB", f"right: {count(ultra.maps(12, 256, 256)[1])} B", "a sixteenth"),
        ("ultra low: 5-10 GB a batch", f"{both(ultra.peak)}", f"state is {size(sum(ultra.classes[c] for c in ('parameters', 'gradients', 'optimizer', 'ema')))} of it"),
        ("low (8 sets of 4): 15-30 GB", f"{both(low.peak)}", "everything was counted several times"),
        ("gradient checkpointing: 30-50 % less", r.saves("recompute as"), "half of that saving: " + r.saves("recompute for")),
        ("fragmentation reduces usable memory", f"gaps are {count(r.classes['gaps'])} B", "buffers are placed beforehand; no restart is needed"),
    ]


def sashimi(R):
    r, lean = R["sashimi-24576"], R["sashimi-24576-lean"]
    n, one, all_ = r.avoided("Cauchy matrix")
    length = 24576
    return [
        ("fails asking for 1.50 GiB", f"{count(one)} B", "the Cauchy matrix of one 64-channel S4 layer that a plain kernel stores"),
        ("uses ~22 GiB, called overhead", f"{n} such matrices are {size(all_)}", "streamed here, so none is stored"),
        ("model parameters: 50-100 MB", f"{both(r.classes['parameters'])}", f"{count(r.json['parameters']['count'])} numbers"),
        ("skip connections: 2-4 GB", f"{both(r.classes['skips'])}", "three tensors of 64, 128 and 256 channels at L, L/4 and L/16"),
        ("layer states: 0.5-1 GB", "0 B", "training has none: the layers are convolutions"),
        ("DML output: 1-2 GB, larger than categorical", f"{count(length * 18 * 4)} B against {count(length * 256 * 4)} B", "18 numbers per step instead of 256"),
        ("audio processing: 1-2 GB", f"batch of {count(r.json['batch_bytes'])} B", "tokens and targets of one sequence"),
        ("EMA: 2 x the parameters", f"{count(r.classes['ema'])} B", "off in this recipe; if on, it is one copy"),
        ("embedding 256 x d_model", f"{count(next(t['bytes'] for t in r.json['tensors_at_peak'] if t['name'].startswith('encoder.0')))} B", "right, and small"),
        ("PyTorch overhead: 2-3 GB", f"gaps are {count(r.classes['gaps'])} B", "alignment and fragmentation of a placed plan"),
        ("total 8-12 GB estimated, ~22 GB used", f"**{both(r.peak)}**", "PyTorch measured with a plain Cauchy kernel: 15,472 MiB ([TORCH_MEMORY.md](../TORCH_MEMORY.md))"),
        ("smaller model (6 layers, K=4): 20-30 % less", f"{both(lean.peak)}, {100 * (1 - lean.peak / r.peak):.0f} % less", "layers matter, mixtures do not"),
        ("6 -> 4 mixtures alone", r.saves("mixtures"), "the head is a tenth of a percent"),
        ("gradient checkpointing: 30-50 % less", r.saves("recompute as"), "half of that saving: " + r.saves("recompute for")),
        ("skip connections optimised: 10-20 % less", f"at most {100 * r.classes['skips'] / r.peak:.1f} %", "that is their whole size"),
        ("sequence length: 20-40 % less", r.saves("sequence length"), "activations are proportional to it"),
        ("memory-efficient DML in chunks", "0 B", "the loss works in blocks already"),
        ("mixed precision", r.saves("bf16"), "the S4 kernel and FFT stay in fp32"),
        ("fits 23.69 GiB at ~7-11 GB after all", f"fits 8 GiB as it is: {size(r.peak)}", "no lever is needed"),
    ]


def dit3d(R):
    t, xl = R["dit3d-wrap-tiny-4"], R["dit3d-wrap-xl-2"]
    patches = R["dit3d-tiny"]
    before = R["dit3d-wrap-before"]

    def row(name, key, params, memory, fits):
        j = R[key]
        return (f"{name}: {params} parameters, {memory} GB, fits 16 GB: {fits}", f"{count(j.json['parameters']['count'])} "
                f"({count(j.json['parameters']['trainable'])} trained), **{both(j.peak)}**",
                "minimum " + size(j.json["minimum_bytes"]) + "; batch 1 x 2, 16 frames of 64 x 64")

    return [
        ("TinyDiT3D-S: 1,700,833 parameters", f"{count(t.json['parameters']['trainable'])} trained of {count(t.json['parameters']['count'])}",
         "the frozen backbone is stored too"),
        ("parameter memory 6.5 MB", f"{both(t.classes['parameters'])}", "frozen weights need bytes like any others"),
        ("total < 0.1 GB", f"{both(t.peak)}", f"state {size(sum(t.classes[c] for c in ('parameters', 'gradients', 'optimizer')))}; the rest is activations"),
        ("XS ~3M is larger than Tiny ~1.7M", f"{count(R['dit3d-wrap-xs-4'].json['parameters']['trainable'])} trained of "
         f"{count(R['dit3d-wrap-xs-4'].json['parameters']['count'])}", "XS is the smaller one"),
        row("DiT3D-Tiny/4", "dit3d-wrap-tiny-4", "1.7M", "<0.1", "yes"),
        row("DiT3D-S/2", "dit3d-wrap-s-2", "~21M", "~0.5", "yes"),
        row("DiT3D-B/2", "dit3d-wrap-b-2", "~86M", "~2.0", "yes"),
        row("DiT3D-L/2", "dit3d-wrap-l-2", "~458M", "~11.0", "yes"),
        row("DiT3D-XL/2", "dit3d-wrap-xl-2", "~675M", "~16+", "no"),
        ("the memory column", f"XL/2 state: {both(sum(xl.classes[c] for c in ('parameters', 'gradients', 'optimizer', 'ema')))}",
         "24 B per parameter was assumed for all; a frozen weight has 4, a trained one 16"),
        ("28 frames of 128 x 128, batch 2 (before)", f"{both(before.peak)}", "XL/2, the setting it came from"),
        ("patches (4,16,16): 512 -> 128 tokens, 4 x fewer", "64 tokens in the 3-D model; 16 x 256 in this one", "4 x 4 x 4; the wrapper sees frames one by one"),
        ("3-D patches as the text describes them", f"{count(patches.json['parameters']['count'])} parameters, {both(patches.peak)}", "dit3d-tiny, the other reading"),
        ("learn_sigma false: 6 -> 3 channels", "right", "only the last layer changes"),
        ("less than 1 % of 16 GB", f"{100 * t.peak / (16 << 30):.2f} %", "right for Tiny/4"),
        ("gradient checkpointing for longer sequences", t.saves("recompute as"), "the backbone is frozen: it keeps nothing for backward"),
        ("mixed precision", t.saves("bf16"), t.belief("Half precision")),
    ]


SEEDS = [
    ("stdiff", "STDiff on range images: 1.2 to 1.5 GB were expected", "stdiff-64x2048", [], stdiff),
    ("stablesr", "StableSR with an edge processor: out of memory at 6 GiB", "stablesr-edge-before", ["stablesr-edge-after"], stablesr),
    ("lag", "Few-shot set diffusion in lag mode: 18 to 100 GB were expected", "lag-32x6", ["lag-8x4", "lag-4x3"], lag),
    ("sashimi", "SaShiMi with a mixture head: 22 GB, and nobody knew why", "sashimi-24576", ["sashimi-24576-lean"], sashimi),
    ("dit3d", "DiT3D within 16 GB", "dit3d-wrap-tiny-4",
     ["dit3d-wrap-xs-4", "dit3d-wrap-s-2", "dit3d-wrap-b-2", "dit3d-wrap-l-2", "dit3d-wrap-xl-2", "dit3d-wrap-before", "dit3d-tiny"], dit3d),
]
WITH_WHAT_IF = ["stablesr-edge-after"]       # besides each seed's own recipe
