#!/usr/bin/env python3
"""The networks of `renga -graph gpt:...`, `resnet:...`, `bert:...`, `transformer:...` and `ncf:...` in plain PyTorch;
prints seconds per training step.

    peer.py gpt --batch 4 --steps 3       one line per step: forward, backward and Adam, fp32, without dropout
    peer.py gpt2_124m --device cuda --each eager,compiled,autotuned,cudnn
                                          one line per form: its name and the median
"""
import argparse
import contextlib
import functools
import math
import os
import resource
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("network", choices=["gpt", "gpt2_124m", "gpt2_350m", "gpt2_1500m", "resnet50", "resnet50_64", "mlp", "bert",
                                        "bert_large", "transformer", "ncf"])
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--microbatches", type=int, default=1, help="gradients are accumulated over so many")
parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"], help="bf16: by autocast")
parser.add_argument("--compile", action="store_true", help="with torch.compile")
parser.add_argument("--each", help="several forms in one process, the same numbers: eager, compiled, autotuned (max-autotune), "
                    "cudnn (compiled, with cuDNN's attention)")
parser.add_argument("--processor", action="store_true", help="user time")
parser.add_argument("--plain", action="store_true", help="without fused Adam and channels-last images")
arguments = parser.parse_args()
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = str(arguments.threads)
os.environ.pop("OPENBLAS_CORETYPE", None)

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(arguments.threads)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc, self.out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d // self.heads) + mask, -1) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary=50257, sequence=256, layers=12, width=768, heads=12):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.lnf = nn.LayerNorm(width)
        self.register_buffer("mask", torch.full((sequence, sequence), -1e9).triu(1))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, tokens, labels):
        x = self.wte(tokens) + self.wpe.weight[: tokens.size(1)]
        for block in self.blocks:
            x = block(x, self.mask)
        scores = F.linear(self.lnf(x), self.wte.weight)
        return F.cross_entropy(scores.view(-1, scores.size(-1)), labels.reshape(-1))


class Bottleneck(nn.Module):
    def __init__(self, width_in, width, stride):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(width_in, width, 1, bias=False), nn.BatchNorm2d(width)
        self.c2, self.b2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.c3, self.b3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.down = None
        if stride != 1 or width_in != 4 * width:
            self.down = nn.Sequential(nn.Conv2d(width_in, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        y = F.relu(self.b2(self.c2(y)))
        return F.relu(self.b3(self.c3(y)) + (x if self.down is None else self.down(x)))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.bn = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        layers, width_in = [], 64
        for level, count in enumerate((3, 4, 6, 3)):
            for i in range(count):
                layers.append(Bottleneck(width_in, 64 << level, 2 if i == 0 and level else 1))
                width_in = 256 << level
        self.layers, self.fc = nn.Sequential(*layers), nn.Linear(width_in, 1000)

    def forward(self, x, labels):
        x = self.layers(F.max_pool2d(F.relu(self.bn(self.stem(x))), 3, 2, 1))
        return F.cross_entropy(self.fc(x.mean((2, 3))), labels)


class Mlp(nn.Module):
    def __init__(self, sizes=(784,) + (2048,) * 8 + (10,)):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))

    def forward(self, x, labels):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.cross_entropy(self.layers[-1](x), labels)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, memory, mask):
        split = lambda y: y.view(y.size(0), y.size(1), self.heads, -1).transpose(1, 2)
        q, k, v = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
            y = torch.softmax(scores if mask is None else scores + mask, -1) @ v
        return self.o(y.transpose(1, 2).reshape(x.shape))


class PostNormBlock(nn.Module):
    """Of BERT (gelu, no memory) and of the translation Transformer (relu)."""

    def __init__(self, width, heads, inner, activation, cross):
        super().__init__()
        self.attention, self.n1 = Attention(width, heads), nn.LayerNorm(width)
        self.cross, self.n2 = (Attention(width, heads), nn.LayerNorm(width)) if cross else (None, None)
        self.fc, self.out, self.n3 = nn.Linear(width, inner), nn.Linear(inner, width), nn.LayerNorm(width)
        self.activation = activation

    def forward(self, x, mask, memory=None, memory_mask=None):
        x = self.n1(x + self.attention(x, x, mask))
        if self.cross is not None:
            x = self.n2(x + self.cross(x, memory, memory_mask))
        return self.n3(x + self.out(self.activation(self.fc(x))))


class Bert(nn.Module):
    def __init__(self, vocabulary=30522, sequence=128, layers=12, width=768, heads=12):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(sequence, width)
        self.segments, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(PostNormBlock(width, heads, 4 * width, F.gelu, False) for _ in range(layers))
        self.transform, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, tokens, segments, mask, labels):
        x = self.norm(self.words(tokens) + self.positions.weight[: tokens.size(1)] + self.segments(segments))
        mask = (1.0 - mask[:, None, None, :]) * -10000.0
        for block in self.blocks:
            x = block(x, mask)
        scores = F.linear(self.head_norm(F.gelu(self.transform(x))), self.words.weight, self.bias)
        return F.cross_entropy(scores.view(-1, scores.size(-1)), labels.reshape(-1), ignore_index=-100)


class Transformer(nn.Module):
    def __init__(self, vocabulary=32000, sequence=64, layers=6, width=512, heads=8, inner=2048):
        super().__init__()
        self.width, self.words = width, nn.Embedding(vocabulary, width)
        self.encoder = nn.ModuleList(PostNormBlock(width, heads, inner, F.relu, False) for _ in range(layers))
        self.decoder = nn.ModuleList(PostNormBlock(width, heads, inner, F.relu, True) for _ in range(layers))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)
        angle = torch.arange(sequence)[:, None] * torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        self.register_buffer("positions", torch.stack((angle.sin(), angle.cos()), -1).view(sequence, width))
        self.register_buffer("causal", torch.full((sequence, sequence), -1e9).triu(1))

    def forward(self, source, target, labels):
        embed = lambda ids: self.words(ids) * math.sqrt(self.width) + self.positions[: ids.size(1)]
        padding = (source == 0)[:, None, None, :] * -1e9
        x, y = embed(source), embed(target)
        for block in self.encoder:
            x = block(x, padding)
        for block in self.decoder:
            y = block(y, self.causal, x, padding)
        scores = F.linear(y, self.words.weight)
        return F.cross_entropy(scores.view(-1, scores.size(-1)), labels.reshape(-1), ignore_index=-100)


class Ncf(nn.Module):
    def __init__(self, users=6040, items=3706, factors=64, sizes=(256, 256, 128, 64)):
        super().__init__()
        self.user_factors, self.item_factors = nn.Embedding(users, factors), nn.Embedding(items, factors)
        self.user_mlp, self.item_mlp = nn.Embedding(users, sizes[0] // 2), nn.Embedding(items, sizes[0] // 2)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:]))
        self.out = nn.Linear(factors + sizes[-1], 1)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.01)

    def forward(self, user, item, label):
        x = torch.cat((self.user_mlp(user), self.item_mlp(item)), -1)
        for layer in self.layers:
            x = F.relu(layer(x))
        x = torch.cat((self.user_factors(user) * self.item_factors(item), x), -1)
        return F.binary_cross_entropy_with_logits(self.out(x).squeeze(-1), label)


# Vocabulary, tokens, layers, width, heads.
GPTS = {"gpt": (50257, 256, 12, 768, 12), "gpt2_124m": (50304, 1024, 12, 768, 12), "gpt2_350m": (50304, 1024, 24, 1024, 16),
        "gpt2_1500m": (50304, 1024, 48, 1600, 25)}
BERTS = {"bert": (30522, 128, 12, 768, 12), "bert_large": (30522, 512, 24, 1024, 16)}


def batch(network, count):
    if network in BERTS:
        tokens = torch.randint(30522, (count, BERTS[network][1]))
        return tokens, torch.zeros_like(tokens), torch.ones(tokens.shape), torch.randint(30522, tokens.shape)
    if network == "transformer":
        return tuple(torch.randint(1, 32000, (count, 64)) for _ in range(3))
    if network == "ncf":
        return torch.randint(6040, (count,)), torch.randint(3706, (count,)), torch.randint(2, (count,)).float()
    if network in GPTS:
        return tuple(torch.randint(50257, (count, GPTS[network][1])) for _ in range(2))
    if network == "mlp":
        return torch.randn(count, 784), torch.randint(10, (count,))
    pixels = 64 if network == "resnet50_64" else 224
    images = torch.randn(count, 3, pixels, pixels)
    if not arguments.plain:
        images = images.to(memory_format=torch.channels_last)
    return images, torch.randint(1000, (count,))


def network(name):
    if name in GPTS:
        return Gpt(*GPTS[name])
    if name in BERTS:
        return Bert(*BERTS[name])
    return {"mlp": Mlp, "transformer": Transformer, "ncf": Ncf}.get(name, ResNet50)()


def loss(inputs):
    if arguments.dtype == "fp32":
        return model(*inputs)
    with torch.autocast(arguments.device, dtype=torch.bfloat16):
        return model(*inputs)


def wait():
    if arguments.device == "cuda":
        torch.cuda.synchronize()


torch.manual_seed(0)
model = network(arguments.network).to(arguments.device)
if isinstance(model, ResNet50) and not arguments.plain:
    model = model.to(memory_format=torch.channels_last)
# Fused Adam is in PyTorch 2.4 and later on CPUs.
fused = {} if arguments.plain or torch.__version__ < "2.4" else {"fused": True}
optimizer = torch.optim.Adam(model.parameters(), 1e-4, **fused)
batches = [tuple(x.to(arguments.device) for x in batch(arguments.network, arguments.batch)) for _ in range(arguments.microbatches)]


def steps(form):
    """Seconds of each step but the first."""
    global model
    if form != "eager":
        torch._dynamo.reset()
    model = plain if form == "eager" else torch.compile(plain, mode="max-autotune" if form == "autotuned" else "default")
    attention = contextlib.nullcontext
    if form == "cudnn":
        from torch.nn.attention import SDPBackend, sdpa_kernel

        attention = functools.partial(sdpa_kernel, SDPBackend.CUDNN_ATTENTION)
    for step in range(arguments.steps + 1):
        wait()
        clock = (lambda: resource.getrusage(resource.RUSAGE_SELF).ru_utime) if arguments.processor else time.perf_counter
        start = clock()
        optimizer.zero_grad(set_to_none=True)
        with attention():
            for inputs in batches:
                (loss(inputs) / len(batches)).backward()
        optimizer.step()
        wait()
        if step > 0:
            yield clock() - start


plain = model
if arguments.each:
    for form in arguments.each.split(","):
        try:
            print(form, "%.6f" % sorted(steps(form))[arguments.steps // 2], flush=True)
        except RuntimeError as error:
            print(form, "failed:", str(error).splitlines()[0], flush=True)
else:
    for seconds in steps("compiled" if arguments.compile else "eager"):
        print("%.6f" % seconds, flush=True)
