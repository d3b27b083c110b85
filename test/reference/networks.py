"""Small networks in PyTorch: their ONNX files, inputs, gradients and losses, for the tests.

usage: networks.py FOLDER [NAME …]    writes NAME_trace.onnx, NAME_export.onnx and NAME.h5 of each
(of gpt only the second, for its mask is a buffer, which a trace calls a parameter; of resnet only the
first, for the other has BatchNormalization in inference form)

trace is torch.onnx.export with dynamo=False (opset 17), export with dynamo=True; both with an open
batch. Parameters are in the ONNX files. NAME.h5 has what float64 PyTorch makes of them:
  /inputs/INPUT [4, batch, …]     step s uses batch s modulo 4
  /grad0_f64/PARAMETER            gradient of the loss of batch 0
  /loss/sgd_f64, /loss/adamw_f64  losses before each of 20 steps (learning rates in the attributes)
The folder `networks` was made with PyTorch 2.15 on one thread.
"""
import copy
import os
import sys

import h5py
import numpy as np
import onnx
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, BATCHES, VOCABULARY, PLACES, SHORT, WIDTH, HEADS = 20, 4, 80, 12, 9, 24, 4


def split(x):
    return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)


def attend(q, k, v, mask):
    scores = split(q) @ split(k).transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
    weights = F.softmax(scores + mask, -1)
    return (weights @ split(v)).transpose(1, 2).flatten(2)


def causal(places):
    return torch.triu(torch.full((places, places), -1e9), 1)


class Attention(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH, bias) for _ in range(4))

    def forward(self, x, other, mask):
        return self.out(attend(self.q(x), self.k(other), self.v(other), mask))


class Layer(nn.Module):
    """Self-attention, attention to a memory if there is one, and two products, with residuals."""

    def __init__(self, cross=False, norm=nn.LayerNorm, bias=True):
        super().__init__()
        self.own, self.norm1 = Attention(bias), norm(WIDTH)
        self.cross = Attention(bias) if cross else None
        self.norm2 = norm(WIDTH) if cross else None
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH, bias), nn.Linear(2 * WIDTH, WIDTH, bias)
        self.norm3 = norm(WIDTH)

    def forward(self, x, mask, memory=None, memory_mask=None):
        y = self.norm1(x)
        x = x + self.own(y, y, mask)
        if self.cross is not None:
            x = x + self.cross(self.norm2(x), memory, memory_mask)
        return x + self.down(F.gelu(self.up(self.norm3(x))))


class Gpt(nn.Module):
    """Causal language model whose output is tied to its embedding."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("mask", causal(PLACES))

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.places(torch.arange(PLACES))
        for layer in self.layers:
            x = layer(x, self.mask)
        scores = self.norm(x) @ self.tokens.weight.T
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())


class Bert(nn.Module):
    """Masked language model: padded samples, few labels."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(PLACES, WIDTH)
        self.segments, self.norm = nn.Embedding(2, WIDTH), nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head, self.scores = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens, segments, attention_mask, labels):
        x = self.tokens(tokens) + self.places(torch.arange(PLACES)) + self.segments(segments)
        mask = ((1 - attention_mask.to(x.dtype)) * -1e9)[:, None, None]
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask)
        scores = self.scores(torch.tanh(self.head(x)))
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten(), ignore_index=-100)


class Translation(nn.Module):
    """Encoder and decoder, smoothed labels."""

    def __init__(self):
        super().__init__()
        self.source, self.target = (nn.Embedding(VOCABULARY, WIDTH) for _ in range(2))
        self.places = nn.Embedding(PLACES, WIDTH)
        self.encoder = nn.ModuleList(Layer() for _ in range(2))
        self.decoder = nn.ModuleList(Layer(cross=True) for _ in range(2))
        self.scores = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, source, source_mask, target, labels):
        memory = self.source(source) + self.places(torch.arange(PLACES))
        memory_mask = ((1 - source_mask.to(memory.dtype)) * -1e9)[:, None, None]
        for layer in self.encoder:
            memory = layer(memory, memory_mask)
        x = self.target(target) + self.places(torch.arange(SHORT))
        for layer in self.decoder:
            x = layer(x, causal(SHORT), memory, memory_mask)
        scores = self.scores(x).flatten(0, 1)
        kept = (labels.flatten() != -100).to(scores.dtype)
        smooth = -(F.log_softmax(scores, -1).mean(-1) * kept).sum() / kept.sum()
        return 0.9 * F.cross_entropy(scores, labels.flatten(), ignore_index=-100) + 0.1 * smooth


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


class T5(nn.Module):
    """Relative places, no biases, one embedding for both sides."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.ModuleList(Layer(norm=RmsNorm, bias=False) for _ in range(2))
        self.decoder = nn.ModuleList(Layer(True, RmsNorm, False) for _ in range(2))
        self.encoder_bias, self.decoder_bias = (nn.Embedding(8, HEADS) for _ in range(2))
        self.scores = nn.Linear(WIDTH, VOCABULARY, bias=False)

    @staticmethod
    def bias(table, places):
        place = torch.arange(places)
        return table((place[:, None] - place[None]).clamp(-4, 3) + 4).permute(2, 0, 1)[None]

    def forward(self, source, source_mask, target, labels):
        memory = self.tokens(source)
        memory_mask = ((1 - source_mask.to(memory.dtype)) * -1e9)[:, None, None]
        own = self.bias(self.encoder_bias, PLACES) + memory_mask
        for layer in self.encoder:
            memory = layer(memory, own)
        x, own = self.tokens(target), self.bias(self.decoder_bias, SHORT) + causal(SHORT)
        for layer in self.decoder:
            x = layer(x, own, memory, memory_mask)
        return F.cross_entropy(self.scores(x).flatten(0, 1), labels.flatten(), ignore_index=-100)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in ((20, 48), (48, 48), (48, 7)))

    def forward(self, x, labels):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return F.cross_entropy(self.layers[-1](x), labels)


class Block(nn.Module):
    def __init__(self, here, there, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(here, there, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(there, there, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(there), nn.BatchNorm2d(there)
        self.short = None
        if stride > 1:
            self.short = nn.Conv2d(here, there, 1, stride, bias=False)

    def forward(self, x):
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(y + (x if self.short is None else self.short(x)))


class Resnet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, 1, 1)
        self.blocks = nn.ModuleList((Block(8, 8, 1), Block(8, 16, 2), Block(16, 32, 2)))
        self.last = nn.Linear(32, 10)

    def forward(self, image, labels):
        x = F.max_pool2d(self.first(image), 2)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.last(x.mean((2, 3))), labels)


class Ncf(nn.Module):
    """Neural collaborative filtering."""

    def __init__(self):
        super().__init__()
        self.user1, self.user2 = nn.Embedding(60, 8), nn.Embedding(60, 12)
        self.item1, self.item2 = nn.Embedding(70, 8), nn.Embedding(70, 12)
        self.up, self.down, self.last = nn.Linear(24, 16), nn.Linear(16, 8), nn.Linear(16, 1)

    def forward(self, user, item, y):
        x = torch.cat((self.user2(user), self.item2(item)), -1)
        x = torch.relu(self.down(torch.relu(self.up(x))))
        x = torch.cat((self.user1(user) * self.item1(item), x), -1)
        return F.binary_cross_entropy_with_logits(self.last(x).squeeze(-1), y)


class Lstm(nn.Module):
    """Two recurrent layers, one of both directions, and the mean squared error."""

    def __init__(self):
        super().__init__()
        self.both = nn.LSTM(6, 16, batch_first=True, bidirectional=True)
        self.one, self.last = nn.GRU(32, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x, y):
        return F.mse_loss(self.last(self.one(self.both(x)[0])[0][:, -1]), y)


def random_inputs(rng, shape):
    """Rows of padded tokens and of labels."""
    real = np.arange(PLACES) < rng.integers(4, PLACES + 1, shape + (1,))
    kept = np.arange(SHORT) < rng.integers(3, SHORT + 1, shape + (1,))
    words = rng.integers(1, VOCABULARY, shape + (PLACES + 1,))
    picked = real & (rng.random(real.shape) < 0.4)
    return real, kept, words, picked


def inputs_of(name, batch):
    rng, shape = np.random.default_rng(5), (BATCHES, batch)
    real, kept, words, picked = random_inputs(rng, shape)
    pairs = dict(
        source=words[..., :-1] * real,
        source_mask=real.astype(np.int64),
        target=words[..., 1 : SHORT + 1] * kept,
        labels=np.where(kept, words[..., 2 : SHORT + 2], -100),
    )
    return dict(
        gpt=lambda: dict(tokens=words[..., :-1], labels=words[..., 1:]),
        bert=lambda: dict(
            tokens=words[..., :-1] * real,
            segments=np.broadcast_to(np.arange(PLACES) > 5, real.shape).astype(np.int64),
            attention_mask=real.astype(np.int64),
            labels=np.where(picked, words[..., 1:], -100),
        ),
        translation=lambda: pairs,
        t5=lambda: pairs,
        mlp=lambda: dict(x=rng.normal(size=shape + (20,)), labels=rng.integers(0, 7, shape)),
        resnet=lambda: dict(
            image=rng.normal(size=shape + (3, 12, 12)), labels=rng.integers(0, 10, shape)
        ),
        ncf=lambda: dict(
            user=rng.integers(0, 60, shape),
            item=rng.integers(0, 70, shape),
            y=rng.integers(0, 2, shape).astype(np.float64),
        ),
        lstm=lambda: dict(x=rng.normal(size=shape + (7, 6)), y=rng.normal(size=shape + (3,))),
    )[name]()


NETWORKS = dict(  # class, batch, learning rates of sgd and adamw
    gpt=(Gpt, 4, 0.1, 1e-3),
    bert=(Bert, 5, 0.1, 1e-3),
    translation=(Translation, 4, 0.1, 1e-3),
    t5=(T5, 4, 0.1, 1e-3),
    mlp=(Mlp, 9, 0.1, 1e-3),
    resnet=(Resnet, 16, 0.005, 1e-4),
    ncf=(Ncf, 30, 0.1, 1e-3),
    lstm=(Lstm, 6, 0.1, 1e-3),
)


def module_of(name):
    """Nothing starts at 0 or 1: no two parameters are equal, so that no exporter unites them."""
    torch.manual_seed(11)
    module = NETWORKS[name][0]()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return module.train()


def batch_of(inputs, step, real):
    rows = (torch.from_numpy(np.ascontiguousarray(array[step % BATCHES])) for array in inputs.values())
    return [row.to(real) if row.is_floating_point() else row for row in rows]


def export(name, folder, inputs):
    arguments, names = tuple(batch_of(inputs, 0, torch.float32)), list(inputs)
    path = os.path.join(folder, name)
    torch.onnx.export(
        module_of(name), arguments, path + "_trace.onnx", dynamo=False, opset_version=17,
        input_names=names, output_names=["loss"], training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False, dynamic_axes={n: {0: "batch"} for n in names},
    )
    batch = torch.export.Dim("batch", min=2)
    torch.onnx.export(
        module_of(name), arguments, path + "_export.onnx", dynamo=True, optimize=False,
        input_names=names, output_names=["loss"], external_data=False,
        dynamic_shapes=tuple({0: batch} for _ in names),
    )
    strip(path + "_trace.onnx")
    strip(path + "_export.onnx")
    wrong = dict(gpt="_trace.onnx", resnet="_export.onnx")
    if name in wrong:
        os.remove(path + wrong[name])


def strip(path):
    """Where in which file a node was made is nobody's business, and long."""
    model = onnx.load(path)
    graphs = [model.graph] + list(model.functions)
    for node in (node for graph in graphs for node in graph.node):
        node.ClearField("doc_string")
        kept = [p for p in node.metadata_props if p.key == "namespace"]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    del model.metadata_props[:]
    for graph in graphs:
        graph.ClearField("doc_string")
    onnx.save(model, path)


def losses(module, inputs, optimizer):
    found = []
    for step in range(STEPS):
        loss = module(*batch_of(inputs, step, torch.float64))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def write(name, folder, inputs):
    _, batch, sgd, adamw = NETWORKS[name]
    module = module_of(name).double()
    with h5py.File(os.path.join(folder, name + ".h5"), "w", libver="earliest") as file:
        def put(path, array):
            file.create_dataset(path, data=array, compression="gzip", shuffle=True)

        for key, array in inputs.items():
            put("inputs/" + key, array.astype(np.float32 if array.dtype.kind == "f" else np.int32))
        first = copy.deepcopy(module)
        loss = first(*batch_of(inputs, 0, torch.float64))
        loss.backward()
        for key, parameter in first.named_parameters():
            file["grad0_f64/" + key] = parameter.grad.numpy().astype(np.float32)
        file.attrs.update(batch=float(batch), loss0_f64=loss.item(), sgd=sgd, adamw=adamw)
        file.attrs["torch"] = torch.__version__.split("+")[0]
        for key, make in (
            ("sgd", lambda p: torch.optim.SGD(p, sgd)),
            ("adamw", lambda p: torch.optim.AdamW(p, adamw, weight_decay=0.01)),
        ):
            other = copy.deepcopy(module)
            file["loss/%s_f64" % key] = np.array(losses(other, inputs, make(other.parameters())))


def main():
    torch.set_num_threads(1)
    folder = sys.argv[1]
    for name in sys.argv[2:] or NETWORKS:
        inputs = inputs_of(name, NETWORKS[name][1])
        # Data are what float32 holds of them, in both precisions.
        inputs = {k: a.astype(np.float32).astype(a.dtype) if a.dtype.kind == "f" else a for k, a in inputs.items()}
        export(name, folder, inputs)
        write(name, folder, inputs)


if __name__ == "__main__":
    main()
