"""The Python package with NumPy alone, on any number of ranks; prints the digest at the end."""
import os
import sys
import tempfile
import threading
import warnings

import numpy as np

import renga

failures = 0


def expect(good, what):
    global failures
    if not good:
        print("failed:", what, flush=True)
        failures += 1


def refuses(name, words, call):
    try:
        call()
    except renga.Error as error:
        expect(error.name == name, f"{error.name} is not {name}: {error}")
        expect(words in str(error), f"no \"{words}\" in: {error}")
        return error
    expect(False, f"no error: {words}")
    return None


rest = renga.initialize(argv=["api.py", "word", "-timeout", "60"])
expect(rest == ["api.py", "word"], rest)
world = renga.Comm()
rank, size = world.rank, world.size
half = world.split(rank % 2, rank)
expect(half.size == (size + 1 - rank % 2) // 2, "size of half of the ranks")
expect(world.split(-1 if rank else 0) is None or rank == 0, "no group for color -1")
expect(world.broadcast(b"abc" if rank == 0 else None) == b"abc", "broadcast")

def within(**given):
    with renga.options(**given):
        pass


# Other names of an option: one value is taken, and gone behind the block; two are refused.
refuses("OPTION", "with another value", lambda: within(layout_pipeline=2, pipeline_parallel=1))
within(layout_tensor=2, tensor_parallel=2)
with renga.options(layout_tensor=1):
    within(tensor_parallel=2)
refuses("OPTION", "not one of", lambda: within(zero_stage=7))

rng = np.random.default_rng(7)
x = rng.standard_normal((20, 4)).astype(np.float32)
labels = (x[:, 0] > 0).astype(np.int32) + (x[:, 1] > 0)
network = "mlp:sizes=4-16-3"


def train(pipeline):
    losses = []
    for first in (0, 8, 16):  # the last batch is short
        part = slice(first, first + 8)
        losses.append(pipeline.step({"x": x[part], "labels": labels[part]}))
    return losses


def make(graph, **given):
    layout = {"layout_pipeline": min(graph.comm.size, 2)}
    layout["layout_data"] = max(graph.comm.size // 2, 1)
    return renga.Pipeline(graph, batch_size=8, microbatch_size=2, seed=3, optimizer="adam",
                          lr=0.01, betas=(0.8, 0.99), **{**layout, **given})


# What a network says of itself, and what is refused.
graph = renga.Graph(network)
expect(list(graph.inputs) == ["x", "labels"], graph.inputs)
expect(graph.inputs["x"] == renga.Tensor("float32", (-1, 4)), graph.inputs["x"])
expect(graph.loss == "loss" and graph.totals["parameters"] == 131, graph.totals)
expect("7 nodes" in graph.text() and len(graph) > 3, "text of a graph")
refuses("OPTION", "needs two widths", lambda: renga.Graph("mlp:sizes=4"))
refuses("FILE_OPEN", "nowhere.onnx", lambda: renga.Graph("nowhere.onnx"))
refuses("OPTION", "did you mean -batch_size", lambda: make(graph, batch_sise=3))
refuses("OPTION", "not one of sgd|adam|adamw", lambda: renga.Pipeline(graph, optimizer="rprop"))

# A precision is its network's, of words, of options, of a trainer that makes the network.
refuses("OPTION", "but of its network", lambda: make(graph, precision="bf16"))
refuses("OPTION", "fp32|bf16|fp16|tf32|fp8", lambda: renga.Graph(network, precision="bf61"))
with renga.Graph(network, precision="bf16", precision_keep="*loss*") as narrow, make(narrow) as pipeline:
    losses = train(pipeline)
with make(graph) as pipeline:
    expect(losses != train(pipeline), "bf16 has the losses of fp32")
with renga.options(precision="bf16"), renga.Graph(network, precision_keep="*loss*") as narrow, make(narrow) as pipeline:
    expect(losses == train(pipeline), "bf16 of an option has other losses")
firsts = []
for given in ({}, {"precision": "bf16"}):
    with renga.Trainer(network, {"x": x, "labels": labels}, steps=1, batch_size=8, seed=3, **given) as trainer:
        firsts.append(trainer.step()["loss"])
expect(firsts[0] != firsts[1], "a trainer's precision is lost")

# Lanes, which tensor-parallel ranks split.
digests = []
for given in ({}, {"layout_pipeline": 1, "layout_data": 0, "layout_tensor": min(size, 2)}):
    with renga.Graph(network, graph_lanes=2) as laned, make(laned, **given) as pipeline:
        train(pipeline)
        digests.append(pipeline.digest)
expect(digests[0] == digests[1], "lanes have other bits on tensor-parallel ranks")
with renga.options(graph_lanes=2), renga.Graph(network) as laned, make(laned) as pipeline:
    train(pipeline)
    expect(pipeline.digest == digests[0], "lanes of an option are lost")
for unread, cure in (("graph_frozen", "give frozen= to"), ("graph_lora", "give lora= to"), ("graph_split", "is not read")):
    with renga.options(**{unread: "2"}):
        refuses("OPTION", cure, lambda: renga.Graph(network))
refuses("OPTION", "a whole number", lambda: renga.Graph(network, graph_lanes="many"))
refuses("ARGUMENT", "1024", lambda: renga.Graph(network, graph_lanes=5000))

# Training; options are one object's alone.
pipeline = make(graph)
losses = train(pipeline)
expect(losses[-1] < losses[0] or losses[0] < 2, losses)
expect(pipeline.step_number == 3 and pipeline.last_step["samples"] == 4, pipeline.last_step)
digest = pipeline.digest
fresh = renga.Pipeline(graph, batch_size=8, microbatch_size=8, seed=3)
expect(abs(fresh.step((x, labels)) - losses[0]) < 0.5, "a fresh pipeline")
expect(fresh.last_step["learning_rate"] == 0.001, "options leaked from one object to another")
fresh.close()
refuses("ARGUMENT", "null pointer", lambda: fresh.digest)

# Functions instead of arrays: only what a rank needs is asked for. Too many arrays, too few.
asked = []


def rows(first, count):
    asked.append((first, count))
    return x[first:first + count]


before = pipeline.evaluate((x[:8], labels[:8]))
expect(pipeline.evaluate({"x": rows, "labels": lambda f, n: labels[f:f + n]}, samples=8) == before,
       "functions and arrays differ")
expect((rank in pipeline.plan_table["stages"][0]["ranks"]) == bool(asked), asked)
refuses("ARGUMENT", "no input label", lambda: pipeline.step({"x": x, "label": labels}))
refuses("SHAPE", "[N, 4]", lambda: pipeline.step({"x": x[:, :3], "labels": labels}))
refuses("ARGUMENT", "convert it", lambda: pipeline.step({"x": x * 1j, "labels": labels}))
refuses("ARGUMENT", "convert it", lambda: pipeline.step({"x": x, "labels": labels * 1.5}))
refuses("ARGUMENT", "how many samples", lambda: pipeline.step(None))
refuses("SHAPE", "say 20", lambda: pipeline.step({"x": x, "labels": labels[:3]}))

# An exception on one rank is one on all, and the process goes on.
last = size - 1
error = refuses("SHAPE", "[20, 3]", lambda: pipeline.step(
    {"x": x[:, :3] if rank == last else x, "labels": labels}))
expect(rank == last or str(error).startswith(f"rank {last}:"), error)
if size > 1:
    refuses("ARGUMENT", "batches of 4 to 8", lambda: pipeline.evaluate(
        (x[:8], labels[:8]) if rank else (x[:4], labels[:4])))


def breaks(first, count):
    raise ValueError("a disk has failed")


error = None
try:
    pipeline.step({"x": breaks, "labels": labels[:8]})
except renga.Error as caught:
    error = caught
expect(error is not None and error.name == "ARGUMENT", "an exception of a batch is lost")
expect("ValueError: a disk has failed" in str(error), error)
expect(isinstance(error.__cause__, ValueError) or str(error).startswith("rank "), error)
expect(pipeline.digest == digest and pipeline.step_number == 3, "a failed step has changed something")

# Another thread runs while this one is in Renga.
ticks, done = [0], threading.Event()


def count():
    while not done.is_set():
        ticks[0] += 1


thread = threading.Thread(target=count)
thread.start()
world.barrier()
for _ in range(20):
    pipeline.evaluate((x[:8], labels[:8]))
done.set()
thread.join()
expect(ticks[0] > 0, "the interpreter's lock was kept")

# Outputs: to all, to one rank.
scores = pipeline.forward({"x": x}, samples=None)
expect(scores.shape == (20, 3) and scores.dtype == np.float32, scores.shape)
one = pipeline.forward({"x": x}, "l.1", to=last)
expect((one is None) == (rank != last), "an output to one rank")
expect(one is None or np.array_equal(one, scores), "the same output twice")
refuses("ARGUMENT", "outputs l.1", lambda: pipeline.forward({"x": x}, "l.7"))
hidden = np.maximum(x @ pipeline.state_dict()["l.0.weight"].T + pipeline.state_dict()["l.0.bias"], 0)
expect(np.allclose(hidden @ pipeline.state_dict()["l.1.weight"].T +
                   pipeline.state_dict()["l.1.bias"], scores, atol=1e-5), "scores by NumPy")

# State: round trip, one rank's, what does not fit.
state = pipeline.state_dict(optimizer=True)
expect(set(state) >= {"l.0.weight", "l.0.weight:first_moment", "step"}, sorted(state))
expect(pipeline.state_dict(to=0) == {} or rank == 0, "a state for rank 0 alone")
for name, array in pipeline.tensors(optimizer=True, to=0):
    expect(array is None if rank else np.array_equal(array, state[name]), f"{name} by itself")
other = make(graph, layout_pipeline=1, layout_data=size)
other.load_state_dict(state)
expect(other.digest == digest and other.step_number == 3, "state to another layout")
back = other.state_dict(optimizer=True)
expect(list(back) == list(state) and all(np.asarray(back[n]).tobytes() == np.asarray(a).tobytes()
                                         for n, a in state.items()), "a round trip changes bits")
other.close()
pipeline.load_state_dict({n: a * 0 for n, a in state.items() if n != "step"} if rank == 0 else {},
                         root=0)
expect(pipeline.digest != digest, "nothing was loaded")
pipeline.load_state_dict(state if rank == last else {}, root=last)
expect(pipeline.digest == digest, "state from one rank")
refuses("ARGUMENT", "missing: l.0.bias", lambda: pipeline.load_state_dict({}))
refuses("SHAPE", "l.0.weight is", lambda: pipeline.load_state_dict(
    {**state, "l.0.weight": np.zeros((2, 2))}))
pipeline.load_state_dict({"l.9": np.zeros(3)}, strict=False)

# Checkpoints.
folder = (world.broadcast(tempfile.mkdtemp().encode() if rank == 0 else None)).decode()
keeper = renga.Checkpoint(pipeline, folder, checkpoint_keep=2)
path = keeper.write()
expect(os.path.exists(path) and path.startswith(folder), path)
keeper.close()
again = make(graph)
with renga.Checkpoint(again, folder) as keeper:
    expect(keeper.resume() == 3 and again.digest == digest, "resume")
    expect(keeper.step() is False and keeper.stop is False, "no file is due")
again.close()
again = make(graph)
expect(again.read_initial(path) == 4 and again.step_number == 0, "initial")
again.close()
# Adapters.
adapted = renga.Graph("mlp:sizes=4-16-3", lora={"rank": 2, "targets": "l.0", "alpha": 4})
expect(adapted.parameters["l.0.lora_A.weight"].shape == (2, 4), adapted.parameters)
refuses("ARGUMENT", "adapters have rank, alpha, dropout and targets",
        lambda: renga.Graph("mlp:sizes=4-16-3", lora={"rank": 2, "target": "l.0"}))
refuses("OPTION", "fits no parameter", lambda: renga.Graph("mlp:sizes=4-16-3", lora={"rank": 2, "targets": "l.9"}))
with make(adapted) as again:
    refuses("FILE_OPEN", "adapter_config.json", lambda: again.read_adapter(folder))
world.barrier()
if rank == 0:
    os.unlink(path)

# Plans.
plan = renga.plan(graph, "v100", nodes=1, batch_size=64)
expect(plan.batch_size == 64 and plan.prediction["step"] > 0, plan.prediction)
expect(plan.text().startswith("plan: ") and str(plan) == plan.text(), "text of a plan")
expect(plan._repr_svg_().startswith("<svg") and "limit" in plan.reasons, plan.reasons)
plan.save(folder + "/a.plan")
loaded = renga.Plan.load(folder + "/a.plan", graph)
expect(loaded.stages[0]["last"] == len(graph) or len(loaded.stages) > 1, loaded.stages)
expect("same" in plan.compare(loaded), plan.compare(loaded))
refuses("FILE_OPEN", "v1000", lambda: renga.plan(graph, "v1000", batch_size=64))
refuses("ARGUMENT", "none is named", lambda: renga.plan(graph, nodes=3, batch_size=64))
two = renga.plan(graph, batch_size=8, layout_pipeline=2, ranks=2)
expect(len(two.stages) == 2, two.stages)
world.barrier()
if rank == 0:
    os.unlink(folder + "/a.plan")
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)

# A network without a loss; warnings are Python's.
forward = renga.Graph(network, outputs=True)
expect(forward.loss is None and list(forward.inputs) == ["x"], forward.inputs)
with warnings.catch_warnings(record=True):
    warnings.simplefilter("always")
    with renga.Pipeline(forward, batch_size=8, microbatch_size=2, seed=3) as runner:
        runner.load_state_dict(pipeline.state_dict())
        expect(np.array_equal(runner.predict(x), scores), "prediction")
        refuses("ORDER", "no loss", lambda: runner.step({"x": x}))

# Half of the ranks train by themselves.
mine = renga.Graph(network, half)
with make(mine) as part:
    expect(train(part) == losses and part.digest == digest, "a group has other bits")
mine.close()
expect(pipeline.digest == digest, "the digest has changed")
if rank == 0:
    print(f"digest {digest:016x}", flush=True)
sys.exit(failures > 0)
