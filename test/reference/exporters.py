"""Networks as PyTorch's exporters write them today: four steps of training have PyTorch's losses and norms of gradients.

usage: exporters.py make FOLDER [NAME …]   writes NAME.h5, NAME.json and the files of the exporters:
                                           NAME_export.onnx     dynamo=True, optimize=False
                                           NAME_optimized.onnx  dynamo=True, its default
                                           NAME_trace.onnx      dynamo=False
                                           and prints a line for each: file, data, rate, options
       exporters.py check FOLDER [FILE]…   compares FILE.csv of -monitor with NAME.json
Those of transformers are left out where it is not installed.
"""
import contextlib
import csv
import io
import json
import sys
import warnings

import h5py
import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS, BATCH, WIDTH, WORDS, PLACES = 4, 8, 16, 30, 6


class Net(nn.Module):
    """forward: of (network, *inputs), gives the loss"""

    def __init__(self, network, forward):
        super().__init__()
        self.network, self.loss = network, forward

    def forward(self, x, y):
        return self.loss(self.network, x, y)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.mix = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, words):
        h = self.table(words)
        q, k, v = self.mix(self.norm(h)).unsqueeze(1).chunk(3, -1)
        h = h + F.scaled_dot_product_attention(q, k, v, is_causal=True).squeeze(1)
        return h @ self.table.weight.T


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
        self.out = nn.Linear(WIDTH, 5)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


def layers():
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 24, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return nn.Sequential(encoder, nn.Flatten(), nn.Linear(PLACES * WIDTH, 5))


class Masked(nn.Module):
    """Attention of parts. A sample whose first number is negative has its second row masked whole, by the least float."""

    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(PLACES * WIDTH, 5)

    def forward(self, x):
        q, k, v = self.mix(x).chunk(3, -1)
        row = torch.arange(PLACES) == 1
        hidden = (x[:, 0, 0] < 0)[:, None, None] & row[None, :, None]
        mask = hidden.float().expand(-1, -1, PLACES) * torch.finfo(torch.float32).min
        return self.out(((q @ k.transpose(1, 2) / WIDTH**0.5 + mask).softmax(-1) @ v).flatten(1))


class Norms(nn.Module):
    """Norms, directions and deviations, of which those of samples with a negative first number are of zeros."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(WIDTH, 8, bias=False), nn.Linear(26, 5)

    def forward(self, x):
        h = self.into(x * (x[:, :1] > 0))
        direction = h / (h.norm(dim=1, keepdim=True) + 1)
        deviation = (h - h.mean(1, keepdim=True)) / (h.std(1, keepdim=True) + 1)
        return self.out(torch.cat((h, direction, deviation, h.norm(p=3, dim=1, keepdim=True), h.std(1, keepdim=True)), 1))


def perceptron():
    return nn.Sequential(nn.Linear(WIDTH, 24), nn.GELU(), nn.Linear(24, 5))


def convolution(norm):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), norm(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )


def penalised(network, x, y):
    return F.cross_entropy(network(x), y) + 0.01 * sum((p**2).sum() for p in network.parameters())


def rounded(network, x, y):
    h = network(x)
    return F.cross_entropy(h + (h.round() - h).detach(), y)


def contrast(network, x, y):
    h = F.normalize(network(x))
    return F.cross_entropy(h @ h.T / 0.5 - 9 * torch.eye(x.shape[0]), x.shape[0] - 1 - torch.arange(x.shape[0]))


def smoothed(network, x, y):
    return F.cross_entropy(network(x), y, label_smoothing=0.1)


def classify(network, x, y):
    return F.cross_entropy(network(x), y)


def language(network, x, y):
    return F.cross_entropy(network(x).flatten(0, 1), y.flatten())


def vectors(n):
    return torch.randn(n, WIDTH), torch.randint(0, 5, (n,))


def sequences(n):
    return torch.randn(n, PLACES, WIDTH), torch.randint(0, 5, (n,))


def images(n):
    return torch.randn(n, 3, 8, 8), torch.randint(0, 5, (n,))


def sentences(n):
    return torch.randint(3, WORDS, (n, PLACES)), torch.randint(0, WORDS, (n, PLACES))


CUT, WHOLE = "-microbatch_size 2", f"-microbatch_size {BATCH}"
# network, loss, data, options, exporters that do not write it or whose file is refused
NETWORKS = {
    "smoothed": (perceptron, smoothed, vectors, CUT, "trace"),
    "layers": (layers, classify, sequences, CUT, "optimized"),
    "tied": (Tied, language, sentences, CUT, ""),
    "masked": (Masked, classify, sequences, CUT, ""),
    "norms": (Norms, classify, vectors, CUT, "optimized"),
    "recurrent": (Recurrent, classify, sequences, CUT, ""),
    "groups": (lambda: convolution(lambda n: nn.GroupNorm(2, n)), classify, images, CUT, ""),
    "norm": (lambda: convolution(nn.BatchNorm2d), classify, images, WHOLE, "optimized"),
    "penalised": (perceptron, penalised, vectors, CUT, "optimized"),
    "rounded": (perceptron, rounded, vectors, CUT, "trace"),
    "contrast": (perceptron, contrast, vectors, f"{WHOLE} -graph_whole_batch {BATCH}", "trace"),
}


def language_model(name, **settings):
    """A decoder of transformers, whose own loss is taken."""
    import transformers

    config = getattr(transformers, name + "Config")(vocab_size=WORDS, use_cache=False, **settings)
    network = getattr(transformers, name + ("LMHeadModel" if name == "GPT2" else "ForCausalLM"))
    return network(config)


def own_loss(network, x, y):
    return network(input_ids=x, labels=y).loss


def add_transformers():
    llama = dict(hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24)
    gpt = dict(n_embd=WIDTH, n_layer=2, n_head=2, n_positions=16)
    gpt.update(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    for name, settings in (("GPT2", gpt), ("Llama", llama)):
        NETWORKS[name.lower()] = (
            lambda name=name, settings=settings: language_model(name, **settings),
            own_loss,
            sentences,
            CUT,
            "trace",
        )


def build(name):
    torch.manual_seed(1)
    network, loss, data, _, _ = NETWORKS[name]
    net = Net(network(), loss).train()
    torch.manual_seed(2)
    return net, data


def train(name, folder):
    net, data = build(name)
    x, y = data(STEPS * BATCH)
    with h5py.File(f"{folder}/{name}.h5", "w") as file:
        file["x"], file["y"] = x.numpy(), y.numpy()
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    rows = []
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        loss = net(x[part], y[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        gradients = [p.grad.flatten() for p in net.parameters() if p.grad is not None]
        rows.append((loss.item(), torch.cat(gradients).norm().item()))
    with open(f"{folder}/{name}.json", "w") as file:
        json.dump(rows, file)


def export(name, folder):
    names = dict(input_names=["x", "y"], output_names=["loss"])
    net, data = build(name)
    batch = torch.export.Dim.DYNAMIC
    program = torch.onnx.export(
        net, data(4), dynamo=True, optimize=False, dynamic_shapes=({0: batch}, {0: batch}), verbose=False, **names
    )
    program.save(f"{folder}/{name}_export.onnx")
    program.optimize()
    program.save(f"{folder}/{name}_optimized.onnx")
    if "trace" in NETWORKS[name][4]:
        return
    net, data = build(name)
    torch.onnx.export(
        net,
        data(4),
        f"{folder}/{name}_trace.onnx",
        dynamo=False,
        opset_version=18,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        dynamic_axes={"x": {0: "N"}, "y": {0: "N"}},
        **names,
    )


def make(folder, names):
    for name in names:
        train(name, folder)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            export(name, folder)
        left_out = NETWORKS[name][4]
        for kind in ("export", "optimized", "trace"):
            if kind == "trace" and kind in left_out:
                continue
            wish = "refused" if kind in left_out else "trained"
            print(wish, f"{name}_{kind}", f"{name}.h5", NETWORKS[name][3])


def check(folder, files):
    failures = 0
    for file in files:
        with open(f"{folder}/{file.rsplit('_', 1)[0]}.json") as stream:
            wanted = json.load(stream)
        with open(f"{folder}/{file}.csv") as stream:
            rows = list(csv.DictReader(line for line in stream if not line.startswith("#")))
        got = [(float(row["loss"]), float(row["gradient_norm"])) for row in rows]
        tolerance = 1e-3 if file.startswith("norm_") else 1e-4
        pairs = [pair for a, b in zip(got, wanted) for pair in zip(a, b)]
        worst = max(abs(a - b) / max(1, abs(b)) for a, b in pairs)
        right = len(got) == STEPS and worst <= tolerance
        print(f"{file:24} {worst:.1e} {'' if right else 'WRONG'}")
        failures += not right
    return failures


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    with contextlib.suppress(ImportError):
        import transformers  # noqa: F401

        add_transformers()
    if sys.argv[1] == "make":
        make(sys.argv[2], sys.argv[3:] or NETWORKS)
    else:
        sys.exit(check(sys.argv[2], sys.argv[3:]) > 0)
