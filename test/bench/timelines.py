#!/usr/bin/env python3
"""Steps as they ran beside their simulation, schedule by schedule and layout by layout, on two ranks or four.

    timelines.py [--renga PATH] [--steps 16] [--runs 3] [--schedules ...] [--layouts ...] [--yields] [network ...]

Each run is one of renga train with -schedule_view draw:FILE, whose drawing has two ratios: how long the step of median length
was by the simulation with measured costs, and by one in which each action takes what it took in that step on the average. The
first judges costs and simulation together, the second the simulation (what the lists wait for, and nothing else is waited for).
Schedules with virtual pipeline stages have the second alone ("nan"). Behind them stands the distance of the run that is
farthest from the median of the second ratio. --yields: ranks that wait give their core away (test/yield.so), where there are
more ranks than cores.
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
TWICE = ["-partition_type", "auto", "-layout_pipeline", "1", "-layout_data", "2"]
GROUP = ["-partition_type", "even", "-layout_pipeline", "1"]
FOUR = ["-partition_type", "auto", "-layout_pipeline", "2", "-layout_data", "2", "-schedule_type", "1f1b"]
LAYOUTS = {  # ranks, options
    "replicas": (2, TWICE),
    "shard-optimizer": (2, TWICE + ["-layout_zero", "optimizer"]),
    "shard-gradients": (2, TWICE + ["-layout_zero", "gradients"]),
    "shard-parameters": (2, TWICE + ["-layout_zero", "parameters"]),
    "tensor": (2, GROUP + ["-layout_tensor", "2", "-graph_lanes", "2"]),
    "sequence": (2, GROUP + ["-layout_context", "2", "-graph_token_lanes", "2"]),
    "replicas-4": (4, FOUR),
    "shard-gradients-4": (4, FOUR + ["-layout_zero", "gradients"]),
    "shard-parameters-4": (4, FOUR + ["-layout_zero", "parameters"]),
    "tensor-4": (4, ["-partition_type", "even", "-layout_pipeline", "2", "-schedule_type", "1f1b", "-layout_tensor", "2",
                     "-graph_lanes", "2"]),
    "sequence-4": (4, ["-partition_type", "even", "-layout_pipeline", "2", "-schedule_type", "1f1b", "-layout_context",
                       "2", "-graph_token_lanes", "2"]),
}
NO_LANES = {"resnet": ("tensor", "sequence", "tensor-4", "sequence-4"), "mlp": ("sequence", "sequence-4")}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--renga", default=os.path.join(here, "../../build/renga"))
parser.add_argument("--mpiexec", default="mpiexec")
parser.add_argument("--steps", type=int, default=16)
parser.add_argument("--runs", type=int, default=3)
parser.add_argument("--schedules", default="gpipe,1f1b,zb-h1,zb-h2,interleaved,zb-v,dualpipe-v")
parser.add_argument("networks", nargs="*")
parser.add_argument("--layouts", default=",".join(LAYOUTS))
parser.add_argument("--yields", action="store_true")
arguments = parser.parse_args()

NETWORKS = {  # network, batch, micro-batch
    "gpt": ("gpt:layers=4,hidden=256,heads=4,sequence=128,vocabulary=8192", 16, 2),
    "resnet": ("resnet:depth=18,image=64,classes=100", 32, 4),
    "mlp": ("mlp:sizes=784-1024-1024-1024-1024-10", 512, 64),
}
CHUNKED = ("interleaved", "zb-v", "dualpipe-v")  # auto plans one stage for each rank, and no other type has costs


def run(folder, ranks, network, batch, microbatch, options):
    """Milliseconds that were measured, and the two ratios; None: no such plan."""
    picture = os.path.join(folder, "step.svg")
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    environment.pop("OPENBLAS_CORETYPE", None)
    if arguments.yields:
        environment["LD_PRELOAD"] = os.path.join(os.path.dirname(os.path.abspath(arguments.renga)), "test/yield.so")
    command = [arguments.mpiexec, "-n", str(ranks), arguments.renga, "train", "-graph", network, "-data", "synthetic", "-batch_size",
               str(batch), "-microbatch_size", str(microbatch), "-steps", str(arguments.steps), "-device_threads", "1",
               "-progress", "none", "-profile_type", "measured", "-profile_file", os.path.join(folder, "profile.h5"),
               "-schedule_view", "draw:" + picture, *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print("| failed: %s |" % done.stderr.strip().splitlines()[-1][:200])
        return None
    with open(picture, encoding="utf-8") as file:
        head = re.search(r"measured: step ([\d.]+) (\w+), bubble (-?[\d.]+) %;(?: ([\d.]+) of the simulated step;)? ([\d.]+) of", file.read())
    unit = {"s": 1e3, "ms": 1, "us": 1e-3, "µs": 1e-3}[head.group(2)]
    return float(head.group(1)) * unit, float(head.group(3)), float(head.group(4) or "nan"), float(head.group(5))


def rows():
    worst = [0, 0]
    layouts = [(name, 2, ["-layout_pipeline", "2", "-schedule_type", name, "-partition_type", "even" if name in CHUNKED else "auto"])
               for name in arguments.schedules.split(",") if name]
    layouts += [(name, *LAYOUTS[name]) for name in arguments.layouts.split(",") if name]
    print("| network | schedule | measured ms | bubble % | measured / simulated by costs | / simulated by its actions | ± |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.networks or NETWORKS:
            network, batch, microbatch = NETWORKS.get(name, (name, 16, 2))
            for schedule, ranks, options in layouts:
                if schedule in NO_LANES.get(name, ()):
                    continue
                found = [run(folder, ranks, network, batch, microbatch, options) for _ in range(arguments.runs)]
                found = [one for one in found if one]
                if not found:
                    continue
                middle = [statistics.median(column) for column in zip(*found)]
                worst = [max(worst[i], abs(middle[2 + i] - 1) if middle[2 + i] == middle[2 + i] else 0) for i in range(2)]
                spread = max(abs(one[3] - middle[3]) for one in found)
                print("| %s | %s | %.1f | %.1f | %.3f | %.3f | %.3f |" % (name, schedule, *middle, spread), flush=True)
    print("\nlargest distance from 1: %.1f %% by costs, %.1f %% by the actions" % (100 * worst[0], 100 * worst[1]))


rows()
