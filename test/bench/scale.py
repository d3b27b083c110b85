#!/usr/bin/env python3
"""Planning time by nodes and devices: a table of Markdown, and a drawing.

usage: test/bench/scale.py RENGA [SVG [NODES,... [DEVICES,...]]]

GPT of many small layers (every operator a node, 18 of them in a layer) on nodes of eight H200, type
auto, with the runtime's forecast of all stages. Time is user time of the whole program, in which
the network is built, too; memory is its peak.
"""
import json
import os
import subprocess
import sys
import tempfile

NODES = [1000, 3000, 10000, 30000, 100000]
DEVICES = [8, 64, 512, 1024, 4096, 16384]
COLORS = ["#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677", "#aa3377"]
PER_LAYER = 18


def plan(renga, nodes, devices):
    """Nodes, seconds, MiB, the plan's prediction, its stages."""
    graph = f"gpt:layers={nodes // PER_LAYER},hidden=256,heads=4,sequence=256,vocabulary=50257"
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "plan.json")
        command = [renga, "plan", "-graph", graph, "-machine_file", "h200", "-machine_nodes",
                   str(devices // 8), "-batch_size", str(max(512, devices)), "-microbatch_size",
                   "1", "-plan_view", "json:" + file]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        error = child.stderr.read().decode()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            sys.exit(f"{graph} on {devices} devices: {error}")
        with open(file, encoding="utf-8") as text:
            made = json.load(text)
    return made, usage.ru_utime, usage.ru_maxrss / 1024


def row(renga, nodes, devices):
    made, seconds, memory = plan(renga, nodes, devices)
    stages, predicted = made["stages"], made["predicted"]
    replicas = sorted({stage["replicas"] for stage in stages})
    shape = f"{len(stages)} × {'–'.join(str(r) for r in sorted({replicas[0], replicas[-1]}))}"
    gap = f"{100 * predicted['gap']:.1f} %" if "gap" in predicted else "none"
    count = made["nodes"]
    print(f"| {count:,} | {devices:,} | {shape} | {gap} | {seconds:.2g} | {memory:.0f} |",
          flush=True)
    return count, seconds


def draw(lines, file):
    """Both axes logarithmic; a line for each number of devices."""
    from math import log10
    x = lambda nodes: 70 + 560 * (log10(nodes) - 2.9) / 2.2
    y = lambda seconds: 330 - 300 * (log10(max(seconds, 0.02)) + 1.7) / 3.3
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 390" font-family="sans-serif" '
           'font-size="13">', '<rect width="760" height="390" fill="white"/>']
    for tick in (0.1, 1, 10):
        out.append(f'<path d="M70 {y(tick):.1f}H640" stroke="#ddd"/><text x="62" y="{y(tick) + 4:.1f}"'
                   f' text-anchor="end">{tick} s</text>')
    for tick in NODES:
        out.append(f'<path d="M{x(tick):.1f} 30V330" stroke="#eee"/><text x="{x(tick):.1f}" y="350" '
                   f'text-anchor="middle">{tick:,}</text>')
    out.append('<text x="350" y="376" text-anchor="middle">nodes of the network</text>')
    out.append('<text x="70" y="20">seconds of one core to plan, by number of devices</text>')
    ends = []
    for color, (devices, points) in zip(COLORS, lines):
        path = "L".join(f"{x(n):.1f} {y(s):.1f}" for n, s in points)
        out.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        ends.append([y(points[-1][1]), x(points[-1][0]), color, devices])
    ends.sort(key=lambda end: (end[1], end[0]), reverse=True)
    for i, (at, right, color, devices) in enumerate(ends):
        if i and ends[i - 1][1] == right and ends[i - 1][0] - at < 14:
            at = ends[i][0] = ends[i - 1][0] - 14
        out.append(f'<text x="{right + 8:.1f}" y="{at + 4:.1f}" fill="{color}">{devices:,}</text>')
    with open(file, "w", encoding="utf-8") as svg:
        svg.write("\n".join(out + ["</svg>\n"]))


def main():
    renga, file = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    sizes, counts = ([int(n) for n in sys.argv[i].split(",")] if len(sys.argv) > i else default
                     for i, default in ((3, NODES), (4, DEVICES)))
    lines = {devices: [] for devices in counts}
    print("| nodes | devices | stages × replicas | gap | user s | peak MiB |")
    print("|---|---|---|---|---|---|")
    for nodes in sizes:
        for devices in counts:
            lines[devices].append(row(renga, nodes, devices))
    if file:
        draw(list(lines.items()), file)


if __name__ == "__main__":
    main()
