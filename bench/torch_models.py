"""Models of a file for the benches of the Python package: `Z` is name -> function of (model, loss), its helpers R and I make inputs."""
import importlib
import importlib.util
import os
import sys

import torch

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(ROOT, "python"), os.path.join(ROOT, "tests", "python")]


def small_models():
    """Some that run on the CPU in no time: the file's name is `small`."""
    import checkers

    def closed(make, loss_fn):
        model, batch = make()
        return model, lambda: checkers.tree_leaves(loss_fn(model, batch))[0]
    return {"perceptron": lambda: closed(checkers.perceptron, checkers.perceptron_loss),
            "decoder": lambda: closed(checkers.decoder, checkers.decoder_loss), "mixed": lambda: closed(checkers.mixed, checkers.mixed_loss)}


def load(path, device):
    if path == "small":
        return small_models()
    # torchvision's wheel for CUDA loads on the CPU if its operators' names exist: a file beside the models may define them.
    if device != "cuda" and os.path.exists(os.path.join(os.path.dirname(path), "tvstub.py")):
        sys.path.insert(0, os.path.dirname(path))
        importlib.import_module("tvstub")
    spec = importlib.util.spec_from_file_location("models", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.R = lambda *s: torch.randn(*s, device=device)
    module.I = lambda n, *s: torch.randint(0, n, s, device=device)
    return module.Z


def cells(loss):
    """What the loss closes over beside modules and functions: its inputs."""
    return [c for c in loss.__closure__ if not isinstance(c.cell_contents, torch.nn.Module) and not callable(c.cell_contents)]


def made(path, name, device):
    """Model in training, loss_fn(model, batch) and batch."""
    torch.manual_seed(0)
    where = "cpu" if device == "meta" else device           # inputs have numbers: some models ask for them while they are made
    with torch.device(device):
        model, loss = load(path, where)[name]()
    model.train()
    held = cells(loss)
    if any(getattr(c.cell_contents, "__closure__", None) for c in loss.__closure__):
        raise SystemExit(f"{name}: a loss within a loss")

    def loss_fn(_, batch):
        for cell, value in zip(held, batch):
            cell.cell_contents = value
        return loss()
    return model, loss_fn, [c.cell_contents for c in held]
