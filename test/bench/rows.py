#!/usr/bin/env python3
"""Steps of ncf in the size of MovieLens-20M with Adam, in turn in one run: updates of whole tables, of the rows that a step
reads, and PyTorch's SparseAdam (Adam for what is not a table).

    rows.py [--renga PATH] [--python PATH] [--turns 5] [--steps 10] [--batch 1024]

Prints processor time of a step, one thread each: medians over the turns, and the medians of the ratios of each turn with the
smallest and the largest.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import time

here = os.path.dirname(os.path.abspath(__file__))
USERS, ITEMS, FACTORS, LAYERS = 138493, 26744, 64, (256, 256, 128, 64)
FIRST = 150


def peer(batch, steps):
    """Seconds of each step, on standard output."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    tables = [torch.nn.Embedding(n, width, sparse=True) for width in (FACTORS, LAYERS[0] // 2) for n in (USERS, ITEMS)]
    for table in tables:
        torch.nn.init.normal_(table.weight, std=0.01)
    widths = list(zip(LAYERS, LAYERS[1:]))
    layers = torch.nn.Sequential(*[part for a, b in widths for part in (torch.nn.Linear(a, b), torch.nn.ReLU())])
    out = torch.nn.Linear(FACTORS + LAYERS[-1], 1)
    dense = list(layers.parameters()) + list(out.parameters())
    rules = [torch.optim.SparseAdam([t.weight for t in tables], lr=1e-4), torch.optim.Adam(dense, lr=1e-4, fused=True)]
    loss_of = torch.nn.BCEWithLogitsLoss()
    for _ in range(steps + 1):
        user, item = torch.randint(USERS, (batch,)), torch.randint(ITEMS, (batch,))
        label = torch.randint(2, (batch,)).float()
        begin = time.process_time()
        product = tables[0](user) * tables[1](item)
        deep = layers(torch.cat([tables[2](user), tables[3](item)], 1))
        loss = loss_of(out(torch.cat([product, deep], 1)).squeeze(1), label)
        for rule in rules:
            rule.zero_grad(set_to_none=True)
        loss.backward()
        for rule in rules:
            rule.step()
        loss.item()
        print(time.process_time() - begin)


def run(command):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    environment.pop("OPENBLAS_CORETYPE", None)
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def seconds(sparse, steps):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run([arguments.renga, "train", "-graph", "ncf", "-data", "synthetic", "-batch_size", str(arguments.batch),
         "-microbatch_size", str(arguments.batch), "-steps", str(steps), "-optimizer_type", "adam", "-progress", "none",
         "-optimizer_learning_rate", "1e-4", "-device_threads", "1", "-optimizer_sparse", sparse])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def renga(sparse, first, steps):
    """The first steps, which touch most pages of the tables for the first time, are in both runs."""
    return (seconds(sparse, first + steps) - seconds(sparse, first)) / steps


def torch_step():
    lines = run([arguments.python, __file__, "--peer", "--batch", str(arguments.batch), "--steps", str(FIRST + arguments.steps)])
    return statistics.median(float(line) for line in lines.split()[FIRST:])


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--renga", default=os.path.join(here, "../../build/renga"))
parser.add_argument("--python", default=sys.executable)
parser.add_argument("--turns", type=int, default=5)
parser.add_argument("--steps", type=int, default=10)
parser.add_argument("--batch", type=int, default=1024)
parser.add_argument("--peer", action="store_true", help=argparse.SUPPRESS)
arguments = parser.parse_args()
if arguments.peer:
    peer(arguments.batch, arguments.steps)
    sys.exit()
turns = [(renga("lazy", FIRST, 10 * arguments.steps), renga("off", 5, arguments.steps), torch_step()) for _ in range(arguments.turns)]
for name, at in (("rows", 0), ("whole tables", 1), ("PyTorch's SparseAdam", 2)):
    ratios = sorted(turn[at] / turn[0] for turn in turns)
    print("%s: %.1f ms, %.2f times the step of rows (%.2f to %.2f)" % (
        name, 1e3 * statistics.median(turn[at] for turn in turns), statistics.median(ratios), ratios[0], ratios[-1]))
