#!/usr/bin/env python3
"""Writes singular.txt: gradients of PyTorch, in float64, where a function has a corner, a tie, nothing to
attend to or numbers without end. Usage: singular.py >singular.txt; tests read that file alone."""
import sys
import torch
import torch.nn.functional as F

MIN = torch.finfo(torch.float32).min
INF = float("inf")
NAN = float("nan")


def tensor(values):
    return torch.tensor(values, dtype=torch.float64)


def spread(*shape):
    """Numbers with few digits, all different for few elements."""
    count = 1
    for n in shape:
        count *= n
    return ((torch.arange(count, dtype=torch.float64) * 7 + 3) % 23 / 8 - 1.25).reshape(shape)


def line(word, name, values):
    kind = "int64" if values.dtype == torch.int64 else "bool" if values.dtype == torch.bool else "float32"
    shape = ",".join(str(n) for n in values.shape) or "-"
    numbers = " ".join("%.10g" % number for number in values.flatten().tolist())
    print(word, name, kind, shape, ":", numbers)


def case(name, parameters, nodes, function, constants={}):
    """nodes: "OPERATOR attributes : inputs = outputs", the last one makes y; function: y of the parameters."""
    print("\ncase", name)
    leaves = {key: value.detach().clone().requires_grad_() for key, value in parameters.items()}
    y = function(**leaves, **constants)
    weights = spread(*y.shape) + 0.0625
    (y * weights).sum().backward()
    for key, value in parameters.items():
        line("parameter", key, value)
    for key, value in constants.items():
        line("constant", key, value)
    for node in nodes if isinstance(nodes, list) else [nodes]:
        print("node", node)
    line("weights", "y", weights)
    line("value", "y", y.detach())
    for key, value in leaves.items():
        line("gradient", key, value.grad)


def unary(op, points, function, attributes=""):
    case(op + " at corners", {"x": tensor(points)}, f"{op} {attributes} : x = y", lambda x: function(x))


def attend(q, k, v, mask=0.0, scale=0.5, causal=False):
    scores = scale * q @ k.transpose(-1, -2) + mask
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -INF)
    weights = torch.where((scores == -INF).all(-1, True), 0.0, scores.masked_fill((scores == -INF).all(-1, True), 0.0).softmax(-1))
    return weights @ v


def masks(value):
    """One key left, all, none, two masked."""
    return tensor([[value, value, 0, value], [0, 0, 0, 0], [value] * 4, [0, value, value, 0]])


def attentions():
    heads = {"q": spread(2, 4, 3), "k": spread(2, 4, 3) * 0.75 + 0.1, "v": spread(2, 4, 2)}
    eager = ["MatMul transB:int=1 alpha:real=0.5 : q k = s", "Add : s mask = a", "Softmax axis:int=-1 : a = p",
             "MatMul : p v = y"]
    parts = "the least float", MIN, eager
    for name, value, nodes in (parts, ("minus infinity", -INF, "Attention scale:real=0.5 : q k v mask = y")):
        case("attention, rows masked by " + name, heads, nodes, attend, {"mask": masks(value)})
    case("attention, a masked row whose mask is trained", dict(heads, mask=masks(MIN)), "Attention scale:real=0.5 : q k v mask = y", attend)
    still = dict(heads, q=heads["q"] * tensor([1, 1, 0, 1])[:, None])
    case("attention, rows masked by a thousand million", still, eager, attend, {"mask": masks(-1e9)})
    case("attention, one key", {"q": spread(2, 3, 3), "k": spread(2, 1, 3), "v": spread(2, 1, 2)},
         "Attention scale:real=0.5 : q k v = y", attend)
    case("attention, causal", heads, "Attention scale:real=0.5 causal:int=1 : q k v = y",
         lambda q, k, v: attend(q, k, v, causal=True))
    wide = {"q": tensor([[[4096, 0], [0, 2048], [-4096, 0]]]), "k": tensor([[[512, 1], [512, 1], [512, 2]]]), "v": spread(1, 3, 2)}
    case("attention, large scores that are equal", wide, "Attention scale:real=0.5 : q k v = y", attend)
    case("attention, the mask of a row is one number", heads, "Attention scale:real=0.5 : q k v mask = y", attend,
         {"mask": tensor([[0], [-1e4], [MIN], [0.5]])})
    long = {"q": spread(1, 2, 2), "k": spread(1, 70, 2) * 0.5, "v": spread(1, 70, 2)}
    rows = torch.zeros(2, 70, dtype=torch.float64)
    rows[1] = MIN
    case("attention, many keys that are masked", long, "Attention scale:real=0.5 : q k v mask = y", attend, {"mask": rows})


def softmaxes():
    rows = tensor([[MIN] * 4, [-INF, 1, -INF, 0.5], [1e30, 1e30, 0, -1e30], [3e6, 3e6, 3e6 - 1, -INF], [-1e9] * 4])
    case("softmax of masked and large rows", {"x": rows}, "Softmax axis:int=-1 : x = y", lambda x: x.softmax(-1))
    case("softmax along another axis", {"x": rows.T.contiguous()}, "Softmax axis:int=0 : x = y", lambda x: x.softmax(0))
    finite = rows.clone()
    finite[1] = tensor([300, 301, -300, 299])
    finite[3, 3] = 0
    case("logarithm of softmax", {"x": finite}, "LogSoftmax axis:int=-1 : x = y", lambda x: x.log_softmax(-1))
    case("softmax of nothing", {"x": tensor([[-INF, -INF], [0, 1]])}, "Softmax axis:int=-1 : x = y", lambda x: x.softmax(-1))
    labels = torch.tensor([2, 1, 0, 3, -100])
    weights = tensor([1, 2, 0.5, 3])
    large = rows.clone()
    large[3, 3] = 0
    def entropy(x, labels, w=None):
        return F.cross_entropy(x, labels, w, reduction="sum")
    case("cross-entropy of large rows", {"x": large}, "CrossEntropy axis:int=-1 ignore_index:int=-100 : x labels = y whole",
         entropy, {"labels": torch.tensor([2, 1, 0, 1, 3])})
    case("cross-entropy, weights and nothing to learn", {"x": large.T.contiguous()[None]},
         "CrossEntropy axis:int=1 ignore_index:int=-100 : x labels w = y whole", entropy,
         {"labels": torch.tensor([[2, 1, 0, -100, 3]]), "w": weights})
    case("log-sum-exp", {"x": tensor([[1, 1, 1], [-INF, 0, 2], [80, -80, 80]])}, "ReduceLogSumExp axes:ints=1 keepdims:int=0 : x = y",
         lambda x: torch.logsumexp(x, 1))
    not_a_number = ["Softmax axis:int=-1 : x = p", "IsNaN : p = n", "Where : n zero p = y"]
    case("softmax whose rows of nothing are 0", {"x": tensor([[-INF, -INF], [0, 1]])}, not_a_number,
         lambda x, zero: torch.where((x == -INF).all(-1, True), zero, x.masked_fill((x == -INF).all(-1, True), 0.0).softmax(-1)),
         {"zero": tensor(0)})


def ties():
    x = tensor([[1, 3, 3, 2], [0, 0, 0, 0], [-1, -5, -1, -5]])
    case("the largest, shared", {"x": x}, "ReduceMax axes:ints=1 keepdims:int=0 : x = y", lambda x: x.amax(1))
    case("the smallest, shared", {"x": x}, "ReduceMin axes:ints=1 keepdims:int=0 : x = y", lambda x: x.amin(1))
    case("the largest of all", {"x": x}, "ReduceMax keepdims:int=0 : x = y", lambda x: x.max())
    case("the first largest", {"x": x}, "ReduceMax axes:ints=1 keepdims:int=0 first:int=1 : x = y", lambda x: F.adaptive_max_pool1d(x[None], 1)[0, :, 0])
    case("the larger one", {"a": x, "b": tensor([1, 3, -1, -5])}, "Max : a b = y", lambda a, b: torch.maximum(a, b))
    case("the smaller one", {"a": x, "b": tensor([1, 3, -1, -5])}, "Min : a b = y", lambda a, b: torch.minimum(a, b))
    case("pooling", {"x": tensor([[[[1, 1, 2], [1, 1, 2], [0, 0, 0]]]])}, "MaxPool kernel_shape:ints=2,2 strides:ints=1,1 : x = y",
         lambda x: F.max_pool2d(x, 2, 1))
    case("pooling of rectified numbers", {"x": tensor([[[[-1, 0, -2], [0, -1, 0], [0, 0, 0]]]])},
         ["Relu : x = r", "MaxPool kernel_shape:ints=2,2 strides:ints=1,1 : r = y"], lambda x: F.max_pool2d(F.relu(x), 2, 1))
    case("the best two", {"x": tensor([[4, 3, 3, 1], [0, 5, 5, -1]])}, "TopK k:int=2 axis:int=1 : x = y places", lambda x: x.topk(2, 1)[0])
    case("product with zeros", {"x": tensor([[0, 2, 3], [0, 0, 3], [1, 2, 3]])}, "ReduceProd axes:ints=1 keepdims:int=0 : x = y", lambda x: x.prod(1))


def corners():
    unary("Relu", [-1, -0.0, 0, 1], F.relu)
    unary("Abs", [-1, -0.0, 0, 1], torch.abs)
    unary("Clip", [-2, -0.5, 0, 0.5, 2], lambda x: x.clamp(-0.5, 0.5), "min:real=-0.5 max:real=0.5")
    case("clip with one bound", {"x": tensor([-2, -0.5, 0])}, "Clip min:real=-0.5 : x = y", lambda x: x.clamp(min=-0.5))
    case("relu6", {"x": tensor([-1, 0, 3, 6, 7])}, "Clip min:real=0 max:real=6 : x = y", lambda x: F.relu6(x))
    unary("Sqrt", [0, 4], torch.sqrt)
    unary("Log", [0, 2], torch.log)
    unary("Reciprocal", [0, 2], torch.reciprocal)
    unary("HardSigmoid", [-4, -3, 0, 3, 4], F.hardsigmoid, "alpha:real=0.16666666666666666 beta:real=0.5")
    unary("HardSwish", [-4, -3, 0, 3, 4], F.hardswish)
    unary("LeakyRelu", [-1, 0, 1], lambda x: F.leaky_relu(x, 0.2), "alpha:real=0.2")
    unary("ThresholdedRelu", [0, 0.5, 1], lambda x: F.threshold(x, 0.5, 0), "alpha:real=0.5")
    unary("Shrink", [-1, -0.5, 0, 0.5, 1], lambda x: F.softshrink(x, 0.5), "bias:real=0.5 lambd:real=0.5")
    case("hard shrinking", {"x": tensor([-1, -0.5, 0, 0.5, 1])}, "Shrink lambd:real=0.5 : x = y", lambda x: F.hardshrink(x, 0.5))
    unary("Elu", [-100, 0, 1], lambda x: F.elu(x, 0.7), "alpha:real=0.7")
    unary("Celu", [-100, 0, 1], lambda x: F.celu(x, 0.7), "alpha:real=0.7")
    unary("Selu", [-100, 0, 1], F.selu)
    unary("Sigmoid", [-1000, 0, 1000], torch.sigmoid)
    unary("Tanh", [-1000, 0, 1000], torch.tanh)
    unary("Softplus", [-1000, -30, 0, 30, 1000], lambda x: torch.logaddexp(x, 0 * x))
    unary("Gelu", [-60, 0, 60], F.gelu)
    unary("Swish", [-200, 0, 200], F.silu)
    unary("Mish", [-200, 0, 200], F.mish)
    unary("Softsign", [-1e30, 0, 1e30], F.softsign)
    unary("Erf", [-30, 0, 30], torch.erf)
    unary("Asin", [-1, 0, 1], torch.asin)
    unary("Acos", [-1, 0, 1], torch.acos)
    unary("Acosh", [1, 2], torch.acosh)
    unary("Atanh", [0, 1], torch.atanh)
    unary("Sign", [-1, 0, 1], lambda x: torch.sign(x) + 0 * x)
    case("slopes below zero", {"x": tensor([[-1, 0, 1]]), "w": tensor([0.25])}, "PRelu : x w = y", lambda x, w: F.prelu(x, w))
    for exponent in 0, 0.5, 1, 1.5, 2, 3, -1:
        case(f"power {exponent}", {"x": tensor([0, 4])}, "Pow : x e = y", lambda x, e: x ** e, {"e": tensor(exponent)})
    case("powers of zero", {"x": tensor([0, 0, 0, 2, 2]), "e": tensor([0, 1, 2, 0, -1])}, "Pow : x e = y", lambda x, e: x ** e)
    case("quotients", {"a": tensor([0, 1, 0]), "b": tensor([1, 1e-15, 2])}, "Div : a b = y", lambda a, b: a / b)
    case("choice", {"a": tensor([1, INF, NAN]), "b": tensor([NAN, 2, 3])}, "Where : c a b = y", lambda a, b, c: torch.where(c, a, b),
         {"c": torch.tensor([True, False, False])})


def norms():
    x = tensor([[0, 0, 0], [3, 0, 4], [-1, 2, 2]])
    x4 = tensor([[0, 0, 0, 0], [2, 2, 2, 2], [1, 2, 3, 5]])
    l2 = "ReduceL2 axes:ints=1 keepdims:int=1 : x = n"
    case("norm", {"x": x}, "ReduceL2 axes:ints=1 keepdims:int=0 : x = y", lambda x: x.norm(dim=1))
    case("norm of zero parameters", {"x": tensor([0, 0])}, "ReduceL2 keepdims:int=0 : x = y", lambda x: x.norm())
    case("normalize", {"x": x}, [l2, "Clip min:real=1e-12 : n = c", "Div : x c = y"], lambda x: F.normalize(x, dim=1))
    case("divided by the norm", {"x": x}, [l2, "Add : n e = c", "Div : x c = y"], lambda x, e: x / (x.norm(dim=1, keepdim=True) + e), {"e": tensor(1e-6)})
    case("absolute norm", {"x": x}, "ReduceL1 axes:ints=1 keepdims:int=0 : x = y", lambda x: x.norm(p=1, dim=1))
    case("largest norm", {"x": x}, ["Abs : x = a", "ReduceMax axes:ints=1 keepdims:int=0 : a = y"], lambda x: x.norm(p=INF, dim=1))
    case("cubic norm", {"x": x}, ["Abs : x = a", "Pow : a three = c", "ReduceSum axes:ints=1 keepdims:int=0 : c = s", "Pow : s third = y"],
         lambda x, three, third: x.norm(p=3, dim=1), {"three": tensor(3), "third": tensor(1 / 3)})
    case("squares", {"x": x}, "ReduceSumSquare axes:ints=1 keepdims:int=0 : x = y", lambda x: (x * x).sum(1))
    case("root of a sum of squares", {"x": x}, ["Mul : x x = c", "ReduceSum axes:ints=1 keepdims:int=0 : c = s", "Sqrt : s = y"],
         lambda x: (x * x).sum(1).sqrt())
    mean = ["ReduceMean axes:ints=1 keepdims:int=1 : x = m", "Sub : x m = c", "Mul : c c = cc", "ReduceMean axes:ints=1 keepdims:int=0 : cc = v"]
    case("deviation", {"x": x4}, mean + ["Mul : v four = f", "Div : f three = w", "Sqrt : w = y"], lambda x, four, three: x.std(1),
         {"four": tensor(4), "three": tensor(3)})
    case("biased deviation", {"x": x4}, mean + ["Sqrt : v = y"], lambda x: x.std(1, unbiased=False))
    wide = ["Reshape given=3,1 : v = k", "Expand given=3,4 : k = b", "Sqrt : b = d", "Add : d e = a", "Div : c a = y"]
    case("divided by the deviation", {"x": x4}, mean + wide, lambda x, e: (x - x.mean(1, True)) / (torch.std(x, 1, correction=0, keepdim=True) + e), {"e": tensor(1e-6)})
    lines = x + tensor([[1], [0], [0]])
    case("line over its norm", {"x": lines}, "LpNormalization axis:int=1 p:int=2 : x = y", lambda x: F.normalize(x, dim=1))
    case("line over its absolute norm", {"x": lines}, "LpNormalization axis:int=1 p:int=1 : x = y", lambda x: F.normalize(x, p=1, dim=1))
    case("layer of equal numbers", {"x": x4, "w": tensor([1, 2, 3, 4]), "b": tensor([0, 1, 0, 1])}, "LayerNormalization axis:int=-1 epsilon:real=1e-3 : x w b = y",
         lambda x, w, b: F.layer_norm(x, (4,), w, b, 1e-3))
    case("root mean square of zeros", {"x": x4, "w": tensor([1, 2, 3, 4])}, "RMSNormalization axis:int=-1 epsilon:real=1e-3 : x w = y",
         lambda x, w: F.rms_norm(x, (4,), w, 1e-3))


def binary_cross_entropies():
    x, t = tensor([0.25, 1e-13, 0.5]), tensor([0.5, 1, 0])
    whole = ["Log : x = lx", "Clip min:real=-100 : lx = a", "Sub : one x = r", "Log : r = lr", "Max : lr least = b",
             "Mul : t a = ta", "Sub : one t = u", "Mul : u b = ub", "Add : ta ub = s", "Neg : s = y"]
    case("binary cross-entropy", {"x": x}, whole, lambda x, t, one, least: F.binary_cross_entropy(x, t, reduction="none"),
         {"t": t, "one": tensor(1), "least": tensor(-100)})
    ends, targets = tensor([0, 0, 0, 1, 1, 1]), tensor([1, 0, 0.5, 1, 0, 0.5])
    case("binary cross-entropy at 0 and 1", {"x": ends}, whole, lambda x, t, one, least: F.binary_cross_entropy(x, t, reduction="none"),
         {"t": targets, "one": tensor(1), "least": tensor(-100)})
    large, targets = tensor([200, 200, -200, -200, 0, 1000]), tensor([1, 0, 1, 0, 0.5, 0.25])
    head = ["Sub : one t = u", "Mul : u x = a"]
    tails = [("softplus", ["Neg : x = n", "Softplus : n = b", "Add : a b = y"], {"one": tensor(1)}),
             ("exponential", ["Min : zero x = m", "Abs : x = p", "Neg : p = n", "Exp : n = e", "Add : e one = f", "Log : f = l", "Sub : m l = b",
                              "Sub : a b = y"], {"one": tensor(1), "zero": tensor(0)})]
    for name, tail, numbers in tails:
        case(f"binary cross-entropy of large scores by {name}", {"x": large}, head + tail,
             lambda x, t, **_: F.binary_cross_entropy_with_logits(x, t, reduction="none"), {"t": targets, **numbers})


torch.manual_seed(0)
print("# Written by singular.py with PyTorch", torch.__version__.split("+")[0], "in float64.")
attentions()
softmaxes()
ties()
corners()
norms()
binary_cross_entropies()
