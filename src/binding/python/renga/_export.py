"""Modules of torch as ONNX files that Renga trains."""
from __future__ import annotations

import contextlib
import inspect
import logging
import os
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence
from typing import Set, Union

from . import _hollow, _rewrite, _trial, _watch
from ._library import Error

Targets = Union[int, Sequence[str]]


class _Call(NamedTuple):
    """How a batch is handed to a module and its loss."""

    names: List[str]       # of the network's inputs, in the order of a batch
    keys: Optional[List[str]]  # of a batch that is a mapping
    n_in: int              # the first of them are the module's
    tensors: List[Any]     # the example's
    given: List[str]       # the names as they are in Python

    def with_names(self, batch: Mapping[str, Any]) -> Dict[str, Any]:
        """A batch by the network's names."""
        names = dict(zip(self.given, self.names))
        return {names.get(key, key): value for key, value in batch.items()}


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
    own = {n for n, _ in [*module.named_parameters(), *module.named_buffers()]}
    return _Call(_free_names(names, own), keys, n_in, tensors, names)


def _free_names(names: Sequence[str], taken: Set[str]) -> List[str]:
    """Names that no tensor of the module has: a file has one name for each."""
    found: List[str] = []
    for name in names:
        while name in taken:
            name += "_input"
        found.append(name)
        taken = taken | {name}
    return found


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


def _wrap(module: Any, loss: Optional[Callable[..., Any]], call: _Call,
          mode: Callable[[], Any]) -> Any:
    """A module with the same parameters under the same names, whose forward gives the loss and,
    where it is one tensor with a row for each sample, what the module gives. mode: within which it
    runs."""
    torch = _import_torch()
    kind = type(module)
    hooked = _watch.has_forward_hooks(module)  # they are the module's, and not the loss's

    def inner(self: Any, *args: Any, **named: Any) -> Any:
        return module(*args, **named) if hooked else kind.forward(self, *args, **named)

    def forward(self: Any, *batch: Any) -> Any:
        mine, rest = batch[:call.n_in], batch[call.n_in:]
        with mode():
            result = inner(self, **dict(zip(call.keys, mine))) if call.keys else inner(self, *mine)
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
    if hooked:
        wrapped.__dict__ = {key: type(value)() if key.startswith("_forward_") else value
                            for key, value in module.__dict__.items()}
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
                    "module.float(), or give from_pretrained(…, dtype=torch.float32)", "SUPPORT")
    if isinstance(loss, torch.nn.Module) and any(True for _ in loss.parameters()):
        raise Error("a loss with parameters of its own: make it a part of the module", "SUPPORT")


@contextlib.contextmanager
def _unchecked() -> Iterator[None]:
    """Distributions of torch check their arguments, which a file cannot: not while exporting."""
    torch = _import_torch()
    kind = torch.distributions.Distribution
    before = kind._validate_args
    kind.set_default_validate_args(False)
    try:
        yield
    finally:
        kind.set_default_validate_args(before)


def _write(module: Any, loss: Any, call: _Call, file: str) -> None:
    torch = _import_torch()
    batch = torch.export.Dim("batch")
    trial, acts = _trial.Trial(), [_hollow.has_hollow(module)]
    _watch.check_hooks(module)

    def mode() -> Any:
        return _trial.watching(trial, True) if acts[0] else contextlib.nullcontext()
    with _training_form(module), _unchecked(), _rewrite.dense_experts(module), \
            _hollow.filled(module) as hollow:
        wrapped = _wrap(module, loss, call, mode)
        count = _hollow.count_results(wrapped, call.tensors) if hollow else \
            _trial.run_trial(module, wrapped, loss, call.tensors, trial)
        acts[0] = acts[0] or trial.stops or trial.masks or trial.rewrites
        with _quiet():
            program = torch.onnx.export(
                wrapped, tuple(call.tensors), dynamo=True, optimize=False, verbose=False,
                input_names=call.names, output_names=["loss", "output"][:count],
                dynamic_shapes=(tuple({0: batch} for _ in call.tensors),))
        trained = {n for n, p in module.named_parameters(remove_duplicate=False)
                   if p.requires_grad or n in hollow}  # without numbers it can be no constant
        there = list(program.model.graph.initializers)
        if any(not p.requires_grad for p in module.parameters()):
            program.model.metadata_props["renga.parameters"] = "\n".join(
                n for n in there if n in trained)
        _name_results(program.model)
        _hollow.save(program, file, hollow)


def _name_results(model: Any) -> None:
    """Nodes of the exporter may have the name of a tensor of the module, as t of x.t()."""
    taken = set(model.graph.initializers) | {value.name for value in model.graph.inputs}
    for node in model.graph:
        for value in node.outputs:
            while value.name in taken:
                value.name += "_value"
            taken.add(value.name)


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
    module = _watch.unwrap(module)
    call = _read_example(module, loss, example, targets)
    try:
        _write(module, loss, call, os.fspath(file))
    except Error:
        raise
    except Exception as error:
        raise Error(f"torch could not export the module: {_first_cause(error)}",
                    "LIBRARY") from error
    return call.names
