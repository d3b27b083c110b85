"""Start and end of Renga in a Python process, options, communicators."""
from __future__ import annotations

import atexit
import ctypes
import os
import re
import sys
import zlib
from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional, Sequence

from . import _library as c
from ._library import Error, library

_live: Dict[int, "Handle"] = {}
# Sentences of the library on a rank that was well itself.
_HEARD = re.compile(r"another rank has found: |rank \d+ failed in |.*some other rank failed")
_state: Dict[str, Any] = {"started": False, "failed": None, "world": None, "argv": None,
                          "finished": False, "process": 0}


def is_forked() -> bool:
    """Whether this process is a copy, by os.fork(), of one that runs Renga: nothing of the library
    and of MPI is its own."""
    return bool(_state["process"]) and _state["process"] != os.getpid()


def refuse_forked() -> None:
    """A copy of a process of MPI cannot send, and must not end what it shares."""
    if is_forked():
        raise Error(f"process {os.getpid()} was forked from process {_state['process']}, which runs "
                    "Renga, and cannot call it: start processes by multiprocessing's method "
                    "\"spawn\"", "ORDER")


def _sentence(error: BaseException) -> str:
    return str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"


def is_told(error: Optional[BaseException]) -> bool:
    """Whether all ranks know of it, or nobody can be told any more."""
    return getattr(error, "all_ranks_know", False) or \
        (isinstance(error, Error) and error.name == "TIMEOUT")


def _raise_told(error: BaseException) -> NoReturn:
    """Raise what all ranks know of; an exception becomes a renga.Error, but not what ends programs."""
    if isinstance(error, Exception) and not isinstance(error, Error):
        told: BaseException = Error(_sentence(error), "ARGUMENT")
        told.__cause__ = error
    else:
        told = error
    told.all_ranks_know = True  # type: ignore[attr-defined]
    raise told


class Callbacks:
    """Functions of Python that the library calls back, and what was raised in one of them."""

    def __init__(self) -> None:
        self.cause: Optional[BaseException] = None

    def guard(self, what: str, call: Callable[[], Any]) -> int:
        """The code for the library, which is above: ``call`` may raise."""
        try:
            if self.cause is not None:  # what an earlier one lost
                raise self.cause
            call()
            return 0
        except BaseException as error:
            self.cause = error
            return c.tell_error(what, error)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Around a call of the library that calls back: raises what was raised there. Ctrl-C may
        come in the first instruction of a callback, before it is guarded; ctypes hands it to
        sys.unraisablehook, and would go on."""
        def keep(lost: Any) -> None:
            if isinstance(lost.exc_value, Exception):
                before(lost)
            else:
                self.cause = lost.exc_value

        before, sys.unraisablehook, self.cause = sys.unraisablehook, keep, None
        try:
            yield
        except Error as error:
            if self.cause is None or isinstance(self.cause, Exception):
                raise error from self.cause or error.__cause__
        finally:
            sys.unraisablehook = before
        if self.cause is not None:
            raise self.cause


class Handle:
    """An object of the library. ``close`` frees it; ``with`` does so at its end; what is left is
    freed when Python ends. Closing is collective for objects of several ranks, so it is never left
    to the garbage collector, which would do it at another time on each rank."""

    _destroy = ""

    def __init__(self, handle: Any):
        self._handle = ctypes.c_void_p(handle)
        _live[id(self)] = self

    def free(self) -> None:
        """Free it where all ranks are known to do so."""
        if _live.pop(id(self), None) is not None and self._handle and not is_forked():
            getattr(library, self._destroy)(ctypes.byref(self._handle))

    def free_after(self, error: BaseException) -> None:
        """Free what could not be made, where all ranks know it; else it is left to Python's end."""
        if is_told(error):
            self.free()

    def close(self) -> None:
        """Free it. Collective on the ranks that share it; a second call does nothing."""
        self._leave(None)

    def _leave(self, error: Optional[BaseException]) -> None:
        """Free it, also where an exception leaves the block of ``with`` on one rank: the others,
        which may be at their next call, are told."""
        comm = getattr(self, "comm", None)
        try:
            if comm is not None and self._handle and not is_told(error):
                comm.leave(f"{type(self).__name__}.close", error)
        finally:
            self.free()

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return self._handle  # NULL after close: the library refuses it by name

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self._leave(error)


class Entry:
    """What the ranks compare as they begin a call that all of them make."""

    def __init__(self, call: str):
        self.call = call
        self.samples = 0  # of a batch
        self.digest: Optional[int] = None  # of a batch, where this rank has it whole
        self.choice = 0   # a number of the other arguments
        self.words = "other arguments"  # what differs where the choices do


def _mpi_is_usable() -> bool:
    return bool(c.get(library.MPI_Initialized, kind=ctypes.c_int) and
                not c.get(library.MPI_Finalized, kind=ctypes.c_int))


def option_text(value: Any) -> bytes:
    """The text of an option's value: True is true, a sequence is joined with commas."""
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, bytes):
        return value
    if isinstance(value, (list, tuple)):
        return b",".join(option_text(v) for v in value)
    return c.text(repr(value) if isinstance(value, float) else value)


def option_texts(given: Dict[str, Any]) -> Dict[str, bytes]:
    """Options that are given, as texts."""
    return {name: option_text(value) for name, value in given.items() if value is not None}


def initialize(comm: Any = None, argv: Optional[Sequence[str]] = None, **options: Any) -> List[str]:
    """Start Renga; collective. Without this call the first object does it, with no arguments.

    comm: the processes that Renga runs on, a communicator of mpi4py; None: all of MPI_COMM_WORLD.
    argv: words of a command line, such as ``sys.argv``, from which options are taken; the others
    are returned. options: options of every object, such as ``timeout=60``; the command line, the
    variable RENGA_OPTIONS and options files come after them.
    """
    if _state["finished"]:
        raise Error("Renga has ended in this process", "ORDER")
    if _state["started"]:
        raise Error("renga.initialize comes before the first object and once", "ORDER")
    words = [os.fsencode(w) for w in (argv if argv is not None else ["python"])]
    count = ctypes.c_int(len(words))
    array = (ctypes.c_char_p * (len(words) + 1))(*words)
    place = ctypes.cast(array, ctypes.c_void_p)
    c.take_errors()
    for name, value in options.items():
        library.RengaOptionsSetValue(name.encode(), option_text(value))
    if comm is not None:
        library.RengaSetWorld(communicator_value(comm))
        _state["world"] = comm
    library.RengaInitialize(ctypes.byref(count), ctypes.byref(place), None)
    left = ctypes.cast(place, ctypes.POINTER(ctypes.c_char_p))
    _state["started"], _state["argv"], _state["process"] = True, array, os.getpid()
    _watch_failures()
    atexit.register(finalize)
    return [os.fsdecode(left[i] or b"") for i in range(count.value)]


def _watch_failures() -> None:
    """An exception that nobody catches ends this process: the others must not wait for it."""
    before = sys.excepthook

    def hook(kind: Any, value: Any, trace: Any) -> None:
        _state["failed"] = value
        before(kind, value, trace)

    sys.excepthook = hook


def start() -> None:
    """Initialize, where nobody has."""
    refuse_forked()
    if not _state["started"]:
        initialize()


def finalize() -> None:
    """End Renga: free what is left; collective. Python's end calls it."""
    if not _state["started"] or is_forked():
        return
    atexit.unregister(finalize)
    _state["started"], _state["finished"] = False, True
    if not _mpi_is_usable():
        return
    failed = _state["failed"]
    if failed is not None and c.get(library.MPI_Comm_size, c.Communicator(c.COMM_WORLD),
                                    kind=ctypes.c_int) > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        library.RengaErrorAbort(failed.code if isinstance(failed, Error) else c.INTERNAL)
    for left in reversed(list(_live.values())):
        left.free()
    library.RengaFinalize()


def _given(name: str) -> Optional[bytes]:
    value, given = ctypes.c_char_p(), ctypes.c_bool()
    library.RengaOptionsGetString(name.encode(), ctypes.byref(value), ctypes.byref(given))
    return value.value if given.value else None


def _given_or_unknown(name: str) -> Optional[bytes]:
    try:
        return _given(name)
    except Error:
        return None  # an unknown name: told by the call that sets it


def given_option(name: str, default: str) -> str:
    """What ``options`` or the command line says of an option."""
    text = _given_or_unknown(name)
    return default if text is None else text.decode()


@contextmanager
def options(**given: Any) -> Iterator[None]:
    """Within ``with renga.options(name=value):`` objects are made with these options (``renga
    -help`` lists them, without the dash); None leaves an option as it is."""
    start()
    before: Dict[str, Optional[bytes]] = {}
    texts = option_texts(given)
    were = {name: _given_or_unknown(name) for name in texts}
    try:
        for name, text in texts.items():
            old = _given_or_unknown(name)
            if old != were[name] and old != text:
                raise Error(f"{name} is another name of an option that is given, too, with another "
                            "value: leave one out", "OPTION")
            library.RengaOptionsSetValue(name.encode(), text)
            before[name] = old
        yield
    finally:
        for name, old in reversed(list(before.items())):
            if old is None:
                library.RengaOptionsClearValue(name.encode())
            else:
                library.RengaOptionsSetValue(name.encode(), old)


@contextmanager
def options_on(comm: "Comm", texts: Dict[str, bytes]) -> Iterator[None]:
    """``options``; what is wrong with one on one rank is raised on all."""
    with ExitStack() as stack:
        with comm.together():
            stack.enter_context(options(**texts))
        yield


def _library_version() -> str:
    text = ctypes.create_string_buffer(8192)
    library.MPI_Get_library_version(text, ctypes.byref(ctypes.c_int()))
    return text.value.decode(errors="replace").rstrip("\0\n")


def communicator_value(comm: Any) -> Any:
    """MPI_Comm of a communicator of mpi4py."""
    if not type(comm).__module__.startswith("mpi4py"):
        raise Error(f"{comm!r} is no communicator of mpi4py and no renga.Comm", "ARGUMENT")
    from mpi4py import MPI
    theirs, ours = MPI.Get_library_version().rstrip("\0\n"), _library_version()
    if theirs != ours:
        raise Error("mpi4py uses another MPI than Renga: " + theirs.splitlines()[0] + " and " +
                    ours.splitlines()[0] + ". Build mpi4py with Renga's: MPICC=mpicc.mpich pip "
                    "install --no-binary mpi4py mpi4py", "SUPPORT")
    return c.Communicator.from_address(MPI._addressof(comm)).value


class Comm(Handle):
    """Processes that work together: a private duplicate of an MPI communicator.

    ``Comm()`` are all ranks, ``Comm(mpi4py_communicator)`` those of mpi4py; ``split`` makes groups.
    Wherever a function takes ``comm``, a communicator of mpi4py will do too.
    """

    _destroy = "RengaCommDestroy"

    def __init__(self, comm: Any = None, *, _handle: Any = None):
        value = None if comm is None else communicator_value(comm)
        start()
        if _handle is None:
            if value is None:
                world = _state["world"]
                value = c.COMM_WORLD if world is None else communicator_value(world)
            _handle = c.get(library.RengaCommCreate, c.Communicator(value))
        super().__init__(_handle)
        library.RengaCommSetFromOptions(self)

    @property
    def rank(self) -> int:
        """This process's number, from 0."""
        return library.RengaCommGetRank(self)

    @property
    def size(self) -> int:
        """Number of processes."""
        return library.RengaCommGetSize(self)

    @property
    def nodes(self) -> int:
        """Number of machines that the processes run on."""
        number = [ctypes.c_int() for _ in range(4)]
        library.RengaCommGetNode(self, *[ctypes.byref(n) for n in number])
        return number[1].value

    def split(self, color: int, key: int = 0) -> Optional["Comm"]:
        """Processes with equal color >= 0 form a group, in the order of key; -1: None. Collective."""
        with self.enter("Comm.split"):
            numbers = ctypes.c_int(color), ctypes.c_int(key)
        group = c.get(library.RengaCommSplit, self, *numbers)
        return Comm(_handle=group) if group else None

    def barrier(self) -> None:
        """Wait for all. Collective."""
        with self.enter("Comm.barrier"):
            pass
        library.RengaCommBarrier(self, b"a barrier of the program")

    def broadcast(self, data: Optional[bytes], root: int = 0) -> bytes:
        """Bytes of one rank to all. Collective."""
        with self.enter("Comm.broadcast") as entry:
            if not 0 <= root < self.size:
                raise Error(f"rank {root} of {self.size}", "ARGUMENT")
            given = bytes(data or b"") if self.rank == root else None
            entry.choice, entry.words = root, "bytes of different ranks"
        return self.send(given, root)

    def send(self, data: Optional[bytes], root: int = 0) -> bytes:
        """Bytes of one rank to all, within a call that has begun on all."""
        size = ctypes.c_int64(len(data) if self.rank == root and data is not None else 0)
        library.RengaCommBroadcast(self, ctypes.byref(size), 8, root, b"the size of some bytes")
        buffer = ctypes.create_string_buffer(size.value + 1)
        if self.rank == root:
            buffer.raw = (data or b"") + b"\0"
        library.RengaCommBroadcast(self, buffer, size.value, root, b"some bytes")
        return buffer.raw[:size.value]

    def _largest(self, *values: int) -> List[int]:
        array = (ctypes.c_int64 * len(values))(*values)
        request = c.get(library.RengaCommStartLargest, self, len(values), array)
        holder = ctypes.c_void_p(request)
        library.RengaCommWait(self, ctypes.byref(holder), b"all ranks to come to the same call")
        return list(array)

    def agree(self, error: Optional[BaseException], *values: int) -> List[int]:
        """Raise on all ranks where one has an error, with its sentence; else the largest of each of
        the values. Collective."""
        code = error.code if isinstance(error, Error) else c.ARGUMENT if error else 0
        tells = error is not None and not _HEARD.match(str(error))
        worst, who, *rest = self._largest(code, self.rank + 1 if tells else 0, *values)
        if not worst:
            return rest
        if who:
            mine = tells and self.rank == who - 1
            words = _sentence(error).encode(errors="replace") if error and mine else None
            told = self.send(words, who - 1).decode(errors="replace")
            if not tells:
                heard = Error(f"rank {who - 1}: {told}", worst)
                heard.__cause__ = error
                _raise_told(heard)
        _raise_told(error if error else Error(library.RengaErrorText(worst).decode(), worst))

    @contextmanager
    def enter(self, call: str) -> Iterator[Entry]:
        """The beginning of a call that all ranks make, in which each looks at what it was given:
        whatever is raised within on one rank is raised on all, and so it is where ranks make
        different calls. Every call of all ranks begins so, and then with one message."""
        refuse_forked()
        entry, error = Entry(call), None
        try:
            yield entry
        except BaseException as caught:
            error = caught
        self._begin(entry, error)

    def _begin(self, entry: Entry, error: Optional[BaseException]) -> None:
        number = zlib.crc32(entry.call.encode())
        digests = (-1 << 40,) * 2 if entry.digest is None else (entry.digest, -entry.digest)
        most, least, samples, fewest, high, low, digest, other = self.agree(
            error, number, -number, entry.samples, -entry.samples, entry.choice, -entry.choice,
            *digests)
        if most != -least:
            first = self._largest(*(self.size - self.rank if number == other else 0
                                    for other in (most, -least)))
            names = [self.send(entry.call.encode(), self.size - f).decode() for f in first]
            _raise_told(Error(f"ranks make different calls: rank {self.size - first[0]} calls "
                              f"{names[0]}, rank {self.size - first[1]} calls {names[1]}", "ORDER"))
        if samples != -fewest:
            _raise_told(Error(f"ranks call {entry.call} with different arguments: batches of "
                              f"{-fewest} to {samples} samples", "ARGUMENT"))
        if digest >= 0 and other != -digest:
            _raise_told(Error(f"ranks call {entry.call} with different batches: an array holds the "
                              "whole batch, the same on each rank (give each rank's DataLoader the "
                              "same seed); a function reads the rows that its rank needs",
                              "ARGUMENT"))
        if high != -low:
            _raise_told(Error(f"ranks call {entry.call} with different arguments: {entry.words}",
                              "ARGUMENT"))

    def leave(self, call: str, error: Optional[BaseException]) -> None:
        """The end of an object, on one rank perhaps by an exception, which stays as it is there and
        is raised on the others."""
        if not self._handle or self.size == 1 or is_forked():
            return
        try:
            with self.enter(call):
                if error is not None:
                    raise error
        except BaseException as told:
            if error is None:
                raise
            if is_told(told):
                error.all_ranks_know = True  # type: ignore[attr-defined]

    @contextmanager
    def together(self, always: bool = True) -> Iterator[None]:
        """What fails within on one rank is raised on all. always: also where only some ranks fail,
        which costs a message on each success."""
        error: Optional[BaseException] = None
        try:
            yield
        except BaseException as caught:
            if is_told(caught):
                raise
            error = caught
        if always or error is not None:
            self.agree(error)


_worlds: Dict[str, Comm] = {}


def communicator(comm: Any) -> Comm:
    """A Comm of what the user gave: None, a Comm, a communicator of mpi4py."""
    if isinstance(comm, Comm):
        return comm
    if comm is not None:
        return Comm(comm)
    if "world" not in _worlds or not _worlds["world"]._handle:
        _worlds["world"] = Comm()
    return _worlds["world"]
