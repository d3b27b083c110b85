"""Networks of torch through renga.Module beside torch: five steps of SGD and of AdamW each.

usage: mpiexec -n RANKS python3 train.py FOLDER [small|libraries|aside|LIBRARY|NAME …]

A line for each network: its name, the largest difference of the losses from torch's, that of what SGD has moved a tensor by
(its gradients' sum), and the digest for each optimizer, or the sentence that refuses it. FOLDER keeps torch's numbers and
exported files for runs on other numbers of ranks, which need not make them again. Exit code 1 where a loss differs by more
than 1e-4 (with BatchNormalization 1e-3) or a tensor by 1e-3 of the largest number that it was moved by, or where a network
that is to be refused is not.
"""
import os
import pickle
import re
import shutil
import sys
import warnings

import aside
import common
import libraries
import numpy as np
import small
import torch

import renga
from renga import _torch

STEPS = 5
folder, wanted = sys.argv[1], sys.argv[2:] or ["small", "libraries"]
world = renga.Comm()


def export_once(module, file, *rest, **more):
    """renga.export, or a copy of what it wrote in a run on other ranks."""
    kept = os.path.join(folder, current.replace(" ", "-") + ".onnx")
    if not os.path.exists(kept):
        exporter(module, kept, *rest, **more)
    shutil.copy(kept, file)


exporter, _torch.export = _torch.export, export_once


def build(network):
    torch.manual_seed(1)
    return network.make().train()


def make_batches(network):
    torch.manual_seed(2)
    return [network.batch(network.samples) for _ in range(STEPS)]


def make_optimizer(kind, net, rate):
    parameters = [p for p in net.parameters() if p.requires_grad]
    return torch.optim.SGD(parameters, rate) if kind == "sgd" else torch.optim.AdamW(parameters, rate / 10)


def values_of(net):
    return {name: value.detach().numpy().copy() for name, value in net.named_parameters()}


def train_in_torch(network, kind):
    """The losses, and the parameters before and after."""
    net = build(network)
    before, losses = values_of(net), []
    optimizer = make_optimizer(kind, net, network.rate)
    for batch in make_batches(network):
        optimizer.zero_grad()
        loss = _torch._loss_of(net(**batch), torch) if network.loss is None else network.loss(net(*batch[:-1]), batch[-1])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, before, values_of(net)


def numbers_of_torch(network, kind):
    """On rank 0; others need none. What torch has against it is raised on all ranks."""
    kept = os.path.join(folder, f"{network.name} {kind}.pickle".replace(" ", "-"))
    with world.together():
        if world.rank == 0 and not os.path.exists(kept):
            try:
                numbers = train_in_torch(network, kind)
            except Exception as error:
                raise renga.Error(f"torch does not train it: {type(error).__name__}: {error}") from error
            with open(kept, "wb") as file:
                pickle.dump(numbers, file)
    if world.rank > 0:
        return None
    with open(kept, "rb") as file:
        return pickle.load(file)


def moved_apart(before, wanted, found):
    """How far what a tensor was moved by is from torch's, against the largest number of that, and the tensor's name. What
    rounding of the tensor does is taken off; tensors whose gradients are zero but for rounding count little."""
    moves = {name: np.abs(value - before[name]).max(initial=0) for name, value in wanted.items()}
    least, worst = 1e-3 * max(moves.values(), default=0), (0.0, "")
    for name, value in wanted.items():
        rounding = STEPS * np.finfo(np.float32).eps * np.abs(value).max(initial=0)
        off = np.abs(np.asarray(found[name]) - value).max(initial=0) - rounding
        worst = max(worst, (float(off / max(moves[name], least, 1e-30)), name))
    return worst


def layout(network):
    """A batch of BatchNormalization is one micro-batch, so that there are stages alone."""
    if network.whole:
        return {"layout_pipeline": world.size, "layout_data": 1, "microbatch_size": network.samples}
    stages = min(world.size, 2)
    return {"layout_pipeline": stages, "layout_data": world.size // stages, "microbatch_size": 2}


def train_in_renga(network, kind):
    net, batches = build(network), make_batches(network)
    rate = network.rate if kind == "sgd" else network.rate / 10
    model = renga.Module(net, network.loss, batches[0], optimizer=kind, lr=rate, **layout(network))
    losses = [model.step(batch) for batch in batches]
    digest, state = model.pipeline.digest, model.state_dict(to=0)
    model.close()
    return losses, digest, state


def try_network(network):
    """What is printed of it, and whether it is as wanted."""
    try:
        build(network)
    except Exception as error:  # whatever the library has against it
        return f"cannot be built: {type(error).__name__}: {error}", False
    words, good = [], not network.refused
    for kind in ("sgd", "adamw"):
        try:
            reference = numbers_of_torch(network, kind)
            losses, digest, state = train_in_renga(network, kind)
        except renga.Error as error:
            sentence = re.sub(r"/\S*module\.onnx: ", "", " ".join(str(error).split()))
            return f"refused: {sentence}", bool(network.refused) and network.refused in sentence
        if reference is None:
            continue
        wanted, before, after = reference
        worst, tolerance = max(abs(a - b) / max(1.0, abs(b)) for a, b in zip(losses, wanted)), 1e-3 if network.whole else 1e-4
        words.append(f"{kind} {worst:.0e} {digest:016x}")
        good = good and worst <= tolerance
        if kind == "sgd":
            apart, name = moved_apart(before, after, state)
            words.append(f"moved {apart:.0e}" + (f" {name}" if apart > 10 * tolerance else ""))
            good = good and apart <= 10 * tolerance
    return " ".join(words), good


warnings.filterwarnings("ignore")
torch.set_num_threads(1)
failures = 0
groups = {"small": small.NETWORKS, "aside": aside.find(), "libraries": libraries.find()}
for group, network in [(group, network) for group, rows in groups.items() for network in rows]:
    current = network.name
    if not {group, network.name, network.name.split()[0]} & set(wanted):
        continue
    text, good = try_network(network)
    failures += not good
    if world.rank == 0:
        print(network.name + ":", text, "" if good else "WRONG", flush=True)
sys.exit(failures > 0)
