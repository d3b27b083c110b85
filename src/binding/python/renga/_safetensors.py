"""Files of safetensors, written tensor by tensor."""
from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ._library import Error


def is_path(value: Any) -> bool:
    return isinstance(value, (str, bytes)) or hasattr(value, "__fspath__")


_KINDS = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}


class Writer:
    """A file of float32 tensors, whose shapes are known before their numbers. It has its name only
    when it is whole; one that is there already is an error."""

    def __init__(self, path: Any, shapes: Mapping[str, Sequence[int]],
                 words: Mapping[str, str]):
        self.path = os.fsdecode(os.fspath(path))
        self.partial = f"{self.path}.{os.getpid()}.part"
        head, at = {"__metadata__": {"format": "pt", **words}}, 0
        for name, shape in shapes.items():
            size = 4 * int(np.prod(shape, dtype=np.int64))
            head[name] = {"dtype": "F32", "shape": list(shape),  # type: ignore[dict-item]
                          "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(head, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        try:
            if os.path.lexists(self.path):
                raise FileExistsError("is there already")
            self.file = open(self.partial, "wb")
            self.file.write(len(text).to_bytes(8, "little") + text)
        except OSError as error:
            raise Error(f"{self.path}: {error.strerror or error}", "FILE_WRITE") from error

    def write(self, array: Any) -> None:
        """The next tensor, in the order of the shapes."""
        try:
            self.file.write(memoryview(np.ascontiguousarray(array, "<f4")).cast("B"))
        except OSError as error:
            raise Error(f"{self.path}: {error.strerror or error}", "FILE_WRITE") from error

    def close(self, error: Optional[BaseException] = None) -> None:
        """After the last tensor, or an error, after which there is no file."""
        try:
            self.file.close()
            if error is None:
                os.rename(self.partial, self.path)
                return
        except OSError as caught:
            error = Error(f"{self.path}: {caught.strerror or caught}", "FILE_WRITE")
        if os.path.exists(self.partial):
            os.unlink(self.partial)
        raise error


class Reader:
    """The tensors of a folder's safetensors files, which are mapped, not read."""

    def __init__(self, folder: Any):
        self.folder = os.fsdecode(os.fspath(folder))
        self.rows: Dict[str, Tuple[str, str, List[int], int]] = {}
        files = sorted(n for n in os.listdir(self.folder) if n.endswith(".safetensors"))
        for name in files:
            path = os.path.join(self.folder, name)
            with open(path, "rb") as file:
                size = int.from_bytes(file.read(8), "little")
                head = json.loads(file.read(size))
            for tensor, row in head.items():
                if tensor != "__metadata__":
                    self.rows[tensor] = (path, row["dtype"], row["shape"],
                                         8 + size + row["data_offsets"][0])

    def get(self, name: str) -> np.ndarray:
        """A tensor as float32."""
        path, kind, shape, at = self.rows[name]
        if kind not in _KINDS:
            raise Error(f"{path}: {name} is {kind}; float32, float16 and bfloat16 are read",
                        "SUPPORT")
        array = np.memmap(path, _KINDS[kind], "r", at, tuple(shape)) if shape else \
            np.fromfile(path, _KINDS[kind], 1, offset=at).reshape(())
        if kind == "BF16":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return np.asarray(array, np.float32)
