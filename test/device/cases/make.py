#!/usr/bin/env python3
"""Writes generated.txt: operators as their definitions say, in plain Python, and the gradients by
central differences of the sum of dy * y. Run it in this folder after a change; needs no package."""
import itertools
import math
import random

random.seed(20240229)
out = open("generated.txt", "w")
print("# Written by make.py", file=out)


class Array:
    """A shape and its elements in row-major order."""

    def __init__(self, shape, data):
        self.shape, self.data = tuple(shape), list(data)
        assert len(self.data) == math.prod(shape)

    def at(self, *index):
        place = 0
        for i, n in zip(index, self.shape):
            assert 0 <= i < n
            place = place * n + i
        return self.data[place]


def rand(*shape, low=-1.0, high=1.0):
    return Array(shape, [round(random.uniform(low, high), 4) for _ in range(math.prod(shape))])


def build(shape, function):
    return Array(shape, [function(*i) for i in itertools.product(*map(range, shape))])


def text(array, kind="real"):
    if array is None:
        return "none"
    shape = ",".join(map(str, array.shape)) or "-"
    return kind + " " + shape + " : " + " ".join("%.12g" % v for v in array.data)


def attributes(values):
    def word(v):
        return ",".join(map(str, v)) if isinstance(v, (list, tuple)) else str(v)
    return "".join(" %s=%s" % (k, word(v)) for k, v in values.items())


def emit(op, attrs, ins, outs, kinds=None, out_kinds=None, tolerance=None, run=None):
    print("\nop " + op + attributes(attrs), file=out)
    if run:
        print("run " + run, file=out)
    if tolerance:
        print("tolerance %g" % tolerance, file=out)
    for i, x in enumerate(ins):
        print("in " + text(x, kinds[i] if kinds else "real"), file=out)
    for i, y in enumerate(outs):
        print("out " + text(y, out_kinds[i] if out_kinds else "real"), file=out)


def gradient(function, ins, which, dy):
    """d(sum of dy * first output) / d ins[which]"""
    x, h, result = ins[which], 1e-5, []
    for k in range(len(x.data)):
        ends = []
        for sign in (1, -1):
            moved = list(ins)
            moved[which] = Array(x.shape, x.data)
            moved[which].data[k] += sign * h
            y = function(*moved)
            y = y[0] if isinstance(y, tuple) else y
            ends.append(sum(a * b for a, b in zip(dy.data, y.data)))
        result.append((ends[0] - ends[1]) / (2 * h))
    return Array(x.shape, result)


# Elementwise: operator, attributes, function, points, whether its gradient takes y
def softplus(x):
    return math.log1p(math.exp(-abs(x))) + max(x, 0)


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def clip(x, low, high):
    return min(max(x, low), high)


wide = [-7.25, -3.1, -1.3, -0.4, -0.05, 0.07, 0.3, 0.9, 2.6, 6.5]
unit = [-0.95, -0.5, -0.1, 0.2, 0.7]
plus = [0.1, 0.5, 1.7, 4.2, 30.0]
elementwise = [
    ("Exp", {}, math.exp, [-3, 0.5, 2.25], None),
    ("Log", {}, math.log, plus, None),
    ("Sqrt", {}, math.sqrt, plus, "y"),
    ("Reciprocal", {}, lambda x: 1 / x, wide, "y"),
    ("Sigmoid", {}, sigmoid, wide, "y"),
    ("Tanh", {}, math.tanh, wide, "y"),
    ("Relu", {}, lambda x: max(x, 0), wide, "y"),
    ("Abs", {}, abs, wide, "x"),
    ("Clip", {"min": -1, "max": 2.5}, lambda x: clip(x, -1, 2.5), wide, "x"),
    ("Erf", {}, math.erf, wide, "x"),
    ("Softplus", {}, softplus, wide, "x"),
    ("Softsign", {}, lambda x: x / (1 + abs(x)), wide, "x"),
    ("Gelu", {}, lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))), wide, "x"),
    ("Gelu", {"approximate": "tanh"}, lambda x: 0.5 * x * (1 + math.tanh(
        math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3))), wide, "x"),
    ("Swish", {"alpha": 1.5}, lambda x: x * sigmoid(1.5 * x), wide, "x"),
    ("Mish", {}, lambda x: x * math.tanh(softplus(x)), wide, "x"),
    ("HardSwish", {}, lambda x: x * clip(x / 6 + 0.5, 0, 1), wide, "x"),
    ("HardSigmoid", {"alpha": 0.3}, lambda x: clip(0.3 * x + 0.5, 0, 1), wide, "x"),
    ("LeakyRelu", {"alpha": 0.2}, lambda x: x if x > 0 else 0.2 * x, wide, "x"),
    ("ThresholdedRelu", {"alpha": 0.5}, lambda x: x if x > 0.5 else 0, wide, "x"),
    ("Shrink", {"bias": 0.25, "lambd": 1}, lambda x: x + 0.25 if x < -1 else x - 0.25 if x > 1 else 0,
     wide, "x"),
    ("Elu", {"alpha": 1.5}, lambda x: x if x > 0 else 1.5 * math.expm1(x), wide, "x"),
    ("Celu", {"alpha": 2}, lambda x: x if x > 0 else 2 * math.expm1(x / 2), wide, "x"),
    ("Selu", {}, lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * math.expm1(x)),
     wide, "x"),
    ("Sin", {}, math.sin, wide, "x"), ("Cos", {}, math.cos, wide, "x"),
    ("Tan", {}, math.tan, unit, "x"), ("Asin", {}, math.asin, unit, "x"),
    ("Acos", {}, math.acos, unit, "x"), ("Atan", {}, math.atan, wide, "x"),
    ("Sinh", {}, math.sinh, unit, "x"), ("Cosh", {}, math.cosh, unit, "x"),
    ("Asinh", {}, math.asinh, wide, "x"), ("Acosh", {}, math.acosh, [1.1, 2.5, 9], "x"),
    ("Atanh", {}, math.atanh, unit, "x"),
]
for op, attrs, function, points, kind in elementwise:
    x = Array([len(points)], points)
    forward = lambda a: Array(a.shape, map(function, a.data))
    y, dy = forward(x), rand(len(points))
    emit(op, attrs, [x], [y])
    if kind:
        emit(op + "Grad", attrs, [dy, y if kind == "y" else x], [gradient(forward, [x], 0, dy)],
             tolerance=1e-5)


# Convolutions
def conv(x, w, b, strides, pads, dilations, group):
    n, kernel = len(strides), w.shape[2:]
    outs = [(x.shape[2 + d] + pads[d] + pads[n + d] - (kernel[d] - 1) * dilations[d] - 1) // strides[d] + 1
            for d in range(n)]
    per_in, per_out = w.shape[1], w.shape[0] // group

    def element(i, o, *place):
        total = b.data[o] if b else 0.0
        for c in range(per_in):
            for tap in itertools.product(*map(range, kernel)):
                where = [place[d] * strides[d] + tap[d] * dilations[d] - pads[d] for d in range(n)]
                if all(0 <= where[d] < x.shape[2 + d] for d in range(n)):
                    total += x.at(i, o // per_out * per_in + c, *where) * w.at(o, c, *tap)
        return total
    return build([x.shape[0], w.shape[0]] + outs, element)


for shape, weight, strides, pads, dilations, group in [
        ([2, 3, 5, 4], [4, 3, 3, 2], [1, 1], [0, 0, 0, 0], [1, 1], 1),
        ([1, 4, 6, 5], [6, 2, 3, 3], [2, 1], [1, 0, 2, 1], [1, 2], 2),
        ([2, 3, 4, 4], [3, 1, 3, 3], [2, 2], [1, 1, 1, 1], [1, 1], 3),
        ([2, 2, 7], [3, 2, 3], [2], [1, 1], [2], 1),
        ([1, 1, 3, 4, 3], [2, 1, 2, 2, 2], [1, 2, 1], [0, 1, 0, 0, 0, 1], [1, 1, 1], 1),
        ([2, 4, 3, 3], [5, 4, 1, 1], [2, 2], [0, 0, 0, 0], [1, 1], 1)]:
    attrs = {"strides": strides, "pads": pads, "dilations": dilations, "group": group}
    x, w, b = rand(*shape), rand(*weight), rand(weight[0])
    forward = lambda x, w, b: conv(x, w, b, strides, pads, dilations, group)
    y = forward(x, w, b)
    dy = rand(*y.shape)
    emit("Conv", attrs, [x, w, b], [y])
    emit("ConvGradInput", attrs, [dy, w], [gradient(forward, [x, w, b], 0, dy)], tolerance=1e-5)
    emit("ConvGradWeight", attrs, [x, dy], [gradient(forward, [x, w, b], 1, dy)], tolerance=1e-5)


def conv_transpose(x, w, b, strides, pads, dilations, group, more):
    n, kernel = len(strides), w.shape[2:]
    outs = [(x.shape[2 + d] - 1) * strides[d] + (kernel[d] - 1) * dilations[d] + 1 + more[d] - pads[d]
            - pads[n + d] for d in range(n)]
    per_in, per_out = x.shape[1] // group, w.shape[1]
    y = build([x.shape[0], per_out * group] + outs, lambda i, o, *p: b.data[o] if b else 0.0)
    for i in range(x.shape[0]):
        for c in range(x.shape[1]):
            for place in itertools.product(*map(range, x.shape[2:])):
                for o in range(per_out):
                    for tap in itertools.product(*map(range, kernel)):
                        to = [place[d] * strides[d] + tap[d] * dilations[d] - pads[d] for d in range(n)]
                        if all(0 <= to[d] < outs[d] for d in range(n)):
                            k = i * per_out * group + c // per_in * per_out + o
                            for d in range(n):
                                k = k * outs[d] + to[d]
                            y.data[k] += x.at(i, c, *place) * w.at(c, o, *tap)
    return y


for shape, weight, strides, pads, dilations, group, more in [
        ([1, 2, 3, 3], [2, 3, 3, 3], [1, 1], [0, 0, 0, 0], [1, 1], 1, [0, 0]),
        ([2, 4, 3, 2], [4, 1, 3, 2], [2, 2], [1, 0, 1, 1], [1, 1], 2, [1, 0]),
        ([1, 2, 4], [2, 2, 3], [3], [1, 0], [2], 1, [2])]:
    x, w, b = rand(*shape), rand(*weight), rand(weight[1] * group)
    emit("ConvTranspose", {"strides": strides, "pads": pads, "dilations": dilations, "group": group,
                           "output_padding": more}, [x, w, b],
         [conv_transpose(x, w, b, strides, pads, dilations, group, more)])


# Pooling
def places(x, kernel, strides, pads, ceil):
    n, outs = len(kernel), []
    for d in range(n):
        room = x.shape[2 + d] + pads[d] + pads[n + d] - kernel[d]
        count = (-(-room // strides[d]) if ceil else room // strides[d]) + 1
        if ceil and (count - 1) * strides[d] >= x.shape[2 + d] + pads[d]:
            count -= 1
        outs.append(count)
    return list(x.shape[:2]) + outs


def window(x, place, kernel, strides, pads):
    """Positions of the taps, also outside"""
    for tap in itertools.product(*map(range, kernel)):
        yield [place[d] * strides[d] + tap[d] - pads[d] for d in range(len(kernel))]


def inside(x, where):
    return all(0 <= where[d] < x.shape[2 + d] for d in range(len(where)))


def max_pool(x, kernel, strides, pads, ceil):
    def best(i, c, *place):
        found = [p for p in window(x, place, kernel, strides, pads) if inside(x, p)]
        return max(found, key=lambda p: x.at(i, c, *p))

    def flat(p):
        k = 0
        for d in range(len(p)):
            k = k * x.shape[2 + d] + p[d]
        return k
    shape = places(x, kernel, strides, pads, ceil)
    return (build(shape, lambda i, c, *p: x.at(i, c, *best(i, c, *p))),
            build(shape, lambda i, c, *p: flat(best(i, c, *p))))


def average_pool(x, kernel, strides, pads, ceil, include):
    n = len(kernel)

    def element(i, c, *place):
        taps = list(window(x, place, kernel, strides, pads))
        total = sum(x.at(i, c, *p) for p in taps if inside(x, p))
        count = sum(1 for p in taps if inside(x, p) or include and all(
            -pads[d] <= p[d] < x.shape[2 + d] + pads[n + d] for d in range(n)))
        return total / count
    return build(places(x, kernel, strides, pads, ceil), element)


for shape, kernel, strides, pads, ceil in [
        ([2, 2, 5, 4], [2, 2], [2, 2], [0, 0, 0, 0], 0), ([1, 3, 5, 6], [3, 3], [2, 2], [1, 1, 1, 1], 0),
        ([1, 2, 5, 5], [3, 2], [2, 3], [0, 1, 1, 0], 1), ([2, 1, 7], [3], [2], [1, 1], 0)]:
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": ceil}
    x = rand(*shape)
    y, index = max_pool(x, kernel, strides, pads, ceil)
    dy = rand(*y.shape)
    emit("MaxPool", attrs, [x], [y, index], out_kinds=["real", "int64"])
    emit("MaxPoolGrad", {}, [dy, index], [gradient(
        lambda a: max_pool(a, kernel, strides, pads, ceil), [x], 0, dy)], kinds=["real", "int64"],
        tolerance=1e-5)
    for include in (0, 1):
        attrs["count_include_pad"] = include
        forward = lambda a: average_pool(a, kernel, strides, pads, ceil, include)
        emit("AveragePool", attrs, [x], [forward(x)])
        emit("AveragePoolGrad", attrs, [dy], [gradient(forward, [x], 0, dy)], tolerance=1e-5)


# Normalisation
def normalize(x, rows, scale_of, bias_of, epsilon, centred=True):
    """rows: lists of indices that share statistics"""
    y, means, inverses = Array(x.shape, x.data), [], []
    for row in rows:
        values = [x.data[i] for i in row]
        mean = sum(values) / len(values) if centred else 0.0
        inverse = 1 / math.sqrt(sum((v - mean) ** 2 for v in values) / len(values) + epsilon)
        for i in row:
            y.data[i] = (x.data[i] - mean) * inverse * scale_of(i) + bias_of(i)
        means.append(mean)
        inverses.append(inverse)
    return y, means, inverses


for shape, axis in [([2, 3, 5], -1), ([2, 3, 4], 1), ([3, 1], -1)]:
    first = axis % len(shape)
    width = math.prod(shape[first:])
    count = math.prod(shape)
    x, scale, bias = rand(*shape), rand(*shape[first:]), rand(*shape[first:])
    rows = [range(r, r + width) for r in range(0, count, width)]
    statistic = shape[:first] + [1] * (len(shape) - first)

    def layer(x, scale, bias, centred=True):
        return normalize(x, rows, lambda i: scale.data[i % width],
                         lambda i: bias.data[i % width] if bias else 0.0, 1e-3, centred)
    y, means, inverses = layer(x, scale, bias)
    mean, inverse, dy = Array(statistic, means), Array(statistic, inverses), rand(*shape)
    attrs = {"axis": axis, "epsilon": 1e-3}
    grads = [gradient(layer, [x, scale, bias], k, dy) for k in range(3)]
    emit("LayerNormalization", attrs, [x, scale, bias], [y, mean, inverse], tolerance=1e-5)
    emit("LayerNormalization", attrs, [x, scale], [layer(x, scale, None)[0]], tolerance=1e-5)
    emit("LayerNormalizationGrad", {"axis": axis}, [dy, x, scale, mean, inverse], grads, tolerance=2e-5)
    rms = lambda x, scale: layer(x, scale, None, False)
    y, means, inverses = rms(x, scale)
    inverse = Array(statistic, inverses)
    emit("RMSNormalization", attrs, [x, scale], [y, inverse], tolerance=1e-5)
    emit("RMSNormalizationGrad", {"axis": axis}, [dy, x, scale, inverse],
         [gradient(rms, [x, scale], k, dy) for k in range(2)], tolerance=2e-5)

for op, shape, groups in [("GroupNormalization", [2, 6, 3], 2), ("GroupNormalization", [2, 4, 2, 2], 4),
                          ("InstanceNormalization", [2, 3, 2, 3], 3)]:
    plane, count = math.prod(shape[2:]), math.prod(shape)
    width = shape[1] // groups * plane
    x, scale, bias, dy = rand(*shape), rand(shape[1]), rand(shape[1]), rand(*shape)
    rows = [range(r, r + width) for r in range(0, count, width)]
    group = lambda x, scale, bias: normalize(
        x, rows, lambda i: scale.data[i // plane % shape[1]], lambda i: bias.data[i // plane % shape[1]], 1e-5)
    y, means, inverses = group(x, scale, bias)
    mean, inverse = Array([shape[0], groups], means), Array([shape[0], groups], inverses)
    attrs = {} if op[0] == "I" else {"num_groups": groups}
    emit(op, attrs, [x, scale, bias], [y, mean, inverse], tolerance=1e-5)
    emit(op + "Grad", attrs, [dy, x, scale, mean, inverse],
         [gradient(group, [x, scale, bias], k, dy) for k in range(3)], tolerance=2e-5)

for shape in ([3, 2, 2, 2], [5, 3], [2, 2, 3]):
    plane, count, channels = math.prod(shape[2:]), math.prod(shape), shape[1]
    x, scale, bias, dy = rand(*shape), rand(channels), rand(channels), rand(*shape)
    running, variance = rand(channels), rand(channels, low=0.5, high=2)
    rows = [[i for i in range(count) if i // plane % channels == c] for c in range(channels)]
    batch = lambda x, scale, bias: normalize(
        x, rows, lambda i: scale.data[i // plane % channels], lambda i: bias.data[i // plane % channels], 1e-3)
    y, means, inverses = batch(x, scale, bias)
    mean, spread = Array([channels], means), Array([channels], [1 / v / v - 1e-3 for v in inverses])
    grads = [gradient(batch, [x, scale, bias], k, dy) for k in range(3)]
    emit("BatchNormalization", {"epsilon": 1e-3}, [x, scale, bias, running, variance], [y, mean, spread],
         tolerance=1e-5, run="1")
    emit("BatchNormalizationGrad", {"epsilon": 1e-3}, [dy, x, scale, mean, spread], grads, tolerance=2e-5,
         run="1")

    def fixed(x, scale, bias):
        channel = lambda i: i // plane % channels
        return Array(x.shape, [(v - running.data[channel(i)]) / math.sqrt(variance.data[channel(i)] + 1e-3)
                               * scale.data[channel(i)] + bias.data[channel(i)]
                               for i, v in enumerate(x.data)])
    grads = [gradient(fixed, [x, scale, bias], k, dy) for k in range(3)]
    for attrs, run in ({"epsilon": 1e-3}, None), ({"epsilon": 1e-3, "training": 0}, "1"):
        emit("BatchNormalization", attrs, [x, scale, bias, running, variance],
             [fixed(x, scale, bias), running, variance], tolerance=1e-5, run=run)
        emit("BatchNormalizationGrad", attrs, [dy, x, scale, running, variance], grads, tolerance=2e-5,
             run=run)


def lrn(x, size, alpha, beta, bias):
    def element(n, c, *p):
        near = range(max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + math.ceil((size - 1) / 2)) + 1)
        return x.at(n, c, *p) / (bias + alpha / size * sum(x.at(n, k, *p) ** 2 for k in near)) ** beta
    return build(x.shape, element)


for size in (3, 4):
    x, dy = rand(2, 6, 2), rand(2, 6, 2)
    attrs = {"size": size, "alpha": 0.5, "beta": 0.75, "bias": 1.5}
    forward = lambda a: lrn(a, size, 0.5, 0.75, 1.5)
    emit("LRN", attrs, [x], [forward(x)])
    emit("LRNGrad", attrs, [dy, x], [gradient(forward, [x], 0, dy)], tolerance=1e-5)


# Softmax and its logarithm
def softmax(x, axis, logarithm):
    def total(index):
        line = [x.at(*index[:axis], k, *index[axis + 1:]) for k in range(x.shape[axis])]
        return math.log(sum(map(math.exp, line)))
    f = (lambda v: v) if logarithm else math.exp
    return build(x.shape, lambda *index: f(x.at(*index) - total(index)))


for shape, axis in [([3, 7], 1), ([2, 4, 3], 1), ([4, 1], 1), ([17], 0)]:
    x, dy = rand(*shape, low=-4, high=4), rand(*shape)
    for op in "Softmax", "LogSoftmax":
        forward = lambda a: softmax(a, axis, op == "LogSoftmax")
        y = forward(x)
        emit(op, {"axis": axis}, [x], [y])
        emit(op + "Grad", {"axis": axis}, [dy, y], [gradient(forward, [x], 0, dy)], tolerance=1e-5)


# Attention
def attention(q, k, v, mask, scale, causal):
    lead, queries, keys = q.shape[:-2], q.shape[-2], k.shape[-2]

    def score(index, t, s):
        if causal and s > t:
            return -math.inf
        dot = sum(q.at(*index, t, i) * k.at(*index, s, i) for i in range(q.shape[-1]))
        if not mask:
            return dot * scale
        full = (index + (t, s))[len(index) + 2 - len(mask.shape):]
        return dot * scale + mask.at(*[0 if n == 1 else i for i, n in zip(full, mask.shape)])

    def total(*place):
        index, t = place[:-1], place[-1]
        return math.log(sum(math.exp(score(index, t, s)) for s in range(keys)))

    def element(*place):
        index, t, e = place[:-2], place[-2], place[-1]
        log_sum = total(*index, t)
        return sum(math.exp(score(index, t, s) - log_sum) * v.at(*index, s, e) for s in range(keys))
    return build(lead + (queries, v.shape[-1]), element), build(lead + (queries,), total)


for lead, queries, keys, width, values, mask_shape, causal, scale in [
        ([2, 2], 3, 3, 4, 4, None, 1, 0), ([2], 2, 5, 3, 2, None, 0, 0.7),
        ([2, 2], 3, 4, 2, 3, [1, 2, 1, 4], 0, 0), ([1, 2], 3, 3, 2, 2, [3, 3], 1, 1),
        ([1, 1], 1, 1, 1, 1, None, 0, 0)]:
    q, k, v = rand(*lead, queries, width), rand(*lead, keys, width), rand(*lead, keys, values)
    mask = rand(*mask_shape) if mask_shape else None
    factor = scale or 1 / math.sqrt(width)
    forward = lambda *ins: attention(*(list(ins) + [None])[:4], factor, causal)
    ins = [q, k, v] + ([mask] if mask else [])
    o, log_sum = forward(*ins)
    dy = rand(*o.shape)
    attrs = {"causal": causal, "scale": scale}
    emit("Attention", attrs, ins, [o, log_sum])
    emit("AttentionGrad", attrs, [dy, q, k, v, o, log_sum] + ins[3:],
         [gradient(forward, ins, i, dy) for i in range(len(ins))], tolerance=1e-5)


# Losses
def cross_entropy(scores, labels, weights, axis, ignore, likelihood=False):
    shape = scores.shape[:axis] + scores.shape[axis + 1:]

    def line(index):
        return [scores.at(*index[:axis], c, *index[axis:]) for c in range(scores.shape[axis])]
    log_sum = build(shape, lambda *index: math.log(sum(map(math.exp, line(index)))))
    total = 0.0
    for index in itertools.product(*map(range, shape)):
        label = labels.at(*index)
        if label != ignore:
            weight = weights.data[label] if weights else 1
            base = 0 if likelihood else log_sum.at(*index)
            total += weight * (base - line(index)[label])
    return Array([], [total]), log_sum


for shape, axis, weighted, ignore in [([5, 4], 1, False, -100), ([2, 3, 4], 1, True, 1), ([3, 2, 6], 2, True, -1)]:
    lead = shape[:axis] + shape[axis + 1:]
    scores = rand(*shape, low=-3, high=3)
    labels = build(lead, lambda *i: random.choice(list(range(shape[axis])) + [ignore]))
    weights = rand(shape[axis], low=0.5, high=2) if weighted else None
    attrs, dsum = {"axis": axis, "ignore_index": ignore}, Array([], [0.75])
    more = [weights] if weighted else []
    total, log_sum = cross_entropy(scores, labels, weights, axis, ignore)
    d = gradient(lambda s: cross_entropy(s, labels, weights, axis, ignore)[0], [scores], 0, dsum)
    emit("CrossEntropy", attrs, [scores, labels] + more, [total, log_sum], kinds=["real", "int64", "real"])
    emit("CrossEntropyGrad", attrs, [dsum, scores, labels, log_sum] + more, [d],
         kinds=["real", "real", "int32", "real", "real"], tolerance=1e-5)
    count = sum(weights.data[v] if weighted else 1 for v in labels.data if v != ignore)
    emit("CrossEntropyCount", {"ignore_index": ignore}, [labels] + more, [Array([], [count])],
         kinds=["int64", "float32"], out_kinds=["float32"])
    total = cross_entropy(scores, labels, weights, axis, ignore, True)[0]
    d = gradient(lambda s: cross_entropy(s, labels, weights, axis, ignore, True)[0], [scores], 0, dsum)
    emit("LogLikelihood", attrs, [scores, labels] + more, [total], kinds=["real", "int64", "real"])
    emit("LogLikelihoodGrad", attrs, [dsum, scores, labels] + more, [d],
         kinds=["real", "real", "int64", "real"], tolerance=1e-5)


# Matrix products
def linear(x, w, b, flip):
    k = x.shape[-1]
    wide = w.shape[0] if flip else w.shape[1]
    return build(x.shape[:-1] + (wide,), lambda *i: (b.data[i[-1]] if b else 0.0) + sum(
        x.at(*i[:-1], j) * (w.at(i[-1], j) if flip else w.at(j, i[-1])) for j in range(k)))


for shape, wide, flip, bias in [([3, 4], 5, 0, True), ([2, 3, 4], 3, 1, True), ([1, 1], 1, 1, False),
                                ([2, 1, 2, 7], 2, 0, False)]:
    x = rand(*shape)
    w = rand(wide, shape[-1]) if flip else rand(shape[-1], wide)
    b = rand(wide) if bias else None
    forward = lambda x, w: linear(x, w, b, flip)
    y = forward(x, w)
    dy = rand(*y.shape)
    emit("Linear", {"transB": flip}, [x, w, b], [y])
    emit("LinearGradInput", {"transB": flip}, [dy, w], [gradient(forward, [x, w], 0, dy)], tolerance=1e-5)
    emit("LinearGradWeight", {"transB": flip}, [x, dy], [gradient(forward, [x, w], 1, dy)], tolerance=1e-5)

for a_shape, b_shape, flip_a, flip_b in [([2, 3], [3, 4], 0, 0), ([2, 1, 3, 4], [3, 4, 2], 0, 0),
                                         ([2, 4, 3], [2, 5, 4], 1, 1), ([4, 2], [4, 3], 1, 0)]:
    a, b = rand(*a_shape), rand(*b_shape)
    n = max(len(a_shape), len(b_shape)) - 2
    wide = lambda s: [1] * (n + 2 - len(s)) + list(s)
    lead = [max(p, q) for p, q in zip(wide(a_shape)[:n], wide(b_shape)[:n])]
    rows, inner = a_shape[-1 if flip_a else -2], a_shape[-2 if flip_a else -1]
    columns = b_shape[-2 if flip_b else -1]

    def pick(x, index, r, c, flip):
        lead_index = index[n + 2 - len(x.shape):] if len(x.shape) > 2 else ()
        lead_index = [0 if m == 1 else i for i, m in zip(lead_index, x.shape)]
        return x.at(*lead_index, *((c, r) if flip else (r, c)))
    y = build(lead + [rows, columns], lambda *i: 0.5 * sum(
        pick(a, i[:n], i[n], j, flip_a) * pick(b, i[:n], j, i[n + 1], flip_b) for j in range(inner)))
    emit("MatMul", {"transA": flip_a, "transB": flip_b, "alpha": 0.5}, [a, b], [y])


# Recurrent layers in one direction; states are [batch, hidden], sequences [steps, batch, width]
def rnn(a, r, h, relu, order):
    steps, batch, hidden = a.shape[0], a.shape[1], r.shape[1]
    state, y = {(n, j): h.at(n, j) for n in range(batch) for j in range(hidden)}, {}
    for t in order:
        sums = {(n, j): a.at(t, n, j) + sum(r.at(j, k) * state[n, k] for k in range(hidden)) for n, j in state}
        state = {i: max(v, 0.0) if relu else math.tanh(v) for i, v in sums.items()}
        y.update({(t,) + i: v for i, v in state.items()})
    return build([steps, batch, hidden], lambda *i: y[i])


def lstm(a, r, h, c, order):
    steps, batch, hidden = a.shape[0], a.shape[1], r.shape[1]
    places = list(itertools.product(range(batch), range(hidden)))
    state, cell = {i: h.at(*i) for i in places}, {i: c.at(*i) for i in places}
    y, cells, gates = {}, {}, {}
    for t in order:
        old = dict(state)
        for n, j in places:
            gate = []
            for g in range(4):
                row = g * hidden + j
                total = a.at(t, n, row) + sum(r.at(row, k) * old[n, k] for k in range(hidden))
                gate.append(math.tanh(total) if g == 3 else sigmoid(total))
                gates[t, n, row] = gate[g]
            cell[n, j] = gate[2] * cell[n, j] + gate[0] * gate[3]
            state[n, j] = gate[1] * math.tanh(cell[n, j])
            y[t, n, j], cells[t, n, j] = state[n, j], cell[n, j]
    return (build([steps, batch, hidden], lambda *i: y[i]), build([steps, batch, hidden], lambda *i: cells[i]),
            build([steps, batch, 4 * hidden], lambda *i: gates[i]))


def gru(a, r, b, h, linear, order):
    steps, batch, hidden = a.shape[0], a.shape[1], r.shape[1]
    places = list(itertools.product(range(batch), range(hidden)))
    state, y, gates, parts = {i: h.at(*i) for i in places}, {}, {}, {}
    for t in order:
        old = dict(state)

        def times(n, row, vector):
            return sum(r.at(row, k) * vector[k] for k in range(hidden)) + b.data[row]
        for n in range(batch):
            before = [old[n, k] for k in range(hidden)]
            for row in range(2 * hidden):
                gates[t, n, row] = sigmoid(a.at(t, n, row) + times(n, row, before))
            reset = [gates[t, n, hidden + k] for k in range(hidden)]
            inner = before if linear else [p * q for p, q in zip(reset, before)]
            for j in range(hidden):
                row = 2 * hidden + j
                parts[t, n, j] = times(n, row, inner)
                new = math.tanh(a.at(t, n, row) + parts[t, n, j] * (reset[j] if linear else 1))
                gates[t, n, row], z = new, gates[t, n, j]
                state[n, j] = y[t, n, j] = (1 - z) * new + z * old[n, j]
    return (build([steps, batch, hidden], lambda *i: y[i]), build([steps, batch, 3 * hidden], lambda *i: gates[i]),
            build([steps, batch, hidden], lambda *i: parts[i]))


for steps, batch, hidden, backwards in [(3, 2, 2, 0), (2, 1, 3, 1), (1, 2, 1, 0)]:
    order = list(reversed(range(steps))) if backwards else list(range(steps))
    h, c, dy = rand(batch, hidden), rand(batch, hidden), rand(steps, batch, hidden)
    for relu in (0, 1):
        ins = [rand(steps, batch, hidden), rand(hidden, hidden), h]
        forward = lambda a, r, h: rnn(a, r, h, relu, order)
        y, attrs = forward(*ins), {"reverse": backwards, "activation": "Relu" if relu else "Tanh"}
        emit("RNNCells", attrs, ins, [y])
        emit("RNNCellsGrad", attrs, [ins[1], h, y, dy], [gradient(forward, ins, k, dy) for k in range(3)],
             tolerance=2e-5)
    ins = [rand(steps, batch, 4 * hidden), rand(4 * hidden, hidden), h, c]
    forward = lambda a, r, h, c: lstm(a, r, h, c, order)
    y, cells, gates = forward(*ins)
    emit("LSTMCells", {"reverse": backwards}, ins, [y, cells, gates])
    emit("LSTMCellsGrad", {"reverse": backwards}, [ins[1], h, c, y, cells, gates, dy],
         [gradient(forward, ins, k, dy) for k in range(4)], tolerance=2e-5)
    emit("LSTMCellsGrad", {"reverse": backwards}, [ins[1], h, c, y, cells, gates, None, dy],
         [gradient(lambda *i: forward(*i)[1], ins, k, dy) for k in range(4)], tolerance=2e-5)
    for linear in (0, 1):
        ins = [rand(steps, batch, 3 * hidden), rand(3 * hidden, hidden), rand(3 * hidden), h]
        forward = lambda a, r, b, h: gru(a, r, b, h, linear, order)
        y, gates, parts = forward(*ins)
        attrs = {"reverse": backwards, "linear_before_reset": linear}
        emit("GRUCells", attrs, ins, [y, gates, parts])
        emit("GRUCellsGrad", attrs, [ins[1], h, y, gates, parts, dy],
             [gradient(forward, ins, k, dy) for k in range(4)], tolerance=2e-5)
