"""Train a network from Python, with NumPy arrays, on any number of ranks.

    mpiexec -n 4 python3 examples/train.py
    mpiexec -n 4 python3 examples/train.py -layout_pipeline 2 -layout_data 2

Points of two interleaved spirals are to be told apart. Every rank has all points here; an array may
also be a function f(first, count), which is asked on the ranks that need it only.
"""
import sys

import numpy as np
import renga

renga.initialize(argv=sys.argv)  # options of the command line; may be left out
rng = np.random.default_rng(0)
labels = np.arange(1000) % 2
angle = rng.uniform(0, 3 * np.pi, 1000)
radius = angle / (3 * np.pi)
x = np.stack([radius * np.cos(angle + np.pi * labels), radius * np.sin(angle + np.pi * labels)], 1)

graph = renga.Graph("mlp:sizes=2-64-64-2")  # or an ONNX file
with renga.Pipeline(graph, batch_size=100, microbatch_size=25, seed=1, partition_type="even",
                    optimizer="adam", lr=0.01) as pipeline:
    for epoch in range(30):
        order = rng.permutation(1000)
        for first in range(0, 1000, 100):
            batch = order[first:first + 100]
            loss = pipeline.step({"x": x[batch], "labels": labels[batch]})
    scores = pipeline.forward({"x": x})
    if graph.comm.rank == 0:
        right = np.mean(scores.argmax(1) == labels)
        print(f"loss {loss:.4f}, {100 * right:.1f} % right, {graph.comm.size} ranks")
