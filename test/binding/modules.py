"""renga.Module beside torch: losses of five steps, state, predictions. Prints the digests."""
import shutil
import sys
import tempfile

import numpy as np
import torch
from torch import nn

import renga

failures = 0


def expect(good, what):
    global failures
    if not good:
        print("failed:", what, flush=True)
        failures += 1


class Tied(nn.Module):
    """A tied table with a padding row, a frozen part, a buffer that is a constant, a detached one."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 8, padding_idx=0)
        self.mix = nn.Linear(8, 8)
        self.mix.weight.requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(8))
        self.gate = nn.Linear(8, 8)
        self.register_buffer("shift", torch.linspace(0, 1, 8))
        self.out = nn.Linear(8, 11, bias=False)
        self.out.weight = self.table.weight

    def forward(self, words):
        h = self.table(words)
        h = h + torch.tanh(self.mix(h)) * self.scale + self.shift
        return self.out(h * torch.sigmoid(self.gate(h)).detach())


def words(n):
    return torch.randint(0, 11, (n, 5))


def tied_loss(scores, labels):
    return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=0)


class ByKeyword(nn.Module):
    """Gives its loss itself, as models of transformers do."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, labels=None, weight=None):
        return {"loss": nn.functional.mse_loss(self.layer(x) * weight, labels)}


torch.manual_seed(1)
cases = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 16), nn.GELU(), nn.Dropout(0.0), nn.Linear(16, 3)),
            nn.functional.cross_entropy, lambda n: (torch.randn(n, 4), torch.randint(0, 3, (n,)))),
    "tied": (Tied, tied_loss, lambda n: (words(n), words(n))),
    "norm": (lambda: nn.Sequential(nn.Conv2d(1, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(),
                                   nn.Linear(64, 3)), nn.CrossEntropyLoss(),
             lambda n: (torch.randn(n, 1, 6, 6), torch.randint(0, 3, (n,)))),
    "keyword": (ByKeyword, None, lambda n: {"x": torch.randn(n, 4), "labels": torch.randn(n, 3),
                                            "weight": torch.rand(n, 1)}),
}
optimizers = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), {"lr": 0.05, "momentum": 0.9}),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.01), {"lr": 0.01}),
}
size = renga.Comm().size
layout = {"layout_pipeline": min(size, 2), "layout_data": max(size // 2, 1)}


def train(net, loss, batches, make):
    optimizer = make([p for p in net.parameters() if p.requires_grad])
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        value = net(**batch)["loss"] if loss is None else loss(net(batch[0]), batch[1])
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


for name, (make, loss, sample) in cases.items():
    for optimizer, (torches, rengas) in optimizers.items():
        torch.manual_seed(5)
        net, example = make(), sample(8)
        batches = [sample(8) for _ in range(4)] + [sample(5)]  # the last one is short
        whole = name == "norm"
        given = {**layout, "microbatch_size": 8 if whole else 2}
        if whole:
            given["layout_data"] = 1
        first = {k: v.clone() for k, v in net.state_dict().items()}
        if whole and size > 2:
            continue
        model = renga.Module(net, loss=loss, example=example, optimizer=optimizer, **rengas, **given)
        expect(all(torch.equal(v, first[k]) for k, v in model.state_dict().items()),
               f"{name}: first values")
        mine = [model.step(batch) for batch in batches]
        theirs = train(net, loss, batches, torches)
        expect(np.allclose(mine, theirs, rtol=1e-3 if whole else 1e-4), f"{name}: {mine} {theirs}")
        state, wanted = model.state_dict(), net.state_dict()
        expect(list(state) == list(wanted), f"{name}: names {list(state)}")
        for key in wanted:
            expect("num_batches" in key or
                   torch.allclose(state[key], wanted[key], atol=5e-3 if whole else 1e-4),
                   f"{name} {optimizer}: {key}")
        net.eval()
        if loss is not None:
            x = batches[0][0]
            expect(torch.allclose(model.predict(x), net(x), atol=5e-3), f"{name}: predictions")
        digest = model.pipeline.digest
        model.load_state_dict(state)
        expect(model.pipeline.digest == digest, f"{name}: round trip")
        expect(torch.equal(next(iter(model.update().state_dict().values())),
                           next(iter(state.values()))), f"{name}: update")
        if renga.Comm().rank == 0:
            print(name, optimizer, f"{digest:016x}", flush=True)
        model.close()


def refuses(words, call):
    try:
        call()
    except renga.Error as error:
        expect(words in str(error), f"no \"{words}\" in: {error}")
        return
    expect(False, f"no error: {words}")


x, y = cases["mlp"][2](8)
net = cases["mlp"][0]()
cross = nn.functional.cross_entropy
refuses("no torch.nn.Module", lambda: renga.Module(lambda x: x, cross, (x, y)))
refuses("module.float()", lambda: renga.Module(cases["mlp"][0]().double(), cross, (x, y)))
refuses("the same number of samples", lambda: renga.Module(net, cross, (x, y[:3])))
refuses("give one with loss=", lambda: renga.Module(net, None, (x,)))
refuses("no scalar", lambda: renga.Module(net, lambda s, t: s, (x, y)))
refuses("did you mean -batch_size", lambda: renga.Module(net, cross, (x, y), batch_siz=3))
with renga.Module(net, cross, (x, y), **layout) as model:
    state = model.state_dict()
    refuses("missing: 0.bias", lambda: model.load_state_dict(
        {k: v for k, v in state.items() if k != "0.bias"}))
    refuses("[N, 4]", lambda: model.step(x[:, :2], y))

# Without numbers of its own: those of a folder, written tensor by tensor, which may have another of several names.
world = renga.Comm()
folder = world.broadcast(tempfile.mkdtemp().encode() if world.rank == 0 else None).decode()
make, loss, draw = cases["tied"][:3]
net, batch = make(), draw(8)
with renga.Module(net, loss, batch, **layout) as model:
    model.state_dict(to=folder + "/of.network")
    refuses("is there already", lambda: model.state_dict(to=folder + "/of.network"))
    if world.rank == 0:
        writer = renga._safetensors.Writer(
            folder + "/model.safetensors", {k: v.shape for k, v in net.state_dict().items()}, {})
        for tensor in net.state_dict().values():
            writer.write(tensor.numpy())
        writer.close()
    world.barrier()
    wanted = [model.step(batch) for _ in range(3)]
    kept = model.state_dict()
    model.update()
    expect(all(torch.equal(v, kept[k]) for k, v in net.state_dict().items()), "an update")
hollow = make().to("meta")
hollow.out.weight = hollow.table.weight  # which to("meta") has made two
refuses("without numbers: initial= names", lambda: renga.Module(hollow, loss, batch, **layout))
refuses("shift is a buffer on \"meta\"",
        lambda: renga.Module(hollow, loss, batch, initial=folder, **layout))
hollow.shift = torch.linspace(0, 1, 8)
with renga.Module(hollow, loss, batch, initial=folder, **layout) as model:
    expect([model.step(batch) for _ in range(3)] == wanted, "numbers of a folder")
    expect(all(torch.equal(v, kept[k]) for k, v in model.state_dict().items()), "a state")
    model.update()
    expect(hollow.table.weight.device.type == "meta", "a module that stays without numbers")
world.barrier()
if world.rank == 0:
    shutil.rmtree(folder)
sys.exit(failures > 0)
