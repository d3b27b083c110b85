#!/usr/bin/env python3
"""Predicted beside measured: seconds of a step and bytes of each rank, over networks and layouts.

    prediction.py [--renga PATH] [--steps 10] [--cuts 0] [--micro SIZES] [network ...]

Each run measures its costs first (-profile_type measured), with one thread for each rank and no more ranks than cores.
With --cuts N the automatic plan for two ranks is set beside all others: one rank, two replicas, and two stages cut at
N places of the network; the last column is the best of these over the automatic plan's time (1: none is better).
--cuts all tries every place where the two stages have another load or send other bytes than at any place before it.
--micro 1,2,4 tries these sizes of micro-batches instead of each network's own. A network is one of the names below, or
-graph's own text, with a batch of 16 samples.
Run it on a quiet machine.
"""
import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--renga", default=os.path.join(here, "../../build/renga"))
parser.add_argument("--mpiexec", default="mpiexec")
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--cuts", default="0", help="a number, or all")
parser.add_argument("--micro", default="", help="sizes of micro-batches: 1,2,4")
parser.add_argument("networks", nargs="*")
arguments = parser.parse_args()

NETWORKS = {  # name: network, batch, micro-batches tried
    "gpt": ("gpt:layers=4,hidden=256,heads=4,sequence=128,vocabulary=8192", 16, (2, 4)),
    "bert": ("bert:layers=4,hidden=256,heads=4,sequence=128,vocabulary=8192", 16, (2, 4)),
    "resnet": ("resnet:depth=18,image=64,classes=100", 32, (4, 8)),
    "t5": ("t5:layers=3,hidden=256,heads=4,intermediate=1024,sequence=64,vocabulary=8192", 16, (2, 4)),
    "mlp": ("mlp:sizes=784-1024-1024-1024-1024-10", 512, (64, 128)),
}


def wanted(name):
    """Network, batch and micro-batches of a name or of -graph's own text."""
    network, batch, sizes = NETWORKS.get(name, (name, 16, (2, 4)))
    return network, batch, tuple(int(size) for size in arguments.micro.split(",")) if arguments.micro else sizes


def run(command):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    environment.pop("OPENBLAS_CORETYPE", None)
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def train(folder, network, batch, microbatch, ranks, options):
    """Seconds predicted and measured (median after the first step), and what the run said."""
    monitor = os.path.join(folder, "monitor.csv")
    text = run([arguments.mpiexec, "-n", str(ranks), arguments.renga, "train", "-graph", network, "-data", "synthetic",
                "-batch_size", str(batch), "-microbatch_size", str(microbatch), "-steps", str(arguments.steps + 1),
                "-device_threads", "1", "-profile_type", "measured", "-profile_file",
                os.path.join(folder, "profile.h5"), "-monitor", "csv:" + monitor, *options])
    with open(monitor) as file:
        seconds = [float(row["seconds"]) for row in list(csv.DictReader(file))[1:]]
    predicted = re.search(r"predicted ([\d.e+-]+) s per step", text)
    return float(predicted.group(1)) if predicted else None, statistics.median(seconds), text


def memory_is_exact(text):
    rows = re.findall(r"stage \d+, replica \d+\s+([\d.]+ \w+)\s+([\d.]+ \w+)", text)
    return bool(rows) and all(forecast == measured for forecast, measured in rows)


def predictions(folder, names):
    errors = []
    print("| network | micro-batch | stages x replicas | predicted ms | measured ms | error | memory as forecast |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        network, batch, sizes = wanted(name)
        for microbatch in sizes:
            for stages, replicas in ((1, 1), (1, 2), (2, 1)):
                options = ["-partition_type", "auto", "-layout_pipeline", str(stages), "-layout_data",
                           str(replicas)]
                predicted, measured, text = train(folder, network, batch, microbatch, stages * replicas, options)
                errors.append(abs(predicted / measured - 1))
                print("| %s | %d of %d | %d x %d | %.1f | %.1f | %+.1f %% | %s |" %
                      (name, microbatch, batch, stages, replicas, 1e3 * predicted, 1e3 * measured,
                       100 * (predicted / measured - 1), "yes" if memory_is_exact(text) else "no"), flush=True)
    print("\n%d runs: mean error %.1f %%, largest %.1f %%" %
          (len(errors), 100 * statistics.mean(errors), 100 * max(errors)))


def places(folder, network):
    """Where two stages are cut: first nodes of the second."""
    nodes = int(re.search(r"nodes\s+(\d+)", run([arguments.renga, "info", "-graph", network])).group(1))
    if arguments.cuts != "all":
        cuts = int(arguments.cuts)
        return nodes, [cut * nodes // (cuts + 1) for cut in range(1, cuts + 1)]
    file, first = os.path.join(folder, "plan.json"), {}
    for place in range(1, nodes):
        run([arguments.renga, "plan", "-graph", network, "-partition_type", "manual", "-partition_cuts",
             "%d,%d" % (place, nodes - place), "-plan_view", "json:" + file])
        with open(file, encoding="utf-8") as text:
            stages = json.load(text)["stages"]
        load = tuple((stage["forward_flops"], stage["parameters"], stage["receives_per_sample"]) for stage in stages)
        first.setdefault(load, place)
    return nodes, sorted(first.values())


def exhaustive(folder, names):
    print("| network | micro-batch | automatic plan ms | best other plan ms | which | plans | best / automatic |")
    print("|---|---|---|---|---|---|---|")
    for name in names:
        network, batch, sizes = wanted(name)
        nodes, cuts = places(folder, network)
        plans = {"one rank": (1, ["-layout_pipeline", "1"]),
                 "two replicas": (2, ["-layout_pipeline", "1", "-layout_data", "2"])}
        for first in cuts:
            plans["cut at node %d" % first] = (2, ["-partition_type", "manual", "-partition_cuts",
                                                   "%d,%d" % (first, nodes - first)])
        for microbatch in sizes if arguments.micro else sizes[:1]:
            other = {}
            automatic = []
            for label, (ranks, options) in plans.items():  # the automatic plan in turn with each other
                automatic.append(train(folder, network, batch, microbatch, 2, ["-partition_type", "auto"])[1])
                other[label] = train(folder, network, batch, microbatch, ranks, options)[1]
            best = min(other, key=other.get)
            mine = statistics.median(automatic)
            print("| %s | %d of %d | %.1f | %.1f | %s | %d | %.3f |" %
                  (name, microbatch, batch, 1e3 * mine, 1e3 * other[best], best, len(plans), other[best] / mine),
                  flush=True)


with tempfile.TemporaryDirectory() as scratch:
    (exhaustive if arguments.cuts != "0" else predictions)(scratch, arguments.networks or list(NETWORKS))
