"""What the Python package says of librenga is in the headers, word for word."""
import re
import sys
from pathlib import Path

top = Path(sys.argv[1])
sys.path.insert(0, str(top / "src/binding/python"))
from renga import _library, _prototypes  # noqa: E402


def plain(text):
    return re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.S)).strip()


headers = plain(" ".join(p.read_text() for p in sorted((top / "include").glob("*.h"))))
failures = 0


def expect(good, what):
    global failures
    if not good:
        print("not in the headers:", what)
        failures += 1


for text in re.findall(r"typedef struct \{.*?\} \w+;", _prototypes.STRUCTS, re.S):
    expect(plain(text) in headers, plain(text))
for text in _prototypes.FUNCTIONS.split(";"):
    expect(plain(text) + ";" in headers, plain(text))
for name, value in _prototypes.CONSTANTS.items():
    expect(re.search(rf"#define {name} \(?{value}\b", headers), f"{name} {value}")
for name in _prototypes.ENUMS:
    expect(re.search(rf"(\}} {name};|typedef int {name};)", headers), name)
types = re.findall(r"X\([A-Z0-9]+, \"(\w+)\", \d+\)", headers)
expect(tuple(types) == _prototypes.TYPES, "TYPES: " + " ".join(types))
precisions = re.findall(r"RENGA_PRECISION_(\w+),? ", headers.partition("} RengaPrecision;")[0].rpartition("{")[2])
expect(tuple(p.lower() for p in precisions) == _prototypes.PRECISIONS, "PRECISIONS: " + " ".join(precisions))
errors = headers.partition("RENGA_ERROR_MAP(X)")[2].partition("#define RENGA_ERROR_ENUM")[0]
names = re.findall(r"X\((\w+), \"", errors)
expect(tuple(names) == _prototypes.ERRORS, "ERRORS: " + " ".join(names))
version = re.search(r'#define RENGA_VERSION "([^"]*)"', headers)[1]
expect(version == _library.__version__, "version " + version)
# A call that the package makes has its prototype.
for path in (top / "src/binding/python/renga").glob("*.py"):
    for name in re.findall(r"library\.(Renga\w+)", path.read_text()):
        if not re.search(rf"\b{name}\(", _prototypes.FUNCTIONS) and name != "RengaErrorRaise":
            print(f"{path.name} calls {name}, which has no prototype")
            failures += 1
sys.exit(failures > 0)
