"""Optimizers and schedulers of torch.optim, and DataLoaders whose last batch is short, through renga.Module beside torch.
Prints the digests."""
import copy
import sys
import warnings

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import renga

SAMPLES, BATCH, EPOCHS = 27, 8, 2
failures = 0
size = renga.Comm().size
layout = {"layout_pipeline": min(size, 2), "layout_data": max(size // 2, 1), "microbatch_size": 2}
cross_entropy = nn.functional.cross_entropy


def expect(good, what):
    global failures
    if not good:
        print("failed:", what, flush=True)
        failures += 1


def refuses(words, call):
    try:
        call()
    except renga.Error as error:
        expect(words in str(error), f"no \"{words}\" in: {error}")
        return
    expect(False, f"no error: {words}")


def network():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def loader():
    """The same order on each rank, by the seed; the last batch has three samples."""
    torch.manual_seed(6)
    data = TensorDataset(torch.randn(SAMPLES, 4), torch.randint(0, 3, (SAMPLES,)))
    return DataLoader(data, BATCH, shuffle=True, generator=torch.Generator().manual_seed(7))


def no_decay(net):
    """Two groups: weights decay and learn slowly, others do not; the first layer is left out."""
    rest = list(net[1:].parameters())
    weights = [p for p in rest if p.dim() == 2]
    return [{"params": weights, "weight_decay": 0.1, "lr": 0.005},
            {"params": [p for p in rest if p.dim() == 1], "weight_decay": 0.0}]


def in_torch(net, optimizer, scheduler):
    losses = []
    for _ in range(EPOCHS):
        for x, y in batches_of_epoch:
            optimizer.zero_grad()
            loss = cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            scheduler.step()
            losses.append(loss.item())
    return losses


def in_renga(model, scheduler):
    losses = []
    for _ in range(EPOCHS):
        for batch in batches_of_epoch:
            losses.append(model.step(batch))
            scheduler.step()
    return losses


schedulers, optim = torch.optim.lr_scheduler, torch.optim
warm_up = {"lr_lambda": lambda step: min(step / 3, 1.0)}
cases = {
    "groups": (lambda net: optim.AdamW(no_decay(net), lr=0.02, betas=(0.8, 0.9), eps=1e-6),
               lambda o: schedulers.LambdaLR(o, **warm_up)),
    "adam": (lambda net: optim.Adam(net.parameters(), lr=0.01, weight_decay=0.05),
             lambda o: schedulers.CosineAnnealingLR(o, T_max=8)),
    "nesterov": (lambda net: optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True),
                 lambda o: schedulers.StepLR(o, step_size=3, gamma=0.5)),
    "cycle": (lambda net: optim.AdamW(net.parameters(), lr=0.01),
              lambda o: schedulers.OneCycleLR(o, 0.05, total_steps=20, cycle_momentum=False)),
}
for name, (make, schedule) in cases.items():
    net, again = network(), network()
    optimizer = make(net)
    scheduler = schedule(optimizer)
    with renga.Module(net, cross_entropy, next(iter(loader())), optimizer=optimizer, **layout) as model:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # schedulers of torch warn where they miss a step
            batches_of_epoch = loader()
            mine = in_renga(model, scheduler)
        theirs = make(again)
        batches_of_epoch = loader()
        wanted = in_torch(again, theirs, schedule(theirs))
        expect(np.allclose(mine, wanted, rtol=1e-4), f"{name}: {mine} {wanted}")
        for key, value in model.state_dict().items():
            expect(torch.allclose(value, again.state_dict()[key], atol=1e-4), f"{name}: {key}")
        digest = model.pipeline.digest
        if renga.Comm().rank == 0:
            print(name, f"{digest:016x}", flush=True)

# From torch to Renga and back: values and moments go along.
for name in ("adam", "nesterov"):
    make, schedule = cases[name]
    net = network()
    optimizer, batches_of_epoch = make(net), loader()
    still = schedulers.ConstantLR(optimizer, factor=1.0)
    mine = in_torch(net, optimizer, still)
    with renga.Module(net, cross_entropy, next(iter(loader())), optimizer=optimizer, **layout) as model:
        mine += in_renga(model, still)
        model.update()
        moments = model.pipeline.state_dict(optimizer=True)
    mine += in_torch(net, optimizer, still)
    again, batches_of_epoch = network(), loader()
    theirs = make(again)
    wanted = [loss for _ in range(3) for loss in in_torch(again, theirs, schedulers.ConstantLR(theirs, factor=1.0))]
    expect(np.allclose(mine, wanted, rtol=2e-4), f"{name}, there and back: {mine} {wanted}")
    key = "momentum" if name == "nesterov" else "first_moment"
    expect(f"0.weight:{key}" in moments and np.abs(moments[f"0.weight:{key}"]).max() > 0, "moments are kept")

# What is refused, on all ranks.
net, example = network(), next(iter(loader()))
parameters = list(net.parameters())


def module(optimizer, **given):
    return renga.Module(net, cross_entropy, example, optimizer=optimizer, **layout, **given)


refuses("SGD, Adam and AdamW of torch.optim; near is Adam with betas=(0, alpha)", lambda: module(optim.RMSprop(parameters)))
refuses("near is Adam, without Nesterov's momentum", lambda: module(optim.NAdam(parameters)))
refuses("amsgrad=True", lambda: module(optim.Adam(parameters, amsgrad=True)))
refuses("maximize=True", lambda: module(optim.SGD(parameters, maximize=True)))
refuses("dampening=0.5", lambda: module(optim.SGD(parameters, lr=0.1, momentum=0.9, dampening=0.5)))
refuses("lr beside an optimizer", lambda: module(optim.SGD(parameters, lr=0.1), lr=0.2))
refuses("not the module's", lambda: module(optim.SGD(copy.deepcopy(net).parameters(), lr=0.1)))
refuses("betas is (0.5, 0.9)", lambda: module(optim.Adam([{"params": parameters[:2]}, {
    "params": parameters[2:], "betas": (0.5, 0.9)}])))
optimizer = optim.SGD([{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.2}], lr=0.1, momentum=0.9)
with module(optimizer) as model:
    before = model.pipeline.digest
    rank = renga.Comm().rank
    if rank == size - 1:
        optimizer.param_groups[1]["lr"] = 0.1
    refuses("scale all groups alike", lambda: model.step(example))
    optimizer.param_groups[1]["lr"], optimizer.param_groups[0]["momentum"] = 0.2, 0.5
    refuses("the learning rate alone may change", lambda: model.step(example))
    optimizer.param_groups[0]["momentum"] = 0.9
    expect(model.pipeline.digest == before, "a refused step has changed something")
    if size > 1:
        optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = 0.1 + rank, 0.2 + 2 * rank
        refuses("learning rate", lambda: model.step(example))
        optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = 0.1, 0.2
    expect(np.isfinite(model.step(example)), "a step after refused ones")
sys.exit(failures > 0)
