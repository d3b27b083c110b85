"""Folders of Hugging Face: a network and its parameters, and the way back. Neither torch nor
transformers is needed."""
from __future__ import annotations

import ctypes
import os
import shutil
from typing import Any, Dict, Optional

from . import _library as c
from . import _prototypes
from ._graph import Graph
from ._library import Error, library
from ._pipeline import Checkpoint, Pipeline
from ._runtime import communicator


class Pretrained:
    """A network of a folder, whose parameters a pipeline begins with.

    graph: the network. folder: where its parameters are read. adapter: a folder of peft, whose
    adapters are read after them, or None.
    """

    def __init__(self, graph: Graph, folder: str, adapter: Optional[str] = None):
        self.graph, self.comm, self.folder, self.adapter = graph, graph.comm, folder, adapter

    def read_into(self, pipeline: Pipeline) -> int:
        """Give a pipeline of the network the folder's parameters, each rank its own; the number of
        tensors taken. Collective."""
        taken = pipeline.read_initial(self.folder)
        return taken + (pipeline.read_adapter(self.adapter) if self.adapter else 0)

    def pipeline(self, plan: Any = None, **given: Any) -> Pipeline:
        """``renga.Pipeline`` of the network with the folder's parameters. Collective."""
        made = Pipeline(self.graph, plan, **given)
        try:
            self.read_into(made)
        except BaseException as error:
            made.free_after(error)
            raise
        return made

    def close(self) -> None:
        """Free the network. Collective."""
        self.graph.close()

    def __enter__(self) -> "Pretrained":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self.graph.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<renga.Pretrained of {self.folder}>"


# What follows the folder's name in -graph hf:FOLDER,key=value.
_OF_FOLDER = ("sequence", "target", "segments", "padding", "packed", "dropout")


def from_pretrained(folder: Any, *, comm: Any = None, adapter: Any = None,
                    **given: Any) -> Pretrained:
    """The network of a folder of Hugging Face (config.json and safetensors) with its parameters.
    Collective.

    sequence: tokens of a sample. target: of an encoder with a decoder, tokens of a target. segments=0,
    padding=0: encoders without these inputs. packed=1: rows hold several documents, which the input
    position_ids counts anew. dropout: in place of the shares that config.json says. adapter: a folder of peft, whose adapters lora= names.
    Others are those of ``renga.Graph``: frozen, trained, lora.
    """
    ranks = communicator(comm)
    with ranks.enter("from_pretrained"):
        path = os.fsdecode(os.fspath(folder))
        if "," in path:
            raise Error(f"{path}: Renga takes no folder with a comma in its name", "ARGUMENT")
        sizes: Dict[str, Any] = {k: given.pop(k) for k in _OF_FOLDER if k in given}
        peft = None if adapter is None else os.fsdecode(os.fspath(adapter))
    what = "hf:" + ",".join([path] + [f"{k}={v:d}" if isinstance(v, bool) else f"{k}={v}"
                                for k, v in sizes.items() if v is not None])
    return Pretrained(Graph(what, ranks, **given), path, peft)


def export_checkpoint(comm: Any, path: str, folder: str, like: Optional[str], dtype: str,
                      merged: bool, file_bytes: int) -> None:
    """A checkpoint as a folder of Hugging Face: ``renga export``. Collective."""
    settings = c.structs["RengaCheckpointExportSettings"]()
    with comm.together():
        if dtype not in ("float32", "bfloat16", "float16"):
            raise Error(f"dtype={dtype!r}: folders have float32, bfloat16 or float16", "ARGUMENT")
        settings.type = _prototypes.TYPES.index(dtype)
        settings.merged, settings.file_bytes = bool(merged), int(file_bytes)
        settings.like = None if like is None else os.fsencode(like)
    with comm.together():
        library.RengaCheckpointExport(comm, os.fsencode(path), os.fsencode(folder),
                                      ctypes.byref(settings))


def save_pretrained(pipeline: Pipeline, folder: Any, *, like: Any = None, dtype: str = "float32",
                    merged: bool = False, file_bytes: int = 0) -> None:
    """Parameters and states of a pipeline as a new folder that Hugging Face's libraries load.
    Collective.

    like: the folder whose config.json and tokenizer are copied. dtype: of its numbers. merged:
    adapters are added to their weights; else they are all that is written. file_bytes: of a file at
    most; 0: 5 GB. A checkpoint is written beside it first, by all ranks, each its parts, of which
    rank 0 makes the files tensor by tensor: nobody ever has the network whole.
    """
    comm = pipeline.comm
    with comm.enter("save_pretrained"):
        name = os.fsdecode(os.fspath(folder)).rstrip("/") or "/"
        pattern = None if like is None else os.fsdecode(os.fspath(like))
        if os.path.lexists(name):
            raise Error(f"{name} is there already: save_pretrained makes a new folder",
                        "FILE_WRITE")
    here = os.fsdecode(comm.send(os.fsencode(f"{name}.{os.getpid()}.checkpoint")))
    try:
        with Checkpoint(pipeline, here) as writer:
            path = writer.write()
        export_checkpoint(comm, path, name, pattern, dtype, merged, file_bytes)
    finally:
        if comm.rank == 0:
            shutil.rmtree(here, ignore_errors=True)
