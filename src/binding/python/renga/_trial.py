"""A forward on the example before it is exported: what it does that a file does not say is noted, and
then done by operators, refused by name, or told."""
from __future__ import annotations

import contextlib
import math
import random
import sys
import warnings
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Set, Tuple

from . import _rewrite, _watch
from ._library import Error, Warning

_HAND_OVER = "hand it over with each batch, as a tensor with an element for each sample"
# Of evaluation these say themselves that they are another: Renga follows them.
_FOLLOWED = ("dropout", "norm", "attention")
_COUNTER = "num_batches_tracked"
_QUERIES = {"__get__", "size", "dim", "numel", "stride", "__len__", "is_floating_point", "item",
            "is_contiguous", "type", "element_size", "data_ptr", "get_device"}


class Trial:
    """What a forward does that a file does not say."""

    def __init__(self) -> None:
        self.stops = False            # gradients end: under no_grad, in .data, in numbers of Python
        self.masks = False            # attention under a mask of booleans, of each sample
        self.rewrites = False         # what the exporter has no operator for (_rewrite.py)
        self.functions: List[str] = []  # of torch.autograd, with a backward of their own
        self.hooks = False            # of a tensor, within forward
        self.detaches = False         # detach_()
        self.statistics: Set[int] = set()  # ids of what batch norms are given
        self.calls: List[Tuple[Any, ...]] = []  # functions of torch, with the numbers they are given

    def note(self, function: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        import torch
        name = getattr(function, "__name__", "")
        if name == "batch_norm":
            self.statistics.update(id(a) for a in [*args, *kwargs.values()])
        if function is torch.Tensor.detach_:
            self.detaches = True
        if name in _QUERIES or any(id(a) in self.statistics for a in args[:1]):
            return
        numbers = [a for a in [*args, *kwargs.values()] if isinstance(a, (bool, int, float))]
        self.calls.append((name, *([] if any(f in name for f in _FOLLOWED) else numbers)))


def _reads_gradient(values: Any) -> bool:
    import torch
    if isinstance(values, torch.Tensor):
        return values.requires_grad
    if isinstance(values, Mapping):
        values = values.values()
    elif not isinstance(values, (list, tuple)):
        return False
    return any(_reads_gradient(v) for v in values)


def _is_own_mask(mask: Any) -> bool:
    """Of each sample, so that a row may be masked whole."""
    import torch
    return isinstance(mask, torch.Tensor) and mask.dtype == torch.bool and mask.dim() > 2


def _attention_mask(args: Any, kwargs: Any) -> Any:
    return kwargs.get("attn_mask", args[3] if len(args) > 3 else None)


def watching(trial: Trial, acts: bool) -> Any:
    """A mode of torch. acts: what is not in the file is done by operators that are: results under
    no_grad, .data and what becomes a number of Python are detached, and rows of attention that are
    masked whole are zeros, as in torch."""
    import torch
    numbers = [torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.__float__]
    data = torch.Tensor.data.__get__  # type: ignore[attr-defined]

    class Watching(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (),
                               kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            trial.note(function, args, kwargs)
            if (function in numbers or function == data) and _reads_gradient(args[0]):
                trial.stops = True
                if acts:
                    args = (args[0].detach(), *args[1:])
                    if function == data:
                        return args[0]
            read = not torch.is_grad_enabled() and _reads_gradient([args, kwargs])
            result = _rewrite.rewrite(function, args, kwargs)
            if result is None:
                result = function(*args, **kwargs)
            else:
                trial.rewrites = True
            if function is torch.nn.functional.scaled_dot_product_attention and \
                    _is_own_mask(_attention_mask(args, kwargs)):
                trial.masks = True
                if acts:
                    seen = _attention_mask(args, kwargs).to(result.dtype)
                    result = result * seen.amax(-1, keepdim=True)
            if not read or not isinstance(result, torch.Tensor) or not result.is_floating_point() \
                    or any(result is a for a in args):
                return result
            trial.stops = True
            return result.detach() if acts else result

    return Watching()


@contextlib.contextmanager
def noting(trial: Trial) -> Iterator[None]:
    """Notes functions of torch.autograd and hooks of tensors."""
    import torch
    apply, hook = torch.autograd.Function.__dict__["apply"], torch.Tensor.register_hook

    def noted(kind: Any, *args: Any, **kwargs: Any) -> Any:
        if not kind.__module__.startswith("torch."):
            trial.functions.append(kind.__name__)
        return apply.__get__(None, kind)(*args, **kwargs)

    def hooked(tensor: Any, function: Any) -> Any:
        trial.hooks = True
        return hook(tensor, function)
    torch.autograd.Function.apply = classmethod(noted)  # type: ignore
    torch.Tensor.register_hook = hooked  # type: ignore
    try:
        yield
    finally:
        torch.autograd.Function.apply = apply  # type: ignore
        torch.Tensor.register_hook = hook  # type: ignore


def _check_gradients(trial: Trial) -> None:
    if trial.functions:
        raise Error(f"forward uses the autograd.Function {trial.functions[0]}, whose backward is "
                    "not in an exported file: write it by operators, with detach() where a gradient "
                    "is not that of the value (a rounding: x + (x.round() - x).detach(); a gradient "
                    "times -a: (1 + a) * x.detach() - a * x)", "SUPPORT")
    if trial.hooks:
        raise Error("forward gives a tensor a hook (register_hook), and Renga calls no hooks of "
                    "gradients: write it by operators with detach()", "SUPPORT")
    if trial.detaches:
        raise Error("forward calls detach_(), which is not in an exported file: write "
                    "x = x.detach()", "SUPPORT")


# ---- numbers that a file has as constants ----
def _python_generators() -> Tuple[Any, ...]:
    """States of the random numbers that are not torch's."""
    numpy = sys.modules["numpy"]
    kind, keys, *rest = numpy.random.get_state()
    return random.getstate(), (kind, keys.tobytes(), *rest)


def _check_again(run: Callable[[], Any], first: float, state: Any, drawn: bool,
                 changed: Optional[str]) -> None:
    """A second forward on the same batch gives the same loss, unless something is remembered in
    between; state: of torch's random numbers, before the first."""
    import torch
    after = torch.random.get_rng_state()
    torch.random.set_rng_state(state)
    try:
        second = run()[0].item()
    finally:
        torch.random.set_rng_state(after)
    same = first == second or first != first or math.isclose(first, second, rel_tol=1e-5)
    cause = "forward draws random numbers of Python or NumPy" if drawn else \
        f"forward changes a number of Python, and the loss with it: {changed}" if changed else \
        f"forward remembers something: with the same batch the loss is {first:.7g}, then " \
        f"{second:.7g}"
    if not same:
        advice = "draw them by torch" if drawn else _HAND_OVER
        raise Error(f"{cause}; in an exported network it is a constant: {advice}", "SUPPORT")
    if drawn or changed:
        warnings.warn(f"{cause if drawn else 'forward changes a number of Python: ' + str(changed)}"
                      "; it is a constant of the network that Renga trains", Warning, stacklevel=2)


# ---- buffers and evaluation ----
class _Buffers:
    """A module's buffers before a forward."""

    def __init__(self, module: Any):
        self.module = module
        self.kept = {n: (b, b._version, b.detach().clone()) for n, b in module.named_buffers()}

    def changed(self) -> List[str]:
        import torch
        now = dict(self.module.named_buffers())
        return [n for n, (b, version, value) in self.kept.items() if n in now and
                (now[n] is not b or b._version != version) and not torch.equal(now[n], value)]

    def restore(self) -> None:
        import torch
        with torch.no_grad():
            for name, buffer in self.module.named_buffers():
                if name in self.kept:
                    buffer.copy_(self.kept[name][2])


def _tell_of_buffers(changed: List[str], trial: Trial, module: Any) -> None:
    buffers = dict(module.named_buffers())
    others = [n for n in changed if id(buffers.get(n)) not in trial.statistics]
    if others:
        warnings.warn(f"forward changes the buffer {others[0]}, which is no running statistic of a "
                      "BatchNormalization: while Renga trains it keeps its first value, in "
                      "evaluate() and state_dict(), too", Warning, stacklevel=2)


def _reads_training(module: Any) -> bool:
    """Does a method of a part that is not torch's own ask whether it is trained?"""
    kinds = {kind for part in module.modules() for kind in type(part).__mro__
             if not kind.__module__.startswith("torch.")}
    return any("training" in _watch.names_of(method) for kind in kinds
               for method in vars(kind).values() if hasattr(method, "__code__"))


def _tell_of_evaluation(module: Any, wrapped: Any, tensors: List[Any], trial: Trial) -> None:
    """A forward that asks for self.training may be another in evaluation."""
    import torch
    other, modes = Trial(), [(m, m.training) for m in module.modules()]
    state, versions = torch.random.get_rng_state(), [p._version for p in module.parameters()]
    try:
        module.eval()
        with torch.enable_grad(), watching(other, False):
            wrapped.forward(*tensors)
    finally:
        torch.random.set_rng_state(state)
        for part, mode in modes:
            part.training = mode
    if versions != [p._version for p in module.parameters()]:
        wrapped.forward(*tensors)  # evaluation has scaled parameters, and training scales them back
        torch.random.set_rng_state(state)
    there, here = _counts(other.calls), _counts(trial.calls)
    call = next((c for c in {**here, **there} if here.get(c) != there.get(c)), None)
    if call:
        warnings.warn(f"forward is another in evaluation: it calls {call[0]}"
                      f"{call[1:] if call[1:] else ''} {there.get(call, 0)} times, and in training "
                      f"{here.get(call, 0)} times. Renga has the forward of training, in evaluate() "
                      "and predict(), too: evaluate with torch after update()", Warning,
                      stacklevel=2)


def _counts(calls: List[Tuple[Any, ...]]) -> Dict[Tuple[Any, ...], int]:
    found: Dict[Tuple[Any, ...], int] = {}
    for call in calls:
        found[call] = found.get(call, 0) + 1
    return found


def run_trial(module: Any, wrapped: Any, loss: Any, tensors: List[Any], trial: Trial) -> int:
    """Run the example, but for its traces in the buffers, and look at what a file will not say; the
    number of results."""
    import torch
    buffers, noted = _Buffers(module), [trial, Trial()]
    changed: List[str] = []
    trial.statistics = {id(b) for n, b in module.named_buffers() if n.endswith(_COUNTER)}

    def run() -> Any:
        with torch.enable_grad(), noting(noted[0]), watching(noted[0], False):
            result = wrapped.forward(*tensors)
        changed[:] = changed or buffers.changed()
        buffers.restore()
        noted[0] = noted[1]  # of the first run alone
        return result if isinstance(result, tuple) else (result,)
    before, generators = _watch.plain_values(module, loss), _python_generators()
    state = torch.random.get_rng_state()
    results = run()
    _check_gradients(trial)
    value = _watch.changed_value(before, _watch.plain_values(module, loss))
    _check_again(run, results[0].item(), state, generators != _python_generators(), value)
    _tell_of_buffers(changed, trial, module)
    if _reads_training(module):
        _tell_of_evaluation(module, wrapped, tensors, trial)
        buffers.restore()
    return len(results)
