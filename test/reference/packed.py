"""Rows of several documents in Renga, beside the documents one by one in transformers and in rows of their own.

usage: packed.py RENGA MPIEXEC FOLDER [NETWORK]…      works in FOLDER; NETWORKs of huggingface.py, without names all decoders
"""
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F

import huggingface as hf

LENGTHS = [[5, 4, 3], [12], [1, 7, 2], [6, 6], [3, 3, 3, 3], [2, 9], [11], [4, 1, 1, 5]]
LAYOUTS = [
    (1, ["-microbatch_size", 1]),
    (1, ["-microbatch_size", 8]),
    (2, ["-layout_pipeline", 2]),
    (2, ["-graph_lanes", 2, "-layout_tensor", 2]),
    (2, ["-graph_token_lanes", 2, "-layout_context", 2]),
    (2, ["-layout_pipeline", 1]),
]


def write_rows(file, **fields):
    with h5py.File(file, "w") as data:
        for key, rows in fields.items():
            data[key] = np.array(rows, dtype=np.int64)


def make_documents(folder):
    """Tokens and labels of each, and both data sets: packed, and one to a row."""
    rng, documents, packed, padded = np.random.default_rng(5), [], ([], [], []), ([], [])
    for lengths in LENGTHS:
        row = ([], [], [])
        for length in lengths:
            tokens = rng.integers(0, hf.TOKENS, length)
            labels = np.append(tokens[1:], -100)
            labels[rng.random(length) < 0.1] = -100
            documents.append((tokens, labels))
            for part, values in zip(row, (tokens, labels, range(length)), strict=True):
                part.extend(values)
            for rows, values, rest in zip(padded, (tokens, labels), (7, -100), strict=True):
                rows.append([*values, *[rest] * (hf.PLACES - length)])
        left = hf.PLACES - len(row[0])
        for rows, part, rest in zip(packed, row, ([7] * left, [-100] * left, range(left)), strict=True):
            rows.append([*part, *rest])
    write_rows(folder + "/packed.h5", tokens=packed[0], labels=packed[1], position_ids=packed[2])
    write_rows(folder + "/padded.h5", tokens=padded[0], labels=padded[1])
    return documents


def scores_of(model, tokens):
    """Of a row as long as those of Renga: longrope takes its factors by the length of a row."""
    row = torch.full((1, hf.PLACES), 7)
    row[0, : len(tokens)] = torch.tensor(tokens)
    return model(row).logits[0, : len(tokens)]


def gradients_of(model, documents):
    """Of the mean over all labels that count."""
    count = sum(int((labels != -100).sum()) for _, labels in documents)
    loss = sum(
        F.cross_entropy(scores_of(model, tokens), torch.tensor(labels), reduction="sum")
        for tokens, labels in documents
    )
    (loss / count).backward()


def check(renga, name):
    folder = renga.folder + "/" + name
    model = hf.make_model(name).eval()
    model.save_pretrained(folder)
    documents = make_documents(folder)
    names = hf.file_names(model, folder)
    gradients_of(model, documents)

    def gradients(ranks, data, batch, *more):
        hf_folder = f"hf:{name},sequence={hf.PLACES}" + (",packed=1" if data == "packed" else "")
        words = ["-graph", hf_folder, "-initial", name, "-data", f"{name}/{data}.h5", "-data_validation", 0, "-seed", 1]
        kept = "-".join([data, *map(str, more)])
        words += ["-data_shuffle", 0, "-batch_size", batch, "-steps", 1, "-checkpoint_dir", f"{name}/{kept}"]
        words += ["-optimizer_type", "sgd", "-optimizer_learning_rate", 1]
        renga.run(ranks, "train", *words, *more)
        after = hf.read_parameters(f"{folder}/{kept}/step_000000001.h5")
        return {n: p.detach() - after[n] for n, p in names.items()}

    own = gradients(1, "padded", len(documents))
    result = {"torch": 0.0, "padded": 0.0}
    for ranks, layout in LAYOUTS:
        found = gradients(ranks, "packed", len(LENGTHS), *layout)
        result["torch"] = max(result["torch"], *(hf.apart(found[n], p.grad) for n, p in names.items()))
        result["padded"] = max(result["padded"], *(hf.apart(found[n], own[n]) for n in names))
    return result


def main():
    program, mpiexec, folder, *names = sys.argv[1:]
    renga, bad = hf.Renga(program, mpiexec, folder), 0
    for name in names or [n for n in hf.NETWORKS if not hf.is_encoder(n) and not hf.is_image(n)]:
        result = check(renga, name)
        good = all(value <= 1e-5 for value in result.values())
        bad += not good
        print("good" if good else "BAD ", f"{name:14}", *(f"{key} {value:.2g}" for key, value in result.items()), flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
