#!/usr/bin/env python3
"""What a step costs more from Python than from the program renga, on the same network, ranks and options, in turn.

    python_step.py [--renga PATH] [--python PATH] [--ranks 1] [--pairs 7] [--steps 60] [--graph gpt:...] [--batch 4]

Prints the median step of both, the median ratio of the pairs, and what Python takes of a step: outside of RengaPipelineStep, and
as this asks for samples. It hardly depends on the network. Run it on a quiet machine.
"""
import argparse
import csv
import os
import statistics
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--renga", default=os.path.join(here, "../../build/renga"))
parser.add_argument("--python", default=sys.executable)
parser.add_argument("--mpiexec", default="mpiexec")
parser.add_argument("--ranks", type=int, default=1)
parser.add_argument("--pairs", type=int, default=7)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--graph", default="gpt:layers=2,hidden=192,heads=4,sequence=64,vocabulary=1024")
parser.add_argument("--loop", action="store_true", help=argparse.SUPPRESS)
arguments = parser.parse_args()
OPTIONS = {"batch_size": arguments.batch, "optimizer_type": "adam", "optimizer_learning_rate": 1e-4,
           "layout_pipeline": arguments.ranks, "layout_data": 1, "device_threads": 1}


def loop():
    """The program that is measured: prints the median step, and the median of what is Python's, in seconds; the latter in time
    of the processor, which other programs do not lengthen."""
    import time
    import numpy as np
    import renga
    from renga import _batch
    from renga._library import library
    spent = {"step": 0.0, "read": 0.0}

    def timed(function, name):
        def call(*given):
            start = time.thread_time()
            result = function(*given)
            spent[name] += time.thread_time() - start
            return result
        return call

    _batch.Fields._read = timed(_batch.Fields._read, "read")
    library.RengaPipelineStep = timed(library.RengaPipelineStep, "step")
    graph = renga.Graph(arguments.graph)
    rng = np.random.default_rng(0)
    batches = [{name: rng.integers(1, 1000, (arguments.batch, *tensor.shape[1:])) for name, tensor in graph.inputs.items()}
               for _ in range(8)]
    whole, of_python = [], []
    with renga.Pipeline(graph, **OPTIONS) as pipeline:
        for step in range(arguments.steps + 1):
            spent.update(step=0.0, read=0.0)
            start, cpu = time.perf_counter(), time.thread_time()
            pipeline.step(batches[step % 8])
            cpu = time.thread_time() - cpu
            whole.append(time.perf_counter() - start)
            of_python.append(cpu - spent["step"] + spent["read"])
    if graph.comm.rank == 0:
        print(statistics.median(whole[1:]), statistics.median(of_python[1:]))


def run(command):
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.path.join(here, "../../src/binding/python"))
    environment.pop("OPENBLAS_CORETYPE", None)
    command = [arguments.mpiexec, "-n", str(arguments.ranks), *command]
    return subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout


def of_program():
    with tempfile.TemporaryDirectory() as folder:
        monitor = os.path.join(folder, "m.csv")
        words = [word for name, value in OPTIONS.items() for word in (f"-{name}", str(value))]
        run([arguments.renga, "train", "-graph", arguments.graph, "-data", "synthetic", "-steps", str(arguments.steps + 1),
             "-monitor", "csv:" + monitor, *words])
        with open(monitor) as file:
            rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
        return statistics.median(float(row["seconds"]) for row in rows[1:])


def of_python():
    words = ["--steps", str(arguments.steps), "--batch", str(arguments.batch), "--graph", arguments.graph,
             "--ranks", str(arguments.ranks)]
    return [float(word) for word in run([arguments.python, __file__, "--loop", *words]).split()[-2:]]


if arguments.loop:
    loop()
    sys.exit()
pairs = [(of_program(), *of_python()) for _ in range(arguments.pairs)]
program, python, interpreter = (statistics.median(column) for column in zip(*pairs))
ratios = [python / program for program, python, _ in pairs]
print(f"{arguments.ranks} ranks: program {1e3 * program:.2f} ms, Python {1e3 * python:.2f} ms, ratio {statistics.median(ratios):.4f} "
      f"({min(ratios):.4f} to {max(ratios):.4f}); Python takes {1e6 * interpreter:.0f} us, {100 * interpreter / python:.2f} %")
