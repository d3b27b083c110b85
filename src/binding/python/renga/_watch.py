"""What a program of torch may do to a module beside training it: hooks, numbers of Python, parts
that are frozen or set between steps. Each is taken, or refused by name."""
from __future__ import annotations

import contextlib
import dis
import functools
import types
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ._library import Error

_AGAIN = "make another renga.Module"
# Of a module: gradients go through these. Names of torch.nn.Module and of what adds them.
_MODULE_HOOKS = {"_backward_hooks": "register_full_backward_hook",
                 "_backward_pre_hooks": "register_full_backward_pre_hook"}
_TENSOR_HOOKS = {"_backward_hooks": "register_hook",
                 "_post_accumulate_grad_hooks": "register_post_accumulate_grad_hook"}
_GLOBAL_HOOKS = {"_global_backward_hooks": "register_module_full_backward_hook",
                 "_global_backward_pre_hooks": "register_module_full_backward_pre_hook"}
_FORWARD_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
# What torch keeps in a module for itself.
_OF_TORCH = {"training", "call_super_init", "dump_patches", "_is_full_backward_hook"}
_PLAIN = (bool, int, float, complex, str, type(None))


def unwrap(module: Any) -> Any:
    """The module itself of one that torch.compile or DistributedDataParallel has wrapped."""
    while True:
        name = f"{type(module).__module__}.{type(module).__name__}"
        if name.startswith("torch._dynamo.") and hasattr(module, "_orig_mod"):
            module = module._orig_mod
        elif name.startswith("torch.nn.parallel.") and hasattr(module, "module"):
            module = module.module
        elif type(module).__name__ == "FullyShardedDataParallel":
            raise Error("a module of FullyShardedDataParallel has parts of its parameters only: "
                        "give renga.Module the module that it was made of", "SUPPORT")
        else:
            return module


# ---- hooks ----
def check_hooks(module: Any) -> None:
    """Hooks that change gradients: Renga computes these itself and calls nobody."""
    import torch
    places = [(torch.nn.modules.module, "all modules have", _GLOBAL_HOOKS)]
    places += [(m, f"module \"{n}\" ({type(m).__name__}) has", _MODULE_HOOKS)
               for n, m in module.named_modules()]
    places += [(p, f"parameter {n} has", _TENSOR_HOOKS) for n, p in module.named_parameters()]
    for place, words, hooks in places:
        for member, adder in hooks.items():
            if getattr(place, member, None):
                raise Error(f"{words} a hook of {adder}, and Renga calls no hooks of gradients: "
                            "remove it (clip gradients by optimizer_clip_norm=)", "SUPPORT")


def has_forward_hooks(module: Any) -> bool:
    return any(getattr(module, member, None) for member in _FORWARD_HOOKS)


# ---- numbers of Python, which are constants of the exported network ----
def _is_plain(value: Any, depth: int = 0) -> bool:
    if isinstance(value, (tuple, list)) and depth < 2 and len(value) <= 16:
        return all(_is_plain(v, depth + 1) for v in value)
    return isinstance(value, _PLAIN)


def _functions(thing: Any) -> List[Any]:
    """Functions of Python in what is called: a function, a method, a part, an object's forward."""
    thing = getattr(thing, "func", thing)  # of functools.partial
    thing = getattr(thing, "__func__", thing)
    found = [thing] if hasattr(thing, "__code__") else []
    for member in ("forward", "__call__"):
        function = getattr(type(thing), member, None)
        if not found and hasattr(function, "__code__"):
            found.append(function)
    return found


@functools.lru_cache(maxsize=None)
def _names_of(code: Any) -> Tuple[frozenset, frozenset]:
    """Names outside of a function that it reads, and all names and keys in it."""
    outer = {i.argval for i in dis.get_instructions(code)
             if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    names = set(code.co_names) | {k for k in code.co_consts if isinstance(k, str)}
    for inner in code.co_consts:
        if hasattr(inner, "co_names"):
            found = _names_of(inner)
            outer, names = outer | found[0], names | found[1]
    return frozenset(outer), frozenset(names)


def names_of(function: Any) -> frozenset:
    """Names and keys in a function of Python."""
    return _names_of(function.__code__)[1]


def _members(value: Any, words: str, names: frozenset) -> Dict[str, Any]:
    """The value, or what is in it under these names: of a dict, of an object."""
    if isinstance(value, dict):
        return {f"{key} of {words}": value[key] for key in names if key in value}
    if _is_plain(value):
        return {words: value}
    if isinstance(value, (type, types.ModuleType)) or not hasattr(value, "__dict__"):
        return {}
    return {f"{key} of {words}": vars(value)[key] for key in names if key in vars(value)}


def _of_function(function: Any, words: str) -> Dict[str, Any]:
    """Numbers that a function reads from outside."""
    code, found = function.__code__, {}
    outer, names = _names_of(code)
    for name in outer & set(function.__globals__):
        found.update(_members(function.__globals__[name], f"{name}, which {words} uses,", names))
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        with contextlib.suppress(ValueError):  # an empty cell
            found.update(_members(cell.cell_contents, f"{name}, which {words} uses,", names))
    return found


def _of_loss(loss: Any) -> Dict[str, Any]:
    found: Dict[str, Any] = {}
    for function in _functions(loss):
        if not (function.__module__ or "").startswith("torch."):
            found.update(_of_function(function, "the loss"))
    owner = getattr(loss, "__self__", loss)  # of a method
    if not hasattr(loss, "__code__"):
        found.update((f"{key} of the loss", value)
                     for key, value in {**getattr(owner, "__dict__", {}),
                                        **(getattr(loss, "keywords", None) or {})}.items()
                     if key not in _OF_TORCH)
    return found


def plain_values(module: Any, loss: Any) -> Dict[str, Any]:
    """Numbers and words that a forward, or the loss, may read, by the words for them."""
    found: Dict[str, Any] = {}
    seen = set()
    for name, part in module.named_modules():
        words = f"module \"{name}\"" if name else "the module"
        found.update((f"{key} of {words}", value) for key, value in vars(part).items()
                     if key not in _OF_TORCH)
        if type(part) not in seen and not type(part).__module__.startswith("torch."):
            seen.add(type(part))
            for function in _functions(part):
                found.update(_of_function(function, f"forward of {type(part).__name__}"))
    if loss is not None:
        found.update(_of_loss(loss))
    return {words: (list(v) if isinstance(v, list) else v) for words, v in found.items()
            if _is_plain(v)}


def changed_value(before: Mapping[str, Any], after: Mapping[str, Any]) -> Optional[str]:
    for words in before:
        old, new = before[words], after.get(words)
        if old != new and not (old != old and new != new):
            return f"{words} was {old!r} and is {new!r}"
    return None


# ---- between steps ----
def _place(tensor: Any) -> Tuple[int, int]:
    return (tensor.data_ptr() if tensor.device.type != "meta" else 0), tensor._version


class Watch:
    """A module as it was when its network was made, and as its values were last the network's."""

    def __init__(self, module: Any, loss: Any):
        self.module, self.loss = module, loss
        self.tensors = self._tensors()
        modes = {n: m.training for n, m in module.named_modules()}
        # As it was, and as it was exported.
        self.modes = (modes, modes if modes[""] else {n: True for n in modes})
        self.requires = {n: p.requires_grad for n, p in module.named_parameters()}
        self.plain = plain_values(module, loss)
        self.hooks = self._forward_hooks()
        self.gradients = self._gradients()
        self.places: Dict[str, Tuple[int, int]] = {}
        self.remember_values()

    def _tensors(self) -> Dict[str, Any]:
        found = dict(self.module.named_parameters(remove_duplicate=False))
        found.update(self.module.named_buffers(remove_duplicate=False))
        return found

    def _forward_hooks(self) -> Dict[str, Tuple[Any, ...]]:
        return {n: tuple(h for member in _FORWARD_HOOKS for h in getattr(m, member).values())
                for n, m in self.module.named_modules()}

    def _gradients(self) -> Dict[str, Any]:
        return {n: (id(p.grad), p.grad._version) for n, p in self.module.named_parameters()
                if p.grad is not None}

    def remember_values(self) -> None:
        """The module has the values of the network."""
        self.places = {n: _place(t) for n, t in self.tensors.items()}

    def changed_values(self) -> List[str]:
        """Names of the tensors that were written to since."""
        return [n for n, t in self.tensors.items() if _place(t) != self.places[n]]

    def check(self) -> None:
        """Of the module all but values is as it was."""
        check_hooks(self.module)
        now = self._tensors()
        for name in {**self.tensors, **now}:
            if self.tensors.get(name) is not now.get(name):
                raise Error(f"{name} of the module is another tensor than when the renga.Module "
                            f"was made: {_AGAIN}", "SUPPORT")
        for name, parameter in self.module.named_parameters():
            if parameter.requires_grad != self.requires[name]:
                raise Error(f"requires_grad of {name} was {self.requires[name]} when the "
                            f"renga.Module was made, and is {parameter.requires_grad}: {_AGAIN}",
                            "SUPPORT")
        self._check_forms()
        for name, gradient in self._gradients().items():
            if self.gradients.get(name) != gradient:
                raise Error(f"{name} of the module has got a gradient of torch, which is not in "
                            "the step of Renga: put all parts of the loss into loss=, and set "
                            ".grad to None", "SUPPORT")

    def _check_forms(self) -> None:
        for name, hooks in self._forward_hooks().items():
            if hooks != self.hooks.get(name):
                raise Error(f"module \"{name}\" has other forward hooks than when the renga.Module "
                            f"was made: {_AGAIN}", "SUPPORT")
        modes = {n: m.training for n, m in self.module.named_modules()}
        if modes not in self.modes:
            name = next((n for n in modes if modes[n] != self.modes[1].get(n)), "")
            form = "training" if modes[name] else "evaluation"
            raise Error(f"module \"{name}\" is in {form} since the renga.Module was made, which "
                        f"trains it in the form of then: put it back, or {_AGAIN}", "SUPPORT")
        changed = changed_value(self.plain, plain_values(self.module, self.loss))
        if changed:
            raise Error(f"{changed}; in the exported network it is a constant: hand it over with "
                        f"each batch, as a tensor with an element for each sample, or {_AGAIN}",
                        "SUPPORT")
