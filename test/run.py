#!/usr/bin/env python3
"""usage: run.py [OPTION...] [TEST...]: run tests, several at once, each in a folder of its own that is removed after it.

A program runs once for each number of ranks in its source's line "/* TEST ranks: 1 2 4 */" (default 1), a script as it
is; "# TEST ranks: 8" near its head says how many ranks it has at most (default 4). A test that takes longer than
"timeout: SECONDS" in that line (default 300) hangs: it is ended.

test/budget.tsv says when a test runs, and how many seconds of a processor it may take: of those that take more than
twice as many and the file's slack the last lines tell. Seconds are those of the machine on which the file was written, by a loop that is timed there and
here. Tests are packed by ranks x seconds: at most 8 ranks and 3 tests at once. A signal that ends run.py ends what it runs, too.

  --when check|commit|full   check: what the plain build runs every time; commit: what the test of a commit runs, in
                             both builds, with those whose turn it is; full: everything; default: the tests that are named
  --slot N                   which tests of those that take turns; RENGA_TEST_SLOT for the tests, too
  --tree NAME=FOLDER         builds: plain, sanitized (default: plain=.)
  --measured FILE            write what each test took, as rows of the budget
  --sums                     print what each slot takes, and fail where that is over the file's limits
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TURNS = {"turn": 8, "rare": 32}  # of so many commits one runs a test that takes turns
MOST_RANKS = 8
MOST_TESTS = 3
LIMIT = 300  # seconds that a command of a script has, which only a hang meets
SANITIZED_TIMES = 4  # limits of time under the sanitizers
PLAIN, SANITIZED = "plain", "sanitized"
SIGNALS = signal.SIGHUP, signal.SIGINT, signal.SIGTERM  # which end it
WHENS = "check", "commit", *TURNS, "full"  # as the head of test/budget.tsv says


class Test:
    """One test in one build."""

    def __init__(self, name, tree):
        self.name, self.tree = name, tree
        self.script = name.endswith(".sh")
        source = os.path.join(SOURCE, name if self.script else name + ".c")
        with open(source, encoding="utf-8") as file:
            line = re.search(r"^(?:/\*|#) TEST (.*)$", file.read(), re.M)
        said = dict(re.findall(r"(\w+): *([\d ]+)", line.group(1) if line else ""))
        self.ranks = [int(n) for n in said.get("ranks", "4" if self.script else "1").split()]
        self.limit = int(said.get("timeout", 900 if self.script else 300)) * (SANITIZED_TIMES if tree == SANITIZED else 1)
        self.source = source
        self.when, self.budget = None, None
        self.result, self.cpu, self.wall, self.log, self.why = None, 0.0, 0.0, b"", ""

    def width(self):
        return min(MOST_RANKS, max(self.ranks))

    def title(self):
        return self.name + (" (sanitized)" if self.tree == SANITIZED else "")


def calibrate():
    """Seconds of a processor that a fixed piece of work takes here, now."""
    def once():
        began = time.process_time()
        total = 0
        for i in range(1_000_000):
            total += i * i % 7
        return time.process_time() - began
    return min(once() for _ in range(3))


class Budget:
    """The rows of test/budget.tsv: test, build, when, seconds; and its limits."""

    def __init__(self, path):
        self.rows, self.limits = {}, {}
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                fields = line.rstrip("\n").split("\t")
                if line.startswith("#") or not line.strip():
                    continue
                if fields[0] == "limit" and len(fields) == 3:
                    self.limits[fields[1]] = float(fields[2])
                elif len(fields) == 4 and fields[1] in (PLAIN, SANITIZED) and fields[2] in WHENS:
                    if (fields[0], fields[1]) in self.rows:
                        sys.exit(f"{path}:{number}: {fields[0]} stands twice")
                    self.rows[fields[0], fields[1]] = fields[2], float(fields[3])
                else:
                    sys.exit(f"{path}:{number}: expected: test, {PLAIN} or {SANITIZED}, one of {', '.join(WHENS)}, and seconds")
        self.slots = self.turns()

    def turns(self):
        """The slot of each row that takes turns, so that all slots take as long."""
        slots = {}
        for kind, count in TURNS.items():
            loads = [0.0] * count
            rows = [(key, seconds) for key, (_, seconds) in self.rows.items() if self.commits(key) == kind]
            for key, seconds in sorted(rows, key=lambda row: (-row[1], row[0])):
                slots[key] = loads.index(min(loads))
                loads[slots[key]] += seconds
        return slots

    def commits(self, key):
        """When a commit's test runs this row: a program that each commit runs sanitized runs plain in turn."""
        when = self.rows[key][0]
        covered = self.rows.get((key[0], SANITIZED), ("", 0))[0] == "commit"
        return "turn" if key[1] == PLAIN and when == "check" and covered else when

    def runs(self, key, tier, slot):
        if key not in self.rows:
            return False
        if tier == "check":
            return key[1] == PLAIN and self.rows[key][0] == "check"
        if tier == "commit":
            when = self.commits(key)
            return when in ("check", "commit") or (when in TURNS and self.slots[key] == slot % TURNS[when])
        return True

    def sums(self):
        over = False
        check = sum(seconds for key, (_, seconds) in self.rows.items() if self.runs(key, "check", 0))
        found = [("check", check)]
        for slot in range(max(TURNS.values())):
            found.append((f"commit {slot}", sum(s for key, (_, s) in self.rows.items() if self.runs(key, "commit", slot))))
        for name, seconds in found:
            limit = self.limits[name.split()[0]]
            if seconds > limit or name in ("check", "commit 0"):
                print(f"{name}: {seconds:.0f} of {limit:.0f} CPU s")
            over |= seconds > limit
        return over


class Runner:
    def __init__(self, options, budget):
        self.options, self.budget = options, budget
        self.trees = dict(tree.split("=", 1) for tree in options.tree or ["plain=."])
        self.trees = {name: os.path.abspath(folder) for name, folder in self.trees.items()}
        self.mpiexec = os.environ.get("MPIEXEC") or "mpiexec"
        self.lock = threading.Lock()
        self.scale = 1.0
        self.stopping = False
        self.folders = {}  # of the tests that run; and the session of the command that runs there
        shims = [os.path.join(tree, "test", "yield.so") for _, tree in sorted(self.trees.items())]  # plain before sanitized
        self.shim = next(filter(os.path.exists, shims), None)

    def environment(self, test, folder):
        tree = self.trees[test.tree]
        env = dict(os.environ, srcdir=SOURCE, top_srcdir=SOURCE, top_builddir=tree, TMPDIR=folder + "/tmp", XDG_CACHE_HOME=folder + "/cache",
                   RENGA_TEST_SLOT=str(self.options.slot), RENGA_TEST_LIMIT=str(LIMIT), SANITIZERS="")
        os.mkdir(env["TMPDIR"])
        os.mkdir(env["XDG_CACHE_HOME"])
        if self.shim and not self.options.spin:
            env["LD_PRELOAD"] = self.shim
        if test.tree == SANITIZED:
            suppressions = os.path.join(SOURCE, "test/build/leaks.supp")
            env.update(SANITIZERS="-fsanitize=address,undefined", RENGA_TEST_LIMIT=str(LIMIT * SANITIZED_TIMES), RENGA_TEST_OTHER_ROUNDING="1", RENGA_TEST_SLOW="1",
                       HWLOC_PLUGINS_PATH=folder + "/none", LSAN_OPTIONS=f"suppressions={suppressions} print_suppressions=0",
                       ASAN_OPTIONS="detect_leaks=1:verify_asan_link_order=0", UBSAN_OPTIONS="print_stacktrace=1")
        return env

    def launch(self, test, command, folder, env, log):
        """Runs one command to its end, or to the limit of the test; what it took is added to the test."""
        with self.lock:
            if self.stopping:
                return "was not started"
            process = subprocess.Popen(command, cwd=folder + "/run", env=env, stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=subprocess.STDOUT, start_new_session=True)
            self.folders[folder] = process.pid
        ended = threading.Event()
        hung = threading.Event()

        def watch():
            if not ended.wait(test.limit):
                hung.set()
                for name, wait in (signal.SIGTERM, 5), (signal.SIGKILL, 0):
                    try:
                        os.killpg(process.pid, name)
                    except ProcessLookupError:
                        return
                    if ended.wait(wait):
                        return
        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(process.pid, 0)
        ended.set()
        watcher.join()
        process.returncode = os.waitstatus_to_exitcode(status)
        test.cpu += usage.ru_utime + usage.ru_stime
        if hung.is_set():
            return f"did not end within {test.limit} s"
        code = process.returncode
        return 77 if code == 77 else f"exit code {code}" if code else None

    def processes(self, folder, session=None):
        """Those that work in the folder, or belong to the session."""
        found = []
        for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
            try:
                if os.readlink(f"/proc/{pid}/cwd").startswith(folder) or os.getsid(pid) == session:
                    found.append(pid)
            except OSError:
                pass
        return found

    def signal(self, pids, number):
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def leftovers(self, folder):
        """Processes that a test left behind, which are ended."""
        for attempt in range(20):
            found = self.processes(folder)
            if not found:
                return []
            time.sleep(0.1)
        self.signal(found, signal.SIGKILL)
        return found

    def stop(self, number, _):
        """A signal came: every test is ended, its folder removed, and this program ends."""
        for other in SIGNALS:
            signal.signal(other, signal.SIG_IGN)
        with self.lock:
            self.stopping = True
        for attempt in range(20):
            found = {pid for folder, session in list(self.folders.items()) for pid in self.processes(folder, session)}
            if not found:
                break
            self.signal(found, signal.SIGKILL if attempt >= 5 else signal.SIGTERM)
            time.sleep(0.1)
        for folder in list(self.folders):
            shutil.rmtree(folder, ignore_errors=True)
        print(f"ended by signal {number}", file=sys.stderr, flush=True)
        os._exit(128 + number)

    def run(self, test):
        folder = tempfile.mkdtemp(prefix="renga-test-")
        self.folders[folder] = None
        os.mkdir(folder + "/run")
        began = time.monotonic()
        env = self.environment(test, folder)
        why = None
        with tempfile.TemporaryFile() as log:
            if test.script:
                why = self.launch(test, ["sh", test.source], folder, env, log)
            else:
                cores = len(os.sched_getaffinity(0))
                for ranks in test.ranks:
                    env["OMP_NUM_THREADS"] = str(max(1, min(2, cores // ranks)))
                    program = os.path.join(self.trees[test.tree], test.name)
                    why = self.launch(test, [self.mpiexec, "-n", str(ranks), program], folder, env, log)
                    if why:
                        why = why if why == 77 else f"on {ranks} ranks: {why}"
                        break
            log.seek(0)
            test.log = log.read()
        left = self.leftovers(folder)
        shutil.rmtree(folder, ignore_errors=True)
        del self.folders[folder]
        test.wall = time.monotonic() - began
        if why == 77:
            test.result, test.why = "SKIP", ""
        else:
            if not why and left:
                why = f"left processes {left}"
            test.result, test.why = ("FAIL", why) if why else ("PASS", self.over(test) or "")

    def over(self, test):
        """What is wrong with the seconds that a test took."""
        if self.options.measured or self.options.when is None:
            return None
        slack = self.budget.limits["slack"]
        allowed = 2 * test.budget * self.scale + slack
        if test.cpu > allowed:  # the machine may be slower than it was
            with self.lock:
                self.scale = max(self.scale, self.reference())
            allowed = 2 * test.budget * self.scale + slack
        if test.cpu > allowed:
            return f"took {test.cpu:.1f} CPU s, more than {allowed:.1f}: its row in test/budget.tsv says {test.budget:g}"
        return None

    def reference(self):
        return calibrate() / self.budget.limits["calibration"]

    def all(self, tests):
        """Runs the tests, the widest and longest first; returns how many failed."""
        self.scale = max(1.0, self.reference())
        waiting = sorted(tests, key=lambda t: -(t.budget or 1) * t.width())
        running, changed = [], threading.Condition()

        def work(test):
            try:
                self.run(test)
            except Exception as error:  # pylint: disable=broad-except
                test.result, test.why = "FAIL", repr(error)
            with changed:
                running.remove(test)
                self.report(test)
                changed.notify()
        with changed:
            while waiting or running:
                free = MOST_RANKS - sum(t.width() for t in running)
                fits = next((t for t in waiting if t.width() <= free), None) if len(running) < self.options.jobs else None
                if fits is None:
                    changed.wait()
                    continue
                waiting.remove(fits)
                running.append(fits)
                threading.Thread(target=work, args=(fits,)).start()

    def report(self, test):
        print(f"{test.result}  {test.title()}  {test.cpu:.1f} CPU s  {test.wall:.0f} s{'  ' if test.why else ''}{test.why}", flush=True)
        folder = os.path.join(self.trees[test.tree], "test", "logs")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, test.name.replace("/", "_") + ".log"), "wb") as file:
            file.write(test.log)


def arguments():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--when", choices=("check", "commit", "full"))
    parser.add_argument("--slot", type=int, default=int(os.environ.get("RENGA_TEST_SLOT") or 0))
    parser.add_argument("--tree", action="append")
    parser.add_argument("--jobs", type=int, default=MOST_TESTS)
    parser.add_argument("--measured")
    parser.add_argument("--sums", action="store_true")
    parser.add_argument("--spin", action="store_true")
    parser.add_argument("tests", nargs="*")
    return parser.parse_args()


def chosen(options, budget, trees):
    """The tests to run, of those that the Makefile names: each needs a row."""
    tests, missing = [], []
    for name in options.tests:
        for tree in trees:
            if (name, tree) not in budget.rows:
                if tree == PLAIN and not options.measured:
                    missing.append(name)
                elif not options.measured:
                    continue
            if options.when and not options.measured and not budget.runs((name, tree), options.when, options.slot):
                continue
            test = Test(name, tree)
            test.when, test.budget = budget.rows.get((name, tree), ("check" if tree == PLAIN else "commit", 1.0))
            tests.append(test)
    if missing and options.when:
        sys.exit("no row in test/budget.tsv: " + " ".join(missing))
    if options.when:
        named = set(options.tests)
        gone = sorted({name for name, _ in budget.rows} - named)
        if gone:
            sys.exit("test/budget.tsv has rows of no test: " + " ".join(gone))
    return tests


def main():
    options = arguments()
    budget = Budget(os.path.join(SOURCE, "test", "budget.tsv"))
    if options.sums:
        sys.exit(1 if budget.sums() else 0)
    runner = Runner(options, budget)
    tests = chosen(options, budget, runner.trees)
    began = time.monotonic()
    for number in SIGNALS:
        signal.signal(number, runner.stop)
    runner.all(tests)
    failed = [test for test in tests if test.result == "FAIL"]
    for test in failed:
        print(f"\n== {test.title()}: {test.why}")
        print("\n".join(test.log.decode(errors="replace").splitlines()[-60:]))
    print("".join(f"\n{test.title()} {test.why}" for test in tests if test.result == "PASS" and test.why))
    print("\nthe dearest, in CPU s: " + ", ".join(f"{t.name} {t.cpu:.0f}" for t in sorted(tests, key=lambda t: -t.cpu)[:12]))
    print(f"{sum(t.cpu for t in tests):.0f} CPU s in {time.monotonic() - began:.0f} s; a reference of {runner.scale:.2f}")
    if options.measured:
        with open(options.measured, "a", encoding="utf-8") as file:
            for test in sorted(tests, key=lambda t: t.name):
                file.write(f"{test.name}\t{test.tree}\t{test.when}\t{test.cpu:.1f}\n")
    count = {result: sum(t.result == result for t in tests) for result in ("PASS", "FAIL", "SKIP")}
    print(f"{count['PASS']} passed, {count['FAIL']} failed, {count['SKIP']} skipped")
    sys.exit(1 if failed else 0)


main()
