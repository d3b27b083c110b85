#!/usr/bin/env python3
"""Step times of Renga beside PyTorch's, in turn in one run, of two stages and two replicas beside one rank, and of two ranks
beside PyTorch's pipelines and replicas.

    steps.py [--renga PATH] [--python PATH] [--pairs 5] [--steps 3] [--precision bf16] [--compile] [--processor] [--options "-optimizer_sparse exact"]
             [case ...]

Prints a table row per case: medians over the pairs and the median ratio of throughput (above 1: Renga is faster).
PyTorch is what the given python has, in its fastest form: fused Adam, channels-last images, autocast for bf16. Run it on a
quiet machine, or compare user time of the processor: Renga's is that of all steps less that of one. Two ranks beside
PyTorch's have a row of each.
"""
import argparse
import csv
import os
import resource
import statistics
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--renga", default=os.path.join(here, "../../build/renga"))
parser.add_argument("--python", default="/usr/bin/python3")
parser.add_argument("--mpiexec", default="mpiexec")
parser.add_argument("--pairs", type=int, default=5)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
parser.add_argument("--compile", action="store_true", help="PyTorch with torch.compile")
parser.add_argument("--threads", type=int, default=1, help="of each program")
parser.add_argument("--processor", action="store_true", help="user time, for a machine that others use")
parser.add_argument("--options", default="", help="of Renga, more")
parser.add_argument("cases", nargs="*")
arguments = parser.parse_args()

GPT = "gpt:layers=12,hidden=768,heads=12,sequence=256,vocabulary=50257"
CASES = {  # name: network, batch, micro-batch, peer's network, its micro-batches
    "gpt": (GPT, 4, 4, "gpt", 1),
    "resnet50": ("resnet:depth=50,image=224,classes=1000", 4, 4, "resnet50", 1),
    "resnet50_64": ("resnet:depth=50,image=64,classes=1000", 16, 16, "resnet50_64", 1),
    "bert": ("bert:sequence=128", 4, 4, "bert", 1),
    "transformer": ("transformer:sequence=64,vocabulary=32000", 4, 4, "transformer", 1),
    "ncf": ("ncf:users=6040,items=3706", 1024, 1024, "ncf", 1),
    "mlp": ("mlp:sizes=784-2048-2048-2048-2048-2048-2048-2048-2048-10", 128, 128, "mlp", 1),
}
SMALL = GPT.replace("sequence=256", "sequence=128").replace("50257", "8192")
STAGES = {  # name: network, batch, micro-batch, options of two ranks
    "gpt_stages": (SMALL, 8, 1, ["-layout_pipeline", "2"]),
    "gpt_stages_auto": (SMALL, 8, 1, ["-layout_pipeline", "2", "-layout_chunks", "2", "-schedule_type", "auto"]),
    "gpt_replicas": (SMALL, 8, 4, ["-layout_pipeline", "1", "-layout_data", "2"]),
    "mlp_stages": ("mlp:sizes=784-2048-2048-2048-2048-2048-2048-2048-2048-10", 256, 32, ["-layout_pipeline", "2"]),
}
PARALLEL = {  # name: mode of peer_parallel.py, micro-batch, options of two ranks
    "pp_1f1b": ("1f1b", 1, ["-layout_pipeline", "2"]),
    "pp_interleaved": ("interleaved", 1, ["-layout_pipeline", "2", "-layout_chunks", "2", "-schedule_type", "interleaved"]),
    "pp_zbv": ("zbv", 1, ["-layout_pipeline", "2", "-schedule_type", "zb-v"]),
    "ddp": ("ddp", 4, ["-layout_pipeline", "1", "-layout_data", "2"]),
    "fsdp": ("fsdp", 4, ["-layout_pipeline", "1", "-layout_data", "2", "-layout_zero", "parameters"]),
}


def run(command):
    environment = dict(os.environ, OMP_NUM_THREADS=str(arguments.threads))
    environment.pop("OPENBLAS_CORETYPE", None)
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def train(network, batch, microbatch, ranks, options, steps):
    run([arguments.mpiexec, "-n", str(ranks), arguments.renga, "train", "-graph", network, "-data", "synthetic",
         "-batch_size", str(batch), "-microbatch_size", str(microbatch), "-steps", str(steps),
         "-optimizer_type", "adam", "-optimizer_learning_rate", "1e-4", "-device_threads",
         str(arguments.threads), "-precision", arguments.precision, *arguments.options.split(), *options])


def monitored(network, batch, microbatch, ranks, options, steps):
    """Median seconds of a step but the first, and user time of all steps."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with tempfile.TemporaryDirectory() as folder:
        monitor = os.path.join(folder, "m.csv")
        train(network, batch, microbatch, ranks, ["-monitor", "csv:" + monitor, *options], steps)
        with open(monitor) as file:
            seconds = [float(row["seconds"]) for row in csv.DictReader(file)]
    return statistics.median(seconds[1:] or seconds), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before


def both(network, batch, microbatch, ranks=1, options=()):
    """Seconds of a step, and those of the processor."""
    case = (network, batch, microbatch, ranks, options)
    seconds, spent = monitored(*case, arguments.steps + 1)
    return seconds, (spent - monitored(*case, 1)[1]) / arguments.steps


def renga(network, batch, microbatch, ranks=1, options=()):
    if arguments.processor:
        return both(network, batch, microbatch, ranks, options)[1]
    return monitored(network, batch, microbatch, ranks, options, arguments.steps + 1)[0]


def peer(network, batch, microbatches):
    lines = run([arguments.python, os.path.join(here, "peer.py"), network, "--batch", str(batch), "--steps",
                 str(arguments.steps), "--microbatches", str(microbatches), "--dtype", arguments.precision, "--threads",
                 str(arguments.threads)] + ["--compile"] * arguments.compile + ["--processor"] * arguments.processor)
    return statistics.median(float(line) for line in lines.split())


def parallel(mode, batch, microbatch):
    lines = run([arguments.python, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                 os.path.join(here, "peer_parallel.py"), mode, "--batch", str(batch), "--microbatches", str(batch // microbatch),
                 "--steps", str(arguments.steps)] + ["--compile"] * arguments.compile)
    return [statistics.median(column) for column in zip(*(map(float, line.split()) for line in lines.splitlines()))]


def report(name, what, first, second):
    """A row of each kind of seconds that first() and second() give."""
    pairs = [(first(), second()) for _ in range(arguments.pairs)]
    if isinstance(pairs[0][0], float):
        pairs = [((a,), (b,)) for a, b in pairs]
    for kind in range(len(pairs[0][0])):
        ours, theirs = ([p[side][kind] for p in pairs] for side in range(2))
        ratios = [b / a for a, b in zip(ours, theirs)]
        print("| %s | %.0f | %.0f | %.2f (%.2f to %.2f) | %s |" % (
            name + ", user time" * kind, 1e3 * statistics.median(ours), 1e3 * statistics.median(theirs),
            statistics.median(ratios), min(ratios), max(ratios), what), flush=True)


version = run([arguments.python, "-c", "import torch; print(torch.__version__)"]).strip()
print("| case | Renga ms | other ms | median ratio of throughput | other |\n|---|---|---|---|---|")
wanted = arguments.cases or list(CASES) + list(STAGES) + list(PARALLEL)
for name in wanted:
    if name in CASES:
        network, size, micro, other, count = CASES[name]
        what = "PyTorch %s%s, %s, threads each: %d" % (version, " compiled" * arguments.compile, arguments.precision,
                                                       arguments.threads)
        report(name, what, lambda: renga(network, size, micro),
               lambda: peer(other, size // count, count))
    elif name in STAGES:
        network, size, micro, options = STAGES[name]
        report(name, "one rank, one thread; Renga: two ranks, %d micro-batches" % (size // micro),
               lambda: renga(network, size, micro, 2, options), lambda: renga(network, size, micro))
    elif name in PARALLEL:
        mode, micro, options = PARALLEL[name]
        report(name, "PyTorch %s%s %s on two ranks, one thread each" % (version, " compiled" * arguments.compile, mode),
               lambda: both(SMALL, 8, micro, 2, options), lambda: parallel(mode, 8, micro))
    else:
        sys.exit("no case %s; there are %s" % (name, ", ".join(list(CASES) + list(STAGES) + list(PARALLEL))))
