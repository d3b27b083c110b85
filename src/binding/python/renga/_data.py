"""Samples of a training: those of a data file, or arrays of the program, in the same order."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from . import _library as c
from ._batch import Fields
from ._graph import Graph
from ._library import Error, library
from ._runtime import Handle, option_texts, options_on

TRAINING, VALIDATION = 0, 1


_OF_RENGA_TRAIN = ("data_hide", "data_importance", "train_learners", "train_average",
                   "data_placement")


class Batch(NamedTuple):
    """Some samples, as ``Pipeline.step`` takes them: a function for each input."""

    inputs: Dict[str, Callable[[int, int], np.ndarray]]
    samples: int


def _is_file(source: Any) -> bool:
    return isinstance(source, (str, bytes)) or hasattr(source, "__fspath__")


class Data(Handle):
    """Samples for a network. Collective.

    source: an HDF5 file that ``renga data`` made (or several, "a.h5,b.h5"; or "synthetic"), or the
    arrays of all samples, by the names of the network's inputs or in their order, the same on all
    ranks. validation: the same, of samples that only test; None: those that the file has. seed: of
    the order, another one in each epoch, which is that of ``renga train -seed``. given: options,
    such as data_shuffle=False.
    """

    _destroy = "RengaDataDestroy"

    def __init__(self, graph: Graph, source: Any, validation: Any = None, *, seed: int = 0,
                 **given: Any):
        self.comm, self.graph = graph.comm, graph
        self._arrays: List[Optional[Dict[str, np.ndarray]]] = [None, None]
        self._batch_size = 0
        with self.comm.enter("Data") as entry:
            others = [name for name in given if name.startswith(_OF_RENGA_TRAIN)]
            if others:
                raise Error(f"{', '.join(others)}: renga train has this, and not yet the Python "
                            "package", "SUPPORT")
            self._inputs = graph.inputs
            entry.digest = self._take_arrays(source, validation)
            if "data_validation" in given and not _is_file(source):
                raise Error("data_validation= parts the samples of a file: give arrays that only "
                            "test as validation=", "OPTION")
            texts = option_texts({**given, **self._options(source)})
            eval_file = c.text(validation) if _is_file(validation) else None
            number = ctypes.c_uint64(seed)
        super().__init__(c.get(library.RengaDataCreate, self.comm))
        try:
            with options_on(self.comm, texts), self.comm.together():
                library.RengaDataSetSeed(self, number)
                library.RengaDataSetFromOptions(self)
                library.RengaDataSetValidationFile(self, eval_file)
            with self.comm.together():
                library.RengaDataSetGraph(self, graph)
            with self.comm.together():
                library.RengaDataSetUp(self)
        except BaseException as error:
            self.free_after(error)
            raise

    def _take_arrays(self, source: Any, validation: Any) -> int:
        """Remember the arrays; a number of them, for ranks to compare."""
        digest = 0
        for part, given in enumerate((source, validation)):
            if given is None or _is_file(given):
                continue
            fields = Fields(self._inputs)
            fields.take(given, None)
            missing = [n for n, s in zip(fields.names, fields.sources)
                       if not isinstance(s, np.ndarray)]
            if missing:
                raise Error(f"the data have no array for the input {', '.join(missing)}",
                            "ARGUMENT")
            self._arrays[part] = dict(zip(fields.names, fields.sources))  # type: ignore[arg-type]
            digest = digest * 31 + (fields.digest() or 0) & 0x7fffffff
        if self._arrays[TRAINING] is None and self._arrays[VALIDATION] is not None:
            raise Error("a data file with arrays for validation: give a file for both", "ARGUMENT")
        if self._arrays[TRAINING] is not None and _is_file(validation):
            raise Error("arrays with a data file for validation: give arrays for both", "ARGUMENT")
        return digest

    def _options(self, source: Any) -> Dict[str, Any]:
        arrays = self._arrays[TRAINING]
        if arrays is None:
            return {"data": source}
        # Of a set of as many samples the order is asked, and nothing else.
        return {"data": "synthetic", "data_samples": len(next(iter(arrays.values()))),
                "data_validation": 0}

    def count(self, part: int = TRAINING) -> int:
        """Samples that train, or (part 1) that test; 0: there are none."""
        arrays = self._arrays[part]
        if arrays is not None:
            return len(next(iter(arrays.values())))
        return c.get(library.RengaDataGetCount, self, part, kind=ctypes.c_int64)

    def step(self, step: int, batch_size: int) -> Batch:
        """The samples of a step, from 0, of an endless sequence of epochs; the last step of an epoch
        has what is left."""
        if batch_size != self._batch_size:
            library.RengaDataSetBatch(self, batch_size)
            self._batch_size = batch_size
        first, count, epoch = (ctypes.c_int64() for _ in range(3))
        library.RengaDataGetStep(self, TRAINING, batch_size, step,
                                 *[ctypes.byref(n) for n in (first, count, epoch)])
        return self._batch(TRAINING, epoch.value, first.value, count.value)

    def _batch(self, part: int, epoch: int, first: int, count: int) -> Batch:
        def reader(field: int) -> Callable[[int, int], np.ndarray]:
            return lambda at, n: self.rows(part, field, epoch, first + at, n)
        return Batch({name: reader(f) for f, name in enumerate(self._inputs)}, count)

    @property
    def is_of_arrays(self) -> bool:
        return self._arrays[TRAINING] is not None

    def rows(self, part: int, field: int, epoch: int, first: int, count: int) -> np.ndarray:
        """An input of samples that follow each other in the order of an epoch."""
        arrays = self._arrays[part]
        if arrays is None:
            return self._read(part, field, epoch, first, count)
        return list(arrays.values())[field][self._numbers(part, epoch, first, count)]

    def _numbers(self, part: int, epoch: int, first: int, count: int) -> Any:
        if part == VALIDATION:
            return slice(first, first + count)
        number, found = ctypes.c_int64(), np.empty(count, np.int64)
        for i in range(count):
            library.RengaDataFindSample(self, epoch, first + i, ctypes.byref(number))
            found[i] = number.value
        return found

    def _read(self, part: int, field: int, epoch: int, first: int, count: int) -> np.ndarray:
        tensor = list(self._inputs.values())[field]
        rows = np.empty((count, *tensor.shape[1:]), tensor.dtype)
        library.RengaDataRead(self, part, field, epoch, first, count,
                              rows.ctypes.data_as(ctypes.c_void_p))
        return rows
