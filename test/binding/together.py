"""Calls of all ranks where one rank's Python raises: it is raised on all, naming the rank, and the next step is right. And what
a forked copy of a process may not do. On any number of ranks; prints the digest at the end."""
import os
import sys
import tempfile

import numpy as np

import renga

failures = 0
world = renga.Comm()
rank, size = world.rank, world.size
last = size - 1
MINE = rank == last
rng = np.random.default_rng(7)
x = rng.standard_normal((40, 4)).astype(np.float32)
labels = rng.integers(0, 3, 40)
batches = [{"x": x[f:f + 8], "labels": labels[f:f + 8]} for f in range(0, 40, 8)]


def expect(good, what):
    global failures
    if not good:
        print("failed:", rank, what, flush=True)
        failures += 1


class Odd:
    """An argument that raises wherever one looks at it."""

    def __str__(self):
        raise ValueError("not this one")

    __array__ = __iter__ = __index__ = __fspath__ = __bool__ = __len__ = __float__ = __str__


def raises(words, call, cause=None):
    """On all ranks; the one that it comes from has the sentence alone, others its number too."""
    try:
        call()
    except renga.Error as error:
        expect(words in str(error), f"no \"{words}\" in: {error}")
        expect(MINE or str(error).startswith(f"rank {last}: "), f"no rank {last} in: {error}")
        expect(not MINE or cause is None or isinstance(error.__cause__, cause), repr(error.__cause__))
        return
    except BaseException as error:
        expect(False, f"{type(error).__name__} instead of renga.Error: {error}")
        return
    expect(False, f"nothing is raised: {words}")


def make(graph, **given):
    layout = {"layout_pipeline": min(graph.comm.size, 2), "layout_data": max(graph.comm.size // 2, 1)}
    return renga.Pipeline(graph, **{**dict(batch_size=8, microbatch_size=2, seed=3, lr=0.01), **layout, **given})


graph = renga.Graph("mlp:sizes=4-16-3")
with make(graph) as pipeline:
    losses = [pipeline.step(batch) for batch in batches]
    digest, state = pipeline.digest, pipeline.state_dict(optimizer=True)
    scores = pipeline.forward({"x": x})

# Batches: each kind of exception, in each call; then the right batch.
ragged, masked = [[1, 2, 3, 4], [1, 2]], np.ma.masked_array(x[:8], x[:8] > 0.5)


def fails():
    raise RuntimeError("no data")


bad = [("inhomogeneous", ValueError, lambda b: {**b, "x": ragged}), ("not this one", ValueError, lambda b: {**b, "x": Odd()}),
       ("masked array, ", None, lambda b: {**b, "x": masked}), ("object", None, lambda b: {**b, "x": np.array([[None] * 4] * 8)}),
       ("3 arrays", None, lambda b: (x, x, x)), ("no input y", None, lambda b: {"y": x}), ("[0, 4]", None, lambda b: {"x": x[:0]})]
with make(graph) as pipeline:
    mine = []
    for number, batch in enumerate(batches):
        for words, cause, change in bad if number == 2 else bad[number:number + 1]:
            given = change(batch) if MINE else batch
            if words == "[0, 4]":
                words = "without samples"
            raises(words, lambda: pipeline.step(given), cause)
            raises(words, lambda: pipeline.evaluate(given), cause)
            raises(words, lambda: pipeline.forward(given), cause)
        raises("RuntimeError: no data", lambda: pipeline.step(batch, before=fails if MINE else None), RuntimeError)
        mine.append(pipeline.step(batch))
    expect(mine == losses and pipeline.digest == digest, f"after errors: {mine} {losses}")
    full = np.ma.masked_array(x, np.zeros(x.shape, bool))
    expect(np.array_equal(pipeline.forward({"x": full}), scores), "a masked array without masked elements")

    # Other batches on one rank: in any of the arrays, and not where it reads but its own rows.
    order = np.arange(8)[::-1]
    for name in ("x", "labels"):
        given = {**batches[0], name: batches[0][name][order]} if MINE else batches[0]
        for call in (pipeline.step, pipeline.evaluate, pipeline.forward) if size > 1 else ():
            try:
                call(given)
                expect(False, f"ranks have other {name}")
            except renga.Error as error:
                expect("with different batches" in str(error), str(error))
    expect(pipeline.digest == digest, "other batches change nothing")
    read = {**batches[0], "x": lambda first, count: batches[0]["x"][first:first + count]}
    expect(pipeline.evaluate(read if MINE else batches[0]) == pipeline.evaluate(batches[0]), "a function on one rank")

    # Other arguments, and other objects.
    odd = Odd() if MINE else None
    raises("outputs l.1", lambda: pipeline.forward({"x": x}, "l.9" if MINE else "l.1"))
    raises("rank 99 of", lambda: pipeline.forward({"x": x}, to=99 if MINE else None))
    raises("rank 99 of", lambda: pipeline.state_dict(to=99 if MINE else None))
    raises("not this one", lambda: pipeline.load_state_dict({**state, "l.0.bias": Odd()} if MINE else state), ValueError)
    raises("masked array, ", lambda: pipeline.load_state_dict({**state, "l.0.bias": np.ma.masked_all(16)} if MINE else state))
    raises("TypeError", lambda: pipeline.load_state_dict(None if MINE else state), TypeError)
    raises("ValueError", lambda: pipeline.load_state_dict({**state, "step": "x"} if MINE else state))
    raises("not this one", lambda: pipeline.read_initial(Odd() if MINE else "nowhere"), ValueError)
    raises("not this one", lambda: renga.Graph(Odd() if MINE else "mlp:sizes=4-16-3"), ValueError)
    raises("not this one", lambda: renga.Graph("mlp:sizes=4-16-3", frozen=odd), ValueError)
    raises("not this one", lambda: renga.Graph("mlp:sizes=4-16-3", outputs=[Odd()] if MINE else ["l.1"]), ValueError)
    raises("not this one", lambda: make(graph, lr=Odd() if MINE else 0.01), ValueError)
    raises("TypeError", lambda: make(graph, seed="x" if MINE else 3), TypeError)
    raises("did you mean -batch_size", lambda: make(graph, **({"batch_sise": 8} if MINE else {})))
    raises("not this one", lambda: renga.plan(graph, Odd() if MINE else "v100", batch_size=8), ValueError)
    raises("not this one", lambda: renga.plan(graph, "v100", batch_size=Odd() if MINE else 8), ValueError)
    raises("none is named", lambda: renga.plan(graph, None if MINE else "v100", nodes=1, batch_size=8))
    raises("not this one", lambda: renga.Plan.load(Odd() if MINE else "nowhere", graph), ValueError)
    raises("not this one", lambda: renga.Checkpoint(pipeline, Odd() if MINE else "nowhere"), ValueError)
    raises("not this one", lambda: renga.Checkpoint(pipeline, None, checkpoint_every=Odd() if MINE else 3), ValueError)
    raises("rank 99 of", lambda: graph.comm.broadcast(b"", 99 if MINE else 0))
    raises("TypeError", lambda: graph.comm.split("a" if MINE else 0), TypeError)
    with renga.plan(graph, "v100", batch_size=8) as plan:
        raises("not this one", lambda: plan.save(Odd() if MINE else "nowhere"), ValueError)
    expect(pipeline.digest == digest, "errors have changed something")
    pipeline.load_state_dict({name: value for name, value in state.items() if MINE}, root=last)
    expect(pipeline.digest == digest, "a state of one rank")

    # Different calls.
    if size > 1:
        for call, words in ((lambda: pipeline.step(batches[0]) if MINE else pipeline.evaluate(batches[0]), "Pipeline.evaluate"),
                            (lambda: pipeline.digest if MINE else graph.comm.barrier(), "Comm.barrier"),
                            (lambda: pipeline.state_dict(optimizer=MINE), "optimizer="),
                            (lambda: pipeline.load_state_dict({} if MINE else state, strict=False), "names")):
            try:
                call()
                expect(False, f"nothing is raised: {words}")
            except renga.Error as error:
                expect(words in str(error), error)
        expect(pipeline.digest == digest, "different calls have changed something")

# What leaves the block of one rank is told to the others, wherever they are; it stays as it is on its own.
for there in (lambda: [pipeline.step(batch) for batch in batches], lambda: None):
    try:
        with make(graph) as pipeline:
            if MINE:
                raise KeyError("a bug")
            there()
    except KeyError:
        expect(MINE, "KeyError of another rank")
    except renga.Error as error:
        expect(not MINE and str(error) == f"rank {last}: KeyError: 'a bug'", error)
try:
    with make(graph) as pipeline:
        pipeline.step(batches[0], before=sys.exit if MINE else None)
        expect(False, "SystemExit of one rank is lost")
except SystemExit:
    expect(MINE, "SystemExit of another rank")
except renga.Error as error:
    expect(not MINE and "SystemExit" in str(error), error)

# A forked copy ends as it likes, and its calls are refused.
with make(graph) as pipeline:
    pipeline.step(batches[0])
    child = os.fork()
    if child == 0:
        try:
            pipeline.step(batches[0])
        except renga.Error as error:
            sys.exit(5 if "forked" in str(error) else 1)
        sys.exit(2)
    expect(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5, "a forked copy")
    expect([losses[0]] + [pipeline.step(batch) for batch in batches[1:]] == losses, "after a fork")
    if rank == 0:
        print(f"digest {digest:016x}", flush=True)
sys.exit(failures > 0)
