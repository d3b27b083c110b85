"""Folders of Hugging Face without torch: their numbers follow from the names of the tensors.

usage: huggingface.py write NETWORK [KEY=JSON]…    makes the folder NETWORK, also with the data set's arrays, tokens.npy and so on
       huggingface.py compare NETWORK CSV          the losses of a run are those of transformers
       huggingface.py list                         the names of the networks
       huggingface.py near FOLDER FOLDER           their numbers differ by rounding alone
       huggingface.py change FOLDER WAY            spoils a folder: see WAYS
NETWORKs, with the losses of transformers, are those of huggingface.json, which test/reference/huggingface.py writes.
"""
import json
import os
import struct
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES, PLACES = 8, 12
NEAR = 1e-5


def networks():
    with open(os.path.join(HERE, "huggingface.json"), encoding="utf-8") as file:
        return json.load(file)


def numbers(name, count):
    """From -0.19 to 0.19, around 1 for the weights of norms, all exact in float16."""
    state, middle = zlib.crc32(name.encode()), 1.0 if "norm" in name.lower() or "ln_" in name else 0.0
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        yield middle + ((state >> 25) - 64) / 64 * 0.1875


def expand(tensors, layers):
    """{"h.#.w": [2, 3]} has a tensor for each layer."""
    for name, shape in tensors.items():
        if "#" not in name:
            yield name, shape
            continue
        for layer in range(layers):
            yield name.replace("#", str(layer)), shape


def count_of(shape):
    count = 1
    for extent in shape:
        count *= extent
    return count


def write_safetensors(file, tensors, letters="f", kind="F32"):
    """tensors: {name: (shape, numbers)}"""
    head, at, data = {"__metadata__": {"format": "pt"}}, 0, b""
    for name, (shape, values) in sorted(tensors.items()):
        values = list(values)
        raw = struct.pack(f"<{len(values)}{letters}", *values)
        head[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at, data = at + len(raw), data + raw
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(file):
    with open(file, "rb") as data:
        size = struct.unpack("<Q", data.read(8))[0]
        head, raw = json.loads(data.read(size)), data.read()
    head.pop("__metadata__")
    return {
        name: (row["shape"], struct.unpack(f"<{count_of(row['shape'])}f", raw[slice(*row["data_offsets"])]))
        for name, row in head.items()
    }


def write_npy(file, shape, values):
    letter, kind = ("q", "<i8") if isinstance(values[0], int) else ("f", "<f4")
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    with open(file, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode())
        out.write(struct.pack(f"<{len(values)}{letter}", *values))


def words(vocabulary):
    """Tokens and labels, one place later; some labels do not count."""
    state, rows = 7, []
    for _ in range(SAMPLES * (PLACES + 1)):
        state = (state * 1664525 + 1013904223) % 2**32
        rows.append((state >> 16) % vocabulary)
    rows = [rows[i * (PLACES + 1) : (i + 1) * (PLACES + 1)] for i in range(SAMPLES)]
    tokens = [token for row in rows for token in row[:-1]]
    labels = [label if label % 9 else -100 for row in rows for label in row[1:]]
    return tokens, labels


def arrays(config):
    """Shapes and values of the fields of the data set; of encoders the last samples end with padding."""
    if "image_size" in config:
        shape = SAMPLES, config["num_channels"], config["image_size"], config["image_size"]
        classes = len(config.get("id2label", "01"))
        values = [8 * value for value in numbers("image", count_of(shape))]
        return {"image": (shape, values), "labels": ((SAMPLES,), [sample % classes for sample in range(SAMPLES)])}
    fields = {field: ((SAMPLES, PLACES), values) for field, values in texts(config).items()}
    if config["model_type"] == "whisper":
        shape = SAMPLES, config["num_mel_bins"], 2 * config["max_source_positions"]
        fields["features"] = shape, [8 * value for value in numbers("features", count_of(shape))]
    return fields


def texts(config):
    tokens, labels = words(config["vocab_size"])
    if config["model_type"] == "t5":
        return pairs(tokens, labels)
    if config["model_type"] == "whisper":
        return {"target": [token if i % PLACES else 1 for i, token in enumerate(tokens)], "labels": labels}
    if "type_vocab_size" not in config and config["model_type"] != "modernbert":
        return {"tokens": tokens, "labels": labels}
    pad, places = config["pad_token_id"], [(i // PLACES, i % PLACES) for i in range(len(tokens))]
    real = [int(place < PLACES - max(0, sample - 3)) for sample, place in places]
    fields = {
        "tokens": [(token if token != pad else pad + 1) if is_real else pad for token, is_real in zip(tokens, real)],
        "labels": [label if is_real else -100 for label, is_real in zip(labels, real)],
        "attention_mask": real,
    }
    if config.get("type_vocab_size", 1) > 1:
        fields["segments"] = [int(place >= 5) for _, place in places]
    return fields


def pairs(tokens, labels):
    """The last sources end with padding; a target begins with token 0, and is the source otherwise."""
    places = [(i // PLACES, i % PLACES) for i in range(len(tokens))]
    return {
        "source": tokens,
        "source_mask": [int(place < PLACES - max(0, sample - 3)) for sample, place in places],
        "target": [token if place else 0 for token, (_, place) in zip(tokens, places)],
        "labels": labels,
    }


def layers_of(config):
    keys = "num_hidden_layers", "n_layer", "num_layers", "encoder_layers"
    return next(config[key] for key in keys if config.get(key))


def write(name, *changes):
    config = networks()[name]["config"]
    tensors = dict(expand(networks()[name]["tensors"], layers_of(config)))
    config.update((key, json.loads(value)) for key, value in (change.split("=", 1) for change in changes))
    os.makedirs(name, exist_ok=True)
    with open(name + "/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file, indent=2, sort_keys=True)
    write_safetensors(
        name + "/model.safetensors", {n: (shape, numbers(n, count_of(shape))) for n, shape in tensors.items()}
    )
    for field, (shape, values) in arrays(config).items():
        write_npy(f"{name}/{field}.npy", shape, values)


def compare(name, file):
    with open(file, encoding="utf-8") as rows:
        head = rows.readline().strip().split(",")
        losses = [float(row.split(",")[head.index("loss")]) for row in rows]
    wanted = networks()[name]["losses"]
    apart = [abs(a - b) for a, b in zip(losses, wanted)]
    if len(losses) != len(wanted) or max(apart) > NEAR:
        sys.exit(f"{name}: losses {losses}, of transformers {wanted}")


def near(one, other):
    one, other = (read_safetensors(folder + "/model.safetensors") for folder in (one, other))
    most = max(abs(a - b) for name, (_, values) in one.items() for a, b in zip(values, other[name][1]))
    if one.keys() != other.keys() or not most <= NEAR:
        sys.exit(f"numbers are {most} apart")


def cut_in_two(folder, tensors):
    """Two files and an index."""
    names, index = sorted(tensors), {}
    for number, half in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), 1):
        file = f"model-{number:05d}-of-00002.safetensors"
        write_safetensors(f"{folder}/{file}", {name: tensors[name] for name in half})
        index.update({name: file for name in half})
    os.remove(folder + "/model.safetensors")
    with open(folder + "/model.safetensors.index.json", "w", encoding="utf-8") as out:
        json.dump({"metadata": {}, "weight_map": index}, out)


def change_header(file, name, way):
    """A header of 2^63 bytes, a tensor that begins in another, a type that there is not."""
    with open(file, "rb") as old:
        length, rest = struct.unpack("<Q", old.read(8))[0], old.read()
    header, data = json.loads(rest[:length]), rest[length:]
    begin, end = header[name]["data_offsets"]
    if way == "overlap":
        header[name]["data_offsets"] = [begin - 4, end - 4] if begin else [begin + 4, end + 4]
    elif way == "type":
        header[name]["dtype"] = "F12"
    text = json.dumps(header).encode()
    with open(file, "wb") as new:
        new.write(struct.pack("<Q", 1 << 63 if way == "tall" else len(text)) + text + data)


def change(folder, way):
    file = folder + "/model.safetensors"
    tensors = read_safetensors(file)
    name = sorted(tensors)[1]
    shape, values = tensors[name]
    if way == "two":
        cut_in_two(folder, tensors)
        return
    if way == "short":
        os.truncate(file, os.path.getsize(file) - 1)
        return
    if way in ("tall", "overlap", "type"):
        change_header(file, name, way)
        return
    if way == "half":  # all numbers are exact in it
        write_safetensors(file, tensors, "e", "F16")
        return
    if way == "missing":
        del tensors[name]
    elif way == "more":
        tensors["model.extra.weight"] = [2], [1, 2]
    elif way == "mask":
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = [2], [1, 2]
    elif way == "shape":
        tensors[name] = [count_of(shape)], values
    elif way == "nan":
        tensors[name] = shape, [float("nan"), *values[1:]]
    elif way == "wordless":  # as of the model without its head
        tensors = {n.split(".", 1)[1] if n.startswith(("model.", "transformer.", "bert.")) else n: t for n, t in tensors.items()}
    elif way == "old":
        tensors = {n.replace("Norm.weight", "Norm.gamma").replace("Norm.bias", "Norm.beta"): t for n, t in tensors.items()}
    elif way == "tied":
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    elif way == "untied":
        shape, values = tensors["model.embed_tokens.weight"]
        tensors["lm_head.weight"] = shape, [2 * value for value in values]
    else:
        raise ValueError(way)
    write_safetensors(file, tensors)


if __name__ == "__main__":
    command, *words_of_it = sys.argv[1:]
    if command == "list":
        print("\n".join(networks()))
    else:
        {"write": write, "compare": compare, "near": near, "change": change}[command](*words_of_it)
