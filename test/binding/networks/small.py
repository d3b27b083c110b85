"""Networks of the kinds of RaNNC's own tests, and parts of torch that are easily got wrong."""
import torch
from common import (CLASSES, PLACES, WORDS, F, Network, classes, classify, images, language, nn, sentences, tokens, vectors,
                    words_loss)

W = 16


class Basic(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 8, 3)
        self.out = nn.Linear(8, CLASSES)

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.first(x)), 2)
        return self.out(torch.flatten(F.relu(self.second(h)), 1))


class SmallParameter(nn.Module):
    """Parameters of one number, and of none of the usual shapes."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.tensor(1.5)), nn.Parameter(torch.tensor([0.1]))
        self.out = nn.Linear(W, CLASSES)

    def forward(self, x):
        return self.out(x * self.scale + self.shift)


class Nest(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.part = nn.Linear(W, W)
        self.rest = Nest(depth - 1) if depth else nn.Linear(W, CLASSES)

    def forward(self, x):
        return self.rest(torch.tanh(self.part(x)))


class LossOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(W, W), nn.ReLU(), nn.Linear(W, CLASSES))

    def forward(self, x, labels):
        return classify(self.net(x), labels)


class SharedParameter(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.out = nn.Linear(W, W), nn.Linear(W, CLASSES)

    def forward(self, x):
        for _ in range(4):
            x = torch.tanh(self.one(x))
        return self.out(x)


class SharedEmbedding(nn.Module):
    def __init__(self, padding_idx=None):
        super().__init__()
        self.table = nn.Embedding(WORDS, W, padding_idx=padding_idx)
        self.mix = nn.Linear(W, W)
        self.out = nn.Linear(W, WORDS, bias=False)
        self.out.weight = self.table.weight

    def forward(self, words):
        return self.out(F.gelu(self.mix(self.table(words))))


class ForkJoin(nn.Module):
    def __init__(self):
        super().__init__()
        self.fork = nn.Linear(W, W)
        self.branches = nn.ModuleList(nn.Linear(W, W) for _ in range(3))
        self.out = nn.Linear(3 * W, CLASSES)

    def forward(self, x):
        h = F.relu(self.fork(x))
        return self.out(torch.cat([torch.sigmoid(b(h)) for b in self.branches], -1))


class SharedInput(nn.Module):
    """The input is read at the begin and at the end."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(W, W), nn.ReLU(), nn.Linear(W, W))
        self.out = nn.Linear(2 * W, CLASSES)

    def forward(self, x):
        return self.out(torch.cat([self.net(x), x], 1))


class Buffer(nn.Module):
    """Buffers that are constants, one of them a mask."""

    def __init__(self):
        super().__init__()
        self.first, self.out = nn.Linear(W, W), nn.Linear(W, CLASSES)
        self.register_buffer("mask", torch.arange(W) % 3 != 0)
        self.register_buffer("shift", torch.linspace(-1, 1, W), persistent=False)

    def forward(self, x):
        return self.out(torch.where(self.mask, self.first(x), self.shift))


class Counter(nn.Module):
    """A buffer that the network changes and computes with."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(W, CLASSES)
        self.register_buffer("mean", torch.zeros(W))

    def forward(self, x):
        self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        return self.out(x - self.mean)


class Identity(nn.Module):
    def __init__(self):
        super().__init__()
        self.out, self.unused = nn.Linear(W, CLASSES), nn.Linear(W, W)

    def forward(self, x):
        return self.out(nn.Identity()(x))


class TensorProduct(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Parameter(torch.randn(W, 3) / 4), nn.Parameter(torch.randn(3, CLASSES))

    def forward(self, x):
        return x @ (self.left @ self.right)


class Loop(nn.Module):
    """A loop whose length is known as the network is exported."""

    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(W, W), nn.Linear(W, CLASSES)

    def forward(self, x):
        state = torch.zeros_like(x[:, 0])
        for place in range(x.shape[1]):
            state = self.cell(x[:, place], state)
        return self.out(state)


class Frozen(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Sequential(nn.Linear(W, W), nn.ReLU(), nn.Linear(W, W)), nn.Linear(W, CLASSES)
        self.body.requires_grad_(False)

    def forward(self, x):
        return self.out(self.body(x))


class Detached(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.gate, self.out = nn.Linear(W, W), nn.Linear(W, W), nn.Linear(W, CLASSES)

    def forward(self, x):
        h = self.one(x)
        return self.out(h * torch.sigmoid(self.gate(h.detach())) + (h.round() - h).detach())


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Dropout(0.0), nn.Linear(W, W), nn.Dropout(0.0), nn.ReLU(), nn.Linear(W, CLASSES))

    def forward(self, x):
        return self.net(F.dropout(x, 0.0, self.training))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cells, self.out = kind(W, W, 2, batch_first=True), nn.Linear(W, CLASSES)

    def forward(self, x):
        return self.out(self.cells(x)[0][:, -1])


class Rewritten(nn.Module):
    """What torch's exporter has no operator for."""

    def __init__(self):
        super().__init__()
        self.bag, self.other = nn.EmbeddingBag(WORDS, W, mode="mean"), nn.EmbeddingBag(WORDS, W, mode="max", padding_idx=5)
        self.centres, self.out = nn.Parameter(torch.randn(4, W)), nn.Linear(W + 4, CLASSES)

    def forward(self, words):
        h = (self.bag(words) + self.other(words)).unsqueeze(1)
        d = torch.cdist(h, self.centres)
        h = torch.cat((h, h * torch.hann_window(W)), 1)
        h = F.scaled_dot_product_attention(h, h, h) + torch.cumprod(h.tanh(), -1) + torch.cummax(h, 1).values
        place = torch.searchsorted(torch.linspace(-1, 1, 5), h) * h
        h = h + place + h.median(-1, keepdim=True).values
        return self.out(torch.cat((h.sum(1), d.squeeze(1)), -1)) - torch.slogdet(self.centres @ self.centres.T)[1]


class Pieces(nn.Module):
    """More of that: cells with projections, equal parts, means of scattered rows."""

    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(W, 6, proj_size=4, bidirectional=True, batch_first=True), nn.Linear(8, CLASSES)

    def forward(self, x):
        h = self.cells(x)[0]
        h = h + F.adaptive_max_pool1d(h, 4).repeat(1, 1, 2)
        to = (torch.arange(PLACES) % 2).view(1, -1, 1).expand(x.shape[0], -1, 8)
        return self.out(h.scatter_reduce(1, to, h.cos(), "mean").mean(1))


class SameNames(nn.Module):
    """A parameter with the name of an input, another with that of what a node of the file makes, and a buffer."""

    def __init__(self):
        super().__init__()
        self.x, self.t, self.out = nn.Parameter(torch.ones(W)), nn.Parameter(torch.randn(CLASSES, W)), nn.Linear(W, W)
        self.register_buffer("target", torch.arange(W) / W)

    def forward(self, x):
        return self.out(x * self.x + self.target) @ self.t.t()


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.out = nn.Linear(W, CLASSES)

    def forward(self, x):
        return self.out(torch.linalg.eigvalsh(torch.diag_embed(x)))


def sequences(n):
    return torch.randn(n, PLACES, W), classes(n)


def keywords(n):
    x, y = vectors(n)
    return {"x": x, "labels": y}


def norms(n):
    return torch.randn(n, W), classes(n)


def of_images(norm):
    return nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), norm(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, CLASSES))


def encoder():
    layer = nn.TransformerEncoderLayer(W, 2, 24, dropout=0.0, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten(),
                         nn.Linear(PLACES * W, CLASSES))


def bag():
    return nn.Sequential(nn.Embedding(WORDS, W), nn.Flatten(), nn.Linear(PLACES * W, CLASSES))


def row(name, make, batch=vectors, loss=classify, **more):
    return Network(name, make, batch, loss, **more)


NETWORKS = [
    row("basic", Basic, images()),
    row("small-parameter", SmallParameter),
    row("nest", Nest),
    row("loss-out", LossOut, keywords, None),
    row("shared-parameter", SharedParameter),
    row("shared-embedding", SharedEmbedding, language, words_loss),
    row("fork-join", ForkJoin),
    row("shared-input", SharedInput),
    row("layer-norm", lambda: nn.Sequential(nn.Linear(W, W), nn.LayerNorm(W), nn.ReLU(), nn.Linear(W, CLASSES))),
    row("buffer", Buffer),
    row("batch-norm", lambda: nn.Sequential(nn.Linear(W, W), nn.BatchNorm1d(W), nn.ReLU(), nn.Linear(W, CLASSES)),
        whole=True),
    row("batch-norm-2d", lambda: of_images(nn.BatchNorm2d), images(), whole=True),
    row("identity", Identity),
    row("one-operator", lambda: nn.Linear(W, CLASSES)),
    row("tensor-product", TensorProduct),
    row("embedding", bag, sentences),
    row("function", Loop, sequences),
    row("frozen", Frozen),
    row("detached", Detached),
    row("rewritten", Rewritten, sentences),
    row("pieces", Pieces, sequences),
    row("same-names", SameNames),
    row("padding-row", lambda: SharedEmbedding(padding_idx=5), language, words_loss),
    row("dropout-0", Dropped),
    row("group-norm", lambda: of_images(lambda n: nn.GroupNorm(2, n)), images()),
    row("lstm", lambda: Recurrent(nn.LSTM), sequences),
    row("gru", lambda: Recurrent(nn.GRU), sequences),
    row("encoder", encoder, sequences),
    row("changed-buffer", Counter, refused="mean"),
    row("eigenvalues", Complex, refused="eig"),
]
