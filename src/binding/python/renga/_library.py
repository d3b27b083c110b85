"""librenga by ctypes: where it is, its functions and structs, its errors as exceptions.

ctypes releases the interpreter's lock in every call, so other threads of Python run while Renga
computes or waits.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

from . import _prototypes
from ._version import __version__


class Error(RuntimeError):
    """What Renga refuses or could not do, in Renga's sentence.

    ``code`` is the number of RengaErrorCode, ``name`` its name ("ARGUMENT", "PLAN", ...).
    """

    def __init__(self, message: str, code: Any = "ARGUMENT"):
        super().__init__(message)
        names = _prototypes.ERRORS
        self.code: int = code if isinstance(code, int) else names.index(code) + 1
        known = 1 <= self.code <= len(names)
        self.name: str = names[self.code - 1] if known else str(self.code)


class Warning(UserWarning):  # noqa: A001: renga.Warning, as in numpy.exceptions
    """Something that the user of Renga should know."""


def _candidates() -> List[str]:
    """Files that may be librenga: RENGA_LIBRARY, the one this package was installed for, a build
    tree around this file, what the loader finds."""
    found = []
    if os.environ.get("RENGA_LIBRARY"):
        return [os.environ["RENGA_LIBRARY"]]
    try:
        from . import _installed
        found.append(_installed.LIBRARY)
    except ImportError:
        pass
    top = Path(__file__).resolve().parents[4:5]
    found += [str(t / "build" / ".libs" / "librenga.so") for t in top]
    named = ctypes.util.find_library("renga")
    return found + ([named] if named else []) + ["librenga.so.0"]


def _load() -> ctypes.CDLL:
    tried = []
    for name in _candidates():
        if "/" in name and not os.path.exists(name):
            tried.append(f"{name}: no such file")
            continue
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            tried.append(str(error))
    raise ImportError("librenga.so is not found: install Renga (make install), or name the file in "
                      "the variable RENGA_LIBRARY. Tried: " + "; ".join(tried))


library = _load()
IS_OPEN_MPI = hasattr(library, "ompi_mpi_comm_world")
Communicator: Any = ctypes.c_void_p if IS_OPEN_MPI else ctypes.c_int


def _predefined(name: str, mpich: int) -> Any:
    if IS_OPEN_MPI:
        return ctypes.addressof(ctypes.c_char.in_dll(library, name))
    return mpich


COMM_WORLD = _predefined("ompi_mpi_comm_world", 0x44000000)
COMM_SELF = _predefined("ompi_mpi_comm_self", 0x44000001)

_simple: Dict[str, Any] = {
    "int": ctypes.c_int, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
    "double": ctypes.c_double, "bool": ctypes.c_bool, "size_t": ctypes.c_size_t, "void": None,
    "MPI_Comm": Communicator, "RengaErrorHandler": ctypes.c_void_p,
    "RengaTrainerReader": ctypes.c_void_p,
    **{name: ctypes.c_int for name in _prototypes.ENUMS},
}
structs: Dict[str, Any] = {}


def _type_of(base: str, stars: int, is_result: bool = False) -> Any:
    base = re.sub(r"\b(const|struct)\b", "", base).strip()
    if stars == 0:
        return structs.get(base, _simple.get(base, ctypes.c_void_p))
    if base == "char" and stars == 1:
        return ctypes.c_char_p
    if is_result and stars == 1 and base in structs:
        return ctypes.POINTER(structs[base])
    return ctypes.c_void_p


def _declarator(text: str) -> Tuple[str, Any]:
    """Name and type of a parameter or a result: "const char *const names[]"."""
    match = re.fullmatch(r"(.*?)(\w+)((?:\[\w*\])*)", text.strip(), re.S)
    if not match:
        raise ImportError(f"renga: cannot read the prototype \"{text}\"")
    stars = match[1].count("*") + match[3].count("[")
    return match[2], _type_of(match[1].replace("*", " "), stars)


def _member(text: str) -> List[Tuple[str, Any]]:
    pointer = re.match(r".*\(\*(\w+)\)\(", text, re.S)
    if pointer:
        return [(pointer[1], ctypes.c_void_p)]
    first, *others = text.split(",")
    base = re.match(r"\s*((?:const\s+)?\w+)\s", first)[1]  # type: ignore[index]
    members = []
    for one in [first] + [f"{base} {other}" for other in others]:
        array = re.fullmatch(r"(.*)\[(\w+)\]", one.strip(), re.S)
        name, kind = _declarator(array[1] if array else one)
        members.append((name, kind * _prototypes.CONSTANTS[array[2]] if array else kind))
    return members


def _read_structs() -> None:
    text = re.sub(r"/\*.*?\*/", "", _prototypes.STRUCTS, flags=re.S)
    for body, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", text, re.S):
        fields = [m for line in body.split(";") if line.strip() for m in _member(line)]
        structs[name] = type(name, (ctypes.Structure,), {"_fields_": fields})


def _check(result: int, function: Any, arguments: Any) -> int:
    if result:
        raise Error(library.RengaErrorGetMessage().decode(errors="replace"), result)
    return result


def _read_functions() -> None:
    for text in _prototypes.FUNCTIONS.strip().split(";"):
        match = re.fullmatch(r"\s*(.*?)(\**)(\w+)\((.*)\)\s*", text, re.S)
        if not match:
            continue
        result, stars, name, parameters = match.groups()
        try:
            function = getattr(library, name)
        except AttributeError:
            raise ImportError(f"{library._name} has no {name}: it is another version than this "
                              f"package, {__version__}") from None
        function.restype = _type_of(result, len(stars), True)
        function.argtypes = [] if parameters == "void" else [
            _declarator(p)[1] for p in parameters.split(",")]
        if result.strip() == "RengaErrorCode" and name != "RengaErrorAgree":
            function.errcheck = _check


_read_structs()
_read_functions()
Spec, Batch, GraphValue, StepInfo = (structs[n] for n in (
    "RengaTensorSpec", "RengaBatch", "RengaGraphValue", "RengaPipelineStepInfo"))
Reader = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64,
                          ctypes.c_int64, ctypes.c_void_p)
# What a trainer calls: RengaTrainerReader, and step and evaluated of RengaTrainerMonitor.
TrainerReader = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int,
                                 ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
TrainerStep = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
TrainerEvaluated = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_double, ctypes.c_int64,
                                    ctypes.c_int64)


def _compare_versions() -> None:
    text = ctypes.c_char_p()
    library.RengaGetVersion(None, None, None, ctypes.byref(text))
    version = (text.value or b"").decode()
    if version.split(".")[:2] != __version__.split(".")[:2]:
        raise ImportError(f"{library._name} is Renga {version}, this package is for {__version__}")


_compare_versions()
_HandlerType = ctypes.CFUNCTYPE(None, ctypes.POINTER(structs["RengaErrorReport"]), ctypes.c_void_p)


@_HandlerType
def _hear(report: Any, user: Any) -> None:
    """Warnings become Python's; errors are raised from their codes, so nothing is printed here."""
    try:
        if report.contents.code == 0:
            warnings.warn(report.contents.message.decode(errors="replace"), Warning, stacklevel=3)
    except Exception as warning:  # a filter that makes errors of warnings: C cannot pass them on
        print(warning, file=sys.stderr)


def take_errors() -> None:
    """From now on errors are told by exceptions and warnings by the module warnings."""
    library.RengaErrorSetHandler(ctypes.cast(_hear, ctypes.c_void_p), None)


# The part of Renga's function for variable arguments that a sentence needs.
_raise = ctypes.CDLL(library._name).RengaErrorRaise
_raise.argtypes = [Communicator, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int,
                   ctypes.c_char_p, ctypes.c_char_p]
_raise.restype = ctypes.c_int


def tell(message: str, code: int) -> int:
    """Make this the last error of the library, for a callback that has failed."""
    return _raise(COMM_SELF, code, b"read", b"python", 0, b"%s", message.encode())


def tell_error(what: str, error: BaseException) -> int:
    """``tell`` what an exception says."""
    if isinstance(error, Error):
        return tell(what + str(error), error.code)
    return tell(f"{what}{type(error).__name__}: {error}", ARGUMENT)


def text(value: Any) -> bytes:
    """A path or text for C."""
    return os.fsencode(value) if isinstance(value, os.PathLike) else str(value).encode()


def get(function: Callable[..., Any], *arguments: Any, kind: Any = ctypes.c_void_p) -> Any:
    """The value that a function puts where its last argument points."""
    place = kind()
    function(*arguments, ctypes.byref(place))
    return place.value if hasattr(place, "value") else place


# Codes that this package gives itself.
ARGUMENT = _prototypes.ERRORS.index("ARGUMENT") + 1
INTERNAL = _prototypes.ERRORS.index("INTERNAL") + 1


def optional(value: Optional[Any]) -> Optional[bytes]:
    return None if value is None else text(value)
