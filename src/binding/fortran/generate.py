#!/usr/bin/env python3
"""usage: generate.py TEMPLATE HEADER... >renga.f90: the module of Fortran, from the prototypes of the headers.

A function of C that takes handles, numbers, texts and places for them has an interface c_NAME in the place of !@interfaces, and a
subroutine or function renga_NAME in the place of !@procedures, unless the template has one of this name. !@types has a type for each
handle, !@constants the numbers of enums, !@public all names. What has structs, arrays or callbacks stands in the template.
"""
import re
import sys

# Whole numbers of 64 bits are of the default kind in these, as they were before the others were there.
DEFAULT_KIND = {"RengaPartitionSetBatch", "RengaPipelineSetDataShortBatch", "RengaGraphAddLinear", "RengaGraphAddCrossEntropy"}
NUMBERS = {"int": "integer(c_int)", "int64_t": "integer(c_int64_t)", "uint64_t": "integer(c_int64_t)", "size_t": "integer(c_size_t)",
           "double": "real(c_double)", "bool": "logical(c_bool)", "RengaValue": "integer(c_int)", "RengaErrorCode": "integer(c_int)"}


def plain(path):
    with open(path, encoding="utf-8") as file:
        return re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def folded(line):
    """A line of Fortran, continued where it is long."""
    lines = []
    while len(line) > 110:
        cut = line.rindex(", ", 0, 108) + 1
        lines.append(line[:cut] + " &")
        line = "      " + line[cut:]
    return lines + [line]


class Argument:
    """One parameter: how C takes it, and how the module gives it."""

    def __init__(self, text, handles, enums):
        match = re.fullmatch(r"(const )?(\w+) ([*]*)(\w+)", " ".join(text.split()).replace("* ", "*"))
        self.fits = bool(match)
        if not match:
            return
        const, base, stars, self.name = match.groups()
        number = NUMBERS.get(base) or ("integer(c_int)" if base in enums else None)
        self.kind = ("handle" if base in handles and not stars else "place" if base in handles and stars == "*" and not const else
                     "text" if base == "char" and stars == "*" and const else
                     "out" if number and stars == "*" and not const else "in" if number and not stars else "")
        self.fits, self.number, self.handle = bool(self.kind), number, handles.get(base)

    def interface(self):
        return {"handle": "type(c_ptr), value :: ", "place": "type(c_ptr) :: ", "text": "character(kind=c_char), intent(in) :: ",
                "out": f"{self.number} :: ", "in": f"{self.number}, value :: "}[self.kind] + self.name + "(*)" * (self.kind == "text")

    def declaration(self, default_kind):
        number = re.sub(r"\(c_(int|bool)\)", "", self.number or "")
        if default_kind and self.kind == "in":
            number = number.replace("(c_int64_t)", "")
        return {"handle": f"type({self.handle}), intent(in) :: ", "place": f"type({self.handle}), intent(inout) :: ",
                "text": "character(*), intent(in) :: ", "out": f"{number}, intent(out) :: ", "in": f"{number}, intent(in) :: "}[
                    self.kind] + self.name

    def is_flag_out(self):
        return self.kind == "out" and "logical" in self.number

    def given(self, default_kind):
        if self.kind in ("handle", "place"):
            return self.name + "%handle"
        if self.kind == "text":
            return f"to_c({self.name})"
        if self.is_flag_out():
            return "c_" + self.name
        if self.kind == "in" and "bool" in self.number:
            return f"logical({self.name}, c_bool)"
        return f"int({self.name}, c_int64_t)" if default_kind and self.number == "integer(c_int64_t)" else self.name


def interface(c_name, name, result, arguments):
    head = f"    function c_{name}({', '.join(a.name for a in arguments)}) bind(c, name=\"{c_name}\") result(returned)"
    return [*folded(head), "      import", *["      " + a.interface() for a in arguments], f"      {NUMBERS[result]} :: returned",
            "    end function"]


def procedure(c_name, name, result, arguments):
    old = c_name in DEFAULT_KIND
    names = [a.name for a in arguments]
    flags = [a.name for a in arguments if a.is_flag_out()]
    call = f"c_{name}({', '.join(a.given(old) for a in arguments)})"
    body = ["    " + a.declaration(old) for a in arguments]
    if result != "RengaErrorCode":
        kind = re.sub(r"\(c_(int|bool)\)", "", NUMBERS[result])
        return ["", *folded(f"  {kind} function renga_{name}({', '.join(names)}) result(returned)"), *body,
                *folded(f"    returned = {call}"), "  end function"]
    zeros = [f"    {a.name} = 0" for a in arguments if a.kind == "out" and not a.is_flag_out()]
    return ["", *folded(f"  subroutine renga_{name}({', '.join(names + ['ierror'])})"), *body,
            "    integer, intent(out), optional :: ierror", *[f"    logical(c_bool) :: c_{f}" for f in flags],
            *(["    integer(c_int) :: returned"] if flags else []), *zeros, *[f"    c_{f} = .false." for f in flags],
            *folded(f"    returned = {call}" if flags else f"    call finish({call}, ierror)"),
            *[f"    {f} = c_{f}" for f in flags], *(["    call finish(returned, ierror)"] if flags else []), "  end subroutine"]


def constants(text):
    """Names and values of the enums whose values need no other name."""
    for body in re.findall(r"typedef enum \{([^}]*)\}", text):
        value = -1
        for item in filter(None, (item.strip() for item in body.split(","))):
            name, _, given = (part.strip() for part in item.partition("="))
            if not re.fullmatch(r"[A-Z_0-9]+", name) or (given and not re.fullmatch(r"-?\d+", given)):
                break
            value = int(given) if given else value + 1
            yield name, value


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        template = file.read()
    text = "\n".join(plain(path) for path in sys.argv[2:])
    handles = {name: "renga_" + snake(name[5:]) for name in re.findall(r"typedef struct \w+ \*(Renga\w+);", text)}
    enums = set(re.findall(r"typedef enum \{[^}]*\} (\w+);", text))
    own = set(re.findall(r"(?:subroutine|function) (renga_\w+)\(", template))
    bound = set(re.findall(r'bind\(c, name="(\w+)"\)', template))
    parts = {"types": [], "constants": [], "public": [], "interfaces": [], "procedures": []}
    for handle in handles.values():
        parts["types"] += [f"  type, public :: {handle}", "    private", "    type(c_ptr) :: handle = c_null_ptr", "  end type"]
    for name, value in constants(text):
        if re.search(rf"\b{name} = ", template):
            continue
        parts["constants"].append(f"  integer(c_int), parameter, public :: {name} = {value}")
    for result, c_name, given in re.findall(r"^(\w+) (Renga\w+)\(([^;{]*?)\);", text, re.M):
        arguments = [] if given == "void" else [Argument(one, handles, enums) for one in given.split(",")]
        name = snake(c_name[5:])
        if result not in NUMBERS or not all(a.fits for a in arguments) or c_name in bound:
            continue
        parts["interfaces"] += interface(c_name, name, result, arguments)
        if "renga_" + name not in own:
            own.add("renga_" + name)
            parts["procedures"] += procedure(c_name, name, result, arguments)
    parts["public"] = [f"  public :: {name}" for name in sorted(own)]
    for part, lines in parts.items():
        template = template.replace(f"!@{part}\n", "\n".join(lines) + "\n")
    sys.stdout.write(template)


if __name__ == "__main__":
    main()
