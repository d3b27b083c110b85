"""Folders of adapters without torch or peft: their numbers follow from the names of the tensors, as those of huggingface.py.

usage: adapters.py list                                the names of the networks
       adapters.py options NETWORK                     the options of a run with its adapters
       adapters.py write NETWORK FOLDER [KEY=JSON]…    makes FOLDER; keys are those of adapter_config.json
       adapters.py compare NETWORK CSV FOLDER          losses and adapters of a run are those of peft
       adapters.py merged NETWORK FOLDER WHOLE         WHOLE is the network with the adapters of FOLDER added
       adapters.py change FOLDER WAY                   spoils a folder
       adapters.py mask FOLDER                         makes FOLDER with a data set's arrays, of whose labels few count
       adapters.py weigh CSV                           losses of llama-1, all of it trained with these, are those of transformers
NETWORKs, with the losses of peft, are those of adapters.json, which test/reference/adapters.py writes.
"""
import json
import os
import sys

import huggingface as plain

PREFIX = "base_model.model."
NEAR = 1e-5


def rows():
    with open(os.path.join(plain.HERE, "adapters.json"), encoding="utf-8") as file:
        return json.load(file)


def is_transposed(name):
    return name.startswith("gpt2")


def layers(name, row):
    """{layer: (outputs, inputs)} of the layers whose names end with a target."""
    network = plain.networks()[name]
    shapes = dict(plain.expand(network["tensors"], plain.layers_of(network["config"])))
    found = {}
    for weight, shape in shapes.items():
        layer = weight[: -len(".weight")]
        if weight.endswith(".weight") and any(layer.endswith("." + target) for target in row["targets"]):
            found[layer] = tuple(reversed(shape)) if is_transposed(name) else tuple(shape)
    return found


def config_of(name, row):
    """As much as peft needs."""
    return {
        "peft_type": "LORA",
        "base_model_name_or_path": name,
        "r": row["rank"],
        "lora_alpha": row["alpha"],
        "target_modules": row["targets"],
        "fan_in_fan_out": is_transposed(name),
        "bias": "none",
        "lora_dropout": 0.0,
        "use_dora": False,
        "init_lora_weights": True,
        "task_type": None,
    }


def write(name, folder, *changes):
    row, tensors = rows()[name], {}
    for layer, (outputs, inputs) in layers(name, row).items():
        for part, shape in ("lora_A", [row["rank"], inputs]), ("lora_B", [outputs, row["rank"]]):
            tensor = f"{PREFIX}{layer}.{part}.weight"
            tensors[tensor] = shape, plain.numbers(tensor, plain.count_of(shape))
    config = config_of(name, row)
    config.update((key, json.loads(value)) for key, value in (change.split("=", 1) for change in changes))
    os.makedirs(folder, exist_ok=True)
    with open(folder + "/adapter_config.json", "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2, sort_keys=True)
    plain.write_safetensors(folder + "/adapter_model.safetensors", tensors)


def digest(values):
    """Two numbers of a tensor."""
    return [sum(values), sum(value * (1 + i % 7) for i, value in enumerate(values))]


def read_adapters(folder):
    return plain.read_safetensors(folder + "/adapter_model.safetensors")


def compare(name, file, folder):
    row, mine, losses = rows()[name], read_adapters(folder), read_losses(file)
    if len(losses) != len(row["losses"]) or max(abs(a - b) for a, b in zip(losses, row["losses"])) > NEAR:
        sys.exit(f"{name}: losses {losses}, of peft {row['losses']}")
    if sorted(mine) != sorted(row["trained"]):
        sys.exit(f"{name}: other adapters than those of peft: {sorted(set(mine) ^ set(row['trained']))}")
    for tensor, (shape, values) in mine.items():
        if any(abs(a - b) > 30 * NEAR for a, b in zip(digest(values), row["trained"][tensor])):
            sys.exit(f"{name}: {tensor}: {digest(values)}, of peft {row['trained'][tensor]}")


def merged(name, folder, whole):
    row, base = rows()[name], plain.read_safetensors(name + "/model.safetensors")
    factors, result = read_adapters(folder), plain.read_safetensors(whole + "/model.safetensors")
    if sorted(base) != sorted(result):
        sys.exit(f"other tensors: {sorted(set(base) ^ set(result))}")
    adapted, rank, scale = layers(name, row), row["rank"], row["alpha"] / row["rank"]
    for tensor, (shape, values) in base.items():
        layer, wanted = tensor[: -len(".weight")], list(values)
        if layer in adapted:
            outputs, inputs = adapted[layer]
            a, b = factors[f"{PREFIX}{layer}.lora_A.weight"][1], factors[f"{PREFIX}{layer}.lora_B.weight"][1]
            for o in range(outputs):
                for i in range(inputs):
                    added = scale * sum(b[o * rank + k] * a[k * inputs + i] for k in range(rank))
                    wanted[i * outputs + o if is_transposed(name) else o * inputs + i] += added
        if max(abs(x - y) for x, y in zip(wanted, result[tensor][1])) > 1e-6:
            sys.exit(f"{tensor} is not the weight with its adapter")


def change(folder, way):
    file = folder + "/adapter_model.safetensors"
    tensors = read_adapters(folder)
    name = sorted(tensors)[1]
    shape, values = tensors[name]
    if way == "short":
        os.truncate(file, os.path.getsize(file) - 1)
        return
    if way == "half":  # all numbers are exact in it
        plain.write_safetensors(file, tensors, "e", "F16")
        return
    if way == "missing":
        del tensors[name]
    elif way == "more":
        tensors[PREFIX + "lm_head.weight"] = [2], [1, 2]
    elif way == "bare":
        tensors["other"] = tensors.pop(name)
    elif way == "nan":
        tensors[name] = shape, [float("nan"), *values[1:]]
    else:
        raise ValueError(way)
    plain.write_safetensors(file, tensors)


def masked_arrays():
    """Tokens and labels of huggingface.py; of sample 0 one label counts, of sample 1 none, of 2 all, of others the last."""
    tokens, labels = plain.words(plain.networks()["llama-1"]["config"]["vocab_size"])
    first = [plain.PLACES - 1, plain.PLACES, 0] + [3 + sample for sample in range(3, plain.SAMPLES)]
    shown = [place % plain.PLACES >= first[place // plain.PLACES] for place in range(len(labels))]
    return tokens, [max(label, 0) if counts else -100 for label, counts in zip(labels, shown)]


def mask(folder):
    os.makedirs(folder, exist_ok=True)
    for field, values in zip(("tokens", "labels"), masked_arrays()):
        plain.write_npy(f"{folder}/{field}.npy", (plain.SAMPLES, plain.PLACES), values)


def read_losses(file):
    with open(file, encoding="utf-8") as lines:
        head = lines.readline().strip().split(",")
        return [float(line.split(",")[head.index("loss")]) for line in lines]


def weigh(file):
    losses, wanted = read_losses(file), rows()["llama-1"]["masked"]
    if len(losses) != len(wanted) or max(abs(a - b) for a, b in zip(losses, wanted)) > NEAR:
        sys.exit(f"losses {losses}, of transformers {wanted}")


def options(name):
    row = rows()[name]
    return f"-graph_lora {row['rank']} -graph_lora_alpha {row['alpha']} -graph_lora_targets {','.join(row['targets'])}"


if __name__ == "__main__":
    command, *words = sys.argv[1:]
    if command == "list":
        print("\n".join(rows()))
    elif command == "options":
        print(options(*words))
    else:
        commands = {"write": write, "compare": compare, "merged": merged, "change": change, "mask": mask, "weigh": weigh}
        commands[command](*words)
