#!/usr/bin/env python3
"""Planners side by side: predicted step, gap to the bound, planning time, as a table of Markdown.

usage: test/bench/planners.py RENGA [WORD]   (only networks whose line has WORD)

Each type of partition plans the networks of the RaNNC and SageMaker papers on a machine file; no
device is needed. The gap is to the largest lower bound that any of the types proves. Planning time
is processor time of the whole program, in which the network is built, too.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile

TYPES = {
    "auto": [],
    "exact": ["-partition_exact_time_limit", "5"],
    "rannc": [],
    "tree": [],
    "even": [],
}

# name, -graph, machine, nodes, batch, micro-batch
CASES = [
    ("BERT 24 x 1024 (0.34 B)", "bert:layers=24,hidden=1024,heads=16,sequence=512", "v100", 4, 256, 4),
    ("BERT 48 x 1536 (1.4 B)", "bert:layers=48,hidden=1536,heads=16,sequence=512", "v100", 4, 256, 2),
    ("BERT 96 x 2048 (4.9 B)", "bert:layers=96,hidden=2048,heads=32,sequence=512", "v100", 4, 256, 2),
    ("BERT 144 x 2048 (7.3 B)", "bert:layers=144,hidden=2048,heads=32,sequence=512", "v100", 4, 256, 1),
    ("BERT 256 x 2048 (12.9 B)", "bert:layers=256,hidden=2048,heads=32,sequence=512", "v100", 4, 256, 1),
    ("ResNet-50 width 8 (1.5 B)", "resnet:depth=50,width=8,classes=1000", "v100", 4, 128, 1),
    ("ResNet-152 width 8 (3.7 B)", "resnet:depth=152,width=8,classes=1000", "v100", 4, 128, 1),
    ("GPT-3 XL 24 x 2048", "gpt:layers=24,hidden=2048,heads=16,sequence=2048,vocabulary=50257",
     "dgx-a100", 4, 512, 1),
    ("GPT-3 13B 40 x 5120", "gpt:layers=40,hidden=5120,heads=40,sequence=2048,vocabulary=50257",
     "dgx-a100", 8, 512, 1),
    ("GPT-3 175B 96 x 12288", "gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=50257",
     "h200", 64, 1536, 1),
    ("T5 large 24 x 1024", "t5:layers=24,hidden=1024,heads=16", "dgx-a100", 2, 256, 2),
    ("NCF", "ncf:users=138493,items=26744", "mdx-cpu", 8, 65536, 1024),
]


def plan(renga, kind, options, case):
    """(prediction or None, stages and replicas, seconds of the processor)."""
    _, graph, machine, nodes, batch, microbatch = case
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "plan.json")
        command = [renga, "plan", "-graph", graph, "-machine_file", machine, "-machine_nodes",
                   str(nodes), "-batch_size", str(batch), "-microbatch_size", str(microbatch),
                   "-partition_type", kind, "-layout_chunks", "1", "-plan_view",
                   "json:" + file] + options
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode:
            print(kind, graph, done.stderr.split("\n")[0], file=sys.stderr)
            return None, "", seconds
        with open(file, encoding="utf-8") as text:
            found = json.load(text)
    replicas = [stage["replicas"] for stage in found["stages"]]
    least, most = min(replicas), max(replicas)
    shape = f"{len(replicas)} × {most}" if least == most else f"{len(replicas)} × {least}–{most}"
    return found["predicted"], shape, seconds


def cell(prediction, shape, seconds, bound):
    if prediction is None:
        return f"does not fit; {seconds:.2g} s"
    gap = prediction["step"] / bound - 1
    return f"{prediction['step']:.3g} s, {100 * gap:.1f} %, {shape}; {seconds:.2g} s"


def main():
    renga = os.path.abspath(sys.argv[1])
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    print("| network | machine | " + " | ".join(TYPES) + " |")
    print("|---" * (len(TYPES) + 2) + "|")
    for case in CASES:
        if word not in " ".join(map(str, case)):
            continue
        rows = [plan(renga, kind, options, case) for kind, options in TYPES.items()]
        bound = max((row[0]["bound"] for row in rows if row[0]), default=0)
        print(f"| {case[0]} | {case[3]} × {case[2]} | " +
              " | ".join(cell(*row, bound) for row in rows) + " |", flush=True)


if __name__ == "__main__":
    main()
