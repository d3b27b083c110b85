"""A program for renga run: it goes on from its own checkpoints, and leaves with code 85 where a signal asks for it. Rank 1 of its
first start is killed after 25 of 60 steps."""
import os
import signal
import sys

import numpy as np
import renga

world = renga.Comm()
rng = np.random.default_rng(1)
x, labels = rng.random((320, 4)), rng.integers(0, 3, 320)
graph = renga.Graph("mlp:sizes=4-16-3")
with renga.Pipeline(graph, batch_size=32, microbatch_size=8, partition_leaf=1, optimizer="adam", lr=0.01) as pipeline:
    with renga.Checkpoint(pipeline, sys.argv[1], checkpoint_every=10, checkpoint_signals=True) as keeper:
        step = keeper.resume() or 0
        while step < 60 and not keeper.stop:
            first = 32 * step % 320
            pipeline.step({"x": x[first:first + 32], "labels": labels[first:first + 32]})
            step += 1
            if step == 25 and os.environ.get("RENGA_RUN_START") == "1" and world.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            keeper.step()
    if world.rank == 0:
        print(f"digest {pipeline.digest:#x} after step {step}", flush=True)
    else:
        pipeline.digest
sys.exit(85 if step < 60 else 0)
