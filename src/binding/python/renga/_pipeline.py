"""Training and running a network on all ranks."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from . import _library as c
from . import _prototypes
from ._batch import Fields
from ._graph import Graph, Tensor, tensor_of, view
from ._library import Error, library
from ._plan import Plan, solve
from ._runtime import Handle, options

ALL = _prototypes.CONSTANTS["RENGA_TO_ALL"]
# What torch calls settings of optimizers, and what Renga does.
_OPTIMIZER = {"optimizer": "optimizer_type", "lr": "optimizer_learning_rate",
              "momentum": "optimizer_momentum", "nesterov": "optimizer_nesterov",
              "eps": "optimizer_epsilon", "weight_decay": "optimizer_weight_decay",
              "betas": ""}


def option_names(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Options by Renga's names."""
    renamed = {}
    for name, value in given.items():
        if name == "betas" and value is not None:
            first, second = value
            renamed.update(optimizer_beta1=first, optimizer_beta2=second)
        elif value is not None:
            renamed[_OPTIMIZER.get(name, name)] = value
    return renamed


class Pipeline(Handle):
    """A network that runs on all ranks of its communicator; set up when it is made. Collective.

    plan: who computes what; None: found now, from the options (``batch_size=``,
    ``partition_stages=`` ...). seed: of first values and of dropout. given: options by Renga's
    names without the dash, or torch's for the optimizer: optimizer="sgd"|"adam"|"adamw", lr,
    momentum, nesterov, betas, eps, weight_decay; defaults as in torch.

    A batch is a mapping from the names of the network's inputs to arrays, or a sequence of arrays
    in their order. An array has the whole batch, the same on each rank; a rank that does not need
    an input may leave it out or give a function ``f(first, count)``, which returns the rows that
    are needed here. Batches may have any number of samples.
    """

    _destroy = "RengaPipelineDestroy"

    def __init__(self, graph: Graph, plan: Optional[Plan] = None, *, seed: Optional[int] = None,
                 **given: Any):
        self.graph, self.comm = graph, graph.comm
        super().__init__(c.get(library.RengaPipelineCreate, self.comm))
        self._fields = Fields(graph.inputs)
        self._moments: List[str] = []
        self._sizes: set = set()
        made = None
        try:
            with self.comm.together(), options(**option_names(given)):
                if seed is not None:
                    library.RengaPipelineSetSeed(self, seed)
                library.RengaPipelineSetFromOptions(self)
                if plan is None:
                    settings = ctypes.c_void_p(c.get(library.RengaPipelineGetSettings, self))
                    plan = made = solve(graph, settings)
                self.plan_table = plan.table
                self.plan_text = plan.text()
                self._sizes.add(plan.batch_size)
                library.RengaPipelineSetPlan(self, graph, plan)
                library.RengaPipelineSetUp(self)
            self._moments = self._find_moments()
        except BaseException:
            self.close()
            raise
        finally:
            if made is not None:
                made.close()

    @property
    def optimizer(self) -> ctypes.c_void_p:
        """The library's optimizer, lent."""
        return ctypes.c_void_p(c.get(library.RengaPipelineGetOptimizer, self))

    def _find_moments(self) -> List[str]:
        optimizer = self.optimizer
        count, names = ctypes.c_int(), ctypes.c_void_p()
        library.RengaOptimizerGetMoments(optimizer, ctypes.byref(count), ctypes.byref(names))
        array = ctypes.cast(names, ctypes.POINTER(ctypes.c_char_p))
        return [(array[i] or b"").decode() for i in range(count.value)]

    # One call on a batch.

    def _prepare(self, batch: Any, samples: Optional[int], choice: int = 0,
                 before: Optional[Callable[[], None]] = None) -> int:
        error: Optional[Error] = None
        count = 0
        try:
            if before is not None:
                before()
            count = self._fields.take(batch, samples)
        except Error as refused:
            error = refused
        most, least, first, last = self.comm.agree(error, count, -count, choice, -choice)
        if most != -least or first != -last:
            raise Error(f"ranks call with different arguments: batches of {-least} to {most} "
                        "samples" if most != -least else "ranks ask for different outputs",
                        "ARGUMENT")
        if count not in self._sizes:
            self._resize(count)
        return count

    def _run(self, function: Any, samples: int, *rest: Any) -> None:
        batch = c.Batch(samples, ctypes.cast(self._fields.reader, ctypes.c_void_p), None)
        try:
            with self.comm.together(always=False):
                function(self, ctypes.byref(batch), *rest)
        except Error as error:
            cause = self._fields.cause
            raise error from cause or error.__cause__
        finally:
            self._fields.forget()

    def step(self, batch: Any, *, samples: Optional[int] = None,
             before: Optional[Callable[[], None]] = None) -> float:
        """Train with one batch; the loss before the update, the same bits on every rank. Collective.

        samples: of the batch, where this rank has no array that says it. before: called first; a
        renga.Error that it raises on one rank is raised on all.
        """
        loss = ctypes.c_double()
        count = self._prepare(batch, samples, before=before)
        self._run(library.RengaPipelineStep, count, ctypes.byref(loss))
        return loss.value

    def evaluate(self, batch: Any, *, samples: Optional[int] = None) -> float:
        """The loss of a batch; nothing changes. Collective."""
        loss = ctypes.c_double()
        self._run(library.RengaPipelineEvaluate, self._prepare(batch, samples), ctypes.byref(loss))
        return loss.value

    def forward(self, batch: Any, output: Optional[str] = None, *, to: Optional[int] = None,
                samples: Optional[int] = None) -> Optional[np.ndarray]:
        """An output of the network for all samples of a batch. Collective.

        output: its name; None: the one output besides the loss. to: the rank that gets it, others
        get None; None: all ranks. Inputs that it does not need are not looked at.
        """
        name, spec = self._find_output(output)
        root = ALL if to is None else to
        number = list(self.graph.outputs).index(name) * (self.comm.size + 2) + root
        count = self._prepare(batch, samples, number)
        shape = [-d * count if d < 0 else d for d in spec.shape]
        mine = root in (ALL, self.comm.rank)
        array = np.empty(shape, spec.dtype) if mine else None
        pointer = array.ctypes.data_as(ctypes.c_void_p) if array is not None else None
        self._run(library.RengaPipelineForwardTo, count, name.encode(), root, pointer)
        return array

    predict = forward

    def _find_output(self, output: Optional[str]) -> Any:
        there = {n: t for n, t in self.graph.outputs.items() if n != self.graph.loss}
        if output is None and len(there) == 1:
            output = next(iter(there))
        if output not in there:
            raise Error(f"the network has the outputs {', '.join(there) or 'none'}" +
                        (f", and not {output}" if output else ": name one"), "ARGUMENT")
        try:
            np.dtype(there[output].dtype)
        except TypeError:
            raise Error(f"output {output} is {there[output].dtype}, which NumPy does not have",
                        "SUPPORT") from None
        return output, there[output]

    # Parameters.

    @property
    def parameters(self) -> Dict[str, Tensor]:
        """All parameters and states of the network, by name."""
        count, rows = ctypes.c_int(), ctypes.c_void_p()
        library.RengaPipelineListParameters(self, ctypes.byref(count), ctypes.byref(rows))
        kind = c.structs["RengaPipelineParameter"]
        array = ctypes.cast(rows, ctypes.POINTER(kind))[:count.value]
        return {row.name.decode(): tensor_of(row.spec) for row in array}

    @property
    def _trained(self) -> List[str]:
        count, rows = ctypes.c_int(), ctypes.c_void_p()
        library.RengaPipelineListParameters(self, ctypes.byref(count), ctypes.byref(rows))
        kind = c.structs["RengaPipelineParameter"]
        array = ctypes.cast(rows, ctypes.POINTER(kind))[:count.value]
        return [row.name.decode() for row in array if not row.state and not row.frozen]

    def _tensors(self, optimizer: bool) -> Dict[str, Tensor]:
        tensors = self.parameters
        if optimizer:
            for name in self._trained:
                tensors.update({f"{name}:{m}": tensors[name] for m in self._moments})
        return tensors

    def _get(self, name: str, shape: Sequence[int], to: int) -> Optional[np.ndarray]:
        array = np.empty(shape, np.float32) if to in (ALL, self.comm.rank) else None
        pointer = array.ctypes.data_as(ctypes.c_void_p) if array is not None else None
        library.RengaPipelineGetParameter(self, name.encode(), to, pointer)
        return array

    def _set(self, name: str, array: Optional[np.ndarray], root: int) -> None:
        pointer = array.ctypes.data_as(ctypes.c_void_p) if array is not None else None
        library.RengaPipelineSetParameter(self, name.encode(), root, pointer)

    def state_dict(self, *, optimizer: bool = False,
                   to: Optional[int] = None) -> Dict[str, np.ndarray]:
        """Parameters and states, whole, as float32 arrays by name. Collective.

        optimizer: with the optimizer's moments ("NAME:first_moment") and "step". to: the rank that
        gets them, others get an empty dict; None: all ranks.
        """
        root = ALL if to is None else to
        state = {name: self._get(name, tensor.shape, root)
                 for name, tensor in self._tensors(optimizer).items()}
        if root not in (ALL, self.comm.rank):
            return {}
        if optimizer:
            state["step"] = np.array(self.step_number)
        return {name: array for name, array in state.items() if array is not None}

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True,
                        root: Optional[int] = None) -> None:
        """Take what ``state_dict`` gave, here or on another layout. Collective.

        strict: names that are missing or too many are an error; else they are left as they are.
        root: the rank whose dict counts; None: all have the same, which is checked.
        """
        has = root is None or root == self.comm.rank
        tensors = self._tensors(True)
        arrays: Dict[str, np.ndarray] = {}
        error: Optional[Error] = None
        try:
            if has:
                arrays = _check_state(state, tensors, set(self.parameters), strict)
        except Error as refused:
            error = refused
        step = int(np.asarray(state["step"])) if has and not error and "step" in state else -1
        step = self.comm.agree(error, step)[0]
        names = sorted(arrays) if has else []
        if root is not None:
            told = self.comm.broadcast("\0".join(names).encode() if has else None, root)
            names = told.decode().split("\0") if told else []
        else:
            number = int.from_bytes(str(names).encode(), "big") % (1 << 61)
            least, most = self.comm.agree(None, -number, number)
            if least != -most:
                raise Error("ranks bring different names to load_state_dict", "ARGUMENT")
        for name in names:
            self._set(name, arrays.get(name), ALL if root is None else root)
        if step >= 0:
            library.RengaPipelineSetStepNumber(self, step)

    def _resize(self, samples: int) -> None:
        """Set up again for batches of another size too. What lives across steps waits on all ranks,
        each tensor on one of them."""
        tensors = list(self._tensors(True).items())
        size = self.comm.size
        kept = [self._get(n, t.shape, i % size) for i, (n, t) in enumerate(tensors)]
        step = self.step_number
        library.RengaPipelineReset(self)
        library.RengaPipelineSetDataShortBatch(self, samples)
        library.RengaPipelineSetUp(self)
        for i, (name, _) in enumerate(tensors):
            self._set(name, kept[i], i % size)
        library.RengaPipelineSetStepNumber(self, step)
        self._sizes.add(samples)

    @property
    def step_number(self) -> int:
        """Steps done so far."""
        return library.RengaPipelineGetStepNumber(self)

    @property
    def last_step(self) -> Dict[str, Union[float, int, bool]]:
        """What came of the last step: loss, norm, learning_rate, seconds, finite ..."""
        info = c.StepInfo()
        library.RengaPipelineGetLastStep(self, ctypes.byref(info))
        return {name: getattr(info, name) for name, _ in info._fields_}

    @property
    def digest(self) -> int:
        """A number of all parameters, moments and states, which no layout changes. Collective."""
        return c.get(library.RengaPipelineGetDigest, self, kind=ctypes.c_uint64)

    def text(self) -> str:
        """What each rank does and holds. Collective."""
        return view(self.comm, lambda v: library.RengaPipelineView(self, v))

    def read_initial(self, path: Any, *, partial: bool = False) -> int:
        """Parameters and states of another run's checkpoint, or of the newest of a directory; the
        number of tensors taken. Collective."""
        initial = c.structs["RengaCheckpointInitial"]()
        with Checkpoint(self, None) as reader:
            library.RengaCheckpointReadInitial(reader, c.text(path), partial,
                                               ctypes.byref(initial))
        return initial.taken


def _check_state(state: Mapping[str, Any], tensors: Mapping[str, Tensor], needed: set,
                 strict: bool) -> Dict[str, np.ndarray]:
    missing = sorted(needed - set(state))
    others = sorted(set(state) - set(tensors) - {"step"})
    if strict and (missing or others):
        raise Error("the state does not fit the network" +
                    (f"; missing: {', '.join(missing)}" if missing else "") +
                    (f"; not in the network: {', '.join(others)}" if others else ""), "ARGUMENT")
    arrays = {}
    for name in set(state) & set(tensors):
        array = np.ascontiguousarray(as_array(state[name]), np.float32)
        if array.shape != tensors[name].shape:
            raise Error(f"{name} is {list(array.shape)}, the network has "
                        f"{list(tensors[name].shape)}", "SHAPE")
        arrays[name] = array
    return arrays


def as_array(value: Any) -> np.ndarray:
    """NumPy's view of an array or of a tensor of torch."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    return np.asarray(value)


class Checkpoint(Handle):
    """Checkpoints of a pipeline in a directory, which any layout can read. Collective.

    given: options, such as checkpoint_every=100 (or "30min") and checkpoint_keep=3.
    """

    _destroy = "RengaCheckpointDestroy"

    def __init__(self, pipeline: Pipeline, directory: Any, **given: Any):
        super().__init__(c.get(library.RengaCheckpointCreate, pipeline.comm))
        self._stop = False
        try:
            with options(**given):
                library.RengaCheckpointSetFromOptions(self)
            library.RengaCheckpointSetPipeline(self, pipeline)
            if directory is not None:
                library.RengaCheckpointSetDirectory(self, c.text(directory))
                library.RengaCheckpointSetUp(self)
        except BaseException:
            self.close()
            raise

    def write(self) -> str:
        """Write one now; its path. Collective."""
        path = ctypes.c_void_p(c.get(library.RengaCheckpointWrite, self))
        text = ctypes.cast(path, ctypes.c_char_p).value or b""
        library.RengaMemoryFree(ctypes.byref(path))
        return text.decode()

    def resume(self) -> Optional[int]:
        """Read the newest whole file; the number of steps done then, None where there is no file.
        Collective."""
        found, step = ctypes.c_bool(), ctypes.c_int64()
        library.RengaCheckpointResume(self, ctypes.byref(found), ctypes.byref(step))
        return step.value if found.value else None

    def read(self, file: Any) -> None:
        """Read a certain file. Collective."""
        library.RengaCheckpointRead(self, c.text(file))

    def step(self) -> bool:
        """After each step: writes where it is due (checkpoint_every); whether it did. Collective."""
        wrote, stop = ctypes.c_bool(), ctypes.c_bool()
        library.RengaCheckpointStep(self, ctypes.byref(wrote), ctypes.byref(stop))
        self._stop = stop.value
        return wrote.value

    @property
    def stop(self) -> bool:
        """Whether the last ``step`` said that the run is to leave now."""
        return self._stop
