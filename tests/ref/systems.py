"""Which reference module builds which system, and all recipes under one roof."""
import dit3d
import lag
import sashimi
import stablesr
import stdiff
import vae

MODULES = {"stdiff": stdiff, "stablesr": stablesr, "lag": lag, "sashimi": sashimi, "dit3d": dit3d,
           "stablesr-vae": vae}
RECIPES = {name: cfg for module in MODULES.values() for name, cfg in module.RECIPES.items()}


def build(cfg):
    return MODULES[cfg["system"]].build(cfg)
