"""Communicators of mpi4py: the world, and one that leaves a rank out."""
import sys

import numpy as np
from mpi4py import MPI

import renga

world = MPI.COMM_WORLD
try:
    some = world.Split(0 if world.rank < 3 else 1, world.rank)
    graph = renga.Graph("mlp:sizes=4-16-3", some)
except renga.Error as error:
    if world.rank == 0:
        print("skipped:", error)
    sys.exit(0 if error.name == "SUPPORT" else 1)
assert graph.comm.size == some.size and graph.comm.rank == some.rank
x = np.arange(32, dtype=np.float32).reshape(8, 4) / 32
labels = np.arange(8) % 3
with renga.Pipeline(graph, batch_size=8, microbatch_size=2, layout_pipeline=some.size,
                    layout_data=1, seed=5) as pipeline:
    losses = [pipeline.step((x, labels)) for _ in range(3)]
    digest = pipeline.digest
everyone = world.allgather((losses, digest))
assert all(e == everyone[0] for e in everyone), everyone
try:
    renga.Comm("world")
except renga.Error as error:
    assert "no communicator of mpi4py" in str(error)
if world.rank == 0:
    print("mpi4py", MPI.COMM_WORLD.size, "ranks")
