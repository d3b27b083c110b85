"""Modules of torch on the device "meta": tensors with a shape and no numbers. While such a module is
exported, one number stands for all of each, and the file names a place of data that takes no room."""
from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, List, Tuple

from ._library import Error

# Bytes of numbers in a file of ONNX; more are put beside it, as the format has 2 GiB at most.
MOST_WITHIN = 1 << 28


def has_hollow(module: Any) -> bool:
    """Whether parameters or buffers have no numbers."""
    return any(t.device.type == "meta" for t in [*module.parameters(), *module.buffers()])


def _check_buffers(module: Any) -> None:
    """Those that no state dict has would be constants of the network."""
    kept = set(module.state_dict())
    lost = [n for n, b in module.named_buffers() if b.device.type == "meta" and n not in kept]
    if lost:
        raise Error(f"{lost[0]} of the module is a buffer on \"meta\" that no state dict has, so "
                    "nothing says its numbers: make buffers on the host (accelerate's "
                    "init_empty_weights(include_buffers=False))", "SUPPORT")


@contextlib.contextmanager
def filled(module: Any) -> Iterator[List[str]]:
    """Within, tensors on "meta" are on the host, each with one number for all; their names."""
    import torch
    _check_buffers(module)
    made: Dict[int, Any] = {}
    before: List[Tuple[Dict[str, Any], str, Any]] = []
    names = [n for n, t in [*module.named_parameters(remove_duplicate=False),
                            *module.named_buffers(remove_duplicate=False)]
             if t.device.type == "meta"]
    try:
        for part in module.modules():
            for table in (part._parameters, part._buffers):
                for name, tensor in table.items():
                    if tensor is None or tensor.device.type != "meta":
                        continue
                    if id(tensor) not in made:
                        one = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
                        made[id(tensor)] = one if table is part._buffers else \
                            torch.nn.Parameter(one, requires_grad=tensor.requires_grad)
                    before.append((table, name, tensor))
                    table[name] = made[id(tensor)]
        yield names
    finally:
        for table, name, tensor in before:
            table[name] = tensor


def count_results(wrapped: Any, tensors: List[Any]) -> int:
    """How many results a forward gives, found without numbers."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        result = wrapped.forward(*[mode.from_tensor(t) for t in tensors])
    return len(result) if isinstance(result, tuple) else 1


def save(program: Any, file: str, hollow: List[str]) -> None:
    """Write the exported program; numbers of hollow tensors are zeros that take no room, beside the
    file, and many numbers are put there too."""
    values = program.model.graph.initializers
    size = sum(v.const_value.nbytes for v in values.values() if v.const_value is not None)
    if not hollow:
        program.save(file, external_data=size > MOST_WITHIN)
        return
    import onnx_ir
    beside, at = os.path.basename(file) + ".zeros", 0
    for name in hollow:
        if name not in values:
            continue
        value = values[name]
        length = value.const_value.nbytes
        value.const_value = onnx_ir.ExternalTensor(
            beside, at, length, value.const_value.dtype, shape=value.const_value.shape, name=name,
            base_dir=os.path.dirname(os.path.abspath(file)))
        at += length
    with open(os.path.join(os.path.dirname(os.path.abspath(file)), beside), "wb") as zeros:
        zeros.truncate(at)
    onnx_ir.save(program.model, file)
