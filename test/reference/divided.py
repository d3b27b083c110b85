"""Divided networks (-graph_divide) in PyTorch and float64: the loss, and the gradient of every parameter, which a step of
plain SGD with a large rate shows. Ran in a folder with the folder vit-1 of test/app/huggingface.py."""
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

import renga

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from builders import Gpt, Network, Resnet  # noqa: E402

RATE, WEIGHT, SAMPLES = 4096.0, 0.7, 6
rng = np.random.default_rng(5)


class Mlp(Network):
    def scores(self, d):
        x, layers = d["x"], sum(name.endswith(".weight") for name in self.p)
        for i in range(layers):
            x = self.linear(f"l.{i}", x if i == 0 else F.relu(x))
        return x


class Images(Resnet):
    def scores(self, d):
        return super().scores(d["image"])


class Vit(Network):
    """By the names of the folder, whose norms stand before the parts."""

    def scores(self, d):
        p, at = self.p, "vit.embeddings."
        kernel = p[at + "patch_embeddings.projection.weight"]
        x = F.conv2d(d["image"], kernel, p[at + "patch_embeddings.projection.bias"], kernel.shape[-1])
        x = x.flatten(2).transpose(1, 2)
        x = torch.cat([p[at + "cls_token"].expand(len(x), -1, -1), x], 1)
        x = x + p[at + "position_embeddings"]
        for i in range(self.s["num_hidden_layers"]):
            x = self.block(f"vit.encoder.layer.{i}.", x)
        return self.linear("classifier", self.norm("vit.layernorm", x, 1e-12)[:, 0])

    def block(self, at, x):
        y, inner = self.norm(at + "layernorm_before", x, 1e-12), at + "attention.attention."
        q, k, v = (self.heads(self.linear(inner + part, y), self.s["num_attention_heads"])
                   for part in ("query", "key", "value"))
        y = self.attend(q, k, v, 0, 1 / q.shape[-1] ** 0.5)
        x = x + self.linear(at + "attention.output.dense", y)
        y = self.linear(at + "intermediate.dense", self.norm(at + "layernorm_after", x, 1e-12))
        return x + self.linear(at + "output.dense", F.gelu(y))


def objective(models, d, weight):
    labels, loss = d["labels"].flatten(), 0
    logs = [F.log_softmax(m.scores(d), -1).flatten(0, -2) for m in models]
    for log in logs:
        loss = loss + F.nll_loss(log, labels)
    counts = labels != -100
    logs = [log[counts] for log in logs]
    mean = sum(log.exp() for log in logs) / len(logs)
    entropy = -(mean * mean.log()).sum(-1)
    each = sum(-(log.exp() * log).sum(-1) for log in logs) / len(logs)
    return loss + weight * (entropy - each).mean()


def check(what, family, settings, parts, batch, **given):
    graph = renga.Graph(what, divide=parts, divide_weight=WEIGHT)
    with renga.Pipeline(graph, batch_size=SAMPLES, microbatch_size=SAMPLES, optimizer="sgd", lr=RATE,
                        momentum=0, weight_decay=0, seed=7, **given) as pipeline:
        before = {n: v.copy() for n, v in pipeline.state_dict().items()}
        found = pipeline.step(batch)
        after = pipeline.state_dict()
    names = list(graph.parameters)
    tensors = {n: torch.from_numpy(before[n]).double().requires_grad_() for n in names}
    models = []
    for i in range(parts):
        start = f"models.{i}."
        own = {n[len(start):]: t for n, t in tensors.items() if n.startswith(start)}
        models.append(family(own, settings))
    assert sum(len(m.p) for m in models) == len(names), "names of parts"
    d = {n: torch.from_numpy(v).double() if v.dtype == np.float32 else torch.from_numpy(v)
         for n, v in batch.items()}
    loss = objective(models, d, WEIGHT)
    gradients = torch.autograd.grad(loss, [tensors[n] for n in names])
    worst, where = abs(found / loss.item() - 1), "the loss"
    for name, gradient in zip(names, gradients):
        got = (before[name].astype(np.float64) - after[name]) / RATE
        size = max(gradient.abs().max().item(), 1e-4)
        off = np.abs(got - gradient.numpy()).max() / size
        if off > worst:
            worst, where = off, name
    right = worst < (2e-3 if family is Images else 5e-5)
    print("same " if right else "OTHER", f"{worst:.1e} ({where})", f"{loss.item():.4f}", len(names),
          "tensors", what, parts)
    graph.close()
    return right


labels = rng.integers(0, 5, SAMPLES)
tokens = rng.integers(0, 30, (SAMPLES, 9))
uneven = tokens[:, 1:].copy()
uneven[:2, 3:] = -100
text = {"tokens": tokens[:, :-1].copy(), "labels": uneven}
images = rng.standard_normal((SAMPLES, 3, 32, 32)).astype(np.float32)
rows = [
    check("mlp:sizes=7-12-10-5", Mlp, {}, 4,
          {"x": rng.standard_normal((SAMPLES, 7)).astype(np.float32), "labels": labels}),
    check("mlp:sizes=7-12-5", Mlp, {}, 2,
          {"x": rng.standard_normal((SAMPLES, 7)).astype(np.float32), "labels": labels}),
    check("gpt:layers=2,hidden=16,heads=4,sequence=8,vocabulary=30", Gpt,
          {"layers": 2, "heads": 2}, 4, text),
    check("gpt:layers=1,hidden=16,heads=2,sequence=8,vocabulary=30,tied=0", Gpt,
          {"layers": 1, "heads": 2, "tied": 0}, 3, text),
    check("resnet:depth=18,width=0.25,image=32,classes=5", Images, {"depth": 18}, 4,
          {"image": images, "labels": labels}),
]
with open("vit-1/config.json") as file:
    config = json.load(file)
side, heads = config["image_size"], config["num_attention_heads"]
rows.append(check(
    "hf:vit-1", Vit, {**config, "num_attention_heads": heads // 2}, 4,
    {"image": rng.standard_normal((SAMPLES, config["num_channels"], side, side)).astype(np.float32),
     "labels": rng.integers(0, len(config["id2label"]), SAMPLES)}))
sys.exit(0 if all(rows) else 1)
