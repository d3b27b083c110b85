"""Pages of the book that come from the program: each option, each function, each operator."""
import ctypes
import os
import pathlib
import re
import subprocess

COMMANDS = ("train", "eval", "predict", "generate", "plan", "profile", "info", "data", "export", "watch", "run")
OWN = {"run"}  # has options of its own, and no others
FLAGS = {1: "elementwise", 4: "draws random numbers", 32: "a sum over all micro-batches and replicas"}


def plain(text):
    """Text that Markdown takes as it is."""
    return re.sub(r"([\\`*_<>\[\]|{}#$])", r"\\\1", text)


# ---- options: what renga COMMAND -help prints ----


class Option:
    def __init__(self, name, section):
        self.name, self.section, self.text, self.value, self.commands = name, section, "", "", []


def read_help(text, command, options):
    """Adds the options of one command. A name stands in column 2, its text from 37, its values from 39."""
    section, option, new = None, None, False
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line and indent == 0:
            section = line
        elif indent == 2 and line[2] == "-":
            name = line.split()[0][1:]
            new = name not in options
            option = options.setdefault(name, Option(name, section))
            option.commands.append(command)
            line = line[2 + len(name) + 1:]
            indent = 37
        if option and new and line.strip():
            if indent >= 39:
                option.value = (option.value + " " + line.strip()).strip()
            elif indent >= 37:
                option.text = (option.text + " " + line.strip()).strip()


def read_options(renga):
    options = {}
    for command in COMMANDS:
        done = subprocess.run([renga, command, "-help"], capture_output=True, text=True, check=True)
        read_help(done.stdout, command, options)
    return options


def split_value(value):
    """"real, 0 to 1; default 0.5" is a kind and a default."""
    kind, _, default = value.partition("; default ")
    return kind, default.strip()


def read_details():
    """By option: sentences that its line of help has no room for."""
    lines = (pathlib.Path(__file__).parent / "details.txt").read_text().splitlines()
    return dict(line.split("\t") for line in lines if not line.startswith("#"))


def read_names():
    """By option: its other names of today, and those of the version before, from the program's table."""
    table = pathlib.Path(__file__).parents[2] / "src" / "sys" / "optionname.c"
    names = {}
    for name, option, old in re.findall(r'{"(\w+)", "(\w+)", (true|false)}', table.read_text()):
        names.setdefault(option, {"true": [], "false": []})[old].append(f"`-{name}`")
    return names


def names_entry(names):
    """What it is called as well, what it was called, and an empty line."""
    also = ["Also: " + ", ".join(names["false"]) + "."] if names["false"] else []
    before = ["Before: " + ", ".join(names["true"]) + ", read for one version more."] if names["true"] else []
    return [" ".join(also + before), ""]


def option_entry(option, details, names):
    kind, default = split_value(option.value)
    everywhere = set(COMMANDS) - OWN <= set(option.commands)
    rows = [f"(option-{option.name})=", f"### -{plain(option.name)}", "",
            plain(option.text[:1].upper() + option.text[1:]) + ".", "",
            *([details[option.name], ""] if option.name in details else []),
            f"Values: {plain(kind)}. Default: " + (f"`{default}`." if default else "none."), "",
            *(names_entry(names[option.name]) if option.name in names else []),
            "Commands: " + ("all of them, but for `run`." if everywhere else ", ".join(f"`{c}`" for c in option.commands) + "."), ""]
    return "\n".join(rows)


def options_page(options):
    sections, details, names = {}, read_details(), read_names()
    for option in options.values():
        sections.setdefault(option.section, []).append(option)
    text = ["# Each option", "",
            "This page is written from the rows of options in the program, which `renga COMMAND -help` prints as well.",
            "Options are read from files (`-options_file`), then from the environment variable `RENGA_OPTIONS`, then from",
            "the command line, and the last one wins. Where one source has two names of an option, with two values, the run",
            "ends. An option that the program does not know ends the run before any",
            "work, with the name that is closest. `renga options FILE` writes a file of all options, as comments.", ""]
    for section, members in sections.items():
        text += [f"## {section}", ""] + [option_entry(option, details, names) for option in members]
    return "\n".join(text)


# ---- functions: the manual pages ----


def unroff(text):
    return text.replace("\\&.", ".").replace("\\-", "-").replace("\\e", "\\")


def function_entry(path):
    """A manual page of section 3, as doc/manpages.sh writes them, as Markdown."""
    out, name, literal, section, wants_term = [], path.stem, False, "", False
    page = path.read_text()
    of_type = page.startswith('.\\"')  # whose description says all that its name line does
    for line in page.splitlines():
        if line.startswith((".TH", '.\\"', "#include")):
            continue
        if line.startswith(".SH "):
            wants_term = False
            section = line[4:].capitalize()
            if section not in ("Name", "Synopsis", "Description"):
                out += ["", f"**{section}**", ""]
        elif line == ".nf":
            out += ["", "```c"]
            literal = True
        elif line == ".fi":
            out += ["```", ""]
            literal = False
        elif line == ".PP":
            out.append("")
        elif line == ".TP":
            wants_term = True
        elif line.startswith(".I ") and wants_term:
            out += ["", f"{plain(unroff(line[3:]))}"]
        elif wants_term:
            out.append(f": {mark(unroff(line))}")
            wants_term = False
        elif section == "Name":
            names, _, what = unroff(line).partition(" - ")
            out += [f"(function-{other.lower()})=" for other in names.split(", ")]
            out += [f"## {plain(names)}", ""] + ([] if of_type else [plain(what[:1].upper() + what[1:]) + "."])
        elif literal:
            out.append(unroff(line))
        elif section == "See also":
            out.append(re.sub(r"(Renga\w+)\(\)", r"`\1()`", unroff(line)))
        else:
            out.append(mark(unroff(line)))
    return "\n".join(out) + "\n"


def mark(text):
    """Names of functions, codes and options in a line of a manual page are code."""
    pieces = re.split(r"((?:Renga|RENGA_)\w+(?:\(\))?|(?<![\w-])-[a-z]\w*_\w+)", text)
    return "".join(f"`{piece}`" if i % 2 else plain(piece) for i, piece in enumerate(pieces))


def header_of(source):
    """The header in which each public function stands, in the order of the header."""
    found = {}
    for header in sorted((source / "include").glob("renga*.h")):
        for name in re.findall(r"\b(Renga[A-Za-z0-9]+)\(", header.read_text()):
            found.setdefault(name, header.name)
    return found


def types_of(build):
    """The manual pages of types and macros, as doc/typepages.sh writes them, by header; their first line names it."""
    found = {}
    for path in (build / "doc" / "man3").glob("*.3"):
        first = path.read_text().partition("\n")[0]
        if first.startswith('.\\" '):
            found.setdefault(first[4:], []).append(path)
    return found


def functions_pages(source, build, pages):
    headers, members, types = header_of(source), {}, types_of(build)
    for path in (build / "doc" / "man3").glob("*.3"):
        if path.stem in headers and path not in types.get(headers[path.stem], []):  # others are the library's own
            members.setdefault(headers[path.stem], []).append(path)
    order = list(headers)
    index = ["# Each function", "",
             "These pages are written from the comments in the headers and from the manual pages above the functions in the C sources;",
             "`man RengaPipelineStep` and `man RengaTensorSpec` show the same where Renga is installed. The examples are statements of",
             "programs that the tests compile and run; each names its program. A function that is *collective* is called by all ranks of the",
             "communicator. Every function returns an error code unless its prototype says otherwise; null pointers are",
             "refused with `RENGA_ERR_ARGUMENT`, and a call that makes something may fail with `RENGA_ERR_MEMORY`.", "",
             "```{toctree}", ":maxdepth: 1"]
    for header in sorted(set(members) | {header for header in types if (source / "include" / header).exists()}):
        name = "functions-" + header.removesuffix(".h")
        index.append(name)
        lines = (source / "include" / header).read_text()
        text = [f"# Types and functions of {header}", ""]
        text += [function_entry(path) for path in
                 sorted(types.get(header, []), key=lambda path: re.search(rf"\b{path.stem}\b", lines).start())]
        text += [function_entry(path) for path in
                 sorted(members.get(header, []), key=lambda path: order.index(path.stem))]
        (pages / (name + ".md")).write_text("\n".join(text))
    index += ["```", ""]
    (pages / "functions.md").write_text("\n".join(index))


# ---- operators: the table of the library, and the rules of reverse mode ----


class Row(ctypes.Structure):
    """RengaOperator of rengaop.h"""

    _fields_ = [("name", ctypes.c_char_p), ("min_in", ctypes.c_int), ("max_in", ctypes.c_int), ("min_out", ctypes.c_int),
                ("max_out", ctypes.c_int), ("flags", ctypes.c_uint), ("shape", ctypes.c_void_p),
                ("flops", ctypes.c_void_p), ("attributes", ctypes.c_char_p), ("types", ctypes.c_char_p)]


def read_table():
    library = ctypes.CDLL(os.environ["RENGA_LIBRARY"])
    library.RengaOperatorAt.restype = ctypes.POINTER(Row)
    return [library.RengaOperatorAt(i).contents for i in range(library.RengaOperatorCount())]


def reverse_rules(source):
    """By operator: the operators that the function of its gradient uses; None where the derivative is zero."""
    rules = {}
    for path in sorted((source / "src" / "graph" / "reverse").glob("*.c")):
        text = path.read_text()
        bodies = dict(re.findall(r"^static RengaErrorCode (\w+)\([^{;]*\)\n\{\n(.*?)^\}", text, re.M | re.S))
        for name, rule in re.findall(r'^    \{"(\w+)", (\w+)\},', text, re.M):
            rules[name] = None if rule == "NULL" else words_of(rule, bodies, set())
    return rules


def words_of(function, bodies, seen):
    """All strings in a function and in those of the file that it calls."""
    if function in seen or function not in bodies:
        return []
    seen.add(function)
    found = re.findall(r'"([A-Z]\w+)"', bodies[function])
    for other in re.findall(r"\b(\w+)\(", bodies[function]):
        found += [word for word in words_of(other, bodies, seen) if word not in found]
    return found


def onnx_forms(source):
    """The operators of ONNX files that are read: name, first opset, the operators that they become."""
    text = (source / "src" / "graph" / "onnx" / "table.c").read_text()
    forms = [(name, int(since), [name]) for name, since in re.findall(r'^    SAME\("(\w+)", (\d+)\)', text, re.M)]
    forms += [(name, int(since), canonical.split())
              for name, since, canonical in re.findall(r'^    ROW\("(\w+)", (\d+),\s+"([^"]*)",', text, re.M)]
    return sorted(forms)


def count_text(least, most):
    return str(least) if least == most else f"{least} or more" if most < 0 else f"{least} to {most}"


def gradient_text(row, rules, names):
    name, made = row.name.decode(), row.types.decode().partition(">")[2]
    if made[:1] in "BLZI":
        return "none, as what it makes is not a floating number"
    if name not in rules:
        return "none: a network that would need it is refused"
    if rules[name] is None:
        return "zero"
    own = [word for word in rules[name] if word in names]
    if name + "Grad" in names and not own:
        own = [name + "Grad"]
    return "made of " + ", ".join(f"`{word}`" for word in dict.fromkeys(own)) if own else "what arrives, passed on or reshaped"


def operator_row(row, rules, names):
    attributes = " ".join(f"`{word}`" for word in (row.attributes or b"").decode().split())
    flags = ", ".join(text for bit, text in FLAGS.items() if row.flags & bit)
    cells = [f"`{row.name.decode()}`", count_text(row.min_in, row.max_in), count_text(row.min_out, row.max_out),
             f"`{row.types.decode()}`", attributes, gradient_text(row, rules, names), flags]
    return "| " + " | ".join(cells) + " |"


def read_meanings():
    lines = (pathlib.Path(__file__).parent / "operators.txt").read_text().splitlines()
    return [line.split("\t") for line in lines if not line.startswith("#")]


def operators_page(source):
    rows, rules = read_table(), reverse_rules(source)
    names = {row.name.decode() for row in rows}
    head = ["| operator | inputs | outputs | types | attributes and defaults | gradient | |", "|---|---|---|---|---|---|---|"]
    text = ["# Each operator and its gradient", "",
            "This page is written from the library's table of operators, from the rules of reverse mode and from the table",
            "of the reader of ONNX files. [The last table](#inputs-outputs-and-attributes) says what inputs, outputs and attributes mean where",
            "that is not simply ONNX's.", "",
            "*Types* has a letter for each input and, behind `>`, for each output; the last letter stands for all that",
            "follow. T and U are any type, N and M a number, F a floating number, Z an integer, I int32 or int64, B a bool,",
            "L int64, S float32, and ? the type that the attribute `to` names. *Gradient* names the operators that",
            "the reverse pass makes for it. An operator whose name ends in Grad is the gradient of another one.", "",
            "## Operators of networks", ""]
    text += head + [operator_row(row, rules, names) for row in sorted(rows, key=lambda row: row.name) if not row.flags & 8]
    text += ["", "## Renga's own operators", "", "Fused forms, and operators of gradients: a file has them under other names.", ""]
    text += head + [operator_row(row, rules, names) for row in sorted(rows, key=lambda row: row.name) if row.flags & 8]
    text += ["", "## Operators of ONNX files", "",
             "`renga info -graph FILE.onnx` says of a file what is not supported, all of it at once. The number is the first",
             "opset whose form is understood.", "", "| operator of the file | from opset | becomes |", "|---|---|---|"]
    text += [f"| `{name}` | {since} | {', '.join(f'`{word}`' for word in becomes)} |"
             for name, since, becomes in onnx_forms(source)]
    text += ["", "## Inputs, outputs and attributes", "",
             "Of operators that are not simply ONNX's. N is the batch, T and d are tokens and width; an input in parentheses may be left out.", "",
             "| operator | inputs → outputs | attributes |", "|---|---|---|"]
    text += ["| " + " | ".join([*row, "", ""][:3]) + " |" for row in read_meanings()]
    return "\n".join(text) + "\n"


# ---- machines: the rows of their files ----


def machine_table(source):
    text = (source / "src" / "machine" / "file.c").read_text().partition("RengaOptionRow rows[]")[2].partition("};")[0]
    rows = []
    for row in re.findall(r'(?:NUMBER\(|\{)("\w+",.*?)(?:\)|\}),\n', text, re.S):
        name, _, value = [item.strip() for item in row.split(",")[:3]]
        words = re.findall(r'"([^"]*)"', row)[-1]
        rows.append(f"| `-{name.strip(chr(34))}` | {plain(words)} | {'' if value == 'NULL' else value.strip(chr(34))} |")
    return "\n".join(["| row | meaning | default |", "|---|---|---|"] + rows) + "\n"


def write(source, build, pages):
    (pages / "table-machine.md").write_text(machine_table(source))
    (pages / "options.md").write_text(options_page(read_options(build / "renga")))
    functions_pages(source, build, pages)
    (pages / "operators.md").write_text(operators_page(source))
