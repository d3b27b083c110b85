"""The networks that are built by size, in PyTorch and float64: from a checkpoint on, the losses.

usage: builders.py data FOLDER                             writes the data sets
       builders.py check [NETWORK DATA CHECKPOINT LOSSES RATE]…  compares, from the checkpoints on
LOSSES is what -monitor csv writes of a run with plain SGD whose batch is the whole data set.
"""
import csv
import math
import sys

import h5py
import numpy as np
import torch
import torch.nn.functional as F

SAMPLES, TOKENS, PLACES, SHORT = 32, 50, 12, 9


def write(name, **fields):
    with h5py.File(name, "w") as file:
        for key, value in fields.items():
            file[key] = value


def make(folder):
    rng = np.random.default_rng(3)
    places = np.arange(PLACES)[None]
    real = places < rng.integers(4, PLACES + 1, SAMPLES)[:, None]
    masked = (rng.random(real.shape) < 0.3) & real
    write(
        folder + "/bert.h5",
        tokens=rng.integers(1, TOKENS, real.shape),
        segments=(places >= 4 + np.zeros((SAMPLES, 1))).astype(np.int64),
        attention_mask=real.astype(np.int64),
        labels=np.where(masked, rng.integers(1, TOKENS, real.shape), -100),
        next_sentence=rng.integers(0, 2, SAMPLES),
    )
    words = rng.integers(0, TOKENS, (SAMPLES, PLACES + 1))
    write(folder + "/text.h5", tokens=words[:, :-1], labels=words[:, 1:])
    write(
        folder + "/images.h5",
        image=rng.normal(size=(SAMPLES, 3, 64, 64)).astype(np.float32),
        labels=rng.integers(0, 7, SAMPLES),
    )
    words = rng.integers(1, TOKENS, (SAMPLES, SHORT + 1))
    kept = np.arange(SHORT)[None] < rng.integers(3, SHORT + 1, SAMPLES)[:, None]
    write(
        folder + "/pairs.h5",
        source=rng.integers(1, TOKENS, real.shape) * real,
        target=words[:, :-1] * kept,
        labels=np.where(kept, words[:, 1:], -100),
    )
    write(
        folder + "/ratings.h5",
        user=rng.integers(0, 40, SAMPLES),
        item=rng.integers(0, 30, SAMPLES),
        label=rng.integers(0, 2, SAMPLES).astype(np.float32),
    )


class Network:
    """Parameters by name, settings, and what the families have in common."""

    def __init__(self, parameters, settings):
        self.p, self.s = parameters, settings

    def number(self, key, default=0):
        return float(self.s.get(key, default))

    def linear(self, name, x):
        y = x @ self.p[name + ".weight"].T
        return y + self.p[name + ".bias"] if name + ".bias" in self.p else y

    def norm(self, name, x, epsilon):
        w = self.p[name + ".weight"]
        return F.layer_norm(x, w.shape, w, self.p[name + ".bias"], epsilon)

    def rms(self, name, x, epsilon=1e-6):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + epsilon) * self.p[name + ".weight"]

    def heads(self, x, count):
        return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)

    def attend(self, q, k, v, bias, scale):
        y = torch.softmax(q @ k.transpose(-1, -2) * scale + bias, -1) @ v
        return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)

    def residual(self, name, epsilon, x, part):
        if self.number("prenorm"):
            return x + part(self.norm(name, x, epsilon))
        return self.norm(name, x + part(x), epsilon)


def closed(where):
    return torch.zeros(where.shape, dtype=torch.float64).masked_fill(where, -math.inf)


def causal(places):
    return closed(torch.ones(places, places).triu(1) > 0)


class Bert(Network):
    def block(self, prefix, x, bias):
        count = int(self.number("heads"))

        def attention(x):
            parts = self.linear(prefix + "qkv", x).chunk(3, -1)
            q, k, v = (self.heads(part, count) for part in parts)
            y = self.attend(q, k, v, bias, 1 / math.sqrt(q.shape[-1]))
            return self.linear(prefix + "proj", y)

        def feed(x):
            return self.linear(prefix + "out", F.gelu(self.linear(prefix + "fc", x)))

        x = self.residual(prefix + "ln1", 1e-12, x, attention)
        return self.residual(prefix + "ln2", 1e-12, x, feed)

    def loss(self, d):
        p = self.p
        x = p["words.weight"][d["tokens"]] + p["positions.weight"]
        if "segments.weight" in p:
            x = x + p["segments.weight"][d["segments"]]
        bias = closed(d["attention_mask"] == 0)[:, None, None] if self.number("padding", 1) else 0
        if not self.number("prenorm"):
            x = self.norm("ln", x, 1e-12)
        for i in range(int(self.number("layers"))):
            x = self.block(f"layers.{i}.", x, bias)
        if self.number("prenorm"):
            x = self.norm("ln", x, 1e-12)
        y = self.norm("head.ln", F.gelu(self.linear("head.dense", x)), 1e-12)
        scores = y @ p["words.weight"].T + p["head.bias"]
        loss = F.cross_entropy(scores.flatten(0, 1), d["labels"].flatten())
        if self.number("next_sentence"):
            y = self.linear("follows", torch.tanh(self.linear("pooler", x[:, 0])))
            loss = loss + F.cross_entropy(y, d["next_sentence"])
        return loss


class Gpt(Network):
    def block(self, at, x):
        def attention(x):
            parts = self.linear(at + "qkv", x).chunk(3, -1)
            q, k, v = (self.heads(part, int(self.number("heads"))) for part in parts)
            y = self.attend(q, k, v, causal(x.shape[1]), 1 / math.sqrt(q.shape[-1]))
            return self.linear(at + "proj", y)

        x = x + attention(self.norm(at + "ln1", x, 1e-5))
        y = F.gelu(self.linear(at + "fc", self.norm(at + "ln2", x, 1e-5)), approximate="tanh")
        return x + self.linear(at + "out", y)

    def scores(self, d):
        p = self.p
        x = p["wte.weight"][d["tokens"]] + p["wpe.weight"]
        for i in range(int(self.number("layers"))):
            x = self.block(f"blocks.{i}.", x)
        table = p["wte.weight" if self.number("tied", 1) else "head.weight"]
        return self.norm("lnf", x, 1e-5) @ table.T

    def loss(self, d):
        return F.cross_entropy(self.scores(d).flatten(0, 1), d["labels"].flatten())


class Llama(Network):
    def turn(self, x):
        """Pairs of a head as complex numbers, turned by the angles of their places."""
        half = x.shape[-1] // 2
        base = self.number("base", 10000)
        places = torch.arange(x.shape[2], dtype=torch.float64)[:, None]
        angle = places * base ** (-torch.arange(half, dtype=torch.float64) / half)
        z = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([z.real, z.imag], -1)

    def block(self, at, x):
        heads = int(self.number("heads"))
        groups = int(self.number("groups", heads))
        y = self.rms(at + "ln1", x, 1e-5)
        q = self.turn(self.heads(self.linear(at + "q", y), heads))
        k = self.turn(self.heads(self.linear(at + "k", y), groups))
        v = self.heads(self.linear(at + "v", y), groups)
        k, v = (part.repeat_interleave(heads // groups, 1) for part in (k, v))
        y = self.attend(q, k, v, causal(x.shape[1]), 1 / math.sqrt(q.shape[-1]))
        x = x + self.linear(at + "proj", y)
        y = self.rms(at + "ln2", x, 1e-5)
        y = F.silu(self.linear(at + "gate", y)) * self.linear(at + "fc", y)
        return x + self.linear(at + "out", y)

    def loss(self, d):
        p = self.p
        x = p["wte.weight"][d["tokens"]]
        for i in range(int(self.number("layers"))):
            x = self.block(f"blocks.{i}.", x)
        table = p["wte.weight" if self.number("tied") else "head.weight"]
        scores = self.rms("lnf", x, 1e-5) @ table.T
        return F.cross_entropy(scores.flatten(0, 1), d["labels"].flatten())


class Resnet(Network):
    """Statistics are those of a micro-batch."""

    def part(self, convolution, normalization, x, stride, relu=True):
        w, p = self.p[convolution + ".weight"], self.p
        x = F.conv2d(x, w, stride=stride, padding=w.shape[-1] // 2)
        name = normalization + "."
        x = F.batch_norm(x, None, None, p[name + "weight"], p[name + "bias"], True, 0, 1e-5)
        return F.relu(x) if relu else x

    def block(self, at, x, stride):
        last = 3 if at + "c3.weight" in self.p else 2
        y = x
        for i in range(1, last + 1):
            here = stride if i == last - 1 else 1
            y = self.part(f"{at}c{i}", f"{at}b{i}", y, here, i < last)
        if at + "ds.0.weight" in self.p:
            x = self.part(at + "ds.0", at + "ds.1", x, stride, False)
        return F.relu(x + y)

    def scores(self, x):
        x = F.max_pool2d(self.part("stem", "bn", x, 2), 3, 2, 1)
        blocks = {18: [2, 2, 2, 2], 50: [3, 4, 6, 3]}[int(self.number("depth"))]
        number = 0
        for group, count in enumerate(blocks):
            for i in range(count):
                x = self.block(f"layers.{number}.", x, 2 if i == 0 and group > 0 else 1)
                number += 1
        return self.linear("fc", x.mean((2, 3)))

    def loss(self, d):
        scores = torch.cat([self.scores(x) for x in d["image"].split(8)])
        return F.cross_entropy(scores, d["labels"])


class Transformer(Network):
    def positions(self, places, width):
        t = torch.arange(places, dtype=torch.float64)[:, None]
        angle = t / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
        return torch.stack([torch.sin(angle), torch.cos(angle)], -1).flatten(1)

    def words(self, name, tokens):
        table = self.p["words.weight" if self.number("tied", 1) else name]
        width = table.shape[1]
        return math.sqrt(width) * table[tokens] + self.positions(tokens.shape[1], width)

    def attention(self, names, x, memory, bias):
        count = int(self.number("heads"))
        if len(names) == 2:
            q, k, v = self.linear(names[0], x).chunk(3, -1)
        else:
            q = self.linear(names[0], x)
            k, v = self.linear(names[1], memory).chunk(2, -1)
        q, k, v = (self.heads(part, count) for part in (q, k, v))
        return self.linear(names[-1], self.attend(q, k, v, bias, 1 / math.sqrt(q.shape[-1])))

    def stack(self, name, x, bias, memory=None, memory_bias=0):
        for i in range(int(self.number("layers"))):
            at = f"{name}.{i}."
            own, cross = [at + "qkv", at + "proj"], [at + "q", at + "kv", at + "cross"]
            x = self.residual(at + "ln1", 1e-5, x, lambda y: self.attention(own, y, y, bias))
            if memory is not None:
                x = self.residual(
                    at + "ln2", 1e-5, x, lambda y: self.attention(cross, y, memory, memory_bias)
                )
            feed = lambda y: self.linear(at + "out", F.relu(self.linear(at + "fc", y)))
            x = self.residual(at + "ln3", 1e-5, x, feed)
        return self.norm(name + ".ln", x, 1e-5) if self.number("prenorm") else x

    def loss(self, d):
        bias = closed(d["source"] == 0)[:, None, None] if self.number("padding", 1) else 0
        memory = self.stack("encoder", self.words("source.weight", d["source"]), bias)
        x = self.words("target.weight", d["target"])
        x = self.stack("decoder", x, causal(x.shape[1]), memory, bias)
        scores = x @ self.p["words.weight" if self.number("tied", 1) else "logits.weight"].T
        return F.cross_entropy(
            scores.flatten(0, 1), d["labels"].flatten(), label_smoothing=self.number("smoothing")
        )


class T5(Network):
    def distances(self, name, places, both):
        """[heads, query, key]: the published rule, for all pairs at once."""
        buckets, most = int(self.number("buckets", 32)), self.number("distance", 128)
        ahead = torch.arange(places)[None] - torch.arange(places)[:, None]
        kind = torch.zeros_like(ahead)
        if both:
            buckets //= 2
            kind += (ahead > 0).long() * buckets
            back = ahead.abs()
        else:
            back = (-ahead).clamp(min=0)
        exact = buckets // 2
        far = torch.log(back.clamp(min=1).double() / exact) / math.log(most / exact)
        far = (exact + (far * (buckets - exact)).long()).clamp(max=buckets - 1)
        kind += torch.where(back < exact, back, far)
        return self.p[name + ".distances.weight"][kind].permute(2, 0, 1)

    def attention(self, at, x, memory, bias):
        q = self.heads(self.linear(at + "q", x), int(self.number("heads")))
        k, v = (self.heads(self.linear(at + c, memory), int(self.number("heads"))) for c in "kv")
        return self.linear(at + "proj", self.attend(q, k, v, bias, 1))

    def feed(self, at, x):
        y = self.linear(at + "fc", x)
        if self.number("gated"):
            y = F.gelu(y, approximate="tanh") * self.linear(at + "gate", x)
        else:
            y = F.relu(y)
        return self.linear(at + "out", y)

    def stack(self, name, x, bias, memory=None, memory_bias=0):
        for i in range(int(self.number("layers"))):
            at = f"{name}.{i}."
            y = self.rms(at + "ln1", x)
            x = x + self.attention(at, y, y, bias)
            if memory is not None:
                y = self.rms(at + "ln2", x)
                x = x + self.attention(at + "cross.", y, memory, memory_bias)
            x = x + self.feed(at, self.rms(at + "ln3", x))
        return self.rms(name + ".ln", x)

    def loss(self, d):
        table = self.p["words.weight"]
        mask = closed(d["source"] == 0)[:, None, None] if self.number("padding", 1) else 0
        bias = self.distances("encoder", d["source"].shape[1], True) + mask
        memory = self.stack("encoder", table[d["source"]], bias)
        bias = self.distances("decoder", d["target"].shape[1], False) + causal(d["target"].shape[1])
        x = self.stack("decoder", table[d["target"]], bias, memory, mask)
        if self.number("tied", 1):
            scores = x / math.sqrt(table.shape[1]) @ table.T
        else:
            scores = self.linear("logits", x)
        return F.cross_entropy(scores.flatten(0, 1), d["labels"].flatten())


class Ncf(Network):
    def rows(self, part, d):
        return [self.p[f"{part}.{kind}.weight"][d[kind]] for kind in ("user", "item")]

    def loss(self, d):
        user, item = self.rows("mf", d)
        x = torch.cat(self.rows("mlp", d), 1)
        for i in range(self.s["layers"].count("-")):
            x = F.relu(self.linear(f"mlp.{i}", x))
        x = self.linear("out", torch.cat([user * item, x], 1)).flatten()
        return F.binary_cross_entropy_with_logits(x, d["label"])


FAMILIES = {
    "bert": Bert,
    "gpt": Gpt,
    "llama": Llama,
    "ncf": Ncf,
    "resnet": Resnet,
    "t5": T5,
    "transformer": Transformer,
}


def load(name, group=None):
    with h5py.File(name) as file:
        at = file[group] if group else file
        tensors = {key: torch.from_numpy(np.asarray(at[key])) for key in at}
    return {key: t.double() if t.is_floating_point() else t for key, t in tensors.items()}


def check(network, data, checkpoint, losses, rate):
    family, _, text = network.partition(":")
    settings = dict(pair.split("=") for pair in text.split(",") if pair)
    parameters = load(checkpoint, "parameters")
    for tensor in parameters.values():
        tensor.requires_grad_()
    model, fields = FAMILIES[family](parameters, settings), load(data)
    with open(losses) as file:
        found = [float(row["loss"]) for row in csv.DictReader(file)][1:]
    worst = 0
    for expected in found:
        loss = model.loss(fields)
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        with torch.no_grad():
            for tensor, gradient in zip(parameters.values(), gradients):
                tensor -= float(rate) * gradient
        worst = max(worst, abs(expected / loss.item() - 1))
    # ReLU after BatchNormalization: a bit more or less may open or close a unit.
    right = len(found) >= 4 and worst < (1e-3 if family == "resnet" else 2e-6)
    print("same " if right else "OTHER", f"{worst:.1e}", f"{found[0]:.4f} {found[-1]:.4f}", network)
    return right


if __name__ == "__main__" and sys.argv[1] == "data":
    make(sys.argv[2])
elif __name__ == "__main__":
    rows = [check(*sys.argv[i : i + 5]) for i in range(2, len(sys.argv), 5)]
    sys.exit(0 if rows and all(rows) else 1)
