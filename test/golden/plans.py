#!/usr/bin/env python3
"""usage: plans.py [OPTION...] [PROBLEM...]: planning problems, whose predicted steps stand in plans.expected.tsv.

plans.tsv has the problems: name, class, options of `renga plan`, and of small ones the step of the best fixed layout that an
enumeration found, with its options. Of each plan are recorded: predicted step, lower bound, layout, user seconds, peak MiB, and
of a refused problem the error's first words. The comparison fails where a step is more than a thousandth longer than recorded,
and where a problem is refused that was planned. Below it stands in how many small problems the plan is as fast as the best
fixed layout, and how much is lost.

  --all              all problems
  --sample SLOT      some of them, by slot: each takes about as long
  --class CLASS,...  only these classes
  --record           write plans.expected.tsv anew: all, or the rows of the problems that are chosen
  --compare FOLDER   the same with another build, and a table of both: this build's steps and seconds by the other's
  --monotone         plans each on 1, 2, 4 and 8 nodes, and without and with as many tensor-parallel ranks as the planner likes; fails
                     where more is slower. --along nodes or --along tensor is one of both
  --show             a row for each problem, with what is expected
  --enumerate        try all fixed layouts of small problems, and write the best into plans.tsv
  --jobs N           runs at once (1)
  --build FOLDER     where renga is (default: $top_builddir, or here)

Costs are analytic, and memory is that of -device_isa base (products in 16 bits have other workspace under others), so that a plan
is a function of the options alone: numbers are the same on every machine.
"""

import argparse
import concurrent.futures
import json
import math
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SLOTS = 64
SAMPLED = 2.5  # user seconds, as recorded, of a problem that samples may have
LIMIT = 300  # seconds, which only a hang meets
SLACK = 1.001
FIELDS = ("step", "bound", "layout", "refused", "user", "peak")
HEAD = """# Planning problems; plans.py compares their plans with those of plans.expected.tsv. Columns are parted by tabs:
# name, class, options of renga plan; of small ones the step of the best fixed layout that was found by trying, and its options.
# Classes small and tensor have the same problems, planned without and with -layout_tensor auto; the best of the latter is
# of tensor-parallel ranks and lanes 1 and 1, 1 and 2, 2 and 2, 4 and 4, 8 and 8. Files of this folder begin with @. randomplans.py has
# made the classes small, tensor and random; trial has what users of the planner were surprised by.
"""


class Problem:
    """A row of plans.tsv."""

    def __init__(self, name, kind, options, best="-", layout="-"):
        self.name, self.kind, self.options, self.best, self.layout = name, kind, options, best, layout

    def row(self):
        return "\t".join((self.name, self.kind, self.options, self.best, self.layout))

    def words(self, *more):
        """Later options replace earlier ones, and '-' is none."""
        options = {"-device_isa": "base"}
        for text in (self.options, *more):
            words = shlex.split(text)
            options.update(zip(words[::2], words[1::2]))
        return [word.replace("@", HERE + "/") for option, value in options.items() if value != "-" for word in (option, value)]

    def value(self, option, default=None):
        words = self.words()
        return dict(zip(words[::2], words[1::2])).get(option, default)


class Planned:
    """What renga plan says of a problem; step is None where it is refused."""

    def __init__(self, plan, error, user, peak):
        self.user, self.peak, self.refused = user, peak, error
        self.step = self.bound = None
        self.layout = "-"
        if plan:
            self.step, self.bound = plan["predicted"]["step"], plan["predicted"].get("bound")
            self.layout = describe(plan)

    def row(self):
        return (f"{self.step:.8g}" if self.step else "-", f"{self.bound:.8g}" if self.bound else "-", self.layout,
                self.refused or "-", f"{self.user:.2f}", f"{self.peak:.0f}")


def span(values):
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)}–{max(values)}"


def describe(plan):
    """A plan's layout in a line."""
    stages = plan["stages"]
    ranks = len({rank for stage in stages for rank in stage["ranks"]})
    shapes = [stage.get("shape", {}) for stage in stages]
    text = f"{len(stages)} x {span([stage['replicas'] for stage in stages])}, {ranks} ranks, micro-batch {plan['microbatch']}"
    text += f", leaf {plan['leaf']}, {plan['schedule']}"
    for word, usual in ("tensor", "1"), ("context", "1"), ("shard", "none"), ("chunks", "1"):
        values = sorted({shape.get(word, usual) for shape in shapes})
        if values != [usual]:
            text += f", {word} {'/'.join(values)}"
    again = sum(1 for stage in stages if stage.get("recompute"))
    return text + (f", recomputed {again}" if again else "")


class Planner:
    """Plans with the program of one build."""

    def __init__(self, build, folder):
        self.program, self.folder = os.path.abspath(build) + "/renga", folder
        self.environment = {name: value for name, value in os.environ.items() if name != "RENGA_OPTIONS"}
        self.environment.setdefault("OMP_NUM_THREADS", "1")

    def run(self, words):
        """Exit code, output, errors, user seconds and MiB of a run."""
        folder = tempfile.mkdtemp(dir=self.folder)
        with open(folder + "/out", "w+b") as out, open(folder + "/error", "w+b") as error:
            child = subprocess.Popen([self.program, "plan", *words], cwd=folder, env=self.environment, stdin=subprocess.DEVNULL,
                                     stdout=out, stderr=error)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            out.seek(0)
            error.seek(0)
            texts = [file.read().decode(errors="replace") for file in (out, error)]
        return child.returncode, *texts, used.ru_utime, used.ru_maxrss / 1024, folder

    def plan(self, problem, *more):
        code, _, error, user, peak, folder = self.run(problem.words(*more) + ["-plan_view", "json:plan.json"])
        if code < 0:
            return Planned(None, f"signal {-code}", user, peak)
        if code:
            said = re.search(r"^\[rank \d+\] error: (.*)", error, re.M)
            return Planned(None, " ".join((said.group(1) if said else error).replace(HERE + "/", "@").split()[:12]), user, peak)
        with open(folder + "/plan.json", encoding="utf-8") as file:
            return Planned(json.load(file), None, user, peak)

    def sweep(self, problem, fixed, swept):
        """Pairs of a step and options, of all combinations of the swept options' values that have a plan."""
        text = " ".join(f"{option}:{','.join(map(str, values))}" for option, values in swept)
        _, out, _, _, _, _ = self.run(problem.words(fixed) + ["-plan_sweep", text])
        batch, found, column = int(problem.value("-batch_size")), [], None
        for line in out.split("\n"):
            cells = re.split(r" {2,}", line.strip())
            if "samples/s" in cells:
                column = cells.index("samples/s")
            elif column and len(cells) > column:
                options = " ".join(f"-{option} {value}" for (option, _), value in zip(swept, cells))
                found.append((batch / float(cells[column]), f"{fixed} {options}"))
        return found


def read_problems(path):
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if line.strip() and not line.startswith("#")]
    for row in rows:
        if len(row) != 5 or len(shlex.split(row[2])) % 2:
            sys.exit(f"{path}: expected: name, class, options with values, best, layout: {row}")
    problems = [Problem(*row) for row in rows]
    names = [problem.name for problem in problems]
    if len(set(names)) < len(names):
        sys.exit(f"{path}: two problems have the name {next(name for name in names if names.count(name) > 1)}")
    return problems


def write_problems(path, problems):
    with open(path, "w", encoding="utf-8") as file:
        file.write(HEAD + "\n" + "".join(problem.row() + "\n" for problem in problems))


def read_expected(path):
    rows = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file:
                if not line.startswith("#"):
                    name, *values = line.rstrip("\n").split("\t")
                    rows[name] = dict(zip(FIELDS, values))
    return rows


def write_expected(path, problems, rows):
    with open(path, "w", encoding="utf-8") as file:
        file.write("# Plans of the problems of plans.tsv, which plans.py --record writes: name, step, bound, layout, why refused,\n"
                   "# user seconds, peak MiB. The last two are of the machine that wrote them, and compared with nothing.\n")
        for problem in problems:
            if problem.name in rows:
                file.write("\t".join([problem.name, *(rows[problem.name][field] for field in FIELDS)]) + "\n")


def map_all(jobs, function, items):
    """Results in the order of the items; threads only wait for programs."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(function, items))


# What is checked.

def check(problem, now, was):
    """Lines about a plan beside what was recorded."""
    if was is None:
        return [f"{problem.name}\tis not in plans.expected.tsv: plans.py --record {problem.name}"]
    if was["step"] == "-":
        return []
    if now.step is None:
        return [f"{problem.name}\tis refused: {now.refused}; it was planned with {was['step']} s"]
    if now.step > float(was["step"]) * SLACK:
        ratio = now.step / float(was["step"])
        return [f"{problem.name}\t{now.step:.6g} s a step, {ratio:.4f} times the {was['step']} s of before; "
                f"{now.layout}; before {was['layout']}"]
    return []


def against_best(problems, found):
    """Lines about plans beside the best fixed layouts, of each class that has such."""
    lines = []
    for kind in sorted({problem.kind for problem in problems if problem.best != "-"}):
        pairs = [(found[p.name].step / float(p.best), p.name) for p in problems
                 if p.kind == kind and p.best != "-" and found[p.name].step]
        refused = [p.name for p in problems if p.kind == kind and p.best != "-" and not found[p.name].step]
        if not pairs:
            continue
        equal = sum(1 for ratio, _ in pairs if ratio <= SLACK)
        ahead = sum(1 for ratio, _ in pairs if ratio < 1 / SLACK)
        most, mean = max(pairs), sum(ratio for ratio, _ in pairs) / len(pairs)
        lines.append(f"{kind}: as fast as the best fixed layout in {equal} of {len(pairs)} ({ahead} of them faster); "
                     f"steps by the best's: {mean:.4f} in the mean, {most[0]:.4f} at the most ({most[1]})")
        if refused:
            lines.append(f"{kind}: refused, though a fixed layout fits: {', '.join(refused)}")
    return lines


def compare(problems, found, other):
    """Prints both builds' steps and seconds, and their ratios."""
    ratios, seconds = [], [0.0, 0.0]
    print("problem\tclass\tstep\tother's\tratio\tuser s\tother's\tratio\tlayout\tother's")
    for problem in problems:
        own, theirs = found[problem.name], other[problem.name]
        both = own.step and theirs.step
        ratios += [own.step / theirs.step] if both else []
        seconds = [seconds[0] + own.user, seconds[1] + theirs.user]
        own_row, other_row = own.row(), theirs.row()
        print("\t".join([problem.name, problem.kind, own_row[0] if own.step else own.refused,
                         other_row[0] if theirs.step else theirs.refused,
                         f"{own.step / theirs.step:.4f}" if both else "-", own_row[4], other_row[4],
                         f"{(own.user + 0.01) / (theirs.user + 0.01):.2f}", own.layout, theirs.layout]))
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{len(ratios)} steps: {mean:.4f} in the geometric mean, {min(ratios):.4f} to {max(ratios):.4f}; shorter in "
              f"{sum(r < 1 / SLACK for r in ratios)}, longer in {sum(r > SLACK for r in ratios)}; "
              f"user seconds {seconds[0]:.1f}, {seconds[1]:.1f}")


def sequences(problem):
    """Lists of options that give the planner more and more: it should never get slower along them."""
    nodes = int(problem.value("-machine_nodes", "0"))
    if nodes and problem.value("-partition_ranks") is None and problem.value("-layout_pipeline") is None:
        yield "nodes", [f"-machine_nodes {n}" for n in (1, 2, 4, 8)]
    if problem.value("-layout_tensor") in (None, "auto") and problem.value("-graph_lanes") is None:
        yield "tensor", ["-layout_tensor -", "-layout_tensor auto"]


def monotone(planner, problems, along, jobs):
    """Prints what is slower with more nodes, or with tensor-parallel ranks allowed, the worst first; their number."""
    cases = [(problem, name, steps) for problem in problems for name, steps in sequences(problem) if along in (None, name)]
    lines, counts = [], {}
    plans = map_all(jobs, lambda case: [planner.plan(case[0], more) for more in case[2]], cases)
    for (problem, name, steps), planned in zip(cases, plans):
        least, with_least, worst = None, None, None
        for more, plan in zip(steps, planned):
            if least and (plan.step is None or plan.step > least * SLACK):
                ratio = plan.step / least if plan.step else math.inf
                worst = max(worst or (0,), (ratio, f"{more}: {plan.step or plan.refused}, {plan.layout}; {with_least}"))
            if plan.step and (least is None or plan.step < least):
                least, with_least = plan.step, f"{more}: {plan.step:.6g}, {plan.layout}"
        counts.setdefault(name, [0, 0])
        counts[name][0] += 1
        if worst:
            counts[name][1] += 1
            lines.append((worst[0], f"{name}\t{problem.name}\t{worst[0]:.4f}\t{worst[1]}\trenga plan {problem.options}"))
    for _, line in sorted(lines, key=lambda pair: -pair[0]):
        print(line)
    for name, (all_of, slower) in counts.items():
        print(f"{name}: slower with more in {slower} of {all_of}")
    return len(lines)


# The best of all fixed layouts.

def divisors(number):
    return [d for d in range(1, number + 1) if number % d == 0]


def devices_of(planner, problem):
    """Devices that a problem has."""
    given = problem.value("-partition_ranks")
    if given:
        return int(given)
    with open(problem.value("-machine_file"), encoding="utf-8") as file:
        per_node = int(re.search(r"^-devices (\d+)", file.read(), re.M).group(1))
    return per_node * int(problem.value("-machine_nodes"))


def layouts(problem, devices, tensor, lanes):
    """Sweeps of fixed layouts: what is fixed, and lists of values."""
    again = ("layout_recompute", ["auto", "full"] if problem.value("-machine_memory") else ["auto"])
    for replicas in range(1, devices // tensor + 1):
        shards = ("layout_zero", ["none", "optimizer", "gradients", "parameters"] if replicas > 1 else ["none"])
        some = (shards[0], shards[1][:2])
        for stages in range(1, devices // tensor // replicas + 1):
            fixed = f"-layout_tensor {tensor} -graph_lanes {lanes} -layout_pipeline {stages} -layout_data {replicas}"
            searched, even = f"{fixed} -partition_type auto", f"{fixed} -partition_type even"
            yield searched, [again, shards]  # the fastest schedule of those with one stage for each rank
            if stages > 1:
                yield searched, [again, ("schedule_type", ["auto"]), some]
                two = ["interleaved", "zb-v", "dualpipe-v", "auto"]
                yield even, [again, ("layout_chunks", [2]), ("schedule_type", two), some]
                yield even, [again, ("layout_chunks", [4]), ("schedule_type", ["interleaved", "auto"]), some]


def best_layout(planner, problem, tensors):
    """The shortest step of all fixed layouts of so many tensor-parallel ranks and lanes, and the layout's options. The table of a sweep
    has few digits: what it puts first is planned alone."""
    devices = devices_of(planner, problem)
    found = [pair for tensor, lanes in tensors if tensor <= devices for fixed, swept in layouts(problem, devices, tensor, lanes)
             for pair in planner.sweep(problem, fixed, swept)]
    found.sort()
    first = []
    for _, options in [pair for pair in found if pair[0] <= found[0][0] * SLACK][:4]:
        exact = planner.plan(problem, options).step
        if exact:
            first.append((exact, options))
    return min(first, default=None)


def enumerate_layouts(planner, problems, jobs):
    """Writes into problems of class small the best of one tensor-parallel rank and lane, and into those of class tensor the best of all."""
    by_name = {problem.name: problem for problem in problems}
    small = [problem for problem in problems if problem.kind == "small"]
    def both(problem):
        one, more = (best_layout(planner, problem, tensors) for tensors in (((1, 1),), ((1, 2), (2, 2), (4, 4), (8, 8))))
        return one, min((best for best in (one, more) if best), default=None)
    for problem, bests in zip(small, map_all(jobs, both, small)):
        for row, best in zip((problem, by_name.get(problem.name.replace("small", "tensor"))), bests):
            if row:
                row.best, row.layout = (f"{best[0]:.8g}", best[1]) if best else ("-", "-")


# The program.

def arguments():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    for option in "all", "record", "monotone", "show", "enumerate":
        parser.add_argument("--" + option, action="store_true")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--class", dest="kinds")
    parser.add_argument("--along", choices=("nodes", "tensor"))
    parser.add_argument("--compare")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--build", default=os.environ.get("top_builddir") or ".")
    parser.add_argument("problems", nargs="*")
    return parser.parse_args()


def sampled(problems, expected, slot):
    """Problems of a slot: dealt out by their seconds, forth and back."""
    seconds = lambda problem: float(expected.get(problem.name, {}).get("user", "0"))
    quick = sorted((p for p in problems if seconds(p) <= SAMPLED), key=lambda p: (-seconds(p), p.name))
    turn = slot % SLOTS
    return [p for number, p in enumerate(quick) if number % SLOTS == (turn if number // SLOTS % 2 == 0 else SLOTS - 1 - turn)]


def chosen(options, problems, expected):
    unknown = set(options.problems) - {problem.name for problem in problems}
    if unknown:
        sys.exit("plans.tsv has no " + ", ".join(sorted(unknown)))
    if options.sample is not None:
        problems = sampled(problems, expected, options.sample)
    elif options.problems:
        problems = [problem for problem in problems if problem.name in options.problems]
    if options.kinds:
        problems = [problem for problem in problems if problem.kind in options.kinds.split(",")]
    return problems


def main():
    options = arguments()
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]  # which the programs inherit
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT if hard == resource.RLIM_INFINITY else min(LIMIT, hard), hard))
    table, expected_table = HERE + "/plans.tsv", HERE + "/plans.expected.tsv"
    every, expected = read_problems(table), read_expected(expected_table)
    picked = chosen(options, every, expected)
    with tempfile.TemporaryDirectory() as folder:
        planner = Planner(options.build, folder)
        if options.enumerate:
            enumerate_layouts(planner, picked, options.jobs)
            write_problems(table, every)
            return
        if options.monotone:
            sys.exit(1 if monotone(planner, picked, options.along, options.jobs) else 0)
        plans = map_all(options.jobs, planner.plan, picked)
        found = {problem.name: plan for problem, plan in zip(picked, plans)}
        if options.compare:
            other = Planner(options.compare, folder)
            compare(picked, found, dict(zip(found, map_all(options.jobs, other.plan, picked))))
            return
    if options.record:
        names = {problem.name for problem in every}
        expected = {name: row for name, row in expected.items() if name in names}
        expected.update({name: dict(zip(FIELDS, plan.row())) for name, plan in found.items()})
        write_expected(expected_table, every, expected)
    if options.show:
        for problem in picked:
            print("\t".join([problem.name, problem.kind, *found[problem.name].row()]))
    lines = [line for problem in picked for line in check(problem, found[problem.name], expected.get(problem.name))]
    names = {problem.name for problem in every}
    lines += [f"{name}\tstands in plans.expected.tsv, but is no problem" for name in expected if name not in names]
    print("\n".join(lines + against_best(picked, found) + [f"{len(picked)} problems, {len(lines)} worse"]))
    sys.exit(1 if lines or not picked else 0)


if __name__ == "__main__":
    main()
