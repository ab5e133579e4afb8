"""Imported first by tests that compare with PyTorch: ends the test as skipped where it is not installed."""
import sys

try:
    import numpy  # noqa: F401
    import safetensors  # noqa: F401
    import torch
except ImportError as error:
    print(f"skipped: {error.name} is not installed here (scripts/setup_torch.sh makes .venv with it)")
    sys.exit(77)

torch.set_num_threads(2)
