"""plimsoll.checkpoint and plimsoll.batch_size on small models.

    checkpoint.py LIBPLIMSOLL
"""
import copy
import os
import sys

os.environ["PLIMSOLL_LIBRARY"] = os.path.abspath(sys.argv[1])
from checkers import StorageMeter, check, decoder, decoder_loss, done, torch

import plimsoll
from plimsoll import checkpointing


def run(model, batch):
    """Gradients of a step from seed 3, and the peak of two whole steps."""
    torch.manual_seed(3)
    decoder_loss(model, batch).backward()
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}
    model.zero_grad()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    meter = StorageMeter([*model.parameters(), *model.buffers(), batch])
    with meter:
        for _ in range(2):
            decoder_loss(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
    return gradients, meter.peak


model, batch = decoder()
batch = batch.repeat(2, 1)
check("blocks are found", checkpointing.outer_blocks(model) == ["layers.%d" % i
                                                                   for i in range(4)])
plain, peak = run(copy.deepcopy(model), batch)
for share in (0.85, 0.65):
    fitted = copy.deepcopy(model)
    found = plimsoll.checkpoint(fitted, decoder_loss, batch, int(share * peak), effort=300)
    gradients, seen = run(fitted, batch)
    print("%.0f %%: %s; measured %d of %d" % (100 * share, found, seen, peak))
    check("within the budget", seen <= share * peak and found.blocks)
    check("as predicted", abs(seen / found.peak_bytes - 1) < 0.03)
    check("gradients bit for bit", all(torch.equal(g, gradients[n]) for n, g in plain.items()))
found.remove()
check("taken back", "forward" not in fitted.layers[0].__dict__)
try:
    plimsoll.checkpoint(fitted, decoder_loss, batch, 1 << 10, effort=300)
    check("a budget that is too small is refused", False)
except plimsoll.BudgetError as error:
    check("refused: %s" % error, peak > error.minimum_bytes > 1 << 20)
check("after a refusal the model is as before", "forward" not in fitted.layers[0].__dict__)

how = {"precision": "bf16", "device": "rtx-3060", "torch_version": "2.11"}
answer = plimsoll.batch_size(model, decoder_loss, batch, "700MiB", **how)
print(answer)
samples = int(answer)
for count, fits in ((samples, True), (samples + 1, False)):
    e = plimsoll.explain(model, decoder_loss, torch.zeros((count, 65), dtype=torch.int64), **how)
    check("%d samples %s" % (count, "fit" if fits else "do not"),
          (e.total_bytes <= 700 << 20) == fits)
check("its figures", answer.explanation.total_bytes <= 700 << 20 < answer.next_bytes)
check("a multiple", plimsoll.batch_size(model, decoder_loss, batch, "700MiB", multiple_of=8, **how)
      .samples == samples // 8 * 8)
try:
    plimsoll.batch_size(model, decoder_loss, batch, "1MiB", **how)
    check("nothing fits: refused", False)
except ValueError as error:
    check("refused: %s" % error, "already take" in str(error))
done()
