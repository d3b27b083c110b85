#!/usr/bin/python3
"""Writes trajectories.h: what PyTorch's optimizers do to four parameters, in double precision.

The loss is sum_i c_i (p_i - t_i)^2 / 2 with c, t below; python3 trajectories.py > trajectories.h"""
import torch

START, CURVE, TARGET, STEPS = [1.0, -2.0, 0.5, 3.0], [0.5, 2.0, 0.1, 1.0], [0.25, 1.0, -3.0, 3.0], 20
CASES = [  # name, options of Renga, class, arguments, clip norm
    ("sgd", "sgd", torch.optim.SGD, dict(lr=0.1), 0),
    ("sgd, weight decay", "sgd", torch.optim.SGD, dict(lr=0.1, weight_decay=0.2), 0),
    ("sgd, momentum", "sgd", torch.optim.SGD, dict(lr=0.05, momentum=0.9), 0),
    ("sgd, Nesterov", "sgd", torch.optim.SGD,
     dict(lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.1), 0),
    ("sgd, momentum, clipped", "sgd", torch.optim.SGD, dict(lr=0.1, momentum=0.5), 0.75),
    ("adam", "adam", torch.optim.Adam, dict(lr=0.1), 0),
    ("adam, L2", "adam", torch.optim.Adam,
     dict(lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3), 0),
    ("adamw", "adamw", torch.optim.AdamW, dict(lr=0.1), 0),
    ("adamw, decay, clipped", "adamw", torch.optim.AdamW,
     dict(lr=0.05, betas=(0.7, 0.99), weight_decay=0.5), 0.5),
]


def run(cls, arguments, clip):
    p = torch.tensor(START, dtype=torch.float64, requires_grad=True)
    c, t = torch.tensor(CURVE, dtype=torch.float64), torch.tensor(TARGET, dtype=torch.float64)
    optimizer = cls([p], **arguments)
    rows = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        (c * (p - t) ** 2 / 2).sum().backward()
        if clip:
            torch.nn.utils.clip_grad_norm_([p], clip)
        optimizer.step()
        rows.append(p.tolist())
    return [rows[0], rows[1], rows[STEPS - 1]]


def rates(schedule, steps):
    p = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=2.0)
    scheduler = schedule(optimizer)
    out = []
    for _ in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return out


def main():
    print("/* Made by trajectories.py with PyTorch %s. */" % torch.__version__.split("+")[0])
    print("#pragma once\n")
    print("enum { STEPS = %d, PARAMETERS = 4 };" % STEPS)
    for name, values in (("start", START), ("curve", CURVE), ("target", TARGET)):
        print("static const float %s[PARAMETERS] = {%s};" % (name, ", ".join(map(repr, values))))
    print("static const struct {\n  const char *name, *type;\n  double rate, momentum, weight_decay, "
          "beta1, beta2, epsilon, clip_norm;\n  bool nesterov;\n"
          "  double parameter[3][PARAMETERS]; /* after steps 1, 2 and STEPS */\n} cases[] = {")
    for name, kind, cls, a, clip in CASES:
        decay = a.get("weight_decay", 0.01 if kind == "adamw" else 0)
        beta = a.get("betas", (0.9, 0.999))
        print('  {"%s", "%s", %r, %r, %r, %r, %r, %r, %r, %s,\n   {' % (
            name, kind, a["lr"], a.get("momentum", 0), decay, beta[0], beta[1], a.get("eps", 1e-8),
            clip, "true" if a.get("nesterov") else "false"), end="")
        rows = ["{" + ", ".join("%.15g" % v for v in row) + "}" for row in run(cls, a, clip)]
        print(",\n    ".join(rows) + "}},")
    print("};")
    s = torch.optim.lr_scheduler
    linear = rates(lambda o: s.LinearLR(o, start_factor=1.0, end_factor=0.25, total_iters=10), 12)
    cosine = rates(lambda o: s.CosineAnnealingLR(o, T_max=10, eta_min=0.5), 10)
    for name, values in (("linear", linear), ("cosine", cosine)):
        print("/* learning rate 2, 10 steps, final ratio 0.25 */")
        print("static const double %s_rates[] = {\n  %s};" % (
            name, ",\n  ".join(", ".join("%.15g" % v for v in values[i:i + 4])
                               for i in range(0, len(values), 4))))


main()
