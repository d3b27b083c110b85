"""What goes together: each feature and each pair is run on a tiny network, and the table of doc/limits.md is what was refused.

usage: matrix.py SOURCE RENGA [--write] [--first N] [--half K] [--every N] [--cuda MODULE]
What runs is a blank of the table. What ends with a sentence and the code of what is not supported, of an option or of a plan that
does not fit is a "no"; another end fails. Features that need memory of their own are run on device far with others. --cuda runs
each feature alone and every Nth pair on device cuda, where two that it has go together as the table says. --write prints the
table instead of comparing it. --first has the first N
features only, --half the pairs whose numbers have a sum of this parity.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIMIT = int(os.environ.get("RENGA_TEST_LIMIT", "150"))
SUPPORT, OPTION, PLAN = 2, 5, 11
NETWORK = "gpt:layers=2,hidden=16,heads=2,sequence=8,vocabulary=512,tied=0"
COMMON = ("-data synthetic -data_samples 16 -batch_size 8 -microbatch_size 1 -steps 1 -progress none -optimizer_type adamw "
          "-optimizer_learning_rate 1e-3")
# Name in the tables, ranks, options. Options of both sides are joined; "own_memory": on a device with memory of its own.
FEATURES = [
    ("stages", 2, "-layout_pipeline 2"),
    ("virtual stages", 2, "-layout_pipeline 2 -layout_chunks 2"),
    ("split backward", 2, "-layout_pipeline 2 -schedule_type zb-h1"),
    ("extra warm-up", 2, "-layout_pipeline 2 -schedule_eager 1"),
    ("data parallel", 2, "-layout_data 2"),
    ("ZeRO 1", 2, "-layout_data 2 -layout_zero 1"),
    ("ZeRO 2", 2, "-layout_data 2 -layout_zero 2"),
    ("ZeRO 3", 2, "-layout_data 2 -layout_zero 3"),
    ("tensor parallel", 2, "-layout_tensor 2 -graph_lanes 2"),
    ("context parallel", 2, "-layout_context 2 -graph_token_lanes 2"),
    ("recompute", 1, "-layout_recompute full"),
    ("offload moments", 1, "-layout_offload optimizer own_memory"),
    ("offload activations", 1, "-layout_offload saved own_memory"),
    ("leaf", 1, "-partition_leaf 2"),
    ("bf16", 1, "-precision bf16"),
    ("fp16", 1, "-precision fp16"),
    ("LoRA", 1, "-graph_lora 2 -graph_lora_targets *weight*"),
    ("dropout", 1, "dropout=0.1"),
    ("sparse tables", 1, "-optimizer_sparse lazy"),
    ("unordered sums", 1, "-pipeline_reduction unordered"),
    ("local SGD", 2, "-train_average local:1 -train_learners 2"),
    ("hidden samples", 1, "-data_hide 0.3"),
    ("generation", 1, "generate"),
]


SIZES = ("-layout_pipeline", "-layout_data")  # which others need


class Feature:
    def __init__(self, name, ranks, text):
        words = text.split()
        self.name, self.ranks = name, ranks
        self.words = {word for word in words if not word.startswith("-") and word in ("own_memory", "generate", "dropout=0.1")}
        rest = [word for word in words if word not in self.words]
        self.options = dict(zip(rest[::2], rest[1::2]))
        main = [name for name in self.options if len(self.options) == 1 or name not in SIZES]
        self.shown = f"`{(main or ['renga generate' if 'generate' in words else words[0]])[0]}`"


def together(one, other):
    """Options and ranks of both; nothing where both give one option other values."""
    options = {**one.options, **other.options}
    if one is not other and one.words & other.words - {"own_memory"} or any(options[name] != value for name, value in one.options.items()):
        return None, 0
    ranks = one.ranks * other.ranks
    for name in SIZES:
        if name in one.options and name in other.options:
            ranks //= 2
    return options, ranks


def run(arguments, ranks, renga):
    command = [os.environ.get("MPIEXEC", "mpiexec"), "-n", str(ranks), renga, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout + done.stderr


def command_of(options, words, device):
    network = NETWORK + (",dropout=0.1" if "dropout=0.1" in words else "")
    given = [word for pair in options.items() for word in pair]
    if "generate" in words:
        return ["generate", "-graph", network, "-checkpoint", "trained.h5", "-prompt_tokens", "1,2", "-tokens", "2", *given, *device]
    if "-partition_type" not in options:
        given += ["-partition_type", "even"]
    return ["train", "-graph", network, *COMMON.split(), *given, *device]


def judge(one, other, renga, device):
    """"" where it runs, "no", "–" where it is not a question; why not."""
    options, ranks = together(one, other)
    if options is None and one is not other:
        return "–", ""
    options, ranks = (one.options, one.ranks) if one is other else (options, ranks)
    code, text = run(command_of(options, one.words | other.words, device), ranks, renga)
    if code == 0:
        return "", ""
    said = re.findall(r"error: (.*)", text)
    if code not in (SUPPORT, OPTION, PLAN) or not said:
        return f"exit code {code}", text[-600:]
    return "no", said[0]


def pair_device(one, other):
    return ["-device_type", "far"] if "own_memory" in one.words | other.words else []


def table_of(page):
    """The rows of the table whose head begins with "feature": number of the row to its cells by their heads."""
    rows, head = {}, None
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else None
        if cells and cells[0] == "feature":
            head = cells
        elif cells and head and not cells[0].startswith("--"):
            rows[int(cells[0].split()[0])] = dict(zip(head, cells))
        elif head and not cells:
            break
    return rows


class Judge:
    """Compares what is run with the table, or keeps it."""

    def __init__(self, renga, said):
        self.renga, self.said, self.found, self.wrong = renga, said, {}, 0

    def ask(self, row, column, one, other, device, wanted=None):
        cell, why = judge(one, other, self.renga, device)
        self.found[row, column] = cell, why
        wanted = self.said.get(row, {}).get(column) if wanted is None else wanted
        if wanted != cell:
            self.wrong += 1
            print(f'{one.name}, {other.name if other is not one else "alone"} ({column}): "{cell}", but doc/limits.md has "{wanted}". {why}')

    def ask_all(self, features, half):
        for i, one in enumerate(features, 1):
            self.ask(i, "cpu", one, one, [])
            for j, other in enumerate(features[:i - 1], 1):
                if half is None or (i + j) % 2 == half:
                    self.ask(i, str(j), one, other, pair_device(one, other))
                if self.said and self.said.get(j, {}).get(str(i)) != self.said.get(i, {}).get(str(j)):
                    self.wrong += 1
                    print(f"{other.name}, {one.name}: the two halves of the table differ")

    def ask_cuda(self, features, module, every):
        device = ["-device_type", "cuda", "-device_cuda_module", module, "-device_cuda_workspace", "1", "-transport_type", "staged"]
        has = {}
        for i, one in enumerate(features, 1):
            self.ask(i, "cuda", one, one, device)
            has[i] = self.found[i, "cuda"][0] == ""
        pairs = [(i, j) for i in has for j in range(1, i)]
        for i, j in pairs[::every]:
            wanted = self.said.get(i, {}).get(str(j), "") if has[i] and has[j] else "no"
            if wanted != "–":
                self.ask(i, str(j), features[i - 1], features[j - 1], device, wanted)


def write(features, found):
    numbers = [str(i) for i in range(1, len(features) + 1)]
    print("| feature | option | cpu | cuda | " + " | ".join(numbers) + " |")
    print("|---" * (len(features) + 4) + "|")
    for i, one in enumerate(features, 1):
        cells = ["–" if i == j else found.get((max(i, j), str(min(i, j))), ("", ""))[0] for j in range(1, len(features) + 1)]
        print(f"| {i} {one.name} | {one.shown} | {found[i, 'cpu'][0]} | {found.get((i, 'cuda'), ('?',))[0]} | " + " | ".join(cells) + " |")
    for (row, column), (cell, why) in found.items():
        if cell not in ("", "–"):
            print(f"{features[row - 1].name}, {column}: {cell}: {why}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("renga")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--first", type=int, default=len(FEATURES))
    parser.add_argument("--half", type=int)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--cuda")
    given = parser.parse_args()
    features = [Feature(*row) for row in FEATURES]
    judged = Judge(given.renga, {} if given.write else table_of(given.source.resolve() / "doc" / "limits.md"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        code, text = run(["train", "-graph", NETWORK, *COMMON.split(), "-checkpoint_dir", "made"], 1, given.renga)
        if code != 0:
            sys.exit(text)
        os.rename(next(pathlib.Path("made").glob("step_*.h5")), "trained.h5")
        sys.stdout = sys.stderr if given.write else sys.stdout
        if given.write or not given.cuda:
            judged.ask_all(features[:given.first], given.half)
        if given.cuda:
            judged.ask_cuda(features, given.cuda, given.every if not given.write else 1 << 30)
        sys.stdout = sys.__stdout__
    if given.write:
        write(features, judged.found)
        return
    if set(judged.said) != set(range(1, len(features) + 1)) or any(row["feature"] != f"{i} {features[i - 1].name}" for i, row in judged.said.items()):
        sys.exit("the table of doc/limits.md has other features")
    print(f"{len(judged.found)} cells, {sum(cell == 'no' for cell, _ in judged.found.values())} refused")
    sys.exit(judged.wrong > 0)


if __name__ == "__main__":
    main()
