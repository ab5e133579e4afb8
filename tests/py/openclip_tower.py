"""OpenCLIP's text transformer, written with torch.nn: what FrozenOpenCLIPEmbedder of Stable Diffusion 2 runs."""
import torch


def spread(module, deviation=0.5):
    """Random weights with which attention is far from uniform."""
    for parameter in module.parameters():
        with torch.no_grad():
            parameter.normal_(0, deviation / max(1, parameter.shape[-1] if parameter.dim() > 1 else 1) ** 0.5)
            parameter.add_(1 if parameter.dim() == 1 else 0)
    return module.eval()


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attn = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = torch.nn.Sequential()
        self.mlp.add_module("c_fc", torch.nn.Linear(width, 4 * width))
        self.mlp.add_module("gelu", torch.nn.GELU())
        self.mlp.add_module("c_proj", torch.nn.Linear(4 * width, width))

    def forward(self, x, mask):
        h = self.ln_1(x)
        x = x + self.attn(h, h, h, need_weights=False, attn_mask=mask)[0]
        return x + self.mlp(self.ln_2(x))


class Tower(torch.nn.Module):
    """layer="penultimate": all blocks but the last, then ln_final."""

    def __init__(self, width, layers, tokens=77):
        super().__init__()
        self.token_embedding = torch.nn.Embedding(49408, width)
        self.positional_embedding = torch.nn.Parameter(torch.empty(tokens, width))
        self.transformer = torch.nn.Module()
        self.transformer.resblocks = torch.nn.ModuleList(Block(width, max(1, width // 64)) for _ in range(layers))
        self.ln_final = torch.nn.LayerNorm(width)
        self.text_projection = torch.nn.Parameter(torch.empty(width, width))
        self.logit_scale = torch.nn.Parameter(torch.empty(()))

    def forward(self, ids):
        x = self.token_embedding(ids) + self.positional_embedding
        mask = torch.full((ids.shape[1], ids.shape[1]), float("-inf")).triu_(1)
        for block in self.transformer.resblocks[:-1]:
            x = block(x, mask)
        return self.ln_final(x)
