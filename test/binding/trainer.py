"""renga.from_pretrained and renga.Trainer, in the folder that trainer.sh makes; prints digests."""
import os
import sys

import numpy as np

import renga

world = renga.Comm()
rank, size = world.rank, world.size
settings = dict(steps=6, batch_size=5, microbatch_size=1, partition_leaf=1, seed=1, lr=1e-3,
                optimizer_schedule="cosine")
arrays = {name: np.load(f"llama-1/{name}.npy") for name in ("tokens", "labels")}
failures = 0


def expect(good, what):
    global failures
    if not good:
        print(f"failed on rank {rank}: {what}", flush=True)
        failures += 1


def refuses(name, words, call):
    try:
        call()
    except renga.Error as error:
        expect(error.name == name and words in str(error), f"{error.name}: {error}")
    else:
        expect(False, f"no error: {words}")


def finish(way, trainer):
    digest = trainer.digest
    trainer.save_pretrained(f"{way}-{size}")
    if rank == 0:
        print(way, f"{digest:016x}", flush=True)


model = renga.from_pretrained("llama-1", sequence=12)
for way, data in (("file", "data.h5"), ("arrays", arrays)):
    with renga.Trainer(model, data, layout_pipeline=size, **settings) as trainer:
        rows = trainer.train()
        expect([row["step"] for row in rows] == list(range(6)), "rows of steps")
        finish(way, trainer)

# Left after some steps, and gone on with on other stages, or replicas; evaluated on the way.
folder, seen = f"checkpoints-{size}", []
tests = {name: array[:3] for name, array in arrays.items()}
given = dict(checkpoint_dir=folder, checkpoint_every=2, validation=tests, eval_every=2,
             on_row=seen.append, **settings)
with renga.Trainer(model, arrays, layout_data=size, **given) as trainer:
    before = trainer.evaluate()
    for step in range(4):
        trainer.step()
        trainer.checkpoint.step()
refuses("OPTION", "holds the checkpoints of another run", lambda: renga.Trainer(
    model, arrays, layout_pipeline=size, **given))
with renga.Trainer(model, arrays, layout_pipeline=size, resume=True, **given) as trainer:
    expect(trainer.step_number == 4, f"goes on after step {trainer.step_number}")
    rows = trainer.train()
    expect([r["step"] for r in rows if "loss" in r] == [4, 5], "steps after the resume")
    expect([r["step"] for r in rows if "validation_loss" in r] == [4, 6], "evaluations")
    expect(rows[-1]["validation_loss"] < before and rows[-1] == seen[-1], "the last evaluation")
    finish("resumed", trainer)

# Labels that do not count: batches are parts of one.
uneven = {name: array[:7].copy() for name, array in arrays.items()}
uneven["labels"][:5, 3:] = -100
with model.pipeline(batch_size=7, microbatch_size=1, partition_leaf=1) as pipeline:
    whole = pipeline.evaluate(uneven)
with renga.Trainer(model, arrays, validation=uneven, layout_pipeline=size, **settings) as trainer:
    expect(abs(trainer.evaluate() - whole) < 1e-6 * whole, "the loss of batches as of one")

# What is wrong on one rank is raised on all.
refuses("FILE_WRITE", "file-%d is there already" % size,
        lambda: renga.save_pretrained(pipeline, f"file-{size}") if pipeline._handle else
        renga.Trainer(model, arrays, **settings).save_pretrained(f"file-{size}"))
refuses("FILE_OPEN", "nowhere", lambda: renga.from_pretrained("nowhere"))
last = size - 1
refuses("ARGUMENT", "labels", lambda: renga.Trainer(
    model, {"tokens": arrays["tokens"]} if rank == last else arrays, **settings))
refuses("SUPPORT", "data_hide: renga train has this",
        lambda: renga.Trainer(model, arrays, data_hide=0.3, **settings))
digests = []
for data in ("data.h5", arrays):
    with renga.Trainer(model, data, data_owners=2, data_shuffle="local", layout_pipeline=size,
                       **{**settings, "batch_size": 4}) as trainer:
        trainer.train()
        digests.append(trainer.digest)
expect(digests[0] == digests[1], "samples of owners")
refuses("ARGUMENT", "is no network", lambda: renga.Trainer(7, arrays, **settings))
refuses("ARGUMENT", "none may be below 0",
        lambda: renga.Trainer(model, arrays, eval_samples=-1, **settings))
with renga.from_pretrained("llama-1", sequence=12, packed=True) as packed:
    expect("position_ids" in packed.graph.inputs, "rows of several documents")
refuses("ARGUMENT", "checkpoint_dir=", lambda: renga.Trainer(model, arrays, resume=True, **settings))


def stops(row):
    raise ValueError("enough" if rank == last else "")


with renga.Trainer(model, arrays, layout_pipeline=size, **settings) as trainer:
    trainer._on_row = stops if rank == last else lambda row: None
    refuses("ARGUMENT", "enough", trainer.train)


def interrupts(what, call):
    raise KeyboardInterrupt


# Ctrl-C before a callback is guarded.
with renga.Trainer(model, arrays, layout_pipeline=size, **settings) as trainer:
    guard = trainer._loop._callbacks.guard
    if rank == last:
        trainer._loop._callbacks.guard = lambda what, call: (
            interrupts if len(trainer.history) == 2 else guard)(what, call)
    try:
        trainer.train()
    except (KeyboardInterrupt, renga.Error) as error:
        expect(isinstance(error, KeyboardInterrupt) == (rank == last), f"{error!r}")
        expect(trainer.pipeline.step_number < 6, "the run goes on after Ctrl-C")
    else:
        expect(False, "Ctrl-C is lost")
with renga.Trainer("mlp:sizes=4-8-3", [np.ones((9, 4)), np.arange(9) % 3], steps=2,
                   batch_size=4) as trainer:
    expect(len(trainer.train()) == 2, "a network by name")
model.close()
expect("torch" not in sys.modules and "transformers" not in sys.modules, "torch is not needed")
expect(not [n for n in os.listdir(".") if n.endswith(".checkpoint")], "nothing is left")
sys.exit(failures > 0)
