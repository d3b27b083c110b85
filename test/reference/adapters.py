"""Adapters in Renga and in peft: steps of AdamW from a folder of adapters, and the folder that comes back.

usage: adapters.py RENGA MPIEXEC FOLDER [NETWORK]…      works in FOLDER; without names all NETWORKS
       adapters.py record FOLDER                        writes test/app/adapters.json, of all NETWORKS
"""
import importlib.util
import json
import os
import sys
import warnings

import torch
from peft import PeftModel

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../app"))
import adapters as plain  # noqa: E402  of test/app, which needs no torch

spec = importlib.util.spec_from_file_location("whole", os.path.join(HERE, "huggingface.py"))
whole = importlib.util.module_from_spec(spec)
spec.loader.exec_module(whole)

warnings.filterwarnings("error", message=".*(missing|unexpected|Found missing).*")
STEPS, RATE, EPSILON, DECAY = 5, 1e-2, 1e-5, 0.01
NETWORKS = {
    "llama-1": {"rank": 4, "alpha": 6, "targets": ["q_proj", "v_proj", "down_proj"]},
    "qwen3-2": {"rank": 2, "alpha": 2, "targets": ["k_proj", "o_proj", "gate_proj", "up_proj"]},
    "gpt2-1": {"rank": 3, "alpha": 12, "targets": ["c_attn", "attn.c_proj", "c_fc"]},
    "gpt_neox-1": {"rank": 5, "alpha": 1, "targets": ["query_key_value", "dense_4h_to_h"]},
    "bert-1": {"rank": 4, "alpha": 8, "targets": ["query", "value", "intermediate.dense"]},
}


def masked_losses():
    """Of llama-1, all of it trained: the mean over the labels of the whole batch that count."""
    tokens, labels = (torch.tensor(values).reshape(whole.SAMPLES, -1) for values in plain.masked_arrays())
    return train_on(whole.load("llama-1"), {"input_ids": tokens}, labels)


def data_of(name):
    arrays = whole.plain.arrays(whole.plain.networks()[name]["config"])
    tensors = {key: torch.tensor(values).reshape(shape) for key, (shape, values) in arrays.items()}
    labels, names = tensors.pop("labels"), {"tokens": "input_ids", "segments": "token_type_ids", "image": "pixel_values"}
    return {names.get(key, key): value for key, value in tensors.items()}, labels


def load(name, folder, trainable=False):
    return PeftModel.from_pretrained(whole.load(name), folder, is_trainable=trainable).eval()


def train_on(model, inputs, labels):
    some = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(some, lr=RATE, eps=EPSILON, weight_decay=DECAY)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = whole.loss_of(model, inputs, labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train(name, model):
    return train_on(model, *data_of(name))


def save(rows):
    """A line for each."""
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows.items())
    with open(whole.plain.HERE + "/adapters.json", "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def trained_by_peft(name):
    """The losses; the folder NAME.peft has the adapters."""
    whole.plain.write(name)
    plain.write(name, name + ".adapters")
    model = load(name, name + ".adapters", True)
    losses = train(name, model)
    model.save_pretrained(name + ".peft")
    return losses


def record(folder):
    os.chdir(folder)
    rows = {name: dict(row, losses=[], trained={}) for name, row in NETWORKS.items()}
    save(rows)
    for name, row in rows.items():
        row["losses"] = [round(loss, 7) for loss in trained_by_peft(name)]
        for tensor, (_, values) in plain.read_adapters(name + ".peft").items():
            row["trained"][tensor] = [round(number, 6) for number in plain.digest(values)]
    rows["llama-1"]["masked"] = [round(loss, 7) for loss in masked_losses()]
    save(rows)


def check(renga, name):
    losses = trained_by_peft(name)
    sizes = "" if whole.is_image(name) else f",sequence={whole.PLACES}"
    fields = [f"{name}/{field}.npy" for field in whole.plain.arrays(whole.plain.networks()[name]["config"])]
    renga.run(1, "data", "npy", *fields, name + ".h5", "-overwrite", 1)
    run = ["-graph", f"hf:{name}{sizes}", "-initial", name, "-initial_adapter", name + ".adapters"]
    run += ["-data", name + ".h5", "-data_validation", 0, "-data_shuffle", 0, "-batch_size", whole.SAMPLES]
    run += plain.options(name).split() + ["-steps", STEPS, "-optimizer_type", "adamw", "-optimizer_learning_rate", RATE]
    run += ["-optimizer_epsilon", EPSILON, "-optimizer_weight_decay", DECAY, "-microbatch_size", 4]
    renga.run(2, "train", *run, "-layout_pipeline", 2, "-checkpoint_dir", name + ".kept", "-monitor", f"csv:{name}.csv")
    renga.run(1, "export", name + ".kept", name + ".back")
    mine = plain.read_losses(name + ".csv")
    result = {"losses": max(abs(a - b) for a, b in zip(mine, losses, strict=True))}
    ours, theirs = plain.read_adapters(name + ".back"), plain.read_adapters(name + ".peft")
    assert sorted(ours) == sorted(theirs), sorted(set(ours) ^ set(theirs))
    result["adapters"] = max(whole.apart(torch.tensor(ours[n][1]), torch.tensor(theirs[n][1])) for n in ours)
    inputs, _ = data_of(name)
    with torch.no_grad():
        scores = load(name, name + ".back")(**inputs).logits
        result["scores"] = whole.apart(scores, load(name, name + ".peft")(**inputs).logits)
        renga.run(1, "export", name + ".kept", name + ".merged", "-export_merged", 1)
        joined = whole.kind_of(name).from_pretrained(name + ".merged", attn_implementation="eager").eval()
        result["merged"] = whole.apart(joined(**inputs).logits, scores)
    return result


def main():
    if sys.argv[1:2] == ["record"]:
        record(sys.argv[2])
        return 0
    program, mpiexec, folder, *names = sys.argv[1:]
    renga, bad = whole.Renga(program, mpiexec, folder), 0
    os.chdir(folder)
    for name in names or NETWORKS:
        result = check(renga, name)
        good = all(value <= 1e-5 for value in result.values())
        bad += not good
        print("good" if good else "BAD ", f"{name:14}", *(f"{key} {value:.2g}" for key, value in result.items()), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
