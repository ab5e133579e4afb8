"""More public architectures in small configurations, for zoo_export.py: name -> () -> (module, args, kwargs).

Every module but the last comes from diffusers, transformers, timm or torchvision. A folder with a file zoo.py that holds such a table Z,
or a file like this one, can be given to zoo_export.py.
"""
import torch

try:  # torchvision's wheel may want CUDA's libraries: its Python is enough, with the names that it registers
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
except Exception:
    pass

Z = {}
B = 2


def reg(f):
    Z[f.__name__] = f
    return f


def R(*s):
    return torch.randn(*s)


def I(n, *s):  # noqa: E743
    return torch.randint(0, n, s)


# ---- diffusers ----

@reg
def more_unet2d_attention():
    from diffusers import UNet2DModel
    m = UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4, attention_head_dim=8, class_embed_type="timestep",
                    resnet_time_scale_shift="scale_shift", time_embedding_type="fourier", down_block_types=("ResnetDownsampleBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "ResnetUpsampleBlock2D"))
    return m, (R(B, 3, 16, 16), I(1000, B)), {"class_labels": I(1000, B), "return_dict": False}


@reg
def more_unet3d_condition():
    from diffusers import UNet3DConditionModel
    m = UNet3DConditionModel(sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4, cross_attention_dim=16, attention_head_dim=8,
                             down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"), up_block_types=("UpBlock3D", "CrossAttnUpBlock3D"))
    return m, (R(B, 4, 3, 8, 8), I(1000, B), R(B, 5, 16)), {"return_dict": False}


@reg
def more_autoencoder_tiny():
    from diffusers import AutoencoderTiny
    m = AutoencoderTiny(encoder_block_out_channels=(16, 16), decoder_block_out_channels=(16, 16), num_encoder_blocks=(1, 1), num_decoder_blocks=(1, 1))
    return m, (R(B, 3, 16, 16),), {"return_dict": False}


@reg
def more_asymmetric_vae():
    from diffusers import AsymmetricAutoencoderKL
    m = AsymmetricAutoencoderKL(down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, down_block_out_channels=(16, 32), up_block_out_channels=(16, 32), norm_num_groups=8, sample_size=16)
    return m, (R(B, 3, 16, 16),), {"return_dict": False}


@reg
def more_pixart():
    from diffusers import PixArtTransformer2DModel
    m = PixArtTransformer2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2, cross_attention_dim=16, sample_size=8, caption_channels=12, use_additional_conditions=False)
    return m, (R(B, 4, 8, 8),), {"encoder_hidden_states": R(B, 6, 12), "timestep": I(1000, B), "return_dict": False}


@reg
def more_auraflow():
    from diffusers import AuraFlowTransformer2DModel
    m = AuraFlowTransformer2DModel(sample_size=8, patch_size=2, in_channels=4, num_mmdit_layers=1, num_single_dit_layers=1, attention_head_dim=8, num_attention_heads=2, joint_attention_dim=12, caption_projection_dim=16, out_channels=4, pos_embed_max_size=16)
    return m, (R(B, 4, 8, 8),), {"encoder_hidden_states": R(B, 6, 12), "timestep": torch.rand(B), "return_dict": False}


@reg
def more_lumina2():
    from diffusers import Lumina2Transformer2DModel
    m = Lumina2Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, hidden_size=24, num_layers=1, num_refiner_layers=1, num_attention_heads=3, num_kv_heads=1, multiple_of=2, axes_dim_rope=(4, 2, 2), axes_lens=(32, 16, 16), cap_feat_dim=8)
    return m, (R(B, 4, 8, 8), torch.rand(B), R(B, 6, 8), torch.ones(B, 6, dtype=torch.bool)), {"return_dict": False}


@reg
def more_ltx():
    from diffusers import LTXVideoTransformer3DModel
    m = LTXVideoTransformer3DModel(in_channels=8, out_channels=8, num_attention_heads=2, attention_head_dim=8, cross_attention_dim=16, num_layers=1, caption_channels=12)
    return m, (R(B, 16, 8),), {"encoder_hidden_states": R(B, 6, 12), "timestep": I(1000, B), "encoder_attention_mask": torch.ones(B, 6, dtype=torch.bool), "num_frames": 4, "height": 2, "width": 2, "return_dict": False}


@reg
def more_mochi():
    from diffusers import MochiTransformer3DModel
    m = MochiTransformer3DModel(patch_size=2, num_attention_heads=2, attention_head_dim=8, num_layers=2, pooled_projection_dim=16, in_channels=4, text_embed_dim=12, time_embed_dim=4, max_sequence_length=16)
    return m, (R(B, 4, 2, 8, 8), R(B, 6, 12), I(1000, B), torch.ones(B, 6, dtype=torch.bool)), {"return_dict": False}


@reg
def more_allegro():
    from diffusers import AllegroTransformer3DModel
    m = AllegroTransformer3DModel(num_attention_heads=2, attention_head_dim=12, in_channels=4, out_channels=4, num_layers=1, cross_attention_dim=24, sample_width=8, sample_height=8, sample_frames=4, caption_channels=12)
    return m, (R(B, 4, 2, 8, 8), R(B, 6, 12), I(1000, B)), {"attention_mask": torch.ones(B, 2, 8, 8), "encoder_attention_mask": torch.ones(B, 6), "image_rotary_emb": None, "return_dict": False}


@reg
def more_stable_audio():
    from diffusers import StableAudioDiTModel
    m = StableAudioDiTModel(sample_size=8, in_channels=4, num_layers=1, attention_head_dim=8, num_attention_heads=2, num_key_value_attention_heads=1, out_channels=4, cross_attention_dim=8, time_proj_dim=8, global_states_input_dim=8, cross_attention_input_dim=8)
    return m, (R(B, 4, 8), torch.rand(B)), {"encoder_hidden_states": R(B, 5, 8), "global_hidden_states": R(B, 1, 8), "return_dict": False}


@reg
def more_kandinsky_prior():
    from diffusers import PriorTransformer
    m = PriorTransformer(num_attention_heads=2, attention_head_dim=8, num_layers=1, embedding_dim=8, num_embeddings=5, additional_embeddings=4)
    return m, (R(B, 8), I(1000, B), R(B, 8)), {"encoder_hidden_states": R(B, 5, 8), "return_dict": False}


@reg
def more_hunyuan_dit():
    from diffusers import HunyuanDiT2DModel
    m = HunyuanDiT2DModel(num_attention_heads=2, attention_head_dim=8, in_channels=4, patch_size=2, sample_size=8, hidden_size=16, num_layers=2, mlp_ratio=2.0, cross_attention_dim=8, cross_attention_dim_t5=8, pooled_projection_dim=4, text_len=4, text_len_t5=4, activation_fn="gelu-approximate")
    return m, (R(B, 4, 8, 8), torch.rand(B)), {"encoder_hidden_states": R(B, 4, 8), "text_embedding_mask": torch.ones(B, 4), "encoder_hidden_states_t5": R(B, 4, 8), "text_embedding_mask_t5": torch.ones(B, 4), "image_meta_size": R(B, 6), "style": I(1, B), "image_rotary_emb": [R(16, 8), R(16, 8)], "return_dict": False}


# ---- transformers ----

@reg
def more_t5():
    from transformers import T5Config, T5ForConditionalGeneration
    m = T5ForConditionalGeneration(T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0))
    return m, (), {"input_ids": I(50, B, 7), "labels": I(50, B, 5)}


@reg
def more_clip_text():
    from transformers import CLIPTextConfig, CLIPTextModel
    m = CLIPTextModel(CLIPTextConfig(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=16, eos_token_id=49))
    return m, (I(50, B, 7),), {}


@reg
def more_clip_vision():
    from transformers import CLIPVisionConfig, CLIPVisionModel
    m = CLIPVisionModel(CLIPVisionConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4))
    return m, (R(B, 3, 16, 16),), {}


@reg
def more_siglip():
    from transformers import SiglipVisionConfig, SiglipVisionModel
    m = SiglipVisionModel(SiglipVisionConfig(hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=16, patch_size=4))
    return m, (R(B, 3, 16, 16),), {}


def causal(config, model, **more):
    import transformers
    c = getattr(transformers, config)(vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=32, pad_token_id=0, use_cache=False, **more)
    ids = I(50, B, 7)
    return getattr(transformers, model)(c), (), {"input_ids": ids, "labels": ids.clone()}


@reg
def more_qwen2():
    return causal("Qwen2Config", "Qwen2ForCausalLM")


@reg
def more_mistral():
    return causal("MistralConfig", "MistralForCausalLM", sliding_window=4)


@reg
def more_gemma():
    return causal("GemmaConfig", "GemmaForCausalLM", head_dim=8)


@reg
def more_phi():
    return causal("PhiConfig", "PhiForCausalLM")


@reg
def more_deberta():
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification
    m = DebertaV2ForSequenceClassification(DebertaV2Config(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16, relative_attention=True, pos_att_type=["c2p", "p2c"], type_vocab_size=0))
    return m, (), {"input_ids": I(50, B, 7), "labels": I(2, B)}


@reg
def more_segformer():
    from transformers import SegformerConfig, SegformerForSemanticSegmentation
    m = SegformerForSemanticSegmentation(SegformerConfig(num_encoder_blocks=4, depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 16, 16], num_attention_heads=[1, 2, 2, 2], decoder_hidden_size=16, num_labels=5))
    return m, (R(B, 3, 32, 32),), {"labels": I(5, B, 32, 32)}


# ---- timm and torchvision ----

def timm_model(name, size=64, **more):
    import timm
    return timm.create_model(name, num_classes=10, **more), (R(4, 3, size, size),), {}


@reg
def more_convnextv2():
    return timm_model("convnextv2_atto", depths=(1, 1, 1, 1), dims=(8, 16, 16, 32))


@reg
def more_efficientnet():
    return timm_model("efficientnet_lite0")


@reg
def more_regnet():
    return timm_model("regnetx_002")


@reg
def more_maxvit():
    return timm_model("maxvit_rmlp_pico_rw_256", 64, img_size=64)


@reg
def more_mobilevit():
    return timm_model("mobilevit_xxs")


@reg
def more_swinv2():
    return timm_model("swinv2_cr_tiny_ns_224", 64, img_size=64, embed_dim=24, depths=(2, 2), num_heads=(2, 4))


@reg
def more_coatnet():
    return timm_model("coatnet_nano_rw_224", 64, img_size=64)


@reg
def more_video_swin():
    from torchvision.models.video.swin_transformer import SwinTransformer3d
    m = SwinTransformer3d(patch_size=[2, 4, 4], embed_dim=12, depths=[2, 2], num_heads=[2, 2], window_size=[2, 2, 2], num_classes=5, stochastic_depth_prob=0.0)
    return m, (R(B, 3, 4, 16, 16),), {}


@reg
def more_mvit():
    from torchvision.models.video.mvit import MSBlockConfig, MViT
    blocks = [MSBlockConfig(num_heads=1, input_channels=16, output_channels=16, kernel_q=[3, 3, 3], kernel_kv=[3, 3, 3], stride_q=[1, 1, 1], stride_kv=[1, 2, 2]),
              MSBlockConfig(num_heads=2, input_channels=16, output_channels=16, kernel_q=[3, 3, 3], kernel_kv=[3, 3, 3], stride_q=[1, 2, 2], stride_kv=[1, 1, 1])]
    m = MViT(spatial_size=(32, 32), temporal_size=4, block_setting=blocks, residual_pool=True, residual_with_cls_embed=False, rel_pos_embed=True, proj_after_attn=True, num_classes=5)
    return m, (R(B, 3, 4, 32, 32),), {}


@reg
def more_raft():
    from torchvision.models.optical_flow import raft_small
    m = raft_small(weights=None)
    return m, (R(1, 3, 128, 128), R(1, 3, 128, 128)), {"num_flow_updates": 2}


@reg
def more_maxvit_tv():
    from torchvision.models import MaxVit
    m = MaxVit(input_size=(32, 32), stem_channels=8, partition_size=2, block_channels=[8, 16], block_layers=[1, 1], head_dim=4, stochastic_depth_prob=0.0, num_classes=5)
    return m, (R(B, 3, 32, 32),), {}


@reg
def more_written_attention():
    """Attention as tutorials write it, with dropout of the probabilities."""
    class Block(torch.nn.Module):
        def __init__(self, width=32, heads=4, length=24):
            super().__init__()
            self.heads, self.norm = heads, torch.nn.LayerNorm(width)
            self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
            self.drop, self.bias = torch.nn.Dropout(0.2), torch.nn.Parameter(0.1 * torch.randn(heads, length, length))
            self.register_buffer("seen", torch.tril(torch.ones(length, length))[None, None])

        def forward(self, x):
            b, n, c = x.shape
            q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
            s = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5 + self.bias
            p = self.drop(s.masked_fill(self.seen == 0, float("-inf")).softmax(-1))
            return x + self.out((p @ v).transpose(1, 2).reshape(b, n, c))
    return torch.nn.Sequential(Block(), Block()), (R(B, 24, 32),), {}
