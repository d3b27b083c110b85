#!/usr/bin/env python3
"""Steps that others published beside what `renga plan` predicts for their layouts.

usage: published.py RENGA [option...] [FILE...]

FILE: tables of published/ (all of them where none is named), each a row per measured run: layout
and seconds. Every row is planned as a run would be: with its stages (of whole layers), replicas,
tensor-parallel ranks (-graph_lanes, -layout_tensor), chunks and micro-batch, and nothing left to choose.
Where attention alone was made again nothing is.

  -every N       every Nth row of vtrain-single.tsv (10)
  -quick         a few rows that are planned soon
  -part P        fit, apart or all (all): two thirds of the rows, or the third that no machine file
                 was fitted to
  -machines DIR  machine files (the installed ones)
  -cache FILE    predictions to take, and to add to: of the same program
  -version TEXT  that of the program: predictions of others are not taken
  -jobs N        plans at a time (1)
  -rows          a line for each row
  -table FILE    the table of doc/performance.md
  -mean, -most, -tenth PERCENT  fail where the errors' mean, worst, or 90th percentile is over it

Prints predicted / published: mean |error|, 90th percentile, worst and bias of all and of groups;
and regret: how much slower than the fastest of all measured layouts of one network and batch the
one is that is predicted fastest.
"""
import concurrent.futures
import csv
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "published")
TABLES = ["runs.tsv", "vtrain-multi.tsv", "vtrain-single.tsv"]
NODE = 8  # devices
# vTrain: of GPT-2, not padded; each tensor-parallel rank has a whole number of its rows.
VOCABULARY = 50257
LIMIT = 900  # seconds of one plan
# A fixed layout has its memory whether it fits or not: these ran.
ROOM = "16TiB"


def read(name, every):
    """The rows of a table, as layouts."""
    path = name if os.path.exists(name) else os.path.join(HERE, name)
    with open(path, encoding="ascii") as file:
        rows = list(csv.DictReader((line for line in file if line[0] != "#"), delimiter="\t"))
    table = os.path.basename(path)
    if table == "vtrain-single.tsv":
        rows = rows[::every]
    return [layout(table, row) for row in rows]


def quick(rows):
    """Of each source a few layouts, of few nodes: layers x tensor-parallel ranks."""
    few = [row for row in rows
           if row["tensor"] * layers_of(row) <= 64]
    return few[::len(few) // 12 or 1]


def layout(table, row):
    """One row: numbers, and the columns that a table leaves out because all its rows have them."""
    whole = {name: int(row[name]) for name in ("batch", "microbatch", "stages", "replicas", "tensor")}
    whole["seconds"] = float(row["seconds"])
    if table == "runs.tsv":
        whole.update(source=row["source"], machine=row["machine"], network=row["network"],
                     nodes=int(row["nodes"]), chunks=int(row["chunks"]), recompute=row["recompute"],
                     shard=row["shard"])
    else:
        vocabulary = VOCABULARY // whole["tensor"] * whole["tensor"]
        network = (f"gpt:layers={row['layers']},hidden={row['hidden']},heads={row['heads']},"
                   f"sequence={row['sequence']},vocabulary={vocabulary}")
        whole.update(source=table[:-4], machine="selene", network=network,
                     nodes=(int(row["gpus"]) + NODE - 1) // NODE, chunks=1,
                     recompute="none" if table == "vtrain-single.tsv" else "full", shard="none")
    whole["devices"] = whole["stages"] * whole["replicas"] * whole["tensor"]
    return whole


def command(row, machines):
    """The options of renga plan that say all of a row."""
    machine = os.path.join(machines, row["machine"] + ".opts") if machines else row["machine"]
    options = {
        "machine_file": machine, "machine_nodes": row["nodes"], "machine_memory": ROOM,
        "graph": row["network"], "precision": "bf16", "optimizer_type": "adam",
        "batch_size": row["batch"], "microbatch_size": row["microbatch"],
        "layout_pipeline": row["stages"], "layout_data": row["replicas"],
        "partition_ranks": row["devices"], "partition_type": "even",
        "layout_chunks": row["chunks"], "layout_zero": row["shard"],
        "layout_recompute": "full" if row["recompute"] == "full" else "none",
    }
    if row["stages"] > 1 and layers_of(row) % (row["stages"] * row["chunks"]) == 0:
        options.update(partition_type="manual", partition_cuts=cuts(row))
    options["schedule_type"] = "interleaved" if row["chunks"] > 1 else "1f1b"
    if row["tensor"] > 1:
        options["graph_lanes"] = options["layout_tensor"] = row["tensor"]
    return [word for name, value in options.items() for word in ("-" + name, str(value))]


def layers_of(row):
    return int(re.search(r"layers=(\d+)", row["network"]).group(1))


def cuts(row):
    """Stages of whole layers, as many in each: their first nodes."""
    parts, layers = row["stages"] * row["chunks"], layers_of(row)
    return ",".join(f"blocks.{layers // parts * part}.ln1" for part in range(1, parts))


def key(renga, words, machine):
    """What decides a prediction: the options, the machine's file and the program."""
    digest = hashlib.sha256()
    for word in words:
        digest.update(os.path.basename(word).encode() + b"\0")
    if os.path.exists(machine):
        with open(machine, "rb") as file:
            digest.update(b"\n".join(line for line in file.read().split(b"\n") if line[:1] == b"-"))
    digest.update(renga.encode())
    return digest.hexdigest()[:24]


def plan(renga, words):
    """The prediction of a plan, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "plan.json")
        try:
            done = subprocess.run([renga, "plan", *words, "-plan_view", "json:" + out],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, check=False, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            return {"error": f"more than {LIMIT} s"}
        if done.returncode:
            return {"error": done.stderr.split("\n")[0]}
        with open(out, encoding="utf-8") as file:
            made = json.load(file)
        forward = sum(stage["forward_seconds"] for stage in made["stages"]) / len(made["stages"])
        return dict(made["predicted"], forward=forward)


def seconds_of(row):
    """Of a step, as those programs ran it: where a stage makes its forward again they begin as its
    gradient comes, and Renga while it waits for that, which no stage but the last does not."""
    made = row["plan"]
    if made.get("step", 0) and row["recompute"] == "full":
        return made["step"] + (row["stages"] - 1) * made["forward"]
    return made.get("step", 0)


def keep(file, cache):
    if file:
        with open(file + ".new", "w", encoding="ascii") as kept:
            json.dump(cache, kept, indent=0)
        os.replace(file + ".new", file)


def predict(renga, rows, options):
    """Each row gets its prediction; equal rows have one plan."""
    cache, file = {}, options.get("cache")
    if file and os.path.exists(file):
        with open(file, encoding="ascii") as kept:
            cache = json.load(kept)
    version = options.get("version", "")
    asked = {}
    for row in rows:
        words = command(row, options.get("machines"))
        row["key"] = key(version, words, words[1])
        if row["key"] not in cache:
            asked[row["key"]] = words
    with concurrent.futures.ThreadPoolExecutor(int(options.get("jobs", 1))) as pool:
        for name, made in zip(asked, pool.map(lambda words: plan(renga, words), asked.values())):
            cache[name] = made
            keep(file, cache)
    for row in rows:
        row.update(plan=cache[row["key"]])
        row["predicted"] = seconds_of(row)
        row["error"] = row["predicted"] / row["seconds"] - 1


def is_apart(row):
    """A third of all rows, by their layouts and not by their places: no machine file is fitted to them."""
    name = " ".join(str(row[word]) for word in ("network", "machine", "nodes", "batch", "microbatch",
                                                "stages", "replicas", "tensor", "recompute"))
    return hashlib.sha256(name.encode()).digest()[0] % 3 == 0


def errors(rows):
    """Mean, 90th percentile, worst and bias, as shares."""
    sizes = sorted(abs(row["error"]) for row in rows)
    return (sum(sizes) / len(sizes), sizes[min(len(sizes) - 1, int(0.9 * len(sizes)))], sizes[-1],
            sum(row["error"] for row in rows) / len(rows))


def show(name, rows):
    if rows:
        mean, tenth, most, bias = (100 * share for share in errors(rows))
        print(f"{name:34s} {len(rows):5d} {mean:7.1f} {tenth:7.1f} {most:7.1f} {bias:+7.1f}")


def show_groups(rows):
    print(f"{'rows':34s} {'count':>5s} {'mean':>7s} {'90th':>7s} {'worst':>7s} {'bias':>7s}  % of the published step")
    show("all", rows)
    for title, of in (("source", "source"), ("machine", "machine"), ("tensor", "tensor"),
                      ("nodes", "nodes"), ("chunks", "chunks"), ("recompute", "recompute")):
        for value in sorted({row[of] for row in rows}, key=lambda v: (str(type(v)), v)):
            show(f"  {title} {value}", [row for row in rows if row[of] == value])
    for several in (False, True):
        for tensor in sorted({row["tensor"] for row in rows}):
            show(f"  {'several nodes' if several else 'one node'}, tensor {tensor}",
                 [row for row in rows if row["tensor"] == tensor and (row["nodes"] > 1) == several])


def regrets(rows):
    """Of groups of measured layouts of one network, batch and machine: [(group, layouts, regret)]."""
    groups = {}
    for row in rows:
        if row["source"].startswith("vtrain"):
            network = row["network"].split(",vocabulary")[0]
            name = (row["source"], network, row["batch"], row["devices"])
            groups.setdefault(name, []).append(row)
    found = []
    for name, group in groups.items():
        if len(group) >= 4:
            chosen = min(group, key=lambda row: row["predicted"])
            best = min(row["seconds"] for row in group)
            found.append((name, len(group), chosen["seconds"] / best - 1))
    return found


def show_regrets(rows):
    found = regrets(rows)
    if found:
        shares = [100 * regret for _, _, regret in found]
        print(f"regret of {len(found)} groups of layouts: mean {sum(shares) / len(shares):.1f} %, "
              f"worst {max(shares):.1f} %")


def describe(row):
    return (f"{row['source']:13s} {row['network'].split(',vocab')[0]:52s} {row['devices']:5d} "
            f"P{row['stages']} D{row['replicas']} T{row['tensor']} V{row['chunks']} "
            f"m{row['microbatch']} B{row['batch']} {row['recompute']}")


def write_table(path, rows):
    names = {"N21": "Narayanan 2021, table 1", "Z21": "the same, table 2", "K22": "Korthikanti 2022",
             "S22": "Smith 2022 (DeepSpeed)", "gpt3": "DGX Cloud, GPT-3 175 G",
             "nemotron4": "DGX Cloud, Nemotron-4 15 G", "maxtext": "DGX Cloud, Llama 3 70 G (MaxText)",
             "llama3-sft": "DGX Cloud, Llama 3 70 G (tuning)"}
    with open(path, "w", encoding="ascii") as file:
        print("| run | devices | stages x replicas x tensor | chunks | micro-batch | recomputed | "
              "published | predicted | |\n|---|---|---|---|---|---|---|---|---|", file=file)
        for row in rows:
            if row["source"] in names:
                print(f"| {names[row['source']]} | {row['devices']} | {row['stages']} x "
                      f"{row['replicas']} x {row['tensor']} | {row['chunks']} | {row['microbatch']} | "
                      f"{row['recompute']} | {row['seconds']:.2f} s | {row['predicted']:.2f} s | "
                      f"{100 * row['error']:+.1f} % |", file=file)


def judge(rows, options):
    """Whether the errors are within what was asked."""
    mean, tenth, most, _ = errors(rows)
    failed = False
    for name, share in (("mean", mean), ("tenth", tenth), ("most", most)):
        if name in options and 100 * share > float(options[name]):
            print(f"{name}: {100 * share:.1f} %, and not within {options[name]} %")
            failed = True
    return failed


def main(arguments):
    renga, options, names = arguments[0], {}, []
    words = iter(arguments[1:])
    for word in words:
        if word in ("-rows", "-quick"):
            options[word[1:]] = True
        elif word.startswith("-"):
            options[word[1:]] = next(words)
        else:
            names.append(word)
    rows = [row for name in names or TABLES for row in read(name, int(options.get("every", 10)))]
    if "quick" in options:
        rows = quick(rows)
    part = options.get("part", "all")
    if part != "all":
        rows = [row for row in rows if is_apart(row) == (part == "apart")]
    predict(renga, rows, options)
    for row in rows:
        if not row["predicted"]:
            print(f"no plan: {describe(row)}: {row['plan'].get('error')}")
    planned = [row for row in rows if row["predicted"]]
    for row in planned if "rows" in options else []:
        print(f"{describe(row)}  {row['seconds']:9.3f} {row['predicted']:9.3f} {100 * row['error']:+7.1f} %")
    show_groups(planned)
    show_regrets(planned)
    if "table" in options:
        write_table(options["table"], planned)
    return int(judge(planned, options) or len(planned) < len(rows))


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1] or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
