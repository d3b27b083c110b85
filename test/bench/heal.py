#!/usr/bin/env python3
"""usage: heal.py RENGA [FAULTS [FIRST]]: faults at any time of a run under renga run, on several layouts, and whether the run ends
with the parameters of one that nothing happened to; how long from a fault until it is found, and from there to the next step.

Kinds: kill, stop (a rank), all (all ranks are killed), mpiexec (the launcher is), start (a rank, before the first step), checkpoint
(rank 0, while one is written), resume (a rank is killed, and one again as soon as the ranks of the next start have met), term (a rank
gets SIGTERM: the run leaves and the same command goes on). LD_PRELOAD=test/yield.so where there are more ranks than cores. Needs
MPICH's mpiexec."""

import glob
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

RENGA = os.path.abspath(sys.argv[1])
FAULTS = int(sys.argv[2]) if len(sys.argv) > 2 else 60
FIRST = int(sys.argv[3]) if len(sys.argv) > 3 else 0
KINDS = "kill", "stop", "all", "mpiexec", "start", "checkpoint", "resume", "term"
GPT = "gpt:layers=2,hidden=32,heads=4,sequence=16,vocabulary=64"
LAYOUTS = {
    "stages 2": "-layout_pipeline 2",
    "replicas 2": "-layout_pipeline 1 -layout_data 2",
    "tensor 2": "-layout_pipeline 1 -layout_tensor 2",
    "shard of parameters": "-layout_pipeline 1 -layout_data 2 -layout_zero 3",
    "shard of the optimizer, 3 ranks": "-layout_pipeline 1 -layout_data 3 -layout_zero 1",
}
TRAIN = [RENGA, "train", "-graph", GPT, "-graph_lanes", "2", "-data", "synthetic", "-batch_size", "6", "-microbatch_size", "1",
         "-partition_leaf", "1", "-steps", os.environ.get("STEPS", "400"), "-progress", "none", "-parameter_digest"]


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
    if kind == "all":
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
        command = [RENGA, "run", "-n", "3" if "3" in name else "2", "-events", "events", "--"] + train
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
        stay = ranks_of(folder)
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
    alone = subprocess.run(TRAIN, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    wanted = digest(alone.stdout)
    good = sum(heal(number, wanted) for number in range(FIRST, FIRST + FAULTS))
    print(f"{good} of {FAULTS} good")
    sys.exit(good != FAULTS)


main()
