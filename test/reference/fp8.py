"""Gradients of -precision fp8, and those of PyTorch where linear layers round their factors by its own types of 8 bits.

usage: fp8.py data FOLDER                        writes the data sets of builders.py, and one for mlp
       fp8.py check [NETWORK DATA CHECKPOINT CHECKPOINT RATE]…
The checkpoints are before and after a step of plain SGD whose one micro-batch is the whole data set. What is computed in
float64 here is rounded to bfloat16 where linear layers read and write it, and so are weights.
"""
import sys

import numpy as np
import torch
import torch.nn.functional as F

import builders

FORMATS = {"e4m3": (torch.float8_e4m3fn, 448), "e5m2": (torch.float8_e5m2, 57344)}


def brain(x):
    return x.to(torch.bfloat16).double()


def eight(x, name):
    """By the largest power of two with which the largest number stays in the format."""
    kind, largest = FORMATS[name]
    most = x.abs().max().item()
    power = int(np.floor(np.log2(largest / most))) if most > 0 else 0
    power += most * 2.0 ** (power + 1) <= largest
    power -= most * 2.0**power > largest
    scale = 2.0 ** min(power, 100)
    return (x * scale).float().to(kind).double() / scale


class Stored(torch.autograd.Function):
    """A tensor of 16 bits, as its gradient is."""

    @staticmethod
    def forward(_, x):
        return brain(x)

    @staticmethod
    def backward(_, dy):
        return brain(dy)


class Product(torch.autograd.Function):
    """y = x w^T"""

    @staticmethod
    def forward(ctx, x, w, rounds):
        w = brain(w)
        if rounds:
            x, w = eight(x, "e4m3"), eight(w, "e4m3")
        ctx.save_for_backward(x, w)
        ctx.rounds = rounds
        return x @ w.T

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        if ctx.rounds:
            dy = eight(dy, "e5m2")
        return dy @ w, dy.flatten(0, -2).T @ x.flatten(0, -2), None


ROUNDS = True


def linear(self, name, x):
    rounds = ROUNDS and name not in getattr(self, "last", ("follows",))
    y = Product.apply(x, self.p[name + ".weight"], rounds)
    return Stored.apply(y + self.p[name + ".bias"] if name + ".bias" in self.p else y)


class Tanh(torch.autograd.Function):
    """By what is stored of it."""

    @staticmethod
    def forward(ctx, x):
        y = brain(torch.tanh(x))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = ctx.saved_tensors
        return brain(brain(dy) * (1 - y * y))


class Mlp(builders.Network):
    def loss(self, d):
        layers = len([name for name in self.p if name.endswith(".weight")])
        self.last = (f"l.{layers - 1}",)
        x = self.linear("l.0", d["x"])
        for i in range(1, layers):
            x = self.linear(f"l.{i}", Tanh.apply(x))
        return F.cross_entropy(x, d["labels"])


builders.Network.linear = linear
builders.FAMILIES["mlp"] = Mlp


def gradients(network, data, checkpoint):
    family, _, text = network.partition(":")
    settings = dict(pair.split("=") for pair in text.split(",") if pair)
    parameters = builders.load(checkpoint, "parameters")
    for tensor in parameters.values():
        tensor.requires_grad_()
    loss = builders.FAMILIES[family](parameters, settings).loss(builders.load(data))
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))


def far(a, b):
    return ((a - b).norm() / b.norm().clamp(min=1e-7)).item()


def check(network, data, before, after, rate):
    global ROUNDS
    ROUNDS = False
    plain = gradients(network, data, before)
    ROUNDS = True
    wanted = gradients(network, data, before)
    start, end = builders.load(before, "parameters"), builders.load(after, "parameters")
    errors = []
    for name, want in wanted.items():
        found = (start[name] - end[name]) / float(rate)
        errors.append((far(found, want), far(plain[name], want), name))
    most = max(error for error, _, _ in errors)
    share = sum(error for error, _, _ in errors) / sum(effect for _, effect, _ in errors)
    # Of transformers tensors between layers differ in their last bits, and so at times in what they are rounded to.
    right = most < (1e-3 if network.startswith("mlp") else 0.1) and share < 0.8
    print("same " if right else "OTHER", f"{most:.1e} {share:.2f}", network, max(errors)[2])
    return right


if __name__ == "__main__" and sys.argv[1] == "data":
    builders.make(sys.argv[2])
    rng = np.random.default_rng(5)
    builders.write(
        sys.argv[2] + "/points.h5",
        x=rng.normal(size=(32, 24)).astype(np.float32),
        labels=rng.integers(0, 5, 32),
    )
elif __name__ == "__main__":
    rows = [check(*sys.argv[i : i + 5]) for i in range(2, len(sys.argv), 5)]
    sys.exit(0 if rows and all(rows) else 1)
