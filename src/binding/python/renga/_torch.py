"""Modules of torch: exported as Renga needs them, trained on all ranks, with torch's names."""
from __future__ import annotations

import contextlib
import inspect
import logging
import os
import shutil
import tempfile
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence
from typing import Tuple, Union

import numpy as np

from ._batch import as_array
from ._graph import Graph
from ._library import Error
from ._optimizer import find as find_optimizer
from ._pipeline import Pipeline
from ._runtime import communicator, is_forked, is_told

Targets = Union[int, Sequence[str]]


class _Call(NamedTuple):
    """How a batch is handed to a module and its loss."""

    names: List[str]       # of the network's inputs, in the order of a batch
    keys: Optional[List[str]]  # of a batch that is a mapping
    n_in: int              # the first of them are the module's
    tensors: List[Any]     # the example's


def _import_torch() -> Any:
    try:
        import torch
        import onnxscript  # noqa: F401: the exporter's own need, told before it fails
    except ImportError as error:
        raise Error(f"renga.Module and renga.export need torch and onnxscript: {error}",
                    "SUPPORT") from error
    if tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2]) < (2, 9):
        raise Error(f"torch {torch.__version__} cannot say in a file what is trained: install 2.9 "
                    "or newer", "SUPPORT")
    return torch


def _read_example(module: Any, loss: Any, example: Any, targets: Optional[Targets]) -> _Call:
    torch = _import_torch()
    _check_module(module, loss)
    keys = None
    if isinstance(example, Mapping):
        ends = [] if targets is None else list(targets)  # type: ignore[arg-type]
        if loss is not None and not ends:
            raise Error("an example by names with a loss: targets= says which are for the loss",
                        "ARGUMENT")
        missing = [t for t in ends if t not in example]
        if missing:
            raise Error(f"the example has no {', '.join(missing)}", "ARGUMENT")
        keys = [k for k in example if k not in ends] + ends
        tensors, n_in = [example[k] for k in keys], len(example) - len(ends)
        names = list(keys)
    else:
        tensors = list(example) if isinstance(example, (list, tuple)) else [example]
        last = (1 if loss is not None else 0) if targets is None else int(targets)  # type: ignore
        n_in = len(tensors) - last
        if n_in < 1:
            raise Error(f"an example of {len(tensors)} tensors, of which {last} are the loss's: "
                        "the module has no input", "ARGUMENT")
        known = [p.name for p in inspect.signature(module.forward).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        names = [known[i] if i < len(known) else f"input_{i}" for i in range(n_in)]
        names += [("target" if last == 1 else f"target_{i}") for i in range(last)]
    if len(set(names)) < len(names):
        raise Error(f"two inputs have one name: {', '.join(names)}", "ARGUMENT")
    tensors = [t if isinstance(t, torch.Tensor) else torch.as_tensor(t) for t in tensors]
    sizes = {t.shape[0] if t.dim() else None for t in tensors}
    if len(sizes) != 1 or None in sizes:
        raise Error("the tensors of the example do not begin with the same number of samples: " +
                    ", ".join(f"{n} {list(t.shape)}" for n, t in zip(names, tensors)), "SHAPE")
    return _Call(names, keys, n_in, tensors)


def _loss_of(result: Any, torch: Any) -> Any:
    """The loss that a module gives by itself: a scalar, an object's .loss, a tuple's first."""
    if isinstance(result, Mapping) and "loss" in result:
        result = result["loss"]
    elif hasattr(result, "loss"):
        result = result.loss
    elif isinstance(result, (list, tuple)) and result:
        result = result[0]
    if not isinstance(result, torch.Tensor) or result.dim():
        raise Error("the module gives no loss by itself: give one with loss=", "ARGUMENT")
    return result


def _wrap(module: Any, loss: Optional[Callable[..., Any]], call: _Call) -> Any:
    """A module with the same parameters under the same names, whose forward gives the loss and,
    where it is one tensor with a row for each sample, what the module gives."""
    torch = _import_torch()
    kind = type(module)

    def forward(self: Any, *batch: Any) -> Any:
        mine, rest = batch[:call.n_in], batch[call.n_in:]
        if call.keys:
            result = kind.forward(self, **dict(zip(call.keys, mine)))
        else:
            result = kind.forward(self, *mine)
        if loss is None:
            return _loss_of(result, torch)
        value = loss(result, *rest)
        if not isinstance(value, torch.Tensor) or value.dim():
            raise Error("the loss is no scalar tensor", "ARGUMENT")
        rows = isinstance(result, torch.Tensor) and result.dim() and \
            result.shape[0] == mine[0].shape[0]
        return (value, result) if rows else value

    wrapped = object.__new__(type(kind.__name__, (kind,), {"forward": forward}))
    wrapped.__dict__ = module.__dict__
    return wrapped


@contextlib.contextmanager
def _training_form(module: Any) -> Iterator[None]:
    """A module in evaluation is set to training; one in training may have parts that are not."""
    modes = [(m, m.training) for m in module.modules()]
    try:
        if not module.training:
            module.train()
        yield
    finally:
        for part, mode in modes:
            part.training = mode


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The exporter's remarks are about its optimizer and other libraries."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _check_module(module: Any, loss: Any) -> None:
    torch = _import_torch()
    if not isinstance(module, torch.nn.Module):
        raise Error(f"{type(module).__name__} is no torch.nn.Module", "ARGUMENT")
    others = [n for n, p in module.named_parameters() if p.dtype != torch.float32]
    if others:
        raise Error(f"parameters that are not float32: {', '.join(others[:5])}; call "
                    "module.float()", "SUPPORT")
    if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
        raise Error("a loss with parameters of its own: make it a part of the module", "SUPPORT")


def _write(module: Any, loss: Any, call: _Call, file: str) -> None:
    torch = _import_torch()
    batch = torch.export.Dim("batch")
    wrapped = _wrap(module, loss, call)
    with _training_form(module), _quiet():
        with torch.no_grad():
            count = 1  # of the results; the example is run, but for its traces in the module
            kept = {n: b.detach().clone() for n, b in module.named_buffers()}
            result = wrapped.forward(*call.tensors)
            count = len(result) if isinstance(result, tuple) else 1
            for name, buffer in module.named_buffers():
                buffer.copy_(kept[name])
        program = torch.onnx.export(
            wrapped, tuple(call.tensors), dynamo=True, optimize=False, verbose=False,
            input_names=call.names, output_names=["loss", "output"][:count],
            dynamic_shapes=(tuple({0: batch} for _ in call.tensors),))
    trained = {n for n, p in module.named_parameters(remove_duplicate=False) if p.requires_grad}
    there = list(program.model.graph.initializers)
    if any(not p.requires_grad for p in module.parameters()):
        program.model.metadata_props["renga.parameters"] = "\n".join(
            n for n in there if n in trained)
    program.save(file)


def _first_cause(error: BaseException) -> str:
    """A line of what the exporter's error came from: the error itself is a page."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def export(module: Any, file: Any, loss: Optional[Callable[..., Any]] = None, example: Any = None,
           *, targets: Optional[Targets] = None) -> List[str]:
    """Write a module of torch and its loss as an ONNX file that Renga trains; the names of its
    inputs. Not collective. The arguments are those of ``renga.Module``."""
    call = _read_example(module, loss, example, targets)
    try:
        _write(module, loss, call, os.fspath(file))
    except Error:
        raise
    except Exception as error:
        raise Error(f"torch could not export the module: {_first_cause(error)}",
                    "LIBRARY") from error
    return call.names


class Module:
    """A module of torch that Renga trains on all ranks. Collective.

        model = renga.Module(net, loss=torch.nn.functional.cross_entropy, example=(x, y),
                             optimizer="adamw", lr=1e-3)
        for batch in loader:
            loss = model.step(batch)

    module: float32; the values of rank 0 are taken, ``net`` itself does not change (``update``
    copies back). loss: called as loss(output, target); None: the module gives its loss itself (a
    scalar, ``.loss`` of what it gives, or its first element). example: a batch, as ``step`` gets
    them: tensors, the last of which is for the loss (``targets`` of them, where given), or a
    mapping of keywords, in which targets names those for the loss. Its number of samples is the
    batch size, unless batch_size is given. Parameters that do not require a gradient are frozen;
    ``torch.no_grad()`` within forward is not seen by the exporter. comm: the ranks. directory:
    where the exported file is put, a folder that all ranks see; needed on several nodes. The file
    is kept there; without it, it is removed by ``close``. given: options, as of Pipeline; optimizer
    may also be a torch.optim.SGD, Adam or AdamW of the module's parameters, whose settings and
    groups are taken, and whose learning rates count at each step: schedulers of torch change them.

    A batch is the whole batch on each rank: give each rank's DataLoader the same seed.
    BatchNormalization has the statistics of a micro-batch: with microbatch_size as batch_size they
    are torch's.
    """

    def __init__(self, module: Any, loss: Optional[Callable[..., Any]] = None,
                 example: Any = None, *, targets: Optional[Targets] = None, comm: Any = None,
                 directory: Any = None, whole_batch: int = 0, seed: Optional[int] = None,
                 **given: Any):
        self.module, self.comm = module, communicator(comm)
        self._folder: Optional[str] = None
        self.graph: Optional[Graph] = None
        self.pipeline: Optional[Pipeline] = None
        try:
            with self.comm.enter("Module"):
                self._call = _read_example(module, loss, example, targets)
                self._optimizer = find_optimizer(given, module)
                given.setdefault("batch_size", len(self._call.tensors[0]))
                if directory is None and self.comm.nodes > 1:
                    raise Error("ranks on several nodes: directory= names a folder that all of "
                                "them see", "ARGUMENT")
            self.file = self._export(loss, example, targets, directory)
            self.graph = Graph(self.file, self.comm, whole_batch=whole_batch)
            with self.comm.together():
                self._names = self._find_names()
                if self._optimizer is not None:
                    given.update(self._optimizer.options(self._by_tensor()))
            self.pipeline = Pipeline(self.graph, seed=seed, **given)
            self._load_moments()
        except BaseException as error:
            if is_told(error):
                self.free()
            raise

    def _export(self, loss: Any, example: Any, targets: Any, directory: Any) -> str:
        path = ""
        with self.comm.together():
            if self.comm.rank == 0:
                try:
                    folder = os.fspath(directory) if directory is not None else tempfile.mkdtemp()
                    os.makedirs(folder, exist_ok=True)
                except OSError as error:
                    raise Error(str(error), "FILE_WRITE") from error
                if directory is None:
                    self._folder = folder
                path = os.path.abspath(os.path.join(folder, "module.onnx"))
                export(self.module, path, loss, example, targets=targets)
        return os.fsdecode(self.comm.send(os.fsencode(path)))

    def _find_names(self) -> Dict[str, str]:
        """Torch's names to the network's: a tensor with several names has one of them there."""
        assert self.graph is not None
        there = {**self.graph.parameters, **self.graph.states}
        by_tensor: Dict[int, str] = {}
        tensors = self.module.state_dict(keep_vars=True)
        for name, tensor in tensors.items():
            if name in there:
                by_tensor[id(tensor)] = name
        return {n: by_tensor[id(t)] for n, t in tensors.items() if id(t) in by_tensor}

    def _by_tensor(self) -> Dict[int, str]:
        """The network's names of the module's tensors, by their id."""
        tensors = self.module.state_dict(keep_vars=True)
        return {id(tensors[name]): there for name, there in self._names.items()}

    def _load_moments(self) -> None:
        """An optimizer of torch that has done steps goes on with its moments."""
        if self._optimizer is None:
            return
        state: Dict[str, Any] = {}
        with self.comm.together():
            if self.comm.rank == 0:
                state = self._optimizer.state(self._by_tensor())
        if self.comm.agree(None, len(state))[0]:
            self._pipeline.load_state_dict(state, strict=False, root=0)

    def _follow(self) -> None:
        if self._optimizer is not None:
            self._optimizer.follow(self._pipeline.optimizer)

    def _batch(self, batch: Tuple[Any, ...]) -> Any:
        only = batch[0] if len(batch) == 1 else batch
        if isinstance(only, Mapping) and self._call.keys:
            only = {k: v for k, v in only.items()}
        inputs = self.graph.inputs if self.graph else {}
        if isinstance(only, Mapping):
            return {k: v for k, v in only.items() if k in inputs or k not in self._call.names}
        only = only if isinstance(only, (list, tuple)) else (only,)
        if len(only) != len(self._call.names):
            return only  # refused with what the network wants
        # What the loss does not depend on is no input of the network.
        return {n: v for n, v in zip(self._call.names, only) if n in inputs}

    def step(self, *batch: Any) -> float:
        """Train with a batch, ``step(batch)`` or ``step(x, y)``; the loss before the update.
        Collective."""
        def given() -> Any:
            self._follow()
            return self._batch(batch)
        return self._pipeline.step_on(given)

    def evaluate(self, *batch: Any) -> float:
        """The loss of a batch, as in ``module.eval()``; nothing changes. Collective."""
        return self._pipeline.evaluate_on(lambda: self._batch(batch))

    def predict(self, *inputs: Any) -> Any:
        """What the module gives for inputs, as in ``module.eval()``: a tensor, on all ranks.
        Collective. Only where it is one tensor with a row for each sample."""
        def given() -> Any:
            only = inputs[0] if len(inputs) == 1 else inputs
            if not isinstance(only, Mapping):
                only = only if isinstance(only, (list, tuple)) else (only,)
                only = dict(zip(self._call.names, only))
            return only
        output = self._pipeline.forward_on(given, "output")
        return _import_torch().from_numpy(np.ascontiguousarray(output))

    def _with_names(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        """Values of the network as torch's state: a tensor with several names is one, as there."""
        torch = _import_torch()
        made: Dict[str, Any] = {}
        state = self.module.state_dict()
        for name, tensor in state.items():
            there = self._names.get(name)
            if there is not None and there not in made:
                made[there] = torch.from_numpy(values[there])
            state[name] = made[there] if there is not None else tensor.detach().clone()
        return state

    def state_dict(self, *, to: Optional[int] = None) -> Dict[str, Any]:
        """Parameters and buffers by torch's names, as of ``module.state_dict()``. Collective.
        Buffers that training does not change, and counters of batches, are the module's. to: the
        rank that gets them, others get an empty dict; None: all ranks."""
        values = self._pipeline.state_dict(to=to)
        return self._with_names(values) if to in (None, self.comm.rank) else {}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Take parameters and buffers by torch's names; the same on all ranks. Collective."""
        self._pipeline.load_state_on(lambda: self._without_names(state, strict), strict=False)

    def _without_names(self, state: Mapping[str, Any], strict: bool) -> Dict[str, Any]:
        own = self.module.state_dict()
        missing, others = [n for n in own if n not in state], [n for n in state if n not in own]
        if strict and (missing or others):
            raise Error("the state does not fit the module" +
                        (f"; missing: {', '.join(missing)}" if missing else "") +
                        (f"; not in the module: {', '.join(others)}" if others else ""),
                        "ARGUMENT")
        for name in set(state) & set(own) - set(self._names):
            same = np.array_equal(as_array(name, state[name]), as_array(name, own[name]))
            if not same and not name.endswith("num_batches_tracked"):
                raise Error(f"{name} is a constant of the network, and its new value is "
                            "another: make a renga.Module of a module that has it", "SUPPORT")
        return {self._names[n]: as_array(n, v) for n, v in state.items() if n in self._names}

    def update(self) -> Any:
        """Copy parameters and buffers into the module of torch, and moments into its optimizer; the
        module. Collective."""
        values = self._pipeline.state_dict(optimizer=self._optimizer is not None)
        with self.comm.together():
            self.module.load_state_dict(self._with_names(values))
            if self._optimizer is not None:
                self._optimizer.take_state(self._by_tensor(), values)
        return self.module

    @property
    def _pipeline(self) -> Pipeline:
        if self.pipeline is None:
            raise Error("this Module is closed", "ORDER")
        return self.pipeline

    def free(self) -> None:
        """Free pipeline, network and file where all ranks are known to do so."""
        for part in (self.pipeline, self.graph):
            if part is not None:
                part.free()
        self.pipeline = self.graph = None
        if self._folder and not is_forked():
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def close(self) -> None:
        """Free pipeline, network and file. Collective."""
        self._leave(None)

    def _leave(self, error: Optional[BaseException]) -> None:
        try:
            if self.pipeline is not None and not is_told(error):
                self.comm.leave("Module.close", error)
        finally:
            self.free()

    def __enter__(self) -> "Module":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self._leave(error)
