"""Optimizers of torch.optim: their settings as options of Renga, their learning rates as schedulers of
torch change them, and their moments."""
from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

import numpy as np

from ._library import Error, library

# Settings of a group that have no influence on the numbers, and those that Renga reads per group.
_OF_TORCH = {"params", "foreach", "fused", "capturable", "initial_lr", "param_names"}
_OF_A_GROUP = {"lr", "weight_decay"}
_MOMENTS = {"sgd": {"momentum": "momentum_buffer"},
            "adam": {"first_moment": "exp_avg", "second_moment": "exp_avg_sq"}}
_MOMENTS["adamw"] = _MOMENTS["adam"]
# What is near to others of torch.optim.
_NEAR = {
    "Adadelta": "; near is Adam, whose steps do not depend on the size of gradients either",
    "Adafactor": "; near is AdamW; layout_zero=1 shares its moments among replicas",
    "Adagrad": "; near is Adam with betas=(0, 0.999), whose sum of squares forgets",
    "Adamax": "; near is Adam, which has a mean of squares where Adamax has a maximum",
    "ASGD": "; near is SGD",
    "LBFGS": ", and no line search; near is Adam with a schedule",
    "Muon": "; near is AdamW, with another learning rate",
    "NAdam": "; near is Adam, without Nesterov's momentum",
    "RAdam": "; near is Adam with optimizer_warmup_steps, which does what the rectification does",
    "RMSprop": "; near is Adam with betas=(0, alpha)",
    "Rprop": "; near is Adam with betas=(0, 0), whose steps have the sign of the gradient",
    "SparseAdam": "; near is Adam",
}
# Words of Renga for what an optimizer of torch says already.
_SAID = ("lr", "momentum", "nesterov", "betas", "eps", "weight_decay", "optimizer_type",
         "optimizer_learning_rate", "optimizer_momentum", "optimizer_nesterov", "optimizer_beta1",
         "optimizer_beta2", "optimizer_epsilon", "optimizer_weight_decay", "optimizer_groups",
         "optimizer_schedule", "optimizer_warmup_steps")


def is_torch_optimizer(value: Any) -> bool:
    return any(kind.__module__ == "torch.optim.optimizer" and kind.__name__ == "Optimizer"
               for kind in type(value).__mro__)


def _plain(value: Any) -> Any:
    """A number of Python where torch has a tensor of one number."""
    if isinstance(value, (list, tuple)):
        return tuple(_plain(v) for v in value)
    return value.item() if hasattr(value, "item") else value


class TorchOptimizer:
    """What Renga takes from an optimizer of torch.optim, which is itself never stepped."""

    def __init__(self, optimizer: Any, module: Any, given: Mapping[str, Any]):
        self.optimizer, self.module = optimizer, module
        self.kind = self._find_kind()
        said = [name for name in _SAID if given.get(name) is not None]
        if said:
            raise Error(f"{', '.join(said)} beside an optimizer of torch, which says it: leave one "
                        "of them out", "ARGUMENT")
        self._check_parameters()
        self._first = self._settings()
        rates = self._first_rates()
        self.base = max(range(len(rates)), key=lambda g: (rates[g] > 0, -g))
        self.scales = [r / rates[self.base] if rates[self.base] else 1.0 for r in rates]
        self._check_settings()
        self.rate = self.learning_rate()

    def _find_kind(self) -> str:
        kind = type(self.optimizer)
        if not kind.__module__.startswith("torch.optim.") or kind.__name__.lower() not in _MOMENTS:
            raise Error(f"an optimizer {kind.__name__}: Renga has SGD, Adam and AdamW of torch.optim"
                        f"{_NEAR.get(kind.__name__, '')}", "SUPPORT")
        if any(group.get("decoupled_weight_decay") for group in self.optimizer.param_groups):
            return "adamw"
        return kind.__name__.lower()

    def _check_parameters(self) -> None:
        own = {id(p) for p in self.module.parameters()}
        others = [list(p.shape) for group in self.optimizer.param_groups for p in group["params"]
                  if id(p) not in own]
        if others:
            raise Error(f"the optimizer has {len(others)} parameters that are not the module's, the "
                        f"first of shape {others[0]}: make it of module.parameters()", "ARGUMENT")

    def _settings(self) -> List[Dict[str, Any]]:
        """Of each group, but for its parameters."""
        return [{key: _plain(value) for key, value in group.items() if key not in _OF_TORCH}
                for group in self.optimizer.param_groups]

    def _first_rates(self) -> List[float]:
        """The learning rates that a scheduler of torch began with, where there is one."""
        return [float(_plain(group.get("initial_lr", group["lr"])))
                for group in self.optimizer.param_groups]

    def _check_settings(self) -> None:
        for number, group in enumerate(self._first):
            for key in ("amsgrad", "maximize", "differentiable"):
                if group.get(key):
                    raise Error(f"{key}=True of the optimizer's group {number} is not supported",
                                "SUPPORT")
            if group.get("dampening") and group.get("momentum"):
                raise Error(f"dampening={group['dampening']} of the optimizer's group {number} is "
                            "not supported: Renga's momentum has none", "SUPPORT")
            for key, value in group.items():
                if key not in _OF_A_GROUP and value != self._first[0].get(key):
                    raise Error(f"{key} is {value} in the optimizer's group {number} and "
                                f"{self._first[0].get(key)} in group 0: groups of Renga may differ "
                                "in lr and weight_decay only", "SUPPORT")

    def learning_rate(self) -> float:
        """That of the next step, of the group that the others' scales refer to."""
        now = self._settings()
        if len(now) != len(self._first):
            raise Error(f"the optimizer had {len(self._first)} groups of parameters when the "
                        f"renga.Module was made, and has {len(now)}: make another renga.Module",
                        "SUPPORT")
        rate = float(now[self.base]["lr"])
        for number, (group, first) in enumerate(zip(now, self._first)):
            for key, value in group.items():
                if key != "lr" and value != first[key]:
                    raise Error(f"{key} of the optimizer's group {number} was {first[key]} when the "
                                f"renga.Module was made, and is {value}: between steps the learning "
                                "rate alone may change (OneCycleLR: cycle_momentum=False)", "SUPPORT")
            wanted = rate * self.scales[number]
            if abs(group["lr"] - wanted) > 1e-6 * max(abs(wanted), abs(group["lr"])):
                raise Error(f"the learning rate of the optimizer's group {number} was "
                            f"{self.scales[number]:g} times that of group {self.base}, and now they "
                            f"are {group['lr']:g} and {rate:g}: a scheduler has to scale all groups "
                            "alike", "SUPPORT")
        return rate

    def follow(self, handle: Any) -> None:
        """Hand the learning rate to Renga's optimizer, where a scheduler has changed it."""
        rate = self.learning_rate()
        if rate != self.rate:
            library.RengaOptimizerSetLearningRate(handle, rate)
            self.rate = rate
        self.optimizer._opt_called = True  # else schedulers of torch warn that no step was done

    def options(self, names: Mapping[int, str]) -> Dict[str, Any]:
        """As Renga calls them. names: of tensors in the network, by id."""
        base = self._first[self.base]
        found = {"optimizer": self.kind, "lr": self.rate, "weight_decay": base["weight_decay"],
                 "optimizer_schedule": "constant", "optimizer_warmup_steps": 0}
        found.update((key, base[key]) for key in ("betas", "eps", "nesterov", "momentum")
                     if key in base)
        groups = self._group_text(names)
        return {**found, "optimizer_groups": groups} if groups else found

    def _group_text(self, names: Mapping[int, str]) -> str:
        """Renga's groups: what each parameter has other than the base group."""
        trained = [p for p in self.module.parameters() if p.requires_grad and id(p) in names]
        said = {names[id(p)]: "frozen=yes" for p in trained}
        for number, group in enumerate(self.optimizer.param_groups):
            words = []
            if self.scales[number] != 1:
                words.append(f"learning_rate_scale={self.scales[number]!r}")
            if self._first[number]["weight_decay"] != self._first[self.base]["weight_decay"]:
                words.append(f"weight_decay={self._first[number]['weight_decay']!r}")
            said.update((names[id(p)], ",".join(words)) for p in group["params"]
                        if p.requires_grad and id(p) in names)
        return ";".join(f"{pattern}:{words}" for pattern, words in _patterns(said) if words)

    def trained(self) -> List[Any]:
        """Parameters that torch would update."""
        return [p for group in self.optimizer.param_groups for p in group["params"]
                if p.requires_grad]

    def state(self, names: Mapping[int, str]) -> Dict[str, Any]:
        """Moments of earlier steps, by Renga's names; empty where there are none."""
        there = [(names[id(p)], self.optimizer.state[p]) for p in self.trained()
                 if id(p) in names and self.optimizer.state.get(p)]
        found = {f"{name}:{ours}": state[theirs] for name, state in there
                 for ours, theirs in _MOMENTS[self.kind].items() if state.get(theirs) is not None}
        if not found:
            return {}
        steps = {int(_plain(state.get("step", 1))) for _, state in there}
        if len(steps) > 1:
            raise Error("parameters of the optimizer have done different numbers of steps, "
                        f"{min(steps)} to {max(steps)}", "SUPPORT")
        return {**found, "step": steps.pop()}

    def places(self, names: Mapping[int, str]) -> Dict[str, Tuple[Any, str]]:
        """Of each moment of Renga's, by its name: torch's parameter, and what torch calls it."""
        return {f"{names[id(parameter)]}:{ours}": (parameter, theirs)
                for parameter in self.trained() if id(parameter) in names
                for ours, theirs in _MOMENTS[self.kind].items()}

    def take_moment(self, parameter: Any, theirs: str, values: np.ndarray, step: int) -> None:
        """Give torch's optimizer a moment of Renga's, which is its own from then on."""
        import torch
        state = self.optimizer.state[parameter]
        state[theirs] = torch.from_numpy(values)
        if self.kind != "sgd":
            state["step"] = torch.tensor(float(step))


def _patterns(said: Mapping[str, str]) -> List[Tuple[str, str]]:
    """Patterns of the shell for names and what is said of them; endings like "*.bias" where all names
    that end so have the same."""
    found: Dict[str, str] = {}
    for name, words in said.items():
        if ";" in name:
            raise Error(f"a parameter is called {name}: Renga's groups take no semicolon", "SUPPORT")
        ending = "." + name.rsplit(".", 1)[-1]
        alike = {w for other, w in said.items() if other.endswith(ending)}
        pattern = "*" + escape(ending) if len(alike) == 1 and name.endswith(ending) else escape(name)
        found[pattern] = words
    return list(found.items())


def escape(name: str) -> str:
    return re.sub(r"([*?\[\]\\])", r"\\\1", name)


def find(given: Dict[str, Any], module: Any) -> Optional[TorchOptimizer]:
    """The optimizer of torch among the options, which is taken out of them."""
    if not is_torch_optimizer(given.get("optimizer")):
        return None
    return TorchOptimizer(given.pop("optimizer"), module, given)
