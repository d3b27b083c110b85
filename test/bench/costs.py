#!/usr/bin/env python3
"""usage: costs.py RENGA bits|lanes|order|launch [ROUNDS]: the figures of doc/costs.md that small runs give.

bits: 18 layouts train a GPT for 100 steps; their digests and losses. lanes: a step in 1 and 8 lanes on one rank. order: sums over
two and four replicas in fixed order beside -pipeline_reduction unordered. launch: seconds from the launch to the first step,
beside PyTorch (PEER: a Python that has torch). What is compared runs in turn; the ratio is the median of the ratios of the
rounds. Seconds are those of the processor, of all ranks, as other work may run.
LD_PRELOAD=test/yield.so where there are more ranks than cores."""

import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RENGA, WHAT = os.path.abspath(sys.argv[1]), sys.argv[2]
ROUNDS = int(sys.argv[3]) if len(sys.argv) > 3 else 9
MPIEXEC = os.environ.get("MPIEXEC", "mpiexec")
ENVIRONMENT = dict(os.environ, OMP_NUM_THREADS="1")

TINY = ("-graph gpt:layers=4,hidden=64,heads=4,sequence=32,vocabulary=256 -graph_lanes 4 -graph_token_lanes 2 -batch_size 4 "
        "-microbatch_size 1 -partition_leaf 1 -steps 100 -parameter_digest -monitor_every 100 -progress lines")
S, R, T, C, SHARD = "-layout_pipeline", "-layout_data", "-layout_tensor", "-layout_context", "-layout_zero"
LAYOUTS = [  # ranks, options
    (1, ""), (2, f"{R} 2"), (2, f"{R} 2 {SHARD} optimizer"), (2, f"{R} 2 {SHARD} parameters"), (2, f"{T} 2"), (2, f"{C} 2"), (2, f"{S} 2"),
    (4, f"{R} 4 {SHARD} gradients"), (4, f"{T} 4"), (4, f"{S} 4 -layout_recompute full"), (4, f"{S} 2 {R} 2"),
    (4, f"{S} 2 {T} 2 -schedule_type gpipe"), (4, f"{R} 2 {T} 2 {SHARD} optimizer"), (4, f"{T} 2 {C} 2"), (4, f"{S} 2 {C} 2"),
    (4, f"{S} 4 -schedule_type zb-h1"), (8, f"{S} 2 {R} 2 {T} 2"), (8, f"{S} 2 {T} 2 {C} 2 -layout_recompute full"),
]
BASE = "gpt:layers=4,hidden=256,heads=8,sequence=128,vocabulary=2048"
FIRST = "gpt:layers=4,hidden=256,heads=8,sequence=128,vocabulary=256"
SMALL = "gpt:layers=12,hidden=768,heads=12,sequence=256,vocabulary=50257"


def command(ranks, options):
    words = [RENGA, "train", "-data", "synthetic", *options.split()]
    return words if ranks == 1 else [MPIEXEC, "-n", str(ranks), *words]


def run(words):
    """Output, and seconds of the processor."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(words)}: {output}")
    return output, usage.ru_utime + usage.ru_stime


def seconds_of_steps(ranks, options, steps):
    """What so many steps take of the processor, without set-up: two runs, less each other."""
    long, short = (run(command(ranks, f"{options} -steps {n}"))[1] for n in (steps + 1, 1))
    return (long - short) / steps


def compare(names, times):
    """times: by name a list over the rounds, the first name is the one that others are beside."""
    for name in names:
        ratios = [time / first for time, first in zip(times[name], times[names[0]])]
        print(f"{name}: {statistics.median(times[name]):.4g} s, {statistics.median(ratios):.3f} of {names[0]} "
              f"({min(ratios):.3f} to {max(ratios):.3f}), {len(ratios)} rounds", flush=True)


def bits():
    found = {}
    for ranks, options in LAYOUTS:
        output, _ = run(command(ranks, f"{TINY} {options if ranks > 1 else ''}"))
        digest = re.search(r"parameter digest (0x[0-9a-f]+)", output)[1]
        found.setdefault(digest, []).append(options)
        loss = re.findall(r"loss ([0-9.]+)", output)[-1]
        print(f"{ranks} ranks {options or 'one rank'}: {digest} loss {loss}", flush=True)
    print(f"{len(LAYOUTS)} layouts, {len(found)} digest{'s' if len(found) > 1 else ''}")


def lanes():
    names, times = [1, 8], {}
    for _ in range(ROUNDS):
        for lane in names:
            seconds = seconds_of_steps(1, f"-graph {BASE} -graph_lanes {lane} -batch_size 8 -microbatch_size 8", 8)
            times.setdefault(lane, []).append(seconds)
    compare(names, times)


def order():
    for replicas in (2, 4):
        names, times = ["unordered", "ordered"], {}
        for _ in range(ROUNDS):
            for name in names:
                options = f"-graph {BASE} -batch_size 8 -microbatch_size 1 {S} 1 {R} {replicas} -pipeline_reduction {name}"
                times.setdefault(name, []).append(seconds_of_steps(replicas, options, 3))
        print(f"{replicas} replicas")
        compare(names, times)


def launch():
    """Set-up is what a run of one step takes less a step, which is what a second step takes. The peer makes a step before the first."""
    step = "-graph {} -batch_size {} -microbatch_size {} -partition_type even -steps"
    first, large = step.format(FIRST, 16, 4), step.format(SMALL, 1, 1)
    runs = {"4 x 256, 1 rank": (1, lambda n: command(1, f"{first} {n}")),
            "4 x 256, 2 x 2 ranks": (1, lambda n: command(4, f"{first} {n} {S} 2 {R} 2")),
            "GPT small, 1 rank": (1, lambda n: command(1, f"{large} {n}"))}
    if "PEER" in os.environ:
        runs["import torch"] = (0, lambda n: [os.environ["PEER"], "-c", "import torch"])
        runs["GPT small, PyTorch"] = (2, lambda n: [os.environ["PEER"], f"{HERE}/peer.py", "gpt", "--batch", "1", "--steps", str(n)])
    times = {}
    for _ in range(ROUNDS):
        for name, (steps, words) in runs.items():
            one, two = run(words(1))[1], run(words(2))[1]
            times.setdefault(name, []).append(one - steps * (two - one))
            print(f"{name}: {times[name][-1]:.3g} s before the first step, {two - one:.3g} s a step", flush=True)
    for name, seconds in times.items():
        print(f"{name}: {statistics.median(seconds):.3g} s ({min(seconds):.3g} to {max(seconds):.3g})")


if __name__ == "__main__":
    {"bits": bits, "lanes": lanes, "order": order, "launch": launch}[WHAT]()
