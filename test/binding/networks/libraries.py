"""Networks of transformers, torchvision and timm, small and with random first values; those of a library that is not here are
left out."""
import contextlib
import importlib

from common import CLASSES, WORDS, Network, classify, images, tokens, without_dropout

IDS = {"vocab_size": WORDS, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
PLAIN = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
         "max_position_embeddings": 16, **IDS}
GROUPED = {**PLAIN, "num_key_value_heads": 1, "head_dim": 8}
GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 16, "n_inner": 24, **IDS}
SEQUENCES = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 16,
             "decoder_start_token_id": 1, "forced_eos_token_id": None, **IDS}
# Of the other attention torch's exporter says: cannot view a tensor.
EAGER = {"attn_implementation": "eager"}
VISION = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24, "image_size": 16,
          "patch_size": 4}
# Words of the class, its configuration; what ends the class's name.
LANGUAGE = [
    ("GPT2", GPT2, "LMHeadModel"),
    ("GPTNeo", {"hidden_size": 16, "num_layers": 2, "num_heads": 2, "attention_types": [[["global", "local"], 1]],
                "window_size": 4, "max_position_embeddings": 16, "intermediate_size": 24, **IDS}, "ForCausalLM"),
    ("GPTNeoX", PLAIN, "ForCausalLM"),
    ("GPTJ", {**GPT2, "rotary_dim": 4}, "ForCausalLM"),
    ("OPT", {**PLAIN, "ffn_dim": 24, "word_embed_proj_dim": 16}, "ForCausalLM"),
    ("Bloom", {"hidden_size": 16, "n_layer": 2, "n_head": 2, **IDS}, "ForCausalLM"),
    ("Llama", GROUPED, "ForCausalLM"),
    ("Mistral", {**GROUPED, "sliding_window": 4}, "ForCausalLM"),
    ("Qwen2", GROUPED, "ForCausalLM"),
    ("Qwen3", GROUPED, "ForCausalLM"),
    ("Gemma2", {**GROUPED, "query_pre_attn_scalar": 8}, "ForCausalLM"),
    ("Phi", PLAIN, "ForCausalLM"),
    ("Phi3", GROUPED, "ForCausalLM"),
    ("Falcon", {**PLAIN, "new_decoder_architecture": False, "multi_query": True}, "ForCausalLM"),
    ("StableLm", {**PLAIN, "num_key_value_heads": 2}, "ForCausalLM"),
    ("Olmo", PLAIN, "ForCausalLM"),
    ("CodeGen", {**GPT2, "rotary_dim": 4, "n_head": 4}, "ForCausalLM"),
]
MASKED = [
    ("Bert", PLAIN, "ForMaskedLM"),
    ("Roberta", PLAIN, "ForMaskedLM"),
    ("Albert", {**PLAIN, "embedding_size": 8}, "ForMaskedLM"),
    ("DistilBert", {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24, "max_position_embeddings": 16, **IDS},
     "ForMaskedLM"),
    ("Electra", {**PLAIN, "embedding_size": 8}, "ForMaskedLM"),
    ("MPNet", PLAIN, "ForMaskedLM"),
    ("FNet", {**PLAIN, "type_vocab_size": 2}, "ForMaskedLM"),
    ("RoFormer", {**PLAIN, "embedding_size": 16}, "ForMaskedLM"),
    ("DebertaV2", {**PLAIN, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, "ForMaskedLM"),
]
TRANSLATION = [
    ("T5", {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "decoder_start_token_id": 0, **IDS,
            **EAGER}, "ForConditionalGeneration"),
    ("Bart", SEQUENCES, "ForConditionalGeneration"),
    ("Pegasus", SEQUENCES, "ForConditionalGeneration"),
    ("Marian", SEQUENCES, "MTModel"),
]
IMAGES = [
    ("ViT", VISION, "ForImageClassification"),
    ("Beit", {**VISION, **EAGER, "use_relative_position_bias": True}, "ForImageClassification"),
    ("Dinov2", {**VISION, "mlp_ratio": 2}, "ForImageClassification"),
    ("Swin", {"image_size": 16, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2], "window_size": 2,
              **EAGER},
     "ForImageClassification"),
    ("ConvNext", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2, "image_size": 16}, "ForImageClassification"),
    ("PoolFormer", {"hidden_sizes": [8, 16], "depths": [1, 1], "num_encoder_blocks": 2, "patch_sizes": [3, 3],
                    "strides": [2, 2], "padding": [1, 1], "mlp_ratio": 2.0}, "ForImageClassification"),
]


def hugging_face(word, settings, ending):
    def make():
        import transformers
        config = getattr(transformers, word + "Config")(**settings)
        for name, value in vars(config).items():
            if ("drop" in name or name == "layerdrop") and isinstance(value, float):
                setattr(config, name, 0.0)
        config.use_cache = False
        if ending == "ForImageClassification":
            config.num_labels = CLASSES
        name = "MarianMTModel" if word == "Marian" else word + ending
        return without_dropout(getattr(transformers, name)(config))
    return make


def causal(n):
    words = tokens(n)
    return {"input_ids": words, "labels": words.clone()}


def masked(n):
    return {"input_ids": tokens(n), "labels": tokens(n)}


def pictures(side):
    def batch(n):
        x, y = images(side)(n)
        return {"pixel_values": x, "labels": y}
    return batch


def of_transformers():
    groups = ((LANGUAGE, causal), (MASKED, masked), (TRANSLATION, masked), (IMAGES, pictures(16)))
    return [Network(f"transformers {word}", hugging_face(word, settings, ending), batch)
            for rows, batch in groups for word, settings, ending in rows]


def vision(name, side=32, whole=True, rate=1e-4, **settings):
    def make():
        import torchvision
        return without_dropout(getattr(torchvision.models, name)(num_classes=CLASSES, **settings))
    return Network(f"torchvision {name}", make, images(side), classify, whole, rate, refused="")


def transformer_of_vision(n=16):
    import torchvision
    return torchvision.models.VisionTransformer(image_size=16, patch_size=4, num_layers=2, num_heads=2, hidden_dim=16,
                                                mlp_dim=24, num_classes=CLASSES)


def swin_of_vision():
    import torchvision
    return without_dropout(torchvision.models.SwinTransformer(
        patch_size=[2, 2], embed_dim=8, depths=[2, 2], num_heads=[2, 2], window_size=[2, 2], stochastic_depth_prob=0.0,
        num_classes=CLASSES))


def of_torchvision():
    return [
        vision("alexnet", 64, False),
        vision("vgg11", 32, False),
        vision("resnet18"),
        vision("resnext50_32x4d", 64, rate=1e-7),
        vision("densenet121"),
        vision("squeezenet1_1", 64, False),
        vision("mobilenet_v2", 64, rate=1e-6),
        vision("mobilenet_v3_small", rate=1e-5),
        vision("shufflenet_v2_x0_5", 64),
        vision("mnasnet0_5", 64, rate=1e-6),
        vision("efficientnet_b0", rate=1e-5),
        vision("regnet_y_400mf", 64, rate=1e-6),
        vision("convnext_tiny", 32, False),
        Network("torchvision VisionTransformer", transformer_of_vision, images(16), classify),
        Network("torchvision SwinTransformer", swin_of_vision, images(16), classify),
    ]


def model_of_timm(name, side=32, whole=False, rate=0.01, **settings):
    def make():
        import timm
        return without_dropout(timm.create_model(name, num_classes=CLASSES, **settings))
    return Network(f"timm {name}", make, images(side), classify, whole, rate)


def mixer(name, ratio=(0.5, 4.0), **layers):
    def make():
        from timm.models import mlp_mixer
        found = {key: getattr(mlp_mixer, layer) for key, layer in layers.items()}
        return mlp_mixer.MlpMixer(CLASSES, img_size=16, patch_size=4, num_blocks=2, embed_dim=16, mlp_ratio=ratio, **found)
    return Network(f"timm {name}", make, images(16), classify)


def of_timm():
    small = {"embed_dim": 16, "depth": 2, "num_heads": 2}
    return [
        model_of_timm("vit_tiny_patch16_224", 16, img_size=16, patch_size=4, **small),
        model_of_timm("cait_xxs24_224", 16, img_size=16, patch_size=4, **small),
        mixer("MlpMixer"),
        mixer("ResMLP", 2, block_layer="ResBlock", norm_layer="Affine"),
        mixer("gMLP", 2, block_layer="SpatialGatingBlock", mlp_layer="GatedMlp"),
        model_of_timm("convnext_atto", 64, depths=(1, 1, 1, 1), dims=(8, 8, 16, 16)),
        model_of_timm("resnet10t", 32, True, 1e-4),
        model_of_timm("ghostnet_050", 32, True, 1e-5),
        model_of_timm("pvt_v2_b0", 32, embed_dims=(8, 16, 16, 16), depths=(1, 1, 1, 1), num_heads=(1, 2, 2, 2)),
    ]


def find():
    """The networks of the libraries that are here."""
    found = []
    for library, rows in (("transformers", of_transformers), ("torchvision", of_torchvision), ("timm", of_timm)):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
            found += rows()
    return found
