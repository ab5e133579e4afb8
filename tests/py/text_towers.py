"""Both text towers against PyTorch's, with small random weights in fp32: transformers' DistilBertModel, and OpenCLIP's text
transformer written with torch.nn here. Embeddings of 24 texts each; weights as .safetensors, .bin and a Lightning .ckpt.

    text_towers.py PROGRAM WORK_FOLDER

PROGRAM is tests/reference/text_tower.c."""
import json
import os
import random
import subprocess
import sys

try:
    import importlib.util

    import numpy as np
    import torch
    from openclip_tower import Tower, spread
    from safetensors.torch import save_file
    from text_strings import texts
    from transformers import BertTokenizer, DistilBertConfig, DistilBertModel

    path = os.path.join(importlib.util.find_spec("open_clip").submodule_search_locations[0], "tokenizer.py")
except (ImportError, AttributeError) as error:
    print(f"skipped: {error} (scripts/setup_text.sh installs the originals)")
    sys.exit(77)

torch.set_num_threads(2)
torch.manual_seed(0)
program, work = os.path.abspath(sys.argv[1]), sys.argv[2]
os.makedirs(work, exist_ok=True)
strings = ["", "a red box", "A photo of the cat's tail, isn't it?", *texts(24, seed=3)[3:]]
TOLERANCE = 2e-4                                             # of the contract, for fp32


def run(weights, vocab, expect=0):
    out = os.path.join(work, "out.npy")
    done = subprocess.run([program, weights, vocab, out], input=b"".join(s.encode() + b"\0" for s in strings), capture_output=True, timeout=120)
    assert done.returncode == expect, f"{weights}: status {done.returncode}, {done.stderr.decode()}"
    return (done.stdout.decode().split(), np.load(out)) if not expect else done.stderr.decode()


def close(name, got, wanted):
    wanted = wanted.reshape(len(strings), -1).double().numpy()
    worst = max(np.linalg.norm(g - w) / np.linalg.norm(w) for g, w in zip(got.astype(np.float64), wanted, strict=True))
    assert worst < TOLERANCE, f"{name}: an embedding is {worst} away"
    print(f"{name}: {len(strings)} texts, largest distance {worst:.1e}")


# ---- OpenCLIP ----

spec = importlib.util.spec_from_file_location("open_clip_tokenizer", path)
original = importlib.util.module_from_spec(spec)
spec.loader.exec_module(original)
for width, layers, tokens in (128, 3, 77), (48, 2, 20):
    tower = spread(Tower(width, layers, tokens))
    with torch.no_grad():
        wanted = tower(original.SimpleTokenizer()(strings, context_length=tokens))
    state = {"cond_stage_model.model." + k: v for k, v in tower.state_dict().items()}
    state["cond_stage_model.model.attn_mask"] = torch.zeros(tokens, tokens)
    state["first_stage_model.encoder.conv_in.weight"] = torch.zeros(4, 3, 3, 3)
    checkpoint, safe = os.path.join(work, f"clip-{width}.ckpt"), os.path.join(work, f"clip-{width}.safetensors")
    torch.save({"state_dict": state, "global_step": 1}, checkpoint)
    save_file(state, safe)
    said, got = run(checkpoint, "-")
    assert said[0] == "openclip", said
    close(f"OpenCLIP, width {width}", got, wanted)
    again, same = run(safe, "-")
    assert again == said and (same == got).all(), "the same weights in another file have another hash"

# ---- DistilBERT ----

rng = random.Random(4)
vocab = os.path.join(work, "vocab.txt")
entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "red", "box", "photo", "of", "the", "cat", "'", "s", "tail", ",", "?"]
entries += sorted({c for s in strings for c in s.lower() if c.isalnum() and rng.random() < 0.8} - set(entries))
entries += ["##" + c for c in "abcdefghijklmnopqrstuvwxyz"]
with open(vocab, "w", encoding="utf-8") as f:
    f.write("\n".join(entries) + "\n")
bert = BertTokenizer(vocab)
for width, layers, heads, folder in (128, 2, 2, "bert"), (36, 1, 3, "bert-3-heads"):
    os.makedirs(os.path.join(work, folder), exist_ok=True)
    config = DistilBertConfig(vocab_size=len(entries), max_position_embeddings=128, n_layers=layers, n_heads=heads, dim=width, hidden_dim=3 * width)
    model = spread(DistilBertModel(config))
    coded = bert(strings, padding="max_length", truncation=True, max_length=77, return_tensors="pt")
    with torch.no_grad():
        wanted = model(input_ids=coded["input_ids"], attention_mask=coded["attention_mask"]).last_hidden_state[:, 0]
    weights = os.path.join(work, folder, "pytorch_model.bin")
    torch.save({"distilbert." + k: v for k, v in model.state_dict().items()}, weights)
    with open(os.path.join(work, folder, "config.json"), "w") as f:
        json.dump({"model_type": "distilbert", "n_heads": heads, "activation": "gelu"}, f)
    said, got = run(os.path.join(work, folder), vocab)
    assert said[0] == "distilbert", said
    close(f"DistilBERT, width {width}, {heads} heads", got, wanted)
    save_file(model.state_dict(), os.path.join(work, folder, "model.safetensors"))
    again, same = run(os.path.join(work, folder), vocab)     # without the prefix, and preferred to .bin
    assert again == said and (same == got).all()

# ---- what is refused ----

with open(os.path.join(work, "small.txt"), "w") as f:
    f.write("[PAD]\n[UNK]\n[CLS]\n[SEP]\n" + "\n".join(f"w{i}" for i in range(500)))
hugging = {"text_model.embeddings.token_embedding.weight": torch.zeros(4, 4)}
lacking = {k: v for k, v in state.items() if "ln_final" not in k}
wrong = {k: v[:, :40] if k.endswith("positional_embedding") else v for k, v in state.items()}
spoilt = dict(state, **{"cond_stage_model.model.ln_final.bias": torch.full((48,), float("nan"))})
for tensors, words in ((hugging, "under Hugging Face's names"), ({"a.weight": torch.zeros(2)}, "holds no text tower"),
                       (lacking, "lacks cond_stage_model.model.ln_final.weight"), (wrong, "the model has"), (spoilt, "is not finite")):
    torch.save({"state_dict": tensors}, os.path.join(work, "refused.ckpt"))
    said = run(os.path.join(work, "refused.ckpt"), "-", 1 if tensors is wrong or tensors is spoilt else 2)
    assert words in said, said
assert "has 504 entries and the tower" in run(os.path.join(work, "bert"), os.path.join(work, "small.txt"), 2)
assert "--vocab vocab.txt" in run(os.path.join(work, "bert"), "-", 2)
assert "leave it out" in run(checkpoint, vocab, 2)
os.makedirs(os.path.join(work, "empty"), exist_ok=True)
assert "nor a folder with weights" in run(os.path.join(work, "empty"), "-", 2)
