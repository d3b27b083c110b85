"""Text of folders of Hugging Face: the likeliest tokens of Renga, on several layouts, and of transformers.

LEFT are left out: transformers takes other factors of positions (longrope) once a text is long, Renga those of the sequence.

usage: generation.py RENGA MPIEXEC FOLDER [NETWORK]…      works in FOLDER; without names all that write text
"""
import json
import sys

import torch
import transformers

from huggingface import NETWORKS, Renga, is_encoder, is_image, is_pair, is_sound, make_data, make_model

TOKENS, PROMPTS = 64, [[5, 6, 9], [33, 8, 21, 10, 1, 17, 3]]
LEFT = "phi3-3", "phi3-4"
FACTORS = {"t5-1": 5.0, "t5-2": 5.0, "t5-3": 1.0}
LAYOUTS = (1, []), (2, ["-layout_pipeline", 2]), (2, ["-graph_lanes", 2, "-layout_tensor", 2])


def make(name):
    """A model whose next token is not always the same one."""
    if is_pair(name):
        return make_model(name, initializer_factor=FACTORS[name], decoder_start_token_id=3).eval()
    if is_sound(name):
        others = dict(max_target_positions=TOKENS + 4, init_std=0.5, eos_token_id=None, pad_token_id=None)
        return make_model(name, **others).eval()
    places = "n_positions" if "n_positions" in NETWORKS[name][1] else "max_position_embeddings"
    return make_model(name, **{"initializer_range": 0.1 if "gemma" in name else 0.4, places: 96}).eval()


def write(model, prompt):
    tokens = torch.tensor([prompt])
    how = {"max_new_tokens": TOKENS, "do_sample": False, "eos_token_id": None, "pad_token_id": 0, "bos_token_id": None}
    written = model.generate(tokens, attention_mask=torch.ones_like(tokens), **how)[0].tolist()
    return written[-TOKENS:]


def write_sound(model, inputs, prompt):
    """Of each sample by itself, behind the token that texts begin with and a prompt."""
    start = torch.tensor([[model.config.decoder_start_token_id] + prompt])
    how = {"max_new_tokens": TOKENS, "do_sample": False, "eos_token_id": None, "decoder_input_ids": start}
    each = inputs["input_features"].split(1)
    return [transformers.GenerationMixin.generate(model, one, **how)[0].tolist()[-TOKENS:] for one in each]


def check(renga, name):
    model = make(name)
    model.save_pretrained(f"{renga.folder}/{name}")
    prompts = PROMPTS
    if is_sound(name):
        inputs, prompts = make_data(f"{renga.folder}/{name}/data.h5", model, name)[0], [[7, 9]]
        theirs = write_sound(model, inputs, prompts[0])
    else:
        theirs = [write(model, prompt) for prompt in PROMPTS]
    size = f"target={TOKENS + 4}" if is_sound(name) else f"sequence=12,target={TOKENS}" if is_pair(name) else "sequence=80"
    words = ["generate", "-graph", f"hf:{name},{size}", "-checkpoint", name, "-tokens", TOKENS, "-temperature", 0]
    words += ["-generate_format", "jsonl", "-prompt_tokens", ";".join(",".join(map(str, prompt)) for prompt in prompts)]
    words += ["-data", f"{name}/data.h5"] if is_sound(name) else []
    for ranks, layout in [*LAYOUTS, (1, ["-generate_cache", "off"])] if is_sound(name) or is_pair(name) else LAYOUTS:
        text = renga.run(ranks, *words, *layout)
        mine = [json.loads(line)["tokens"] for line in text.splitlines() if line.startswith("{")]
        assert mine == theirs, f"{name} on {ranks} ranks: {mine}, {theirs}"
    return [len(set(row)) for row in theirs]


def main(renga, mpiexec, folder, *names):
    program = Renga(renga, mpiexec, folder)
    for name in names or [name for name in NETWORKS if not is_encoder(name) and not is_image(name) and name not in LEFT]:
        print(name, "different tokens:", *check(program, name))


if __name__ == "__main__":
    main(*sys.argv[1:])
