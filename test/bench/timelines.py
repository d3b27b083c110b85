#!/usr/bin/env python3
"""Steps as they ran beside their simulation, schedule by schedule, on two ranks.

    timelines.py [--renga PATH] [--steps 16] [--runs 3] [network ...]

Each run is one of renga train with -schedule_view draw:FILE, whose drawing has two ratios: how long the step of median length
was by the simulation with measured costs, and by one in which each action takes what it took in that step on the average. The
first judges costs and simulation together, the second the simulation (what the lists wait for, and nothing else is waited for).
Schedules with several stages for each rank have the second alone ("nan").
Costs are measured first (-profile_type measured). Of several runs the table has the median of each ratio. A network is one of
the names below, or -graph's own text, with a batch of 16 samples in micro-batches of 2. Run it on a quiet machine.
"""
import argparse
import os
import re
import statistics
import subprocess
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--renga", default=os.path.join(here, "../../build/renga"))
parser.add_argument("--mpiexec", default="mpiexec")
parser.add_argument("--steps", type=int, default=16)
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--schedules", default="gpipe,1f1b,zb-h1,zb-h2,interleaved,zb-v,dualpipe-v")
parser.add_argument("networks", nargs="*")
arguments = parser.parse_args()

NETWORKS = {  # network, batch, micro-batch
    "gpt": ("gpt:layers=4,hidden=256,heads=4,sequence=128,vocabulary=8192", 16, 2),
    "resnet": ("resnet:depth=18,image=64,classes=100", 32, 4),
    "mlp": ("mlp:sizes=784-1024-1024-1024-1024-10", 512, 64),
}
CHUNKED = ("interleaved", "zb-v", "dualpipe-v")  # auto plans one stage for each rank, and no other type has costs


def run(folder, network, batch, microbatch, options):
    """Milliseconds that were measured, and the two ratios; None: no such plan."""
    picture = os.path.join(folder, "step.svg")
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    environment.pop("OPENBLAS_CORETYPE", None)
    command = [arguments.mpiexec, "-n", "2", arguments.renga, "train", "-graph", network, "-data", "synthetic", "-batch_size",
               str(batch), "-microbatch_size", str(microbatch), "-steps", str(arguments.steps), "-device_threads", "1",
               "-progress", "none", "-profile_type", "measured", "-profile_file", os.path.join(folder, "profile.h5"),
               "-schedule_view", "draw:" + picture, *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print("| failed: %s |" % done.stderr.strip().splitlines()[-1][:200])
        return None
    with open(picture, encoding="utf-8") as file:
        head = re.search(r"measured: step ([\d.]+) (\w+), bubble ([\d.]+) %;(?: ([\d.]+) of the simulated step;)? ([\d.]+) of", file.read())
    unit = {"s": 1e3, "ms": 1, "us": 1e-3, "µs": 1e-3}[head.group(2)]
    return float(head.group(1)) * unit, float(head.group(3)), float(head.group(4) or "nan"), float(head.group(5))


def rows():
    worst = [0, 0]
    layouts = [(name, ["-partition_stages", "2", "-pipeline_schedule", name, "-partition_type", "even" if name in CHUNKED else "auto"])
               for name in arguments.schedules.split(",")]
    layouts.append(("two replicas", ["-partition_stages", "1", "-partition_replicas", "2", "-partition_type", "auto"]))
    print("| network | schedule | measured ms | bubble % | measured / simulated by costs | / simulated by its actions |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.networks or NETWORKS:
            network, batch, microbatch = NETWORKS.get(name, (name, 16, 2))
            for schedule, options in layouts:
                found = [run(folder, network, batch, microbatch, options) for _ in range(arguments.runs)]
                found = [one for one in found if one]
                if not found:
                    continue
                middle = [statistics.median(column) for column in zip(*found)]
                worst = [max(worst[i], abs(middle[2 + i] - 1) if middle[2 + i] == middle[2 + i] else 0) for i in range(2)]
                print("| %s | %s | %.1f | %.1f | %.3f | %.3f |" % (name, schedule, *middle), flush=True)
    print("\nlargest distance from 1: %.1f %% by costs, %.1f %% by the actions" % (100 * worst[0], 100 * worst[1]))


rows()
