#!/usr/bin/env python3
"""usage: golden.py [OPTION...] [CASE...]: short training runs, whose numbers stand in expected.tsv and stay to the last digit.

cases.tsv has the cases: what is trained (a work: network, batch, optimizer, all that decides bits) on which layout. Of each
run are compared: the digest of parameters, moments and states; loss, norm of the gradient and validation loss of each step;
the bytes of each stage as planned; what each rank's memory is forecast to take, which is also what the run took; and what the
fullest rank has of each kind. Cases that are the same as another have its digest, losses and norms.

  --all              all cases
  --sample SLOT      one in eight, by slot
  --record           write expected.tsv anew: all, or the rows of the cases that are given
  --jobs N           runs at once (1)
  --build FOLDER     where renga is (default: $top_builddir, or here)
  --times FOLDER     compares seconds with those of another build, in turn: the "time" rows of cases.tsv, or the
                     CASEs of them that are given; --rounds N (5)

Bits follow from the kernels: those of -device_isa base, with the products and convolutions of OpenBLAS and oneDNN held down to
instructions that any x86-64 has. Where the libraries are others than expected.tsv names, numbers are not compared with it, and
each case is compared with the one that it is the same as.
"""

import argparse
import concurrent.futures
import csv
import math
import os
import platform
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SLOTS = 8  # of so many slots each has its share of the cases
LIMIT = 120  # seconds, which only a hang meets
FIELDS = ("digest", "losses", "norms", "validations", "stages", "ranks", "kinds")
KINDS = ("parameters", "gradients", "optimizer", "saved", "temporary", "messages", "inputs", "device")
SAME = FIELDS[:4]  # what no layout changes
COMMON = "-data synthetic -seed 1 -steps 3 -device_isa base -device_threads 1 -partition_type even -time_limit 0"
PLAIN = {"OPENBLAS_CORETYPE": "Prescott", "ONEDNN_MAX_CPU_ISA": "SSE41", "DNNL_MAX_CPU_ISA": "SSE41"}
LIBRARIES = ("openblas", "dnnl", "libm.so", "libc.so")


class Failed(Exception):
    """What a run said when it failed."""


class Case:
    """A row of cases.tsv: a name, ranks, the case that has the same bits, what is trained, and how."""

    def __init__(self, name, ranks, same, work, layout):
        self.name, self.ranks, self.same, self.work, self.layout = name, int(ranks), same, work, layout

    def options(self, works):
        """Later options replace earlier ones, and '-' is none."""
        options = {}
        for text in COMMON, works[self.work], self.layout:
            words = shlex.split(text)
            options.update(zip(words[::2], words[1::2]))
        return [word for option, value in options.items() if value != "-" for word in (option, value)]


def read_cases(path):
    """Works by name, cases, and cases that are timed."""
    works, cases, timed = {}, [], []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = line.rstrip("\n").split("\t")
            if line.startswith("#") or not line.strip():
                continue
            if fields[0] == "work" and len(fields) == 3:
                works[fields[1]] = fields[2]
            elif fields[0] in ("case", "time") and len(fields) == 6 and fields[4] in works:
                (cases if fields[0] == "case" else timed).append(Case(*fields[1:]))
            else:
                sys.exit(f"{path}:{number}: expected: work, name, options; or case (or time), name, ranks, same as, work, layout")
    heads = {}
    for case in cases:
        head = heads.setdefault(case.work, case.same if case.same != "-" else case.name)
        if head != (case.same if case.same != "-" else case.name):
            sys.exit(f"{path}: {case.name} trains the same as {head}, and is to say so")
    return works, cases, timed


def expert_network():
    """Five experts of which a gate says how much each counts, in the language of test/onnx/text.h; %N are N numbers."""
    text = """in x f32 N 10; in labels i64 N; out loss; init we f32 10 4 %40; init be f32 4 %4; MatMul x we -> p; Add p be -> h;
      init wg f32 4 5 %20; MatMul h wg -> s; Softmax s -> g axis=1; init s4 i64 4 : -1 1 1 4; Reshape h s4 -> h4;
      init w1 f32 5 4 2 %40; MatMul h4 w1 -> u; Tanh u -> v; init w2 f32 5 2 4 %40; MatMul v w2 -> o;
      init s3 i64 3 : -1 5 4; Reshape o s3 -> o3; init sg i64 3 : -1 5 1; Reshape g sg -> g3; Mul g3 o3 -> m;
      init ax i64 1 : 1; ReduceSum m ax -> y keepdims=0; Add h y -> z; init wc f32 4 9 %36; MatMul z wc -> c;
      SoftmaxCrossEntropyLoss c labels -> loss"""
    def numbers(match):
        return ": " + " ".join(f"{0.8 * math.sin(i * i * 0.7):.2f}" for i in range(1, int(match.group(1)) + 1))
    return " ".join(re.sub(r"%(\d+)", numbers, text).split())


class Runner:
    """Runs cases with the program of one build."""

    def __init__(self, build, folder, sleeps=True):
        self.build, self.folder = os.path.abspath(build), folder
        self.environment = dict(os.environ)
        self.environment.setdefault("OMP_NUM_THREADS", "1")
        shim = self.build + "/test/yield.so"
        if sleeps and os.path.exists(shim):  # see test/yield.c; it sleeps in what ranks do between kernels, too
            self.environment.setdefault("LD_PRELOAD", shim)
        writer = self.build + "/test/app/network"
        if os.path.exists(writer):
            subprocess.run([writer, folder + "/experts.onnx", "18", expert_network()], check=True, timeout=LIMIT)

    def run(self, case, options, environment):
        """What a run printed; its table of steps and its plan lie in a folder of its own."""
        folder = tempfile.mkdtemp(dir=self.folder)
        command = [os.environ.get("MPIEXEC") or "mpiexec", "-n", str(case.ranks), self.build + "/renga", "train"]
        options = [option.replace("@experts", self.folder + "/experts.onnx").replace("@", HERE + "/") for option in options]
        options += ["-progress", "none", "-monitor", "csv:steps.csv"]
        try:
            done = subprocess.run(command + options, cwd=folder, env=dict(self.environment, **environment), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT, check=False)
        except subprocess.TimeoutExpired as error:
            raise Failed(f"did not end within {LIMIT} s: renga train {shlex.join(options)}") from error
        text = done.stdout.decode(errors="replace")
        if done.returncode != 0:
            raise Failed(f"exit code {done.returncode}: renga train {shlex.join(options)}\n{text}")
        with open(folder + "/steps.csv", encoding="utf-8") as file:
            return text, list(csv.DictReader(file)), folder

    def numbers(self, case, works):
        """The row of expected.tsv of a case, by field."""
        options = case.options(works) + ["-parameter_digest", "true", "-plan_save", "plan.txt", "-log_view", "true"]
        text, steps, folder = self.run(case, options, PLAIN)
        digest = re.search(r"parameter digest (0x[0-9a-f]{16})$", text, re.M)
        ranks = re.findall(r"^ +\d+  (?:stage|idle).*?  +([\d.]+ \w+) +([\d.]+ \w+) +[\d.]+ \w+$", text, re.M)
        if not digest or not ranks or not steps:
            raise Failed(f"prints no digest, no steps, or no memory of ranks:\n{text}")
        departing = [r for r, (forecast, measured) in enumerate(ranks) if forecast != measured]
        if departing:
            raise Failed(f"memory of ranks {departing} is not as forecast:\n{text}")
        with open(folder + "/plan.txt", encoding="utf-8") as file:
            stages = re.findall(r"^  memory (\d+)", file.read(), re.M)
        kinds = [re.search(rf"^{kind}  +([\d.]+ \w+) ", text, re.M).group(1) for kind in KINDS]
        column = {name: ",".join(step[name].replace("-nan", "nan") or "-" for step in steps)
                  for name in ("loss", "gradient_norm", "validation_loss")}
        return {"digest": digest.group(1), "losses": column["loss"], "norms": column["gradient_norm"],
                "validations": column["validation_loss"], "stages": ",".join(stages),
                "ranks": ",".join(forecast for forecast, _ in ranks).replace(" ", ""), "kinds": ",".join(kinds).replace(" ", "")}


def libraries(build):
    """What decides bits beside the program: the machine, and the names of libraries that a program loads."""
    program = next(p for p in (build + "/.libs/renga", build + "/renga") if os.path.exists(p))
    library = build + "/.libs/librenga.so"
    found = set()
    for name in program, library:
        if os.path.exists(name):
            done = subprocess.run(["ldd", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
            found.update(re.findall(r"=> (/\S+)", done.stdout.decode()))
    names = sorted(os.path.basename(os.path.realpath(path)) for path in found if any(part in path for part in LIBRARIES))
    return " ".join([platform.machine(), "-".join(platform.libc_ver()), *names])


class Expected:
    """The rows of expected.tsv."""

    def __init__(self, path):
        self.path, self.rows, self.made_with = path, {}, ""
        if not os.path.exists(path):
            return
        with open(path, encoding="utf-8") as file:
            lines = [line.rstrip("\n") for line in file]
        self.made_with = next((line[len("# with "):] for line in lines if line.startswith("# with ")), "")
        for line in lines:
            if not line.startswith("#"):
                name, *values = line.split("\t")
                self.rows[name] = dict(zip(FIELDS, values))

    def write(self, cases, made_with):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("# Numbers of the cases of cases.tsv, which golden.py --record writes: case, " + ", ".join(FIELDS) + ".\n")
            file.write(f"# with {made_with}\n")
            for case in cases:
                if case.name in self.rows:
                    file.write("\t".join([case.name, *(self.rows[case.name][field] for field in FIELDS)]) + "\n")


def differences(name, fields, was, now):
    """Lines: case, field, was, is."""
    return [f"{name}\t{field}\twas {was[field]}\tis {now[field]}" for field in fields if was[field] != now[field]]


def run_all(runner, cases, works, jobs):
    """Numbers by case, and what failed."""
    found, failed = {}, []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(runner.numbers, case, works): case for case in cases}
        for done in concurrent.futures.as_completed(runs):
            try:
                found[runs[done].name] = done.result()
            except Failed as error:
                failed.append(f"{runs[done].name}\t{error}")
    return found, failed


def compare(cases, found, expected, known):
    """All that differs from expected.tsv, where its numbers are known here, and between cases that are the same."""
    lines = []
    for case in cases:
        now = found.get(case.name)
        if now and known and case.name in expected.rows:
            lines += differences(case.name, FIELDS, expected.rows[case.name], now)
        head = found.get(case.same) or (expected.rows.get(case.same) if known else None)
        if now and head:
            lines += [line + f"\tas {case.same}" for line in differences(case.name, SAME, head, now)]
    return lines


def check_table(cases, expected):
    """What is wrong in expected.tsv by itself: rows that are missing or of no case, and those that part from the case they are as."""
    names = {case.name for case in cases}
    lines = [f"{name}\tstands in expected.tsv, but is no case" for name in expected.rows if name not in names]
    for case in cases:
        row, head = expected.rows.get(case.name), expected.rows.get(case.same)
        if row is None:
            lines.append(f"{case.name}\tis not in expected.tsv: golden.py --record {case.name}")
        elif head:
            lines += [line + f"\tin expected.tsv, as {case.same}" for line in differences(case.name, SAME, head, row)]
    return lines


def processor_seconds():
    """What all runs so far took of processors, which depends less on what else the machine does than seconds of steps."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def time_case(case, words, builds, rounds):
    """Pairs of this build's and the other's seconds of a step, and of processors for a run, of each round."""
    steps_took, runs_took = [], []
    for turn in range(rounds):
        step, whole = [0.0, 0.0], [0.0, 0.0]
        for b in (0, 1) if turn % 2 == 0 else (1, 0):
            began = processor_seconds()
            _, steps, _ = builds[b].run(case, words, {})
            whole[b] = processor_seconds() - began
            step[b] = statistics.median(float(row["seconds"]) for row in steps[1:])
        steps_took.append(step)
        runs_took.append(whole)
    return steps_took, runs_took


def time_builds(options, works, timed, folder):
    """Prints of each case the medians of the ratios of both. A machine that has other work makes seconds of steps worthless."""
    builds = []
    for number, build in enumerate((options.build, options.times)):
        os.mkdir(f"{folder}/{number}")
        builds.append(Runner(build, f"{folder}/{number}", sleeps=False))
    print("case\tseconds of a step\tprocessor seconds of a run: this build's by the other's, median (least to most); medians of both")
    for case in timed:
        cells = []
        for pairs in time_case(case, case.options(works), builds, options.rounds):
            ratios = sorted(own / other for own, other in pairs)
            own, other = (statistics.median(column) for column in zip(*pairs))
            cells.append(f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f}); {own:.3g}, {other:.3g} s")
        print("\t".join([case.name, *cells]), flush=True)


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--build", default=os.environ.get("top_builddir") or ".")
    parser.add_argument("--times")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("cases", nargs="*")
    return parser.parse_args()


def chosen(options, cases):
    unknown = set(options.cases) - {case.name for case in cases}
    if unknown:
        sys.exit("cases.tsv has no " + ", ".join(sorted(unknown)))
    if options.sample is not None:
        return [case for number, case in enumerate(cases) if number % SLOTS == options.sample % SLOTS]
    if options.all or (not options.cases and (options.record or options.times)):
        return cases
    return [case for case in cases if case.name in options.cases]


def main():
    options = arguments()
    works, cases, timed = read_cases(HERE + "/cases.tsv")
    options.build = os.path.abspath(options.build)
    with tempfile.TemporaryDirectory() as folder:
        if options.times:
            time_builds(options, works, chosen(options, timed), folder)
            return
        expected, here = Expected(HERE + "/expected.tsv"), libraries(options.build)
        picked = chosen(options, cases)
        known = options.record or here == expected.made_with
        if not known:
            print(f"expected.tsv was recorded with {expected.made_with}; with {here} only cases that are the same are compared")
            heads = {case.same for case in picked}
            picked = [case for case in cases if case in picked or case.name in heads]
        found, failed = run_all(Runner(options.build, folder), picked, works, options.jobs)
    if options.record:
        names = {case.name for case in cases}
        expected.rows = {name: row for name, row in (expected.rows | found).items() if name in names}
        expected.write(cases, here)
    lines = failed + compare(picked, found, expected, known) + check_table(cases, expected)
    print("\n".join(lines + [f"{len(picked)} cases, {len(lines)} differences"]))
    sys.exit(1 if lines or not picked else 0)


if __name__ == "__main__":
    main()
