"""`plimsoll encode` against PyTorch: captions by a small DistilBERT of transformers, latents by the reference's autoencoder, the
context by an OpenCLIP tower in the same .ckpt. Then what a run keeps of it: prompts, and what is refused.

    encode.py PLIMSOLL WORK_FOLDER"""
import json
import os
import re
import shutil
import subprocess
import sys

try:
    import numpy as np
    import torch
    from openclip_tower import Tower, spread
    from PIL import Image
    from transformers import BertTokenizer, DistilBertConfig, DistilBertModel
except ImportError as error:
    print(f"skipped: {error} (scripts/setup_text.sh installs the originals)")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "ref"))
import systems  # noqa: E402
from common import merged  # noqa: E402
from stablesr_vae import SCALE  # noqa: E402

torch.set_num_threads(2)
torch.manual_seed(0)
program, work = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.environ["XDG_CONFIG_HOME"] = work
TOLERANCE = 2e-4                                             # of the contract, for fp32


def at(*parts):
    return os.path.join(work, *parts)


def plimsoll(*words, code=0, expect=""):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, not {code}\n{done.stdout}{done.stderr}"
    said = re.sub(r"\s+", " ", done.stdout + done.stderr)
    assert expect in said, f"{words}: no '{expect}' in\n{done.stdout}{done.stderr}"
    return done.stdout


def away(got, wanted):
    return np.linalg.norm(got.astype(np.float64) - wanted) / np.linalg.norm(wanted)


# ---- captions by DistilBERT ----

captions = ["a red box", "two people wave, then sit down", "the box of the cat " * 40]
words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "box", "two", "people", "wave", ",", "then", "sit", "down", "the", "of", "cat"]


def tower(folder, seed):
    torch.manual_seed(seed)
    os.makedirs(at(folder))
    with open(at(folder, "vocab.txt"), "w") as f:
        f.write("\n".join(words) + "\n")
    config = DistilBertConfig(vocab_size=len(words), max_position_embeddings=128, n_layers=1, n_heads=12, dim=768, hidden_dim=64)
    model = spread(DistilBertModel(config))
    torch.save({"distilbert." + k: v for k, v in model.state_dict().items()}, at(folder, "pytorch_model.bin"))
    return model


def clips(folder):
    os.makedirs(at(folder))
    for i, caption in enumerate(captions):
        np.save(at(folder, f"{i}.npy"), np.full((4, 16, 16, 3), 40 * i, np.uint8))
        with open(at(folder, f"{i}.txt"), "w") as f:
            f.write(caption + "\n")


model, other = tower("bert", 1), tower("bert-2", 2)
clips("clips")
clips("test")
said = json.loads(plimsoll("encode", "dit3d-small", "--init", at("bert"), "--data", at("clips"), "--json"))
assert said["captions"] == 3 and said["text"]["encoder"] == "distilbert" and said["planned_bytes"] == said["measured_bytes"], said
coded = BertTokenizer(at("bert", "vocab.txt"))(captions, padding="max_length", truncation=True, max_length=77, return_tensors="pt")
with torch.no_grad():
    wanted = model(input_ids=coded["input_ids"], attention_mask=coded["attention_mask"]).last_hidden_state[:, 0].double().numpy()
worst = max(away(np.load(at("clips", f"{i}.text.npy")), wanted[i]) for i in range(3))
assert worst < TOLERANCE, f"an embedding is {worst} away"
print(f"captions: 3 embeddings, largest distance {worst:.1e}")
plimsoll("encode", "dit3d-small", "--init", at("bert"), "--data", at("clips"), expect="1 captions have more tokens than the tower reads")

small = ["dit3d-small", "--steps", 1, "--set", "model.depth=1", "--batch", 2]
run = at("run")
plimsoll("train", *small, "--data", at("clips"), "--out", run, expect="text embeddings from NAME.text.npy, made by distilbert")
kept = json.load(open(os.path.join(run, "run.json")))["text"]
assert kept["hash"] == said["text"]["hash"] and kept["weights"].endswith("bert/pytorch_model.bin"), kept
draw = ["sample", run, "-n", 1, "--steps", 2, "-o", at("drawn"), "--prompt", "a red box"]
plimsoll(*draw, expect="1 drawn")
os.rename(at("bert"), at("moved"))
plimsoll(*draw, code=2, expect="which is not there any more; name the file by --text FILE")
plimsoll(*draw, "--text", at("bert-2"), code=2, expect="holds distilbert with hash")
plimsoll(*draw, "--text", at("moved"), expect="1 drawn")
os.rename(at("moved"), at("bert"))

# data of another space are refused wherever they come in
plimsoll("evaluate", run, "--data", at("test"), code=2, expect="are embedded by stand-in")
plimsoll("sample", run, "-n", 1, "--input", at("test"), code=2, expect="are embedded by stand-in")
plimsoll("encode", "dit3d-small", "--init", at("bert-2"), "--data", at("test"))
plimsoll("evaluate", run, "--data", at("test"), code=2, expect=f"those that the run is trained on by distilbert (hash {said['text']['hash']})")
validated = ["--set", "validate.every=1", "--set", f"data.holdout_path={at('test')}"]
plimsoll("train", *small, "--data", at("clips"), "--out", "none", *validated, code=2, expect="embed them by the same encoder")
plimsoll("encode", "dit3d-small", "--init", at("bert"), "--data", at("test"))
plimsoll("evaluate", run, "--data", at("test"), "--timesteps", 2)
plimsoll("train", *small, "--data", at("clips"), "--out", "none", *validated)

# elsewhere, unfinished, not a tower for it
os.remove(at("test", "1.text.npy"))
plimsoll("train", *small, "--data", at("test"), "--out", "none", code=2, expect="2 of 3 clips have an embedding")
clips("plain")
plimsoll("encode", "dit3d-small", "--init", at("bert"), "--data", at("plain"), "-o", at("texts"), expect=f"--set data.texts={at('texts')}")
plimsoll("train", *small, "--data", at("plain"), "--set", f"data.texts={at('texts')}", "--out", "none", expect="made by distilbert")
plimsoll("train", *small, "--data", at("plain"), "--set", f"data.texts={at('bert')}", "--out", "none", code=2, expect="0 of 3 clips have")
plimsoll("encode", "dit3d-small", "--data", at("clips"), code=2, expect="give their file by --init FILE")
plimsoll("encode", "lag-small", "--init", at("bert"), "--data", at("clips"), code=2, expect="reads neither texts nor latents")

# ---- latents and context by a checkpoint of StableSR ----

cfg = merged(systems.RECIPES["stablesr-small"], {"model": {          # the sizes of the recipe of this name
    "image": 64, "latent": 16, "vae_mult": [1, 2, 4], "edge_ladder": [4], "fusion": "concat"}})
reference = systems.MODULES["stablesr"].build(cfg)
vae = reference.first_stage_model if hasattr(reference, "first_stage_model") else None
state = reference.state_dict()
with torch.no_grad():                                        # logvar is -30: the posterior is its mean, without noise
    weight, bias = state["first_stage_model.quant_conv.weight"], state["first_stage_model.quant_conv.bias"]
    weight[4:] = 0
    bias[4:] = -30
text = spread(Tower(16, 2, 7))
state.update({"cond_stage_model.model." + k: v for k, v in text.state_dict().items()})
state["model_ema.decay"] = torch.zeros(())
torch.save({"state_dict": state, "global_step": 5}, at("sr.ckpt"))

rng = np.random.default_rng(3)
for part in "gt", "lq":
    os.makedirs(at("pairs", part, "deep"))
    for name in "a", "deep/b":
        image = Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).resize((64, 64), Image.NEAREST)
        image.save(at("pairs", part, name + ".png"))
out = at("latents")
said = json.loads(plimsoll("encode", "stablesr-small", "--init", at("sr.ckpt"), "--data", at("pairs"), "-o", out, "--batch", 2, "--json"))
assert said["images"] == said["latents"] == 2 and said["context"] == out + "/context.npy" and said["text"]["encoder"] == "openclip", said


def latent(path):
    x = torch.from_numpy(np.asarray(Image.open(path), np.float32)).permute(2, 0, 1)[None] / 127.5 - 1
    return torch.cat([x, x.flip(3)])


worst = 0
for name, file in ("a", "a"), ("deep-b", "deep/b"):
    for kind, part in ("latent", "gt"), ("latent_lq", "lq"):
        with torch.no_grad():
            z = reference.first_stage_model
            both = z.quant_conv(z.encoder(latent(at("pairs", part, file + ".png"))))[:, :4] * SCALE
        got = np.load(os.path.join(out, kind, name + ".npy"))
        assert got.shape == (4, 16, 16), got.shape
        worst = max(worst, min(away(got, both[i].double().numpy()) for i in range(2)))       # as it is, or mirrored
assert worst < TOLERANCE, f"a latent is {worst} away"
empty = torch.tensor([[49406, 49407] + [0] * 5])
with torch.no_grad():
    context = text(empty)[0].double().numpy()
off = away(np.load(out + "/context.npy"), context)
assert off < TOLERANCE, f"the context is {off} away"
print(f"latents: largest distance {worst:.1e}; context {off:.1e}")
edges = np.asarray(Image.open(os.path.join(out, "edge", "a.png")))
assert edges.shape == (64, 64) and set(np.unique(edges)) <= {0, 255} and edges.any()
init = ["--init", at("sr.ckpt"), "--init-partial"]
plimsoll("train", "stablesr-small", "--set", "model.latents=given", "--data", out, "--set", f"model.context={out}/context.npy", *init, "--steps", 1,
         "--batch", 2, "--out", "none", expect="pairs, 2 samples")
encode = ["encode", "stablesr-small", "--init", at("sr.ckpt"), "-o", at("more")]
plimsoll(*encode, "--data", at("pairs"), "--crops", 2, "--seed", 4, expect="4 latents of 2 images")
assert sorted(os.listdir(at("more", "latent"))) == ["a-000.npy", "a-001.npy", "deep-b-000.npy", "deep-b-001.npy"]
plimsoll(*encode, "--data", at("pairs"), "--budget", "64KiB", code=3, expect="the budget is 64.0 KiB")
plimsoll(*encode, "--set", "model.context_tokens=9", code=2, expect="gives an embedding of (7,16)")
shutil.copy(at("pairs", "gt", "a.png"), at("pairs", "gt", "deep-b.png"))
shutil.copy(at("pairs", "lq", "a.png"), at("pairs", "lq", "deep-b.png"))
plimsoll(*encode, "--data", at("pairs"), code=2, expect="two images that would both be written as deep-b")
plimsoll("encode", "stablesr-small", "--init", at("bert", "pytorch_model.bin"), "--data", at("pairs"), "-o", at("no"), code=2,
         expect="gives an embedding of (768)")
torch.save({k: v for k, v in state.items() if "encoder.conv_out" not in k}, at("half.pt"))
plimsoll("encode", "stablesr-small", "--init", at("half.pt"), "--data", at("pairs"), "-o", at("no"), code=2, expect="parameters that are needed here")
print("encode: all as PyTorch has it")
