"""The rule for cuDNN's workspaces: the calls that stand behind PyTorch's operators, what the rule
says of them, and what cuDNN itself says for an H200 (skipped where cuDNN is not installed).

    convolutions.py LIBPLIMSOLL
"""
import os
import random
import sys

os.environ["PLIMSOLL_LIBRARY"] = os.path.abspath(sys.argv[1])
import cudnn_answers
from checkers import check, done, torch

from plimsoll import capture, convolutions, rules
from plimsoll.training import StepForm

H200 = rules.Rules(rules.GPUS["h200"], (2, 11))
MIB = 1 << 20


def seen(make, shape, precision="fp32", gpu="h200", last=False):
    """Calls of a step of one module, with the workspaces that were counted."""
    model, x = make(), torch.randn(shape, requires_grad=True)
    if last:
        model, x = model.to(memory_format=torch.channels_last), \
            x.detach().to(memory_format=torch.channels_last).requires_grad_()
    of = rules.Rules(rules.GPUS[gpu], (2, 11))
    recorder = capture.Recorder(of)
    made = capture.capture(model, lambda m, b: m(b).square().mean(), x, StepForm(None, precision),
                           of, 1, recorder)
    return recorder.convolutions, [a.bytes for a in made.allocations if a.kind == "workspaces"
                                   and a.op.startswith("convolution")]


calls, sizes = seen(lambda: torch.nn.Conv2d(8, 16, 3, padding=1), (2, 8, 32, 32))
x, w, y = 2 * 8 * 1024 * 4, 16 * 8 * 9 * 4, 2 * 16 * 1024 * 4
check("forward and both gradients", [c.kind for c in calls] == ["forward", "data", "weights"])
check("as large as the tensors", sizes == [x + w + y] * 3)
check("half in bf16", seen(lambda: torch.nn.Conv2d(8, 16, 3, padding=1), (2, 8, 32, 32), "bf16")[1]
      == [(x + w + y) // 2] * 3)
check("none for channels last", seen(lambda: torch.nn.Conv2d(8, 16, 3), (2, 8, 32, 32),
                                     last=True)[1] == [])
check("a window of one point lies equally both ways", seen(
    lambda: torch.nn.Conv2d(8, 16, 1), (2, 8, 32, 32))[1] == [x + y] * 3)
check("depthwise is not cuDNN's", not seen(lambda: torch.nn.Conv2d(8, 8, 3, groups=8),
                                          (2, 8, 32, 32))[0])
check("fp32 without tensor cores: none", seen(lambda: torch.nn.Conv2d(8, 16, 3), (2, 8, 32, 32),
                                              gpu="v100-16gb")[1] == [])
transposed, _ = seen(lambda: torch.nn.ConvTranspose2d(8, 16, 4, 2, 1), (2, 8, 32, 32))
check("transposed: the roles change", [(c.kind, c.x, c.y) for c in transposed] == [
    (k, (2, 16, 64, 64), (2, 8, 32, 32)) for k in ("data", "forward", "weights")])
for make, shape in ((lambda: torch.nn.Conv1d(8, 16, 5, 2, 2), (2, 8, 64)),
                    (lambda: torch.nn.Conv3d(8, 16, 3, (1, 2, 2), 1), (2, 8, 4, 16, 16)),
                    (lambda: torch.nn.Conv2d(8, 16, 3, 2, 1, dilation=2, groups=4), (2, 8, 32, 32)),
                    (lambda: torch.nn.ConvTranspose1d(8, 4, 5, 3, 1, 1), (2, 8, 20))):
    module = make()
    calls, _ = seen(make, shape)
    out = tuple(module(torch.randn(shape)).shape)
    back = isinstance(module, torch.nn.modules.conv._ConvTransposeNd)
    check("%s: shapes" % module, all((c.x if back else c.y) == out for c in calls)
          and len(calls) == 3)
check("a sample without its batch", [c.x for c in seen(lambda: torch.nn.Conv2d(8, 16, 3),
                                                      (8, 32, 32))[0]] == [(1, 8, 32, 32)] * 3)

# ---- cuDNN's own answers ----

cudnn = cudnn_answers.described()
if cudnn is None:
    print("skipped: cuDNN is not installed (scripts/setup_cuda.sh)")
    done()
rng = random.Random(5)
CHANNELS = (3, 16, 32, 64, 96, 128, 256, 320, 512, 640)


def drawn():
    """A convolution as models have them."""
    axes, window = rng.choice((1, 2, 2, 2, 3)), rng.choice((1, 3, 3, 3, 5))
    length = {1: 2048, 2: rng.choice((32, 64, 128)), 3: 16}[axes]
    x = (rng.choice((1, 4, 16)), rng.choice(CHANNELS), *[length] * axes)
    w = (rng.choice(CHANNELS), x[1], *[window] * axes)
    stride, padding = (rng.choice((1, 1, 2)),) * axes, (window // 2,) * axes
    y = (x[0], w[0], *((length + 2 * padding[0] - window) // stride[0] + 1,) * axes)
    return x, w, y, stride, padding, (1,) * axes


close = total = low = 0
while total < 400:
    x, w, y, *how = drawn()
    dtype = rng.choice((torch.float32, torch.bfloat16, torch.float16))
    call = convolutions.Call(rng.choice(("forward", "data", "weights")), x, w, y, dtype,
                             *(tuple(h) for h in how), 1, rng.random() < 0.1)
    try:
        answer = cudnn.workspace(call)
    except cudnn_answers.Refused:
        continue
    guess = convolutions.workspace(H200, call)
    total += 1
    close += abs(guess - answer) <= max(2 * MIB, 0.05 * answer)
    low += guess < answer - max(4 * MIB, 0.1 * answer)
print("of %d answers, %d within 5 %% or 2 MiB, %d are above the rule by more than 10 %% and 4 MiB"
      % (total, close, low))
check("the rule is cuDNN's in most cases", close >= 0.8 * total)
check("it is rarely too low", low <= 0.05 * total)
done()
