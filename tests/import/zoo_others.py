"""Public architectures as strangers would try them, for zoo_export.py: name -> () -> (module, args, kwargs).

One of every family of timm and torchvision, small language, vision, audio and time-series models of transformers, and what
zoo_more.py lacks of diffusers. Names that the installed library does not have are left out.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import zoo_more  # noqa: E402,F401  (registers the names of torchvision's operators)
import torch  # noqa: E402

Z = {}
B = 2


def R(*s):
    return torch.randn(*s)


def I(n, *s):  # noqa: E743
    return torch.randint(0, n, s)


# ---- transformers ----

SIZES = {("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "embedding_size", "emb_dim"): 32,
         ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers",
          "num_encoder_layers"): 2,
         ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads", "decoder_attention_heads"): 4,
         ("num_key_value_heads",): 2, ("head_dim",): 8,
         ("intermediate_size", "ffn_dim", "n_inner", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim"): 64,
         ("vocab_size",): 96, ("max_position_embeddings", "n_positions", "max_seq_len"): 64, ("image_size",): 32, ("patch_size",): 8,
         ("use_cache",): False, ("return_dict",): False}
WORDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


def small(config, **more):
    """A configuration of the class with the sizes above, where it has such keys."""
    import transformers
    kind = getattr(transformers, config)
    have = kind().to_dict()
    chosen = {k: v for names, v in SIZES.items() for k in names if k in have and isinstance(have[k], (int, type(None)))}
    chosen.update({k: v for k, v in WORDS.items() if have.get(k) is not None})
    return kind(**{**chosen, **more})


def other(config, model, inputs, suffix="", **more):
    def make():
        import transformers
        return getattr(transformers, model)(small(config, **more)), (), inputs()
    name = "hf_" + config.removesuffix("Config").lower() + suffix
    Z[name] = make


def words():
    ids = I(90, B, 12) + 3
    return {"input_ids": ids, "labels": ids.clone()}


def sentence():
    return {"input_ids": I(90, B, 12) + 3, "labels": I(2, B)}


def image():
    return {"pixel_values": R(B, 3, 32, 32), "labels": I(2, B)}


for config, model in (("OPTConfig", "OPTForCausalLM"), ("BloomConfig", "BloomForCausalLM"), ("FalconConfig", "FalconForCausalLM"),
                      ("GPTNeoXConfig", "GPTNeoXForCausalLM"), ("GPTJConfig", "GPTJForCausalLM"), ("CodeGenConfig", "CodeGenForCausalLM"),
                      ("GPTNeoConfig", "GPTNeoForCausalLM"), ("GPTBigCodeConfig", "GPTBigCodeForCausalLM"), ("Gemma2Config", "Gemma2ForCausalLM"),
                      ("Gemma3TextConfig", "Gemma3ForCausalLM"), ("Qwen3Config", "Qwen3ForCausalLM"), ("Phi3Config", "Phi3ForCausalLM"),
                      ("StableLmConfig", "StableLmForCausalLM"), ("OlmoConfig", "OlmoForCausalLM"), ("Olmo2Config", "Olmo2ForCausalLM"),
                      ("CohereConfig", "CohereForCausalLM"), ("Starcoder2Config", "Starcoder2ForCausalLM"), ("GraniteConfig", "GraniteForCausalLM"),
                      ("SmolLM3Config", "SmolLM3ForCausalLM"), ("HeliumConfig", "HeliumForCausalLM"), ("ErnieConfig", "ErnieForMaskedLM"),
                      ("XGLMConfig", "XGLMForCausalLM"), ("BioGptConfig", "BioGptForCausalLM"), ("RobertaConfig", "RobertaForMaskedLM"),
                      ("ElectraConfig", "ElectraForMaskedLM"), ("AlbertConfig", "AlbertForMaskedLM"), ("DistilBertConfig", "DistilBertForMaskedLM"),
                      ("MPNetConfig", "MPNetForMaskedLM"), ("FNetConfig", "FNetForMaskedLM"), ("ConvBertConfig", "ConvBertForMaskedLM"),
                      ("RoFormerConfig", "RoFormerForMaskedLM"), ("NystromformerConfig", "NystromformerForMaskedLM"),
                      ("ModernBertConfig", "ModernBertForMaskedLM"), ("XLMConfig", "XLMWithLMHeadModel"), ("Mamba2Config", "Mamba2ForCausalLM"),
                      ("RwkvConfig", "RwkvForCausalLM"), ("BartConfig", "BartForConditionalGeneration"), ("MBartConfig", "MBartForConditionalGeneration"),
                      ("PegasusConfig", "PegasusForConditionalGeneration"), ("BlenderbotConfig", "BlenderbotForConditionalGeneration"),
                      ("MarianConfig", "MarianMTModel"), ("M2M100Config", "M2M100ForConditionalGeneration"), ("LongT5Config", "LongT5ForConditionalGeneration"),
                      ("MT5Config", "MT5ForConditionalGeneration"), ("ProphetNetConfig", "ProphetNetForConditionalGeneration"),
                      ("EsmConfig", "EsmForMaskedLM"), ("MegatronBertConfig", "MegatronBertForMaskedLM"), ("IBertConfig", "IBertForMaskedLM")):
    other(config, model, words)
other("MixtralConfig", "MixtralForCausalLM", words, num_local_experts=4)
other("Qwen3MoeConfig", "Qwen3MoeForCausalLM", words, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
other("OlmoeConfig", "OlmoeForCausalLM", words, num_experts=4, num_experts_per_tok=2)
other("SqueezeBertConfig", "SqueezeBertForSequenceClassification", sentence)
other("LayoutLMConfig", "LayoutLMForSequenceClassification", sentence)
other("FunnelConfig", "FunnelForSequenceClassification", sentence, block_sizes=[1, 1], d_head=8, d_inner=64)
other("CanineConfig", "CanineForSequenceClassification", sentence)
for config, model in (("BeitConfig", "BeitForImageClassification"), ("DeiTConfig", "DeiTForImageClassification"),
                      ("Dinov2Config", "Dinov2ForImageClassification"), ("ViTMSNConfig", "ViTMSNForImageClassification"),
                      ("YolosConfig", "YolosModel"), ("PoolFormerConfig", "PoolFormerForImageClassification"),
                      ("ResNetConfig", "ResNetForImageClassification"), ("RegNetConfig", "RegNetForImageClassification"),
                      ("MobileNetV1Config", "MobileNetV1ForImageClassification"), ("MobileNetV2Config", "MobileNetV2ForImageClassification"),
                      ("BitConfig", "BitForImageClassification"), ("ConvNextConfig", "ConvNextForImageClassification"),
                      ("CvtConfig", "CvtForImageClassification"), ("FocalNetConfig", "FocalNetForImageClassification"),
                      ("PvtConfig", "PvtForImageClassification"), ("PvtV2Config", "PvtV2ForImageClassification"),
                      ("SwinConfig", "SwinForImageClassification"), ("Swinv2Config", "Swinv2ForImageClassification"),
                      ("VanConfig", "VanForImageClassification"), ("DonutSwinConfig", "DonutSwinModel")):
    other(config, model, (lambda: {"pixel_values": R(B, 3, 32, 32)}) if model.endswith("Model") else image)
other("ViTMAEConfig", "ViTMAEForPreTraining", lambda: {"pixel_values": R(B, 3, 32, 32), "noise": torch.rand(B, 16)}, decoder_hidden_size=16,
      decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=32)
other("VideoMAEConfig", "VideoMAEForVideoClassification", lambda: {"pixel_values": R(B, 4, 3, 32, 32), "labels": I(2, B)}, num_frames=4, tubelet_size=2)
other("TimesformerConfig", "TimesformerForVideoClassification", lambda: {"pixel_values": R(B, 4, 3, 32, 32), "labels": I(2, B)}, num_frames=4)
other("VivitConfig", "VivitForVideoClassification", lambda: {"pixel_values": R(B, 4, 3, 32, 32), "labels": I(2, B)}, num_frames=4,
      tubelet_size=[2, 8, 8])
other("ASTConfig", "ASTForAudioClassification", lambda: {"input_values": R(B, 64, 16), "labels": I(2, B)}, max_length=64, num_mel_bins=16,
      frequency_stride=8, time_stride=8)
other("Wav2Vec2Config", "Wav2Vec2Model", lambda: {"input_values": R(B, 800)}, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
      num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, apply_spec_augment=False)
other("HubertConfig", "HubertModel", lambda: {"input_values": R(B, 800)}, conv_dim=(16, 16), conv_stride=(5, 2), conv_kernel=(10, 3),
      num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2, apply_spec_augment=False)
other("EncodecConfig", "EncodecModel", lambda: {"input_values": R(B, 1, 320)}, num_filters=4, hidden_size=16, codebook_size=16, codebook_dim=16,
      upsampling_ratios=[4, 2], num_lstm_layers=1)
other("DacConfig", "DacModel", lambda: {"input_values": R(B, 1, 128)}, encoder_hidden_size=8, downsampling_ratios=[2, 4], decoder_hidden_size=16,
      upsampling_ratios=[4, 2], n_codebooks=2, codebook_size=16, codebook_dim=4, hidden_size=16)
other("PatchTSTConfig", "PatchTSTForPrediction", lambda: {"past_values": R(B, 32, 3), "future_values": R(B, 8, 3)}, context_length=32, prediction_length=8,
      num_input_channels=3, patch_length=8, patch_stride=8)
other("PatchTSMixerConfig", "PatchTSMixerForPrediction", lambda: {"past_values": R(B, 32, 3), "future_values": R(B, 8, 3)}, context_length=32,
      prediction_length=8, num_input_channels=3, patch_length=8, patch_stride=8)
other("DecisionTransformerConfig", "DecisionTransformerModel", lambda: {
    "states": R(B, 5, 17), "actions": R(B, 5, 4), "rewards": R(B, 5, 1), "returns_to_go": R(B, 5, 1),
    "timesteps": torch.arange(5).repeat(B, 1), "attention_mask": torch.ones(B, 5)}, state_dim=17, act_dim=4)
other("SegformerConfig", "SegformerForImageClassification", image, "_image", num_encoder_blocks=2, depths=[1, 1], hidden_sizes=[8, 16],
      num_attention_heads=[1, 2], sr_ratios=[2, 1], patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], decoder_hidden_size=16)


def clip():
    from transformers import CLIPConfig, CLIPModel
    text = {"vocab_size": 50, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "eos_token_id": 49}
    vision = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 16, "patch_size": 4}
    m = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))
    return m, (), {"input_ids": I(50, B, 7), "pixel_values": R(B, 3, 16, 16), "return_loss": True}


def dpt():
    from transformers import DPTConfig, DPTForDepthEstimation
    m = DPTForDepthEstimation(DPTConfig(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, intermediate_size=64, image_size=32, patch_size=8,
                                        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 16, 16], fusion_hidden_size=16))
    return m, (R(B, 3, 32, 32),), {}


Z["hf_clip"], Z["hf_dpt"] = clip, dpt

# ---- diffusers ----

DIFFUSERS = {
    "AutoencoderDC": (dict(in_channels=3, latent_channels=4, attention_head_dim=2, encoder_block_types=("ResBlock", "EfficientViTBlock"),
                           decoder_block_types=("ResBlock", "EfficientViTBlock"), encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8),
                           encoder_qkv_multiscales=((), (5,)), decoder_qkv_multiscales=((), (5,)), encoder_layers_per_block=(1, 1),
                           decoder_layers_per_block=(1, 1), upsample_block_type="interpolate"), lambda: ((R(B, 3, 16, 16),), {})),
    "AutoencoderKLTemporalDecoder": (dict(block_out_channels=(16, 16), down_block_types=("DownEncoderBlock2D",) * 2, latent_channels=4, layers_per_block=1),
                                     lambda: ((R(B, 3, 16, 16),), {"num_frames": 2})),
    "AutoencoderKLLTXVideo": (dict(block_out_channels=(8, 8, 8, 8), decoder_block_out_channels=(8, 8, 8, 8), layers_per_block=(1, 1, 1, 1, 1),
                                   decoder_layers_per_block=(1, 1, 1, 1, 1), latent_channels=8, encoder_causal=True, decoder_causal=False),
                              lambda: ((R(B, 3, 9, 32, 32),), {})),
    "AutoencoderKLHunyuanVideo": (dict(block_out_channels=(8, 8, 8, 8), latent_channels=4, layers_per_block=1, norm_num_groups=4),
                                  lambda: ((R(1, 3, 5, 16, 16),), {})),
    "CogView3PlusTransformer2DModel": (dict(patch_size=2, in_channels=4, num_layers=1, attention_head_dim=4, num_attention_heads=2, out_channels=4,
                                            text_embed_dim=8, time_embed_dim=8, condition_dim=2, pos_embed_max_size=8, sample_size=8),
                                       lambda: ((R(B, 4, 8, 8), R(B, 8, 8), I(1000, B), torch.full((B, 2), 8.), torch.full((B, 2), 8.), torch.zeros(B, 2)), {})),
    "LatteTransformer3DModel": (dict(sample_size=8, num_layers=1, patch_size=2, attention_head_dim=4, num_attention_heads=2, caption_channels=8,
                                     in_channels=4, cross_attention_dim=8, out_channels=8, attention_bias=True, activation_fn="gelu-approximate",
                                     num_embeds_ada_norm=1000, norm_type="ada_norm_single", norm_elementwise_affine=False, norm_eps=1e-6),
                                lambda: ((R(B, 4, 2, 8, 8),), {"encoder_hidden_states": R(B, 4, 8), "timestep": I(1000, B)})),
    "LuminaNextDiT2DModel": (dict(sample_size=8, patch_size=2, in_channels=4, hidden_size=24, num_layers=1, num_attention_heads=3, num_kv_heads=1, multiple_of=16,
                                  cross_attention_dim=32), None),
    "UVit2DModel": (dict(hidden_size=16, cond_embed_dim=16, micro_cond_encode_dim=2, micro_cond_embed_dim=10, encoder_hidden_size=16, vocab_size=32,
                         codebook_size=32, in_channels=16, block_out_channels=16, num_res_blocks=1, num_hidden_layers=1, num_attention_heads=2, sample_size=8,
                         block_num_heads=2, intermediate_size=32),
                    lambda: ((I(32, B, 8, 8), R(B, 5, 16), R(B, 16), torch.rand(B, 5)), {})),
    "I2VGenXLUNet": (dict(block_out_channels=(8, 16), layers_per_block=1, in_channels=4, out_channels=4, norm_num_groups=2, attention_head_dim=4,
                          num_attention_heads=2, cross_attention_dim=8, down_block_types=("CrossAttnDownBlock3D", "DownBlock3D"),
                          up_block_types=("UpBlock3D", "CrossAttnUpBlock3D")), None),
    "Kandinsky3UNet": (dict(in_channels=4, time_embedding_dim=8, groups=2, attention_head_dim=4, layers_per_block=1, block_out_channels=(8, 16),
                            cross_attention_dim=8, encoder_hid_dim=8), lambda: ((R(B, 4, 16, 16), I(1000, B)), {"encoder_hidden_states": R(B, 4, 8)})),
    "StableCascadeUNet": (dict(in_channels=4, out_channels=4, conditioning_dim=16, block_out_channels=(16, 16), num_attention_heads=(2, 2),
                               down_num_layers_per_block=(1, 1), up_num_layers_per_block=(1, 1), down_blocks_repeat_mappers=(1, 1),
                               up_blocks_repeat_mappers=(1, 1), block_types_per_layer=(("SDCascadeResBlock", "SDCascadeTimestepBlock"),) * 2,
                               switch_level=(False,), clip_text_pooled_in_channels=8, timestep_ratio_embedding_dim=8),
                          lambda: ((R(B, 4, 8, 8), torch.rand(B), R(B, 1, 8)), {})),
    "T2IAdapter": (dict(in_channels=3, channels=[8, 16], num_res_blocks=1, downscale_factor=8, adapter_type="full_adapter"), lambda: ((R(B, 3, 32, 32),), None)),
    "Transformer2DModel": (dict(num_attention_heads=2, attention_head_dim=8, in_channels=16, num_layers=1, cross_attention_dim=8, norm_num_groups=8),
                           lambda: ((R(B, 16, 8, 8),), {"encoder_hidden_states": R(B, 5, 8)})),
    "TransformerTemporalModel": (dict(num_attention_heads=2, attention_head_dim=8, in_channels=16, num_layers=1, norm_num_groups=8),
                                 lambda: ((R(4, 16, 4, 4),), {"num_frames": 2})),
    "ChromaTransformer2DModel": (dict(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
                                      joint_attention_dim=32, axes_dims_rope=(4, 4, 8), approximator_num_channels=8, approximator_hidden_dim=16,
                                      approximator_layers=1),
                                 lambda: ((R(B, 16, 4),), {"encoder_hidden_states": R(B, 8, 32), "img_ids": R(16, 3), "txt_ids": R(8, 3), "timestep": torch.rand(B)})),
    "QwenImageTransformer2DModel": (dict(patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=3,
                                         joint_attention_dim=16, axes_dims_rope=(8, 4, 4)), None),
    "AutoencoderKLMagvit": (dict(in_channels=3, latent_channels=4, out_channels=3, block_out_channels=(8, 8, 8, 8), layers_per_block=1, norm_num_groups=2,
                                 down_block_types=("SpatialDownBlock3D", "SpatialTemporalDownBlock3D", "SpatialTemporalDownBlock3D", "SpatialTemporalDownBlock3D"),
                                 up_block_types=("SpatialUpBlock3D", "SpatialTemporalUpBlock3D", "SpatialTemporalUpBlock3D", "SpatialTemporalUpBlock3D"),
                                 spatial_group_norm=True), lambda: ((R(1, 3, 9, 16, 16),), {})),
    "MotionAdapter": (dict(), None),
}


def of_diffusers(name, config, inputs):
    def make():
        import diffusers
        args, kwargs = inputs()
        return getattr(diffusers, name)(**config), args, {} if kwargs is None else {**kwargs, "return_dict": False}
    Z["diff_" + name.lower()] = make


for name, (config, inputs) in DIFFUSERS.items():
    if inputs:
        of_diffusers(name, config, inputs)

# ---- timm: one of each family, and torchvision's ----

TIMM = """beit_base_patch16_224 bat_resnext26ts botnet26t_256 cait_xxs24_224 coat_tiny convit_tiny convmixer_768_32 crossvit_9_240 cs3darknet_s
cspresnet50 darknet17 davit_tiny deit_tiny_patch16_224 dla34 dpn48b edgenext_xx_small efficientformer_l1 efficientformerv2_s0 efficientnet_b0
efficientvit_b0 efficientvit_m0 ese_vovnet19b_slim_dw eva02_tiny_patch14_224 fastvit_t8 fbnetc_100 focalnet_tiny_srf gcvit_xxtiny gernet_s
ghostnet_050 gmixer_12_224 gmlp_ti16_224 halonet26t haloregnetz_b hardcorenas_a hgnet_tiny hiera_tiny_224 hrnet_w18_small inception_next_tiny
inception_resnet_v2 inception_v3 lambda_resnet26t lcnet_050 legacy_senet154 levit_128s mambaout_femto mnasnet_050 mobilenetv2_050
mobilenetv4_conv_small mobileone_s0 mobilevitv2_050 mvitv2_tiny nasnetalarge nest_tiny nf_regnet_b0 nfnet_l0 pit_ti_224 pnasnet5large
poolformer_s12 pvt_v2_b0 rdnet_tiny regnety_002 repghostnet_050 repvgg_a0 repvit_m0_9 res2net50_14w_8s resmlp_12_224 resnest14d
resnetrs50 resnetv2_50 resnext26ts rexnet_100 selecsls42 semnasnet_050 sequencer2d_s shvit_s1 skresnet18 starnet_s1 swiftformer_xs
swinv2_tiny_window8_256 tf_efficientnetv2_b0 tiny_vit_5m_224 tinynet_e tnt_s_patch16_224 tresnet_m twins_pcpvt_small twins_svt_small vgg11_bn
visformer_tiny vit_base_patch32_224 vit_relpos_small_patch16_224 volo_d1_224 xception41 xcit_nano_12_p16_224 convformer_s18 caformer_s18""".split()


def of_timm(name):
    def make():
        import timm
        size = timm.models.get_pretrained_cfg(name).input_size[-1]
        # Smaller images where the family takes them; transformers keep their own, with two blocks.
        for how in ({"img_size": 64, "depth": 2}, {"img_size": 64}, {"depth": 2}, {}):
            try:
                model = timm.create_model(name, num_classes=10, **how)
                return model, (R(B, 3, how.get("img_size", 96 if not how else size), how.get("img_size", 96 if not how else size)),), {}
            except (TypeError, AssertionError, RuntimeError):
                continue
        raise RuntimeError("timm makes no such model")
    Z["timm_" + name] = make


for name in TIMM:
    of_timm(name)


def of_torchvision(name, shape, where="models", **more):
    def make():
        import torchvision
        place = torchvision
        for word in where.split("."):
            place = getattr(place, word)
        return getattr(place, name)(weights=None, **more), (R(B, *shape),), {}
    Z["tv_" + name] = make


for name in """alexnet efficientnet_b0 efficientnet_v2_s mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_y_400mf resnext50_32x4d squeezenet1_0
convnext_tiny wide_resnet50_2 vgg11_bn shufflenet_v2_x1_0 swin_t swin_v2_t""".split():
    of_torchvision(name, (3, 64, 64), num_classes=5)
of_torchvision("vit_b_32", (3, 224, 224), num_classes=5)
of_torchvision("googlenet", (3, 96, 96), num_classes=5, aux_logits=True, init_weights=False)
of_torchvision("inception_v3", (3, 299, 299), num_classes=5, aux_logits=True, init_weights=False)
of_torchvision("fcn_resnet50", (3, 64, 64), "models.segmentation", weights_backbone=None, num_classes=5)
of_torchvision("lraspp_mobilenet_v3_large", (3, 64, 64), "models.segmentation", weights_backbone=None, num_classes=5)
of_torchvision("deeplabv3_mobilenet_v3_large", (3, 64, 64), "models.segmentation", weights_backbone=None, num_classes=5)
for name in ("mc3_18", "r2plus1d_18", "s3d"):
    of_torchvision(name, (3, 16, 64, 64) if name == "s3d" else (3, 4, 32, 32), "models.video", num_classes=5)
