#!/usr/bin/env python3
"""usage: heal.py RENGA [FAULTS [FIRST]]: faults at any time of a run under renga run, on several layouts, and whether the run ends
with the parameters of one that nothing happened to; how long from a fault until it is found, and from there to the next step.

Kinds: kill, stop (a rank), all (all ranks are killed), mpiexec (the launcher is), start (a rank, before the first step), checkpoint
(rank 0, while one is written), resume (a rank is killed, and one again as soon as the ranks of the next start have met), term (a rank
gets SIGTERM: the run leaves and the same command goes on).

With NODES=2 in the environment, as root, ranks are on two nodes, two on each, which are network namespaces. Kinds are then also proxy
(the launcher's part on a node is killed), link (of a node, until the run has failed), node (all that runs there is killed), lost (both,
with the node's memory). LD_PRELOAD=test/yield.so where there are more ranks than cores. Needs MPICH's mpiexec."""

import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RENGA = os.path.abspath(sys.argv[1])
FAULTS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
FIRST = int(sys.argv[3]) if len(sys.argv) > 3 else 0
NODES = int(os.environ.get("NODES", "0"))
NAME = f"renga-heal{os.getpid()}"
KINDS = "kill", "stop", "all", "mpiexec", "start", "checkpoint", "resume", "term"
if NODES:
    KINDS += "proxy", "link", "node", "lost"
GPT = "gpt:layers=2,hidden=32,heads=4,sequence=16,vocabulary=64"
LAYOUTS = {
    "stages 2": "-layout_pipeline 2",
    "replicas 2": "-layout_pipeline 1 -layout_data 2",
    "tensor 2": "-layout_pipeline 1 -layout_tensor 2",
    "shard of parameters": "-layout_pipeline 1 -layout_data 2 -layout_zero 3",
    "shard of the optimizer, 3 ranks": "-layout_pipeline 1 -layout_data 3 -layout_zero 1",
}
if NODES:
    LAYOUTS = {
        "stages 2 x replicas 2": "-layout_pipeline 2 -layout_data 2",
        "replicas 4": "-layout_pipeline 1 -layout_data 4",
        "tensor 2 x replicas 2": "-layout_pipeline 1 -layout_tensor 2 -layout_data 2",
        "shard of parameters, 4 ranks": "-layout_pipeline 1 -layout_data 4 -layout_zero 3",
        "shard of the optimizer, 4 ranks": "-layout_pipeline 1 -layout_data 4 -layout_zero 1",
        "auto, a copy in memory": "-checkpoint_memory 1 -checkpoint_memory_dir memory",
    }
BATCH = "10" if NODES else "6"  # which 4 replicas do not divide: partial sums go by way of relays
TRAIN = [RENGA, "train", "-graph", GPT, "-graph_lanes", "2", "-data", "synthetic", "-batch_size", BATCH, "-microbatch_size", "1",
         "-partition_leaf", "1", "-steps", os.environ.get("STEPS", "400"), "-progress", "none", "-parameter_digest"]


def ip(*words, check=True):
    return subprocess.run(("ip",) + words, check=check, capture_output=True, text=True).stdout


def on_node(node):
    """Processes there, with their names."""
    found = {}
    for process in ip("netns", "pids", f"{NAME}-{node}", check=False).split():
        try:
            with open(f"/proc/{process}/comm", encoding="utf-8") as file:
                found[int(process)] = file.read().strip()
        except OSError:
            pass
    return found


def raise_nodes():
    """Node 0 has the launcher and a switch, the others the ranks."""
    for node in range(NODES + 1):
        ip("netns", "add", f"{NAME}-{node}")
        ip("-n", f"{NAME}-{node}", "link", "set", "lo", "up")
    ip("-n", f"{NAME}-0", "link", "add", "switch0", "type", "bridge")
    ip("-n", f"{NAME}-0", "link", "set", "switch0", "up")
    ip("-n", f"{NAME}-0", "addr", "add", "10.84.0.254/24", "dev", "switch0")
    for node in range(1, NODES + 1):
        ip("-n", f"{NAME}-0", "link", "add", f"port{node}", "type", "veth", "peer", "name", "eth0", "netns", f"{NAME}-{node}")
        ip("-n", f"{NAME}-0", "link", "set", f"port{node}", "master", "switch0", "up")
        ip("-n", f"{NAME}-{node}", "addr", "add", f"10.84.0.{node}/24", "dev", "eth0")
        ip("-n", f"{NAME}-{node}", "link", "set", "eth0", "up")


def end_nodes():
    for node in range(NODES + 1):
        for process in on_node(node):
            send(process, signal.SIGKILL)
        ip("netns", "del", f"{NAME}-{node}", check=False)


def plug(node, there):
    ip("-n", f"{NAME}-0", "link", "set", f"port{node}", *(("master", "switch0") if there else ("nomaster",)))


def launcher(folder):
    """How `renga run` starts ranks on the nodes."""
    for node in range(1, NODES + 1):
        os.mkdir(f"{folder}/memory-{node}")
    os.mkdir(f"{folder}/memory")
    with open(f"{folder}/launch", "w", encoding="utf-8") as file:
        file.write(f"""#!/bin/sh
# As ssh: launch [-option ...] HOST COMMAND; a node whose file down-NUMBER is there does not answer.
while [ "${{1#-}}" != "$1" ]; do shift; done
number=${{1##*.}}
shift
[ ! -e "{folder}/down-$number" ] || exec sleep 100
exec ip netns exec "{NAME}-$number" unshare --uts --ipc --mount sh -c \\
  "hostname node$number; mount -t tmpfs -o size=256m tmpfs /dev/shm; mount --bind {folder}/memory-$number {folder}/memory; $*"
""")
    os.chmod(f"{folder}/launch", 0o755)
    with open(f"{folder}/hosts", "w", encoding="utf-8") as file:
        file.writelines(f"10.84.0.{node}:2\n" for node in range(1, NODES + 1))
    mpiexec = os.environ.get("MPIEXEC", "mpiexec") + " -iface switch0"
    return (["ip", "netns", "exec", f"{NAME}-0"],
            ["-hosts", "hosts", "-remote", f"{folder}/launch", "-launcher", mpiexec, "-probe", "3", "-back", "1"])


def digest(text):
    """The last that was printed: a run that leaves prints one, too."""
    found = re.findall(r"parameter digest (0x[0-9a-f]+)", text)
    return found[-1] if found else None


def ranks_of(folder):
    """Processes of the ranks of the run in a folder, by rank."""
    found = {}
    for name in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(name, "rb") as file:
                variables = dict(v.split(b"=", 1) for v in file.read().split(b"\0") if b"=" in v)
        except OSError:
            continue
        if variables.get(b"RENGA_RUN_SIGNS", b"").startswith(folder.encode() + b"/") and b"PMI_RANK" in variables:
            found[int(variables[b"PMI_RANK"])] = int(name.split("/")[2])
    return found


def send(process, what):
    try:
        os.kill(process, what)
    except ProcessLookupError:
        pass


def wait_until(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.002)
    return None


def rows(folder):
    try:
        with open(f"{folder}/events", encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().splitlines()]
    except OSError:
        return []


def has_met(folder):
    return any(open(name, encoding="utf-8").read(1) for name in glob.glob(f"{folder}/renga_run.*"))


def has_failed(folder):
    return any(row["event"] == "failure" for row in rows(folder))


def strike_node(kind, folder, node):
    """The node is back once the run has failed."""
    away = f"{folder}/down-{node}"
    if kind == "lost":
        with open(away, "w", encoding="utf-8"):
            pass
    if kind in ("link", "lost"):
        plug(node, False)
    for process, name in on_node(node).items():
        if kind in ("node", "lost") or (kind == "proxy" and name == "hydra_pmi_proxy"):
            send(process, signal.SIGKILL)
    if kind == "lost":
        for name in glob.glob(f"{folder}/memory-{node}/*"):
            shutil.rmtree(name, ignore_errors=True)
    wait_until(lambda: has_failed(folder), 40)
    time.sleep(1)
    if kind in ("link", "lost"):
        plug(node, True)
    if kind == "lost":
        os.remove(away)


def meet(kind, folder, run, choose):
    """The fault, at a moment that chance chooses."""
    if kind == "start":
        wait_until(lambda: len(ranks_of(folder)) > 0)
        time.sleep(choose.uniform(0, 0.15))
    elif kind == "checkpoint":
        wait_until(lambda: glob.glob(f"{folder}/c/*.h5"))
        wait_until(lambda: glob.glob(f"{folder}/c/*.tmp"), 3)
    else:
        wait_until(lambda: any(row["event"] == "running" for row in rows(folder)))
        time.sleep(choose.uniform(0, 0.6))
    there = ranks_of(folder)
    began = time.monotonic()
    if not there:
        return began
    victim = there[0] if kind == "checkpoint" else choose.choice(list(there.values()))
    if kind in ("proxy", "link", "node", "lost"):
        strike_node(kind, folder, choose.randint(1, NODES))
    elif kind == "all":
        for process in there.values():
            send(process, signal.SIGKILL)
    elif kind == "mpiexec":
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="utf-8") as file:
            for process in file.read().split():
                send(int(process), signal.SIGKILL)
    else:
        send(victim, {"stop": signal.SIGSTOP, "term": signal.SIGTERM}.get(kind, signal.SIGKILL))
    if kind == "resume":
        wait_until(lambda: sum(row["event"] == "start" for row in rows(folder)) > 1)
        wait_until(lambda: has_met(folder))
        for process in list(ranks_of(folder).values())[:1]:
            send(process, signal.SIGKILL)
    return began


def heal(number, wanted):
    """One run with one fault; what is wrong, or None."""
    choose = random.Random(number)
    kind, name = KINDS[number % len(KINDS)], list(LAYOUTS)[number // len(KINDS) % len(LAYOUTS)]
    with tempfile.TemporaryDirectory() as folder:
        train = TRAIN + LAYOUTS[name].split() + ["-checkpoint_dir", "c", "-checkpoint_every", "20", "-timeout", "5"]
        before, where = launcher(folder) if NODES else ([], ["-n", "3" if "3" in name else "2"])
        command = before + [RENGA, "run"] + where + ["-events", "events", "--"] + train
        with open(f"{folder}/out", "w+", encoding="utf-8") as out:
            run = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            wait_until(lambda: rows(folder))
            begin = time.monotonic() - rows(folder)[0]["seconds"]
            struck = meet(kind, folder, run, choose) - begin
            code = run.wait()
            if code == 85 and kind == "term":
                code = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False).returncode
            out.seek(0)
            text = out.read()
        events = rows(folder)
        stay = list(ranks_of(folder).values())
        for node in range(1, NODES + 1):
            stay += on_node(node)
    failures = [row for row in events if row["event"] == "failure"]
    running = {row["start"]: row["seconds"] for row in events if row["event"] == "running"}
    found = failures[0]["seconds"] - struck if failures else float("nan")
    again = next((running[row["start"] + 1] - row["seconds"] for row in failures if row["start"] + 1 in running), float("nan"))
    good = code == 0 and digest(text) == wanted and not stay
    print(f"{number:3} {kind:10} {name:32} {'good' if good else 'BAD'}: code {code}, {len(failures)} failures, found after {found:.2f} s, "
          f"first step {again:.2f} s later; {failures[0]['reason'][:90] if failures else ''}", flush=True)
    if not good:
        print(text, f"processes {stay}" if stay else "")
    return good


def main():
    if NODES:
        os.environ.update(UCX_TLS="tcp,self", UCX_NET_DEVICES="eth0")
        raise_nodes()
    alone = subprocess.run(TRAIN, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    wanted = digest(alone.stdout)
    good = sum(heal(number, wanted) for number in range(FIRST, FIRST + FAULTS))
    print(f"{good} of {FAULTS} good")
    return good != FAULTS


signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
try:
    failed = main()
finally:
    if NODES:
        end_nodes()
sys.exit(failed)
