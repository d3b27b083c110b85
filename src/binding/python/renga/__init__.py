"""Renga: train neural networks that are larger than one device's memory, on many.

    import renga
    graph = renga.Graph("mlp:sizes=4-64-3")                 # or an ONNX file
    with renga.Pipeline(graph, batch_size=32, optimizer="sgd", lr=0.1) as pipeline:
        loss = pipeline.step({"x": x, "labels": labels})    # NumPy arrays

runs on one process or under ``mpiexec -n 4 python``. ``renga.plan(graph, "v100", nodes=4)`` plans
for a machine that is not there. ``renga.Module`` trains a module of torch. ``renga.from_pretrained``
takes a folder of Hugging Face, and ``renga.Trainer`` trains from the first step to the last.
Functions that say "Collective" are called by all ranks. What Renga refuses is raised as ``renga.Error``.
"""
from ._data import Data
from ._graph import Graph, Tensor
from ._library import Error, Warning
from ._pipeline import Checkpoint, Pipeline
from ._plan import Plan, plan
from ._pretrained import Pretrained, from_pretrained, save_pretrained
from ._runtime import Comm, finalize, initialize, options
from ._torch import Module, export
from ._trainer import Trainer
from ._version import __version__

__all__ = ["Checkpoint", "Comm", "Data", "Error", "Graph", "Module", "Pipeline", "Plan",
           "Pretrained", "Tensor", "Trainer", "Warning", "__version__", "export", "finalize",
           "from_pretrained", "initialize", "options", "plan", "save_pretrained"]
