#!/usr/bin/env python3
"""usage: randomplans.py BUILD: makes the machines and the problems of plans.tsv that are random, by fixed seeds.

Rows of classes small, tensor and random are written anew, and machines/random*.opts; plans.py --enumerate then finds the best
fixed layouts. Memory is a share of that of a plan without a bound, by the program of BUILD, so that rows follow that program.
Of what this makes plans.tsv leaves out the few that take over 8 s to plan.
"""

import json
import os
import random
import sys
import tempfile

import plans

MACHINES, SMALL, LARGE = 14, 100, 40
KINDS = ("small", "tensor", "random")
MACHINE = """-name random{number}
-nodes 64
-devices {devices}
-memory 64GiB
-matrix_rate {matrix:.4g}
-matrix_rate_bfloat16 {bfloat16:.4g}
-vector_rate {vector:.4g}
-memory_bandwidth {memory:.4g}
-matrix_efficiency 0.8
-vector_efficiency 0.5
-bandwidth_efficiency 0.8
-launch {launch:.3g}
-node_latency {node_latency:.3g}
-node_bandwidth {node:.4g}
-cluster_latency {cluster_latency:.3g}
-cluster_bandwidth {cluster:.4g}
"""


def machine(draw, number):
    """Text of a machine file, anything from a board to a GPU; and its devices per node."""
    scale = 10 ** draw.uniform(10.3, 14)
    node = scale * 10 ** draw.uniform(-4, -2)
    numbers = {"number": number, "devices": draw.choice((1, 2, 2, 4, 4, 4, 8)), "matrix": scale,
               "bfloat16": scale * draw.choice((1, 4)), "vector": scale / draw.uniform(1.2, 6),
               "memory": scale / draw.uniform(10, 40), "launch": 10 ** draw.uniform(-6.4, -5.3),
               "node_latency": 10 ** draw.uniform(-6, -4.7), "node": node, "cluster_latency": 10 ** draw.uniform(-5.7, -4),
               "cluster": node / draw.uniform(1.5, 20)}
    return MACHINE.format(**numbers), numbers["devices"]


def small_network(draw):
    """A network of a few layers, and samples of a batch."""
    batch = draw.choice((8, 12, 16, 24, 32))
    kind = draw.choice(("mlp", "mlp", "mlp", "gpt", "gpt", "bert", "llama", "t5", "ncf"))
    layers, hidden = draw.randint(1, 5), draw.choice((32, 64, 128))
    heads, sequence, vocabulary = draw.choice((2, 4, 8)), draw.choice((8, 16, 32, 64)), draw.choice((64, 128, 512))
    text = f"hidden={hidden},heads={heads},sequence={sequence},vocabulary={vocabulary}"
    if kind == "mlp":
        hidden *= draw.choice((1, 2, 4))
        return f"mlp:layers={layers + 1},hidden={hidden},input={draw.choice((32, 256))}", batch * draw.choice((1, 4))
    if kind == "ncf":
        return f"ncf:users={draw.choice((100, 1000))},items=200,factors=16,layers=64-64-32", batch * 4
    return f"{kind}:layers={(layers + 1) // 2},{text}", batch


def large_network(draw):
    layers, hidden = draw.choice((2, 4, 6, 8)), draw.choice((128, 256, 512))
    kind = draw.choice(("gpt", "gpt", "bert", "llama", "t5", "resnet", "mlp", "transformer"))
    if kind == "mlp":
        return f"mlp:layers={layers},hidden={hidden}", 512
    if kind == "resnet":
        depth, width, image = draw.choice((18, 34)), draw.choice((0.25, 1, 2)), draw.choice((32, 64))
        return f"resnet:depth={depth},width={width},image={image},classes=10", 128
    heads = max(hidden // 64, 2)
    text = f"{kind}:layers={layers},hidden={hidden},heads={heads},sequence={draw.choice((32, 64, 128))},vocabulary=1024"
    return text, draw.choice((32, 64, 128))


def problem(draw, name, machines, network, devices_range):
    """Options but for memory."""
    graph, batch = network(draw)
    number = draw.randrange(len(machines))
    per_node = machines[number]
    devices = draw.randint(*devices_range)
    nodes = -(-devices // per_node)
    text = f"-graph {graph} -machine_file @machines/random{number}.opts -machine_nodes {nodes} -batch_size {batch}"
    text += f" -optimizer_type {draw.choice(('sgd', 'adam', 'adamw'))}"
    if nodes * per_node > devices_range[1]:
        text += f" -partition_ranks {devices}"
    if draw.random() < 0.2:
        text += " -precision bf16"
    return plans.Problem(name, "random", text), batch


def with_memory(draw, planner, made):
    """The problem with less memory than it would like, or with a little more."""
    code, _, _, user, _, folder = planner.run(made.words() + ["-plan_view", "json:plan.json"])
    if code or user > 1:
        return
    with open(folder + "/plan.json", encoding="utf-8") as file:
        most = max(stage["memory"] for stage in json.load(file)["stages"])
    made.options += f" -machine_memory {int(most * draw.uniform(0.35, 1.15))}"


def small_problems(planner, machines):
    rows = []
    for number in range(SMALL):
        draw = random.Random(f"small {number}")
        made, batch = problem(draw, f"small{number}", machines, small_network, (2, 8) if number % 4 == 0 else (2, 4))
        made.options += f" -microbatch_size {max(1, batch // draw.choice((1, 2, 4, 8, 8, 16)))} -partition_leaf 1"
        if draw.random() < 0.25:
            with_memory(draw, planner, made)
        rows.append(plans.Problem(made.name, "small", made.options))
        rows.append(plans.Problem(f"tensor{number}", "tensor", made.options + " -layout_tensor auto"))
    return rows


def large_problems(planner, machines):
    rows = []
    for number in range(LARGE):
        draw = random.Random(f"random {number}")
        made, batch = problem(draw, f"random{number}", machines, large_network, (8, 48) if number % 4 == 0 else (8, 16))
        if draw.random() < 0.5:
            made.options += f" -microbatch_size {max(1, batch // draw.choice((8, 16, 32)))}"
        if draw.random() < 0.2:
            with_memory(draw, planner, made)
        more = draw.choice(("",) * 6 + ("-layout_tensor auto", "-graph_lanes 2 -layout_tensor 2", "-layout_zero 1",
                                        "-layout_zero 3", "-layout_recompute full", "-schedule_type 1f1b",
                                        "-schedule_type zb-h2"))
        made.options += f" {more}" if more else ""
        rows.append(made)
    return rows


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    machines = []
    for number in range(MACHINES):
        text, devices = machine(random.Random(f"machine {number}"), number)
        machines.append(devices)
        with open(f"{plans.HERE}/machines/random{number}.opts", "w", encoding="utf-8") as file:
            file.write(text)
    table = plans.HERE + "/plans.tsv"
    kept = [row for row in plans.read_problems(table) if row.kind not in KINDS]
    with tempfile.TemporaryDirectory() as folder:
        planner = plans.Planner(os.path.abspath(sys.argv[1]), folder)
        made = small_problems(planner, machines) + large_problems(planner, machines)
    plans.write_problems(table, kept + made)


if __name__ == "__main__":
    main()
