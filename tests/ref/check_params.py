#!/usr/bin/env python3
"""Names, shapes and counts of every recipe's parameters, on device "meta" (no weights are made).

Counts are below; the lists of names and shapes are tests/models/params/RECIPE.txt.
"""
import os
import sys

import torch

import common
from systems import RECIPES, build

# recipe: (all, trained)
COUNTS = {
    "stdiff-64x2048": (204_223_297, 204_223_297), "stdiff-64x512": (204_223_297, 204_223_297),
    "stablesr-edge-after": (1_057_097_023, 107_544_276),
    "stablesr-latent": (1_057_097_023, 107_544_276),
    "stablesr-edge-before": (1_103_650_559, 154_097_812),
    "lag-32x6": (33_780_798, 33_594_686), "lag-8x4": (33_774_606, 33_588_494),
    "lag-4x3": (33_771_510, 33_585_398),
    "sashimi-24576": (4_735_602, 4_735_602), "sashimi-24576-lean": (3_638_228, 3_638_228),
    "dit3d-tiny": (9_202_944, 9_202_944), "dit3d-xs": (5_526_720, 5_526_720),
    "dit3d-s": (32_923_800, 32_923_800), "dit3d-b": (130_728_216, 130_728_216),
    "dit3d-l": (458_652_696, 458_652_696), "dit3d-xl": (675_895_704, 675_895_704),
    "dit3d-wrap-tiny-4": (9_011_425, 1_700_833), "dit3d-wrap-tiny-2": (9_198_817, 1_700_833),
    "dit3d-wrap-xs-4": (5_149_473, 1_005_921), "dit3d-wrap-xs-2": (5_290_017, 1_005_921),
    "dit3d-wrap-s-2": (36_195_681, 3_631_329), "dit3d-wrap-b-2": (142_872_801, 13_748_193),
    "dit3d-wrap-l-2": (479_825_377, 24_097_249), "dit3d-wrap-xl-2": (702_516_321, 30_353_121),
    # the temporal position table has 28 rows instead of 16, the backbone's 64 x 64 instead of 32 x 32
    "dit3d-wrap-before": (702_516_321 + 12 * 1152 + 3072 * 1152, 30_353_121 + 12 * 1152),
}
# part of a recipe: (prefix, count)
PARTS = {
    "stablesr-edge-after": [("model.diffusion_model.", 920_949_080),
                            ("model.diffusion_model.edge_processor.", 2_006_076),
                            ("model.diffusion_model.edge_fusion.", 600),
                            ("structcond_stage_model.", 52_494_080),
                            ("first_stage_model.", 83_653_863)],
    "stablesr-edge-before": [("model.diffusion_model.edge_processor.", 48_559_612)],
    "stdiff-64x2048": [("tde_model.motion_encoder.", 1_812_480),
                       ("tde_model.conv_gru_cell.", 3_539_712),
                       ("tde_model.diff_unet.", 4_720_640), ("diffusion_unet.", 194_150_465)],
    "lag-32x6": [("encoder.", 5_733_014), ("time_embed.", 82_432), ("dit.", 27_965_352)],
}
LISTED = {"stdiff-64x2048", "stablesr-edge-after", "lag-32x6", "sashimi-24576", "dit3d-wrap-tiny-4", "dit3d-wrap-xs-4",
          "dit3d-tiny"}
LISTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../models/params")


def read_list(path):
    """name -> shape"""
    out = {}
    with open(path) as f:
        for line in f:
            name, shape = line.rstrip("\n").split("\t")
            out[name] = [int(s) for s in shape.strip("[]").split(",") if s.strip()]
    return out


def check(recipe):
    """Differences of one recipe from its counts and list."""
    with torch.device("meta"):
        model = build(RECIPES[recipe])
    have = common.shapes(model)
    got = (common.count(model), common.count(model, trained=True))
    bad = []
    if got != COUNTS[recipe]:
        bad.append(f"{got} parameters (all, trained), expected {COUNTS[recipe]}")
    for prefix, expected in PARTS.get(recipe, []):
        n = sum(p.numel() for name, p in model.named_parameters() if name.startswith(prefix))
        if n != expected:
            bad.append(f"{prefix} has {n} parameters, expected {expected}")
    listed = recipe in LISTED
    if listed:
        want = read_list(os.path.join(LISTS, recipe + ".txt"))
        for name in sorted(want.keys() | have.keys()):
            if want.get(name) != have.get(name):
                bad.append(f"{name}: {have.get(name)}, expected {want.get(name)}")
    print(f"{recipe:22} {got[0]:>13,} {got[1]:>13,}"
          f"  {len(have):5} tensors{'  names equal the list' if listed and not bad else ''}")
    return bad


def main():
    failed = 0
    for recipe in COUNTS:
        for line in check(recipe)[:10]:
            print(f"  {recipe}: {line}")
            failed += 1
    print(f"{len(COUNTS)} recipes, {failed} differences")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
