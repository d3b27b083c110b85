"""Batches: what a program gives, as the bytes that Renga asks for."""
from __future__ import annotations

import ctypes
import zlib
from collections import abc  # isinstance of those of typing is slow
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np

from . import _library as c
from ._graph import Tensor
from ._library import Error
from ._runtime import Callbacks

_LOOKED_AT = 1 << 15  # bytes of an array that ranks compare

Source = Union[np.ndarray, Callable[[int, int], Any], None]


def as_array(what: str, value: Any) -> np.ndarray:
    """NumPy's view of an array or of a tensor of torch."""
    if np.ma.isMaskedArray(value):
        count = int(np.ma.count_masked(value))
        if count:
            raise Error(f"{what} is a masked array, {count} of whose {value.size} elements have no "
                        "value: give them one, as by filled(0)", "ARGUMENT")
        value = value.data
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu().numpy()
        return np.asarray(value)
    except Exception as error:
        raise Error(f"{what} is no array of numbers: {type(error).__name__}: {error}",
                    "ARGUMENT") from error


def _convert(name: str, array: Any, wanted: Tensor) -> np.ndarray:
    """An array of the input's type and shape; numbers that would change are refused."""
    array = as_array(f"input {name}", array)
    try:
        dtype = np.dtype(wanted.dtype)
    except TypeError:
        raise Error(f"input {name} is {wanted.dtype}, which NumPy does not have",
                    "SUPPORT") from None
    if array.ndim != len(wanted.shape) or any(
            w >= 0 and a != w for a, w in zip(array.shape, wanted.shape)):
        shape = ", ".join("N" if d == -1 else f"{-d}N" if d < 0 else str(d) for d in wanted.shape)
        raise Error(f"input {name} is {list(array.shape)}, the network wants [{shape}]", "SHAPE")
    if array.dtype != dtype and not _keeps_numbers(array, dtype):
        raise Error(f"input {name} is {array.dtype}, the network wants {wanted.dtype}: convert it",
                    "ARGUMENT")
    return np.ascontiguousarray(array, dtype)


def _keeps_numbers(array: np.ndarray, dtype: np.dtype) -> bool:
    if np.can_cast(array.dtype, dtype, "same_kind"):
        if array.dtype.kind in "iu" and dtype.kind in "iu" and array.size:
            limits = np.iinfo(dtype)
            return int(array.min()) >= limits.min and int(array.max()) <= limits.max
        return True
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return not array.size or (int(array.min()) >= limits.min and
                                  int(array.max()) <= limits.max)
    return False


class Fields:
    """The inputs of a network, and where the batch of the running call has them."""

    def __init__(self, inputs: Mapping[str, Tensor]):
        self.names: List[str] = list(inputs)
        self.tensors: List[Tensor] = list(inputs.values())
        self.sources: List[Source] = [None] * len(self.names)
        # Of whole arrays: where they begin, and the bytes of a sample.
        self.places: List[Optional[Tuple[int, int]]] = [None] * len(self.names)
        self.callbacks = Callbacks()
        self.reader = c.Reader(self._read)

    def _by_name(self, batch: Any) -> Dict[str, Any]:
        if batch is None:
            return {}
        if isinstance(batch, abc.Mapping):
            others = [str(k) for k in batch if k not in self.names]
            if others:
                raise Error(f"the network has no input {', '.join(others)}: it has "
                            f"{', '.join(self.names)}", "ARGUMENT")
            return dict(batch)
        if not isinstance(batch, (list, tuple)):
            batch = (batch,)
        if len(batch) != len(self.names):
            raise Error(f"a batch of {len(batch)} arrays, and the network has "
                        f"{len(self.names)} inputs: {', '.join(self.names)}", "ARGUMENT")
        return dict(zip(self.names, batch))

    def take(self, batch: Any, samples: Optional[int]) -> int:
        """Remember a batch; the number of its samples."""
        self.forget()
        given = self._by_name(batch)
        for number, (name, tensor) in enumerate(zip(self.names, self.tensors)):
            value = given.get(name)
            if not tensor.shape or tensor.shape[0] != -1:
                raise Error(f"input {name} does not begin with the batch: {tensor.shape}",
                            "SUPPORT")
            if value is not None and not callable(value):
                value = _convert(name, value, tensor)
                if samples is not None and len(value) != samples:
                    raise Error(f"input {name} has {len(value)} samples, and others, or samples=, "
                                f"say {samples}", "SHAPE")
                samples = len(value)
                self.places[number] = (value.ctypes.data, value.nbytes // max(samples, 1))
            self.sources[number] = value
        if samples is None:
            raise Error("nothing here says how many samples the batch has: give samples=",
                        "ARGUMENT")
        if samples < 1:
            raise Error("a batch without samples", "ARGUMENT")
        return samples

    def digest(self) -> Optional[int]:
        """Of some bytes of all arrays, to compare ranks; None where not all inputs are arrays."""
        value = 0
        for source in self.sources:
            if not isinstance(source, np.ndarray):
                return None
            flat = source.reshape(-1).view(np.uint8)
            step = max(1, flat.size // _LOOKED_AT) | 1  # odd: other places of each sample
            value = zlib.crc32(np.ascontiguousarray(flat[::step]), value)
        return value

    def forget(self) -> None:
        """The call is over: the arrays are the program's alone."""
        self.sources = [None] * len(self.names)
        self.places = [None] * len(self.names)

    def _rows(self, field: int, first: int, count: int) -> np.ndarray:
        source, name = self.sources[field], self.names[field]
        if source is None:
            raise Error(f"this rank needs input {name}, and its batch has none", "ARGUMENT")
        rows = _convert(name, source(first, count), self.tensors[field])
        if len(rows) != count:
            raise Error(f"the function of input {name} gave {len(rows)} samples for {count}",
                        "SHAPE")
        return rows

    def _read(self, user: Any, field: int, first: int, count: int, buffer: int) -> int:
        place = self.places[field]
        if place is not None:
            ctypes.memmove(buffer, place[0] + first * place[1], count * place[1])
            return 0

        def copy() -> None:
            rows = self._rows(field, first, count)
            ctypes.memmove(buffer, rows.ctypes.data, rows.nbytes)
        return self.callbacks.guard("a batch could not be read: ", copy)
