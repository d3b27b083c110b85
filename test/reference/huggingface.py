"""Folders of Hugging Face in Renga and in transformers: scores, gradients, steps of AdamW, and the way back.

usage: huggingface.py RENGA MPIEXEC FOLDER [NETWORK]…      works in FOLDER; without names all NETWORKs
       huggingface.py record FOLDER [NETWORK]…             writes test/app/huggingface.json, of all NETWORKs or anew of some
"""
import contextlib
import glob
import json
import os
import re
import subprocess
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../app"))
import huggingface as plain  # noqa: E402  of test/app, which needs no torch

transformers.logging.set_verbosity_error()
SAMPLES, TOKENS, PLACES, STEPS = 8, 64, 12, 5
STAGES, TENSOR = ["-layout_pipeline", 2], ["-layout_tensor", 2]
LAYOUTS = (1, []), (2, STAGES), (2, TENSOR), (4, STAGES + TENSOR)
RATE, EPSILON, DECAY = 1e-3, 1e-5, 0.01
SMALL = dict(
    vocab_size=TOKENS,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    max_position_embeddings=32,
    attn_implementation="eager",
)
LLAMA3 = dict(
    rope_type="llama3",
    rope_theta=5e5,
    factor=8.0,
    low_freq_factor=1.0,
    high_freq_factor=4.0,
    original_max_position_embeddings=16,
)
LONGROPE = dict(rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 2.0, 3.0, 4.0])


def small(**more):
    return dict(SMALL, **more)


GPT2 = dict(vocab_size=TOKENS, n_embd=32, n_layer=2, n_head=4, n_positions=16, attn_implementation="eager")
IMAGES = dict(
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=16,
    patch_size=4,
    attn_implementation="eager",
)
WHISPER = dict(
    vocab_size=TOKENS,
    d_model=32,
    encoder_layers=2,
    encoder_attention_heads=4,
    encoder_ffn_dim=48,
    decoder_layers=2,
    decoder_attention_heads=4,
    decoder_ffn_dim=48,
    num_mel_bins=6,
    max_source_positions=10,
    max_target_positions=PLACES,
    pad_token_id=2,
    bos_token_id=1,
    eos_token_id=2,
    decoder_start_token_id=1,
    begin_suppress_tokens=None,
    attn_implementation="eager",
)
SMALL_T5 = dict(vocab_size=TOKENS, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0)
STILL = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
NO_DROPOUT = dict(attn_pdrop=0.0, embd_pdrop=0.0, resid_pdrop=0.0)
# Two of each family, of some more. The second has what the first leaves as it is.
NETWORKS = {
    "llama-1": ("LlamaConfig", small(num_key_value_heads=2)),
    "llama-2": (
        "LlamaConfig",
        small(head_dim=6, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rope_parameters=LLAMA3),
    ),
    "mistral-1": ("MistralConfig", small(num_key_value_heads=2, sliding_window=None)),
    "mistral-2": ("MistralConfig", small(num_key_value_heads=1, sliding_window=5, rms_norm_eps=1e-3)),
    "qwen2-1": ("Qwen2Config", small(num_key_value_heads=2)),
    "qwen2-2": (
        "Qwen2Config",
        small(
            num_key_value_heads=4,
            tie_word_embeddings=True,
            use_sliding_window=True,
            sliding_window=4,
            max_window_layers=1,
            rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=1e6),
        ),
    ),
    "qwen3-1": ("Qwen3Config", small(num_key_value_heads=2, head_dim=16)),
    "qwen3-3": (
        "Qwen3Config",
        small(
            num_key_value_heads=2,
            head_dim=16,
            rope_parameters=dict(rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=8),
        ),
    ),
    "qwen3-2": ("Qwen3Config", small(num_key_value_heads=4, head_dim=8, attention_bias=True, tie_word_embeddings=True)),
    "gemma-1": ("GemmaConfig", small(num_key_value_heads=1, head_dim=16)),
    "gemma-2": ("GemmaConfig", small(num_key_value_heads=4, head_dim=8, attention_bias=True)),
    "gemma2-1": ("Gemma2Config", small(num_key_value_heads=2, head_dim=16, sliding_window=4)),
    "gemma2-2": (
        "Gemma2Config",
        small(num_key_value_heads=4, head_dim=8, attn_logit_softcapping=None, query_pre_attn_scalar=8),
    ),
    "gemma3-1": (
        "Gemma3TextConfig",
        small(num_key_value_heads=2, head_dim=16, sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
    ),
    "gemma3-2": (
        "Gemma3TextConfig",
        small(num_key_value_heads=1, head_dim=8, final_logit_softcapping=3.0, query_pre_attn_scalar=8),
    ),
    "phi3-1": ("Phi3Config", small(num_key_value_heads=2, pad_token_id=0)),
    "phi3-2": ("Phi3Config", small(num_key_value_heads=4, pad_token_id=0, sliding_window=6, tie_word_embeddings=True)),
    "phi3-3": (
        "Phi3Config",
        small(num_key_value_heads=2, pad_token_id=0, original_max_position_embeddings=8, rope_parameters=LONGROPE),
    ),
    "phi3-4": (
        "Phi3Config",
        small(num_key_value_heads=2, pad_token_id=0, original_max_position_embeddings=16, rope_parameters=LONGROPE),
    ),
    "olmo2-1": ("Olmo2Config", small(num_key_value_heads=2)),
    "olmo2-2": ("Olmo2Config", small(num_key_value_heads=4, attention_bias=True, tie_word_embeddings=True)),
    "granite-1": ("GraniteConfig", small(num_key_value_heads=2)),
    "granite-2": (
        "GraniteConfig",
        small(
            num_key_value_heads=2,
            attention_multiplier=0.2,
            embedding_multiplier=3.0,
            residual_multiplier=0.4,
            logits_scaling=2.0,
            attention_bias=True,
            mlp_bias=True,
        ),
    ),
    "gpt_neox-1": ("GPTNeoXConfig", small()),
    "gpt_neox-2": (
        "GPTNeoXConfig",
        small(
            use_parallel_residual=False,
            attention_bias=False,
            hidden_act="gelu_new",
            tie_word_embeddings=True,
            rope_parameters=dict(rope_type="default", rope_theta=500.0, partial_rotary_factor=0.5),
        ),
    ),
    "phi-1": ("PhiConfig", small()),
    "phi-2": ("PhiConfig", small(num_key_value_heads=2, tie_word_embeddings=True)),
    "stablelm-1": ("StableLmConfig", small(num_key_value_heads=2)),
    "stablelm-2": ("StableLmConfig", small(num_key_value_heads=4, use_qkv_bias=True, tie_word_embeddings=True)),
    "starcoder2-1": ("Starcoder2Config", small(num_key_value_heads=2)),
    "starcoder2-2": ("Starcoder2Config", small(num_key_value_heads=4, use_bias=False, sliding_window=3)),
    "bert-1": ("BertConfig", small(**STILL)),
    "bert-2": ("BertConfig", small(type_vocab_size=1, hidden_act="gelu_new", layer_norm_eps=1e-3, **STILL)),
    "roberta-1": ("RobertaConfig", small(type_vocab_size=1, **STILL)),
    "roberta-2": ("RobertaConfig", small(pad_token_id=3, hidden_act="relu", **STILL)),
    "modernbert-1": ("ModernBertConfig", small(pad_token_id=0, local_attention=6)),
    "modernbert-2": (
        "ModernBertConfig",
        small(pad_token_id=1, local_attention=4, norm_bias=True, attention_bias=True, mlp_bias=True, classifier_bias=True,
              decoder_bias=False, hidden_activation="silu", layer_types=["sliding_attention", "full_attention"]),
    ),
    "t5-1": ("T5Config", dict(SMALL_T5)),
    "t5-2": (
        "T5Config",
        dict(SMALL_T5, feed_forward_proj="gated-gelu", num_decoder_layers=1, relative_attention_num_buckets=8, relative_attention_max_distance=10),
    ),
    "t5-3": ("T5Config", dict(SMALL_T5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)),
    "vit-1": ("ViTConfig", dict(IMAGES, num_labels=5)),
    "vit-2": ("ViTConfig", dict(IMAGES, patch_size=8, num_channels=1, hidden_act="relu", layer_norm_eps=1e-3)),
    "whisper-1": ("WhisperConfig", dict(WHISPER)),
    "whisper-2": (
        "WhisperConfig",
        dict(WHISPER, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=40, activation_function="relu",
             max_target_positions=20, encoder_layers=3, encoder_attention_heads=8),
    ),
    "gpt2-1": ("GPT2Config", dict(GPT2, **NO_DROPOUT)),
    "gpt2-2": (
        "GPT2Config",
        dict(GPT2, n_inner=40, activation_function="relu", tie_word_embeddings=False, **NO_DROPOUT),
    ),
}


class Renga:
    def __init__(self, program, mpiexec, folder):
        self.program, self.mpiexec, self.folder = program, mpiexec, folder

    def run(self, ranks, *words):
        command = [self.mpiexec, "-n", str(ranks), self.program, *map(str, words)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError(" ".join(command) + "\n" + done.stdout + done.stderr)
        return done.stdout


def is_encoder(name):
    return "bert" in name


def is_image(name):
    return "vit" in name


def is_pair(name):
    return "t5" in name


def is_sound(name):
    return "whisper" in name


def kind_of(name):
    if is_sound(name):
        return transformers.AutoModelForSpeechSeq2Seq
    if is_pair(name):
        return transformers.AutoModelForSeq2SeqLM
    if is_image(name):
        return transformers.AutoModelForImageClassification
    return transformers.AutoModelForMaskedLM if is_encoder(name) else transformers.AutoModelForCausalLM


def make_model(name, **others):
    kind, settings = NETWORKS[name]
    torch.manual_seed(sum(map(ord, name)))
    config = getattr(transformers, kind)(**{**settings, **others})
    model = kind_of(name).from_config(config, dtype=torch.float32)
    if name == "t5-3":  # as version 1.1 has it, whose files have two tables
        model.lm_head.weight = torch.nn.Parameter(0.1 * torch.randn_like(model.lm_head.weight))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def make_data(file, model, name):
    """What the model is called with, and the labels; also as a data set."""
    rng = np.random.default_rng(5)
    if is_image(name):
        return make_images(file, model.config, rng)
    if is_pair(name) or is_sound(name):
        return make_pairs(file, model.config, rng)
    words = rng.integers(0, TOKENS, (SAMPLES, PLACES + 1))
    inputs, labels = {"tokens": words[:, :-1]}, words[:, 1:].copy()
    labels[rng.random(labels.shape) < 0.1] = -100
    if is_encoder(name):
        pad = model.config.pad_token_id
        real = np.arange(PLACES) < rng.integers(4, PLACES + 1, (SAMPLES, 1))
        real[0, :2] = False  # padding may come first
        inputs["tokens"] = np.where(real, np.where(inputs["tokens"] == pad, pad + 1, inputs["tokens"]), pad)
        inputs["attention_mask"] = real.astype(np.int64)
        labels[~real] = -100
        if getattr(model.config, "type_vocab_size", 1) > 1:
            inputs["segments"] = rng.integers(0, 2, words[:, 1:].shape)
    with h5py.File(file, "w") as data:
        data["labels"] = labels
        for key, value in inputs.items():
            data[key] = value
    names = {"tokens": "input_ids", "segments": "token_type_ids", "attention_mask": "attention_mask"}
    return {names[key]: torch.tensor(value) for key, value in inputs.items()}, torch.tensor(labels)


def make_pairs(file, config, rng):
    """Of T5 the source is text, whose end is padding; of Whisper it is sound."""
    words = rng.integers(1, TOKENS, (SAMPLES, PLACES + 1))
    target, labels = words[:, :-1].copy(), words[:, 1:].copy()
    target[:, 0] = getattr(config, "decoder_start_token_id", 0)
    labels[rng.random(labels.shape) < 0.1] = -100
    if is_sound(config.model_type):
        shape = SAMPLES, config.num_mel_bins, 2 * config.max_source_positions
        fields, names = {"features": rng.normal(size=shape).astype(np.float32)}, ["input_features"]
    else:
        real = (np.arange(PLACES) < rng.integers(4, PLACES + 1, (SAMPLES, 1))).astype(np.int64)
        fields, names = {"source": rng.integers(1, TOKENS, (SAMPLES, PLACES)), "source_mask": real}, ["input_ids", "attention_mask"]
    fields["target"] = target
    with h5py.File(file, "w") as data:
        for name, value in dict(fields, labels=labels).items():
            data[name] = value
    inputs = dict(zip(names + ["decoder_input_ids"], fields.values()))
    return {key: torch.tensor(value) for key, value in inputs.items()}, torch.tensor(labels)


def make_images(file, config, rng):
    image = rng.normal(size=(SAMPLES, config.num_channels, config.image_size, config.image_size)).astype(np.float32)
    labels = rng.integers(0, config.num_labels, SAMPLES)
    with h5py.File(file, "w") as data:
        data["image"], data["labels"] = image, labels
    return {"pixel_values": torch.tensor(image)}, torch.tensor(labels)


def loss_of(model, inputs, labels):
    scores = model(**inputs).logits
    return F.cross_entropy(scores.flatten(0, -2), labels.flatten(), ignore_index=-100)


def read_parameters(file):
    """Frozen ones have 16 bits with -precision bf16."""
    def read(value):
        numbers = torch.tensor(value[()].view(np.int16) if value.dtype == np.uint16 else value[()])
        return numbers.view(torch.bfloat16).float() if value.dtype == np.uint16 else numbers

    with h5py.File(file) as checkpoint:
        return {name: read(value) for name, value in checkpoint["parameters"].items()}


def file_names(model, folder):
    """The names that the folder has, with the parameters of the model: by equal numbers."""
    saved = {}
    for file in sorted(glob.glob(folder + "/*.safetensors")):
        saved.update(load_file(file))
    own = dict(model.named_parameters())
    return {name: next(p for p in own.values() if p.shape == t.shape and torch.equal(p, t)) for name, t in saved.items()}


def read_losses(file):
    with open(file, encoding="utf-8") as rows:
        head = rows.readline().strip().split(",")
        return [float(row.split(",")[head.index("loss")]) for row in rows]


def apart(one, other):
    """The largest difference, against the largest number."""
    return float((one - other).abs().max() / max(1.0, float(other.abs().max())))


def words_of(scores, inputs):
    """Of padding none: what stands there is nobody's business."""
    mask = inputs.get("attention_mask")
    return scores if mask is None or "decoder_input_ids" in inputs else scores[mask.bool()]


def check(renga, name):
    folder = renga.folder + "/" + name
    model = make_model(name).eval()
    model.save_pretrained(folder)
    inputs, labels = make_data(folder + "/data.h5", model, name)
    names = file_names(model, folder)
    sizes = "" if is_image(name) else f",target={PLACES}" if is_sound(name) else f",sequence={PLACES}"
    common = ["-graph", f"hf:{name}{sizes}", "-initial", name, "-data", name + "/data.h5"]
    common += ["-data_validation", 0, "-seed", 1]
    training = common + ["-data_shuffle", 0, "-batch_size", SAMPLES, "-microbatch_size", 4, "-checkpoint_every", 1]
    result = {}

    renga.run(1, "predict", name + "/scores.h5", *common, "-batch_size", SAMPLES, "-output", "logits", "-overwrite", 1)
    with h5py.File(folder + "/scores.h5") as scores:
        mine, theirs = torch.tensor(scores["logits"][()]), model(**inputs).logits.detach()
        assert mine.isfinite().all()
        result["scores"] = apart(words_of(mine, inputs), words_of(theirs, inputs))

    sgd = ["-optimizer_type", "sgd", "-optimizer_learning_rate", 1, "-steps", 1, "-checkpoint_dir", name + "/sgd"]
    renga.run(1, "train", *training, *sgd)
    loss_of(model, inputs, labels).backward()
    after = read_parameters(folder + "/sgd/step_000000001.h5")
    assert set(after) == set(names), set(after) ^ set(names)
    result["gradients"] = max(apart(p.detach() - after[n], 0 * p if p.grad is None else p.grad) for n, p in names.items())

    adam = ["-optimizer_type", "adamw", "-optimizer_learning_rate", RATE, "-optimizer_epsilon", EPSILON]
    adam += ["-optimizer_weight_decay", DECAY, "-steps", STEPS, "-parameter_digest", 1]
    files = ["-monitor", f"csv:{name}/losses.csv", "-checkpoint_keep", 9, "-checkpoint_dir", name + "/adam"]
    renga.run(1, "train", *training, *adam, *files)
    losses = train(model, inputs, labels)
    mine = read_losses(folder + "/losses.csv")
    result["losses"] = max(abs(a - b) for a, b in zip(mine, losses, strict=True))
    after = read_parameters(f"{folder}/adam/step_{STEPS:09d}.h5")
    result["steps"] = max(apart(after[n], p.detach()) for n, p in names.items())

    digests = set()
    for ranks, layout in LAYOUTS:
        text = renga.run(ranks, "train", *training[:-2], *adam, "-graph_lanes", 2, *layout)
        digests |= set(re.findall("digest.*", text))
    result["layouts"] = len(digests)
    result.update(check_brain(renga, name, inputs, labels, training[:-2] + adam, common))
    result["back"] = check_way_back(renga, name, model, inputs, common)
    return result


def check_brain(renga, name, inputs, labels, training, common):
    """The same steps with -precision bf16 beside torch.autocast, the layouts, and the folder that comes back, whose scores are
    as near to those of float32 as transformers' in bfloat16."""
    folder, result = renga.folder + "/" + name, {}
    brain = ["-precision", "bf16", "-graph_lanes", 2]
    files = ["-monitor", f"csv:{name}/bf16.csv", "-checkpoint_dir", name + "/bf16", "-checkpoint_every", STEPS]
    digests = set()
    for ranks, layout in LAYOUTS:
        text = renga.run(ranks, "train", *training, *brain, *layout, *([] if layout else files))
        digests |= set(re.findall("digest.*", text))
    result["bf16-layouts"] = len(digests)
    model = make_model(name).eval()
    own = file_names(model, folder)
    losses = train(model, inputs, labels, torch.autocast("cpu", torch.bfloat16))
    mine = read_losses(folder + "/bf16.csv")
    result["bf16"] = max(abs(a - b) / max(1, b) for a, b in zip(mine, losses, strict=True))
    renga.run(1, "export", name + "/bf16", name + "/bf16-back", "-export_type", "bfloat16")
    stored = read_parameters(f"{folder}/bf16/step_{STEPS:09d}.h5")
    back = load(folder + "/bf16-back", torch.bfloat16)
    for key, value in file_names(back, folder + "/bf16-back").items():
        assert torch.equal(value, stored[key].to(torch.bfloat16)), key
    result["bf16-steps"] = max(apart(stored[n], p.detach()) for n, p in own.items())
    again = common[:3] + [name + "/bf16-back"] + common[4:]
    renga.run(1, "predict", name + "/bf16.h5", *again, *brain, "-batch_size", SAMPLES, "-output", "logits", "-overwrite", 1)
    with h5py.File(folder + "/bf16.h5") as scores, torch.no_grad():
        wide = {key: value.bfloat16() if value.is_floating_point() else value for key, value in inputs.items()}
        mine, theirs = torch.tensor(scores["logits"][()]), back(**wide).logits.float()
        exact = words_of(back.float()(**inputs).logits, inputs)
        result["bf16-scores"] = float((words_of(mine, inputs) - exact).norm() / (words_of(theirs, inputs) - exact).norm())
    return result


def load(folder, dtype=torch.float32):
    """A folder that transformers loads without a word."""
    model, told = kind_of(folder.split("/")[-2] if "/" in folder else folder).from_pretrained(
        folder, dtype=dtype, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(told.values()), told
    if is_sound(model.config.model_type):  # as the class makes it; loading forgets that
        model.model.encoder.embed_positions.requires_grad_(False)
    return model.eval()


def check_way_back(renga, name, model, inputs, common):
    """What was trained, exported and loaded has the numbers of the checkpoint; what was not trained, the same bytes."""
    folder = renga.folder + "/" + name
    still = ["-optimizer_type", "sgd", "-optimizer_learning_rate", 0, "-steps", 1, "-checkpoint_dir", name + "/still"]
    renga.run(1, "train", *common, "-batch_size", SAMPLES, *still)
    renga.run(2, "export", name + "/still", name + "/same")
    with open(folder + "/model.safetensors", "rb") as one, open(folder + "/same/model.safetensors", "rb") as other:
        assert one.read() == other.read(), "other bytes"
    renga.run(1, "export", name + "/adam", name + "/trained", "-export_file", "10KB")
    trained = load(folder + "/trained")
    stored = read_parameters(f"{folder}/adam/step_{STEPS:09d}.h5")
    for key, value in file_names(trained, folder + "/trained").items():
        assert torch.equal(value, stored[key]), key
    renga.run(1, "export", name + "/adam", name + "/brain", "-export_type", "bfloat16")
    brain = dict(load(folder + "/brain", "auto").named_parameters())
    for key, value in trained.named_parameters():
        assert brain[key].dtype == torch.bfloat16 and torch.equal(brain[key], value.to(torch.bfloat16)), key
    again = common[:3] + [name + "/brain"] + common[4:]
    renga.run(1, "predict", name + "/brain.h5", *again, "-batch_size", SAMPLES, "-output", "logits", "-overwrite", 1)
    with h5py.File(folder + "/brain.h5") as scores, torch.no_grad():
        widened = load(folder + "/brain")(**inputs).logits
        assert apart(words_of(torch.tensor(scores["logits"][()]), inputs), words_of(widened, inputs)) < 1e-5
        return apart(trained(**inputs).logits, model(**inputs).logits)


def train(model, inputs, labels, mode=contextlib.nullcontext()):
    """The losses of steps of AdamW, whose forward is in a mode."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, eps=EPSILON, weight_decay=DECAY)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        with mode:
            loss = loss_of(model, inputs, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def save(rows):
    """A line for each."""
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    with open(plain.HERE + "/huggingface.json", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def alike(shapes, layers):
    """One name, with a #, of what all layers have."""
    groups = {}
    for name in shapes:
        groups.setdefault(re.sub(r"\.\d+\.", ".#.", name, count=1), []).append(name)
    rows = {}
    for name, own in groups.items():
        rows.update({name: shapes[own[0]]} if len(own) == layers else {n: shapes[n] for n in own})
    return rows


def record(folder, names):
    """The networks of test/app/huggingface.py: their configurations, tensors and losses; of names, if there are any."""
    rows = plain.networks() if names else {}
    os.chdir(folder)
    for name in names or NETWORKS:
        make_model(name).save_pretrained(name)
        with open(name + "/config.json", encoding="utf-8") as file:
            config = json.load(file)
        shapes = {n: list(t.shape) for n, t in load_file(name + "/model.safetensors").items()}
        same = alike(shapes, plain.layers_of(config))
        assert dict(plain.expand(same, plain.layers_of(config))) == shapes
        rows[name] = {"config": config, "tensors": same, "losses": []}
        save(rows)
        plain.write(name)
        arrays = {key: torch.tensor(values).reshape(shape) for key, (shape, values) in plain.arrays(config).items()}
        labels, names = arrays.pop("labels"), {
            "tokens": "input_ids",
            "segments": "token_type_ids",
            "image": "pixel_values",
            "source": "input_ids",
            "source_mask": "attention_mask",
            "target": "decoder_input_ids",
            "features": "input_features",
        }
        inputs = {names.get(key, key): value for key, value in arrays.items()}
        rows[name]["losses"] = [round(loss, 7) for loss in train(load(name), inputs, labels)]
    save(rows)


def main():
    if sys.argv[1:2] == ["record"]:
        record(sys.argv[2], sys.argv[3:])
        return 0
    program, mpiexec, folder, *names = sys.argv[1:]
    renga, bad = Renga(program, mpiexec, folder), 0
    for name in names or NETWORKS:
        result = check(renga, name)
        most = {"layouts": 1, "bf16-layouts": 1, "bf16": 1e-2, "bf16-steps": 1e-2, "bf16-scores": 1.5}
        good = all(value <= most.get(key, 1e-5) for key, value in result.items())
        bad += not good
        print("good" if good else "BAD ", f"{name:14}", *(f"{key} {value:.2g}" for key, value in result.items()), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
