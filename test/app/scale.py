#!/usr/bin/env python3
"""How networks scale, as `renga plan` predicts it and simulates it on shared links, beside what others published.

usage: scale.py RENGA [option...]

  -machines DIR  machine files (the installed ones)
  -quick         the ends of the Transformer's tables alone, and none of others
  -table FILE    the tables of doc/performance.md
  -jobs N        plans at a time (1)

Efficiency is that of the simulated step: of weak scaling, with as many samples for each device, the first row's seconds by
those of a row; of strong scaling, with one batch, the same for each device. Fails where a row has no plan, where a plan takes
more memory or time than was asked, and names what was asked and is not reached.
"""
import concurrent.futures
import os
import re
import subprocess
import sys
import tempfile
import time

SENTENCE = 64  # tokens of a source, and of a target
TRANSFORMER = f"transformer:layers=6,hidden=1024,heads=16,vocabulary=36000,sequence={SENTENCE}"
GPT3 = "gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=51200"
LLAMA = ("llama:layers=80,hidden=8192,heads=64,groups=8,intermediate=28672,sequence=4096,"
         "vocabulary=128256")
SECONDS, MEMORY = 60, 1 << 20  # of one plan of the Transformer, at most; KiB


def replicas(ranks, batch, microbatch):
    """One stage on every rank."""
    return {"batch_size": batch, "microbatch_size": microbatch, "layout_pipeline": 1,
            "layout_data": ranks, "graph_lanes": 1, "layout_chunks": 1,
            "layout_zero": "none"}


def megatron(devices, batch, stages, tensor, chunks, layers, prefix, shard, recompute):
    """Stages of whole layers, tensor ranks, micro-batches of one sample."""
    parts = stages * chunks
    cuts = ",".join(f"{prefix}.{layers // parts * part}.{'ln1' if prefix == 'blocks' else 'norm1'}"
                    for part in range(1, parts))
    return {"batch_size": batch, "microbatch_size": 1, "layout_pipeline": stages,
            "layout_data": devices // stages // tensor, "partition_ranks": devices,
            "graph_lanes": tensor, "layout_tensor": tensor, "partition_type": "manual",
            "partition_cuts": cuts, "layout_chunks": chunks, "layout_zero": shard,
            "schedule_type": "interleaved" if chunks > 1 else "1f1b",
            "layout_recompute": recompute, "precision": "bf16", "machine_memory": "16TiB"}


def weak_transformer(ranks):
    return replicas(ranks, 78 * ranks, 78)


def strong_transformer(ranks):
    return replicas(ranks, 12800, 32)


def strong_gpt3(devices):
    return megatron(devices, 1536, 12, 8, 1, 96, "blocks", "none", "full")


def weak_gpt3(devices):
    return megatron(devices, 2 * devices, 8, 4, 6, 96, "blocks", "optimizer", "none")


def weak_llama(devices):
    return megatron(devices, 2 * devices, 4, 4, 5, 80, "blocks", "optimizer", "none")


# title, machine, devices of its nodes, network, options, devices, weak or strong, published {devices: seconds}, what was asked
TABLES = [
    ("Transformer (213 M), weak: 4,992 tokens of a source for each rank", "stampede2", 2, TRANSFORMER,
     weak_transformer, [4, 16, 56, 200, 400, 800, 1200], "weak", {},
     [(1200, "weak scaling to 1,200 ranks, at least 98 %; published: 91 %", 0.98)]),
    ("Transformer (213 M), strong: 819,200 tokens of a source in all", "stampede2", 2, TRANSFORMER,
     strong_transformer, [4, 16, 50, 100, 200, 400], "strong", {},
     [(400, "strong scaling to 400 ranks, at least 85 %; published: 65 %", 0.85)]),
    ("GPT-3 (175 G), strong: 1,536 samples in all", "selene", 8, GPT3, strong_gpt3,
     [384, 768, 1536, 3072], "strong", {384: 76.78, 768: 39.421, 1536: 20.829}, []),
    ("GPT-3 (175 G), weak: 2 samples for each device", "h100", 8, GPT3, weak_gpt3,
     [128, 512, 2048], "weak", {128: 8.309, 512: 8.42, 2048: 8.49},
     [(2048, "128 to 2,048 devices cost 2.2 % (published), within 2 points", 1 / 1.022)]),
    ("Llama 3 (70 G), weak: 2 samples for each device", "h100", 8, LLAMA, weak_llama,
     [128, 512, 2048], "weak", {}, []),
]

ASSUMPTIONS = """\
* Costs are analytic, from the machine file; nothing was measured, and nothing is fitted to the published rows of the Transformer.
* Ranks of `stampede2` are processors, two of a node with one network card, and 28 nodes of a switch with 20 uplinks. The published
  runs had four processes on a node, another program, another vocabulary and sums of gradients behind backward. Batches are from memory:
  5,000 tokens for each process, and 819,200 tokens.
* Sums of gradients begin within the last backward, in buckets of 4 MiB and 16 at the most, and go at the rate of the slowest rank. What moves
  them takes no core and no memory bandwidth of the computation. Ranks take as long as each other, but for `spread` of the machine file.
* No rank waits for data, checkpoints or other users of the network; routes through switches are ideal.
* `selene` and `h100` have a card for each device and no oversubscription; `reduce_hidden` of sums on `h100` is left out, and the rest
  follows the last backward."""


def command(table, devices, machines):
    _, machine, per_node, network, options, *_ = table
    path = os.path.join(machines, machine + ".opts") if machines else machine
    words = {"graph": network, "machine_file": path, "machine_nodes": -(-devices // per_node),
             "optimizer_type": "adam", **options(devices)}
    return [word for name, value in words.items() for word in ("-" + name, str(value))]


def run(renga, words):
    """Predicted and simulated seconds, wall seconds and KiB of a plan; a text where there is none."""
    with tempfile.TemporaryFile("w+") as out:
        begin = time.monotonic()
        process = subprocess.Popen([renga, "plan", *words], stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    scales = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
    predicted = re.search(r"predicted: ([\d.]+) (\w+) per step", text)
    simulated = re.search(r"simulated on shared links: .*\(([-+.e\d]+) s\)", text)
    if process.returncode or not predicted or not simulated:
        return text.strip().split("\n")[-1]
    return {"predicted": float(predicted.group(1)) * scales[predicted.group(2)],
            "simulated": float(simulated.group(1)), "wall": time.monotonic() - begin,
            "cpu": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss}


def rows_of(table, found):
    """Rows with efficiencies; of those that have a plan."""
    _, _, _, _, _, all_devices, kind, published, _ = table
    rows, first = [], None
    for devices in all_devices:
        row = found.get(devices)
        if not isinstance(row, dict):
            continue
        first = first or (devices, row["simulated"], published.get(devices))
        share = devices / first[0] if kind == "strong" else 1
        row.update(devices=devices, efficiency=first[1] / row["simulated"] / share,
                   published=published.get(devices))
        row["published_efficiency"] = (first[2] / row["published"] / share
                                       if first[2] and row["published"] else None)
        rows.append(row)
    return rows


def show(table, rows):
    title, machine = table[:2]
    lines = [f"**{title}; `{machine}`**", "",
             "| devices | predicted | simulated | efficiency | published | efficiency | plan |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        other = [f"{row['published']:.2f} s", f"{100 * row['published_efficiency']:.1f} %"] if row["published"] else ["", ""]
        lines.append(f"| {row['devices']} | {row['predicted']:.3g} s | {row['simulated']:.4g} s | {100 * row['efficiency']:.1f} % | "
                     f"{other[0]} | {other[1]} | {row['cpu']:.1f} s, {row['peak'] / 1024:.0f} MiB |")
    return "\n".join(lines) + "\n"


def judge(table, rows):
    """A sentence for each thing that was asked."""
    said = []
    for devices, what, least in table[8]:
        row = next((row for row in rows if row["devices"] == devices), None)
        if row is None:
            continue
        cost = 1 / row["efficiency"] - 1
        near = abs(cost - (1 / least - 1)) <= 0.02 if "within" in what else row["efficiency"] >= least
        said.append(f"* {what}: {100 * row['efficiency']:.1f} %"
                    + (f", {100 * cost:+.1f} % of a step" if "within" in what else "")
                    + ("" if near else "; not reached"))
    return said


def main(arguments):
    renga, options, quick = arguments[0], {}, "-quick" in arguments
    words = iter(word for word in arguments[1:] if word != "-quick")
    for word in words:
        options[word[1:]] = next(words)
    jobs = [(t, devices) for t, table in enumerate(TABLES) for devices in table[5]
            if not quick or (table[3] == TRANSFORMER and devices in (4, 400, 1200))]
    with concurrent.futures.ThreadPoolExecutor(int(options.get("jobs", 1))) as pool:
        found = list(pool.map(lambda job: run(renga, command(TABLES[job[0]], job[1], options.get("machines"))), jobs))
    failed, tables, said = False, [], []
    for t, table in enumerate(TABLES):
        of = {devices: row for (number, devices), row in zip(jobs, found) if number == t}
        for devices, row in of.items():
            if not isinstance(row, dict):
                print(f"no plan: {table[0]}, {devices} devices: {row}")
                failed = True
            elif table[3] == TRANSFORMER and (row["cpu"] > SECONDS or row["peak"] > MEMORY):
                print(f"{table[0]}, {devices} devices: {row['cpu']:.0f} s, {row['peak']} KiB")
                failed = True
        rows = rows_of(table, of)
        if rows:
            tables.append(show(table, rows))
            said += judge(table, rows)
    text = "\n".join([*tables, "Asked for:", "", *said, "", "Assumed:", "", ASSUMPTIONS, ""])
    print(text)
    if "table" in options:
        with open(options["table"], "w", encoding="utf-8") as file:
            file.write(text)
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
