"""Networks."""
from __future__ import annotations

import ctypes
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import _library as c
from . import _prototypes
from ._library import Error, library
from ._runtime import Comm, Handle, communicator, given_option

_INPUT, _PARAMETER, _STATE = 0, 1, 2
# Options that what makes a network of a name or of a module hands on to it.
OF_GRAPH = ("precision", "precision_keep", "graph_lanes", "graph_token_lanes")


class Tensor(NamedTuple):
    """Type and shape of a value. In ``shape`` a dimension that grows with the batch is negative:
    -1 is the number of samples, -2 twice that."""

    dtype: str
    shape: Tuple[int, ...]


def tensor_of(spec: Any) -> Tensor:
    return Tensor(_prototypes.TYPES[spec.type], tuple(spec.dim[:max(spec.ndim, 0)]))


def _number_of(precision: str) -> int:
    if precision not in _prototypes.PRECISIONS:
        raise Error(f"precision={precision!r}: it is one of " + "|".join(_prototypes.PRECISIONS),
                    "OPTION")
    return _prototypes.PRECISIONS.index(precision)


def _count_of(name: str, count: Optional[int]) -> Optional[int]:
    text = given_option(name, "") if count is None else str(count)
    if text in ("", "auto"):
        return None
    if not text.isdecimal():
        raise Error(f"{name}={text}: write a whole number", "OPTION")
    return int(text)


# Options of RengaGraph that a Graph does not read, and what stands for them.
_KEYWORDS = {"graph_frozen": "frozen=", "graph_trained": "trained=", "graph_dimension": "dimension=",
             "graph_whole_batch": "whole_batch=", "graph_batch_inputs": "batch_inputs=",
             "graph_lora": "lora=", "graph_lora_targets": "lora=", "graph_lora_alpha": "lora=",
             "graph_lora_dropout": "lora=", "graph_divide": "divide=",
             "graph_divide_weight": "divide_weight=", "graph_split": None}


def _refuse_unread(given: Mapping[str, Any]) -> None:
    for name, keyword in _KEYWORDS.items():
        value = given_option(name, "")
        if value and not (keyword and given[keyword[:-1]]):
            raise Error(f"-{name} {value} is not read by a Graph of Python" +
                        (f": give {keyword} to what makes the network" if keyword else ""), "OPTION")


def _lora_of(settings: Optional[Mapping[str, Any]]) -> Any:
    lora = c.structs["RengaGraphLora"]()
    for name, value in (settings or {}).items():
        if name not in ("rank", "alpha", "dropout", "targets"):
            raise Error(f"lora={{{name!r}: …}}: adapters have rank, alpha, dropout and targets",
                        "ARGUMENT")
        setattr(lora, name, c.text(value) if name == "targets" else value)
    return lora


class Graph(Handle):
    """A network: an ONNX file, or one built by size ("gpt:layers=4,hidden=256").

    frozen, trained: patterns of parameters that keep their values, and of those that are trained
    whatever else is said. lora: {"rank": 8, "targets": "q_proj,v_proj", "alpha": 16} trains adapters
    of these products (and "dropout": 0.1), and what trained names. divide: narrow networks that are
    trained together in place of one, divide_weight: of their divergence in the loss. whole_batch: samples of a batch that is never cut. batch_inputs: inputs
    that hold samples, and where ("tokens,image:1"). dimension: sizes of a file's symbolic
    dimensions ("time=100"). precision: "fp32", "bf16", "fp16", "tf32" or "fp8"; precision_keep: patterns
    of nodes that stay in fp32. graph_lanes, graph_token_lanes: into how many parts tensor- and
    context-parallel ranks may split it, which decide its bits. Without these four those of
    ``renga.options`` and the command line count. outputs: let the network end there, without a loss;
    True: at all the outputs that it has. Collective.
    """

    _destroy = "RengaGraphDestroy"

    def __init__(self, what: Any, comm: Any = None, *, frozen: Optional[str] = None,
                 trained: Optional[str] = None, whole_batch: int = 0,
                 batch_inputs: Optional[str] = None, dimension: Optional[str] = None,
                 outputs: Union[bool, Sequence[str], None] = None,
                 lora: Optional[Mapping[str, Any]] = None, divide: int = 1,
                 divide_weight: float = 0.5, precision: Optional[str] = None,
                 precision_keep: Optional[str] = None, graph_lanes: Optional[int] = None,
                 graph_token_lanes: Optional[int] = None):
        self.comm: Comm = communicator(comm)
        with self.comm.enter("Graph"):
            _refuse_unread({"frozen": frozen, "trained": trained, "dimension": dimension,
                            "whole_batch": whole_batch, "batch_inputs": batch_inputs, "lora": lora,
                            "divide": divide != 1, "divide_weight": divide != 1})
            settings = [(setter, c.text(value)) for setter, value in (
                (library.RengaGraphSetFrozen, frozen), (library.RengaGraphSetTrained, trained),
                (library.RengaGraphSetDimension, dimension),
                (library.RengaGraphSetBatchInputs, batch_inputs)) if value is not None]
            whole, name, adapters = int(whole_batch), c.text(what), _lora_of(lora)
            division = c.structs["RengaGraphDivision"](int(divide), float(divide_weight))
            self.whole_batch = whole
            number = _number_of(precision or given_option("precision", "fp32"))
            keep = precision_keep or given_option("precision_keep", "")
            lanes = [(setter, _count_of(name, count)) for setter, name, count in (
                (library.RengaGraphSetLanes, "graph_lanes", graph_lanes),
                (library.RengaGraphSetTokenLanes, "graph_token_lanes", graph_token_lanes))]
            names = [c.text(o) for o in outputs] if outputs and outputs is not True else []
        super().__init__(c.get(library.RengaGraphCreate, self.comm))
        try:
            with self.comm.together():
                for setter, value in settings:
                    setter(self, value)
                for setter, count in lanes:
                    if count is not None:
                        setter(self, count)
                library.RengaGraphSetPrecision(self, number, c.text(keep) if keep else None)
                if lora:
                    library.RengaGraphSetLora(self, ctypes.byref(adapters))
                if division.parts != 1:
                    library.RengaGraphSetDivision(self, ctypes.byref(division))
                if whole:
                    library.RengaGraphSetWholeBatch(self, whole)
            with self.comm.together():
                library.RengaGraphLoad(self, name)
            with self.comm.together():
                if outputs:
                    library.RengaGraphKeepOutputs(self, len(names),
                                                  (ctypes.c_char_p * (len(names) + 1))(*names))
            with self.comm.together():
                library.RengaGraphSetUp(self)
        except BaseException as error:
            self.free_after(error)
            raise

    def _values(self, kind: int) -> Dict[str, Tensor]:
        rows = (library.RengaGraphGetValue(self, v).contents
                for v in range(library.RengaGraphGetValueCount(self)))
        return {row.name.decode(): tensor_of(row.spec) for row in rows
                if row.kind == kind and row.whole < 0}

    @property
    def inputs(self) -> Dict[str, Tensor]:
        """What a batch has to hold, by name, in the network's order."""
        return self._values(_INPUT)

    @property
    def parameters(self) -> Dict[str, Tensor]:
        """Trained and frozen parameters."""
        return self._values(_PARAMETER)

    @property
    def states(self) -> Dict[str, Tensor]:
        """What is kept from step to step but not trained: running statistics."""
        return self._values(_STATE)

    @property
    def outputs(self) -> Dict[str, Tensor]:
        """What may be asked for by name."""
        count, values = ctypes.c_int(), ctypes.c_void_p()
        library.RengaGraphGetOutputs(self, ctypes.byref(count), ctypes.byref(values))
        numbers = ctypes.cast(values, ctypes.POINTER(ctypes.c_int))[:count.value]
        rows = [library.RengaGraphGetValue(self, v).contents for v in numbers]
        return {row.name.decode(): tensor_of(row.spec) for row in rows}

    @property
    def loss(self) -> Optional[str]:
        """Name of the loss; None where the network has none."""
        value = c.get(library.RengaGraphGetLoss, self, kind=ctypes.c_int)
        row = library.RengaGraphGetValue(self, value) if value >= 0 else None
        return row.contents.name.decode() if row else None

    @property
    def totals(self) -> Dict[str, float]:
        """parameters (numbers in them), forward_flops and activation_bytes of a sample."""
        totals = c.structs["RengaGraphTotals"]()
        library.RengaGraphGetTotals(self, ctypes.byref(totals))
        return {name: getattr(totals, name) for name, _ in totals._fields_}

    @property
    def digest(self) -> int:
        """A number of names, shapes, operators and attributes: equal for equal networks."""
        return library.RengaGraphGetDigest(self)

    def __len__(self) -> int:
        return library.RengaGraphGetNodeCount(self)

    def text(self) -> str:
        """All nodes as a table. Collective."""
        return view(self.comm, lambda v: library.RengaGraphView(self, v))

    def __repr__(self) -> str:
        return f"<renga.Graph of {len(self)} nodes>" if self._handle else "<renga.Graph, closed>"


def view(comm: Comm, show: Any, kind: str = "ascii") -> str:
    """What a viewer writes, on all ranks. Collective."""
    import os
    import tempfile
    path = ""
    try:
        with comm.enter("text of an object"):
            if comm.rank == 0:
                handle, path = tempfile.mkstemp()
                os.close(handle)
        with comm.together():
            viewer = ctypes.c_void_p(
                c.get(library.RengaViewerCreate, comm, c.text(f"{kind}:{path}" if path else kind)))
        try:
            with comm.together():
                show(viewer)
        finally:
            library.RengaViewerDestroy(ctypes.byref(viewer))
        data = b""
        with comm.together():
            if comm.rank == 0:
                with open(path, "rb") as file:
                    data = file.read()
        return comm.send(data).decode()
    finally:
        if path:
            os.unlink(path)
