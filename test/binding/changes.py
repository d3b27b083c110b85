"""What a program of torch does to a module before or after renga.Module takes it: torch's losses, or a sentence. On one rank; prints
a line for each."""
import copy
import functools
import random
import sys
import types
import warnings

import numpy
import torch
from torch import nn
from torch.nn import functional as F

import renga

torch.set_num_threads(1)
STEPS, failures = 4, 0


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.view_as(value)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Net(nn.Module):
    """forward: of (network, x)."""

    def __init__(self, function=None):
        super().__init__()
        self.function = function or (lambda net, x: net.b(torch.tanh(net.a(x))))
        self.a, self.b, self.scale, self.calls = nn.Linear(6, 5), nn.Linear(5, 3), 1.0, 0
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("variance", torch.ones(1))

    def forward(self, x):
        return self.function(self, x)


def target(net, x):
    with torch.no_grad():
        t = torch.sigmoid(net.a(x))
    return net.b(torch.tanh(net.a(x)) * t)


@torch.no_grad()
def gate(x):
    return torch.sigmoid(x).clone().mul_(2)


def counted(net, x):
    net.count += 1
    return net.b(torch.tanh(net.a(x))) * net.count


def called(net, x):
    net.calls += 1
    return net.b(torch.tanh(net.a(x))) * (1 + net.calls)


def attend(net, x):
    q = net.a(x).view(-1, 1, 5, 1)
    mask = (x[:, :5] > -0.3)[:, None, :, None] & torch.ones(5, 5, dtype=torch.bool)
    return net.b(F.scaled_dot_product_attention(q, q * 2, q, attn_mask=mask).flatten(1))


def data(net, x):
    h = torch.tanh(net.a(x))
    return net.b(h * h.data + F.linear(x, net.a.weight.data))


def to_number(net, x):
    h = torch.tanh(net.a(x))
    return net.b(h * h.mean().item() + torch.tensor(net.a.bias.tolist()))


def detach_in_place(net, x):
    h = torch.tanh(net.a(x))
    return net.b(h * (h * 1).detach_())


remembered = []


def remember(net, x):
    remembered.append(0)
    return net.b(torch.tanh(net.a(x))) * len(remembered)


class Scaled(Net):
    def forward(self, x):
        return self.scaled(super().forward(x))

    def scaled(self, y):
        return y * 2 if self.training else y


class Rescaled(Net):  # as Rwkv of transformers
    def forward(self, x):
        if (self.scale == 1) != self.training:
            with torch.no_grad():
                self.a.weight.mul_(2 if self.training else 0.5)
            self.scale = 1.0 if self.training else 0.5
        return super().forward(x)


class Dropped(Net):  # no other forward in evaluation
    def forward(self, x):
        return F.dropout(super().forward(x), 0.0, self.training)


def counted_aside(net, x):
    net.count += 1
    return net.b(torch.tanh(net.a(x)))


def hooked_value(net, x):
    h = torch.tanh(net.a(x))
    if h.requires_grad:
        h.register_hook(lambda g: g * 2)
    return net.b(h)


def nothing(net):
    pass


def each(change):
    def act(net):
        with torch.no_grad():
            for p in net.a.parameters():
                change(p)
    return act


def replace(net):
    net.a.weight = nn.Parameter(net.a.weight.detach().clone())


def set_scale(net):
    net.scale = 0.5


def gradient(net):
    net(x).sum().backward()


settings = types.SimpleNamespace(beta=1.0)
number = 1.0


def loss_with_number(o, t):
    return number * F.cross_entropy(o, t)


def set_number(net):
    global number
    number = 0.5


def set_beta(net):
    settings.beta = 0.5


def add_hook(net):
    net.a.register_forward_hook(lambda m, i, o: 2 * o)


cross = F.cross_entropy
# name, module, loss, before the renga.Module, after two steps, words of the sentence or "" for torch's losses
ROWS = [
    ("nothing", Net, cross, nothing, nothing, ""),
    ("hook of a parameter", Net, cross, lambda n: n.a.weight.register_hook(lambda g: 0 * g), nothing, "parameter a.weight has a hook"),
    ("hook of a parameter, later", Net, cross, nothing, lambda n: n.a.weight.register_hook(lambda g: 0 * g), "register_hook"),
    ("hook after accumulation", Net, cross, lambda n: n.a.weight.register_post_accumulate_grad_hook(lambda p: None), nothing,
     "register_post_accumulate_grad_hook"),
    ("backward hook of a module", Net, cross, lambda n: n.b.register_full_backward_hook(lambda m, i, o: (0 * i[0],)), nothing,
     "module \"b\" (Linear) has a hook"),
    ("hook of a value", lambda: Net(hooked_value), cross, nothing, nothing, "gives a tensor a hook"),
    ("forward hook of a part", Net, cross, lambda n: n.a.register_forward_hook(lambda m, i, o: 2 * o), nothing, ""),
    ("forward hook of all", Net, cross, lambda n: n.register_forward_hook(lambda m, i, o: 2 * o), nothing, ""),
    ("forward hook, later", Net, cross, nothing, add_hook, "forward hook"),
    ("frozen later", Net, cross, nothing, each(lambda p: p.requires_grad_(False)), "requires_grad of a.weight was True"),
    ("thawed later", Net, cross, each(lambda p: p.requires_grad_(False)), each(lambda p: p.requires_grad_(True)), "was False"),
    ("set later", Net, cross, nothing, each(lambda p: p.mul_(0)), "a.weight, a.bias of the module were set"),
    ("set later by .data", Net, cross, nothing, each(lambda p: setattr(p, "data", p.data * 0)), "were set"),
    ("loaded later", Net, cross, nothing, lambda n: n.load_state_dict({k: 0 * v for k, v in n.state_dict().items()}), "set"),
    ("replaced later", Net, cross, nothing, replace, "a.weight of the module is another tensor"),
    ("parametrized later", Net, cross, nothing, lambda n: nn.utils.parametrizations.weight_norm(n.a), "another tensor"),
    ("a part in evaluation later", Net, cross, nothing, lambda n: n.a.eval(), "module \"a\" is in evaluation"),
    ("a number set later", lambda: Net(lambda n, x: n.b(torch.tanh(n.a(x))) * n.scale), cross, nothing, set_scale,
     "scale of the module was 1.0 and is 0.5"),
    ("a number of the loss", Net, loss_with_number, nothing, set_number, "number, which the loss uses, was 1.0 and is 0.5"),
    ("a setting of the loss", Net, lambda o, t: settings.beta * F.cross_entropy(o, t), nothing, set_beta, "beta of settings, which"),
    ("a part of a function", Net, functools.partial(F.cross_entropy, label_smoothing=0.1), nothing, nothing, ""),
    ("a gradient of torch's own", Net, cross, nothing, gradient, "has got a gradient of torch"),
    ("autograd.Function", lambda: Net(lambda n, x: n.b(Reverse.apply(torch.tanh(n.a(x))))), cross, nothing, nothing, "Reverse"),
    ("no_grad", lambda: Net(target), cross, nothing, nothing, ""),
    ("no_grad around a function", lambda: Net(lambda n, x: n.b(n.a(x) * gate(n.a(x)))), cross, nothing, nothing, ""),
    ("no_grad in the loss", Net, lambda o, t: F.cross_entropy(o * gate(o), t), nothing, nothing, ""),
    ("a counted buffer", lambda: Net(counted), cross, nothing, nothing, "changes \"count\" in each step"),
    ("a counted number", lambda: Net(called), cross, nothing, nothing, "calls of the module was 0 and is 1"),
    (".data", lambda: Net(data), cross, nothing, nothing, ""),
    ("values as numbers of Python", lambda: Net(to_number), cross, nothing, nothing, ""),
    ("detach_()", lambda: Net(detach_in_place), cross, nothing, nothing, "forward calls detach_()"),
    ("random numbers of Python", lambda: Net(lambda n, x: n.b(torch.tanh(n.a(x))) * random.random()), cross, nothing, nothing,
     "draws random numbers of Python"),
    ("random numbers of NumPy in the loss", Net, lambda o, t: cross(o, t) * numpy.random.rand(), nothing, nothing,
     "draws random numbers of Python or NumPy"),
    ("something remembered", lambda: Net(remember), cross, nothing, nothing, "forward remembers something: with the same batch"),
    ("rows that are masked whole", lambda: Net(attend), cross, nothing, nothing, ""),
    ("torch.compile", lambda: torch.compile(Net()), cross, nothing, nothing, ""),
    ("DataParallel", lambda: nn.DataParallel(Net()), cross, nothing, nothing, ""),
]


# name, module, words of the warning or "": the losses are torch's, and something else may not be.
TOLD = [
    ("nothing", Net, ""),
    ("another forward in evaluation", Scaled, "in evaluation: it calls mul(2,) 0 times, and in training 1 times"),
    ("parameters that evaluation scales", Rescaled, "in evaluation: it calls _set_grad_enabled"),
    ("another forward of a dropout alone", Dropped, ""),
    ("a buffer beside the loss", lambda: Net(counted_aside), "changes the buffer count,"),
    ("running statistics of InstanceNormalization", lambda: Net(lambda n, x: n.b(F.instance_norm(
        n.a(x)[:, None], n.mean, n.variance, use_input_stats=True)[:, 0])), "changes the buffer mean,"),
    ("running statistics of BatchNormalization", lambda: Net(lambda n, x: n.b(F.batch_norm(
        n.a(x)[:, None], n.mean, n.variance, training=True)[:, 0])), ""),
]


def run(make, loss, before, later, by_renga):
    global number
    number, settings.beta, losses = 1.0, 1.0, []
    torch.manual_seed(1)
    net = make()
    before(net)
    if by_renga:
        with renga.Module(net, loss, (x, y), optimizer="sgd", lr=0.1, microbatch_size=8) as model:
            for step in range(STEPS):
                if step == 2:
                    later(net)
                losses.append(model.step(x, y))
        return losses
    net = getattr(net, "_orig_mod", net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(STEPS):
        if step == 2:
            later(net)
        optimizer.zero_grad()
        value = loss(net(x), y)
        value.backward()
        optimizer.step()
        losses.append(value.item())
    return losses


def check(name, good, words):
    global failures
    failures += not good
    print("ok    " if good else "FAILED", name + ":", words, flush=True)


torch.manual_seed(0)
x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
wanted = sys.argv[1:]
for name, make, loss, before, later, words in ROWS:
    if wanted and not any(w in name for w in wanted):
        continue
    try:
        mine = run(make, loss, before, later, True)
    except renga.Error as error:
        check(name, words and words in str(error), str(error)[:160])
        continue
    theirs = run(make, loss, before, later, False)
    worst = max(abs(a - b) for a, b in zip(mine, theirs))
    check(name, not words and worst < 1e-5, f"losses differ by {worst:.0e}")

for name, make, words in TOLD:
    if wanted and not any(w in name for w in wanted):
        continue
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", renga.Warning)
        mine = run(make, cross, nothing, nothing, True)
    said = "; ".join(str(w.message) for w in caught if issubclass(w.category, renga.Warning))
    theirs = run(make, cross, nothing, nothing, False)
    worst = max(abs(a - b) for a, b in zip(mine, theirs))
    check(name, (words in said if words else not said) and worst < 1e-5, f"losses differ by {worst:.0e}; {said[:140]}")

# Values that are set while the module has those of the network are taken.
if not wanted:
    torch.manual_seed(1)
    net = Net()
    theirs = copy.deepcopy(net)
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    with renga.Module(net, cross, (x, y), optimizer="sgd", lr=0.1, microbatch_size=8) as model, warnings.catch_warnings():
        for step in range(STEPS):
            for part in (net, theirs) if step in (0, 2) else ():
                each(lambda p: p.mul_(0.5))(part)
            loss = cross(theirs(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mine = model.step(x, y)
            check(f"values that are taken, step {step}", abs(mine - loss.item()) < 1e-5, f"{mine} {loss.item()}")
            if step == 1:
                model.update()
        check("what is got once", list(model.state_dict()) == list(theirs.state_dict()), "names")
sys.exit(failures > 0)
