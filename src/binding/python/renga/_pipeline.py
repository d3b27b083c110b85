"""Training and running a network on all ranks."""
from __future__ import annotations

import ctypes
import zlib
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _library as c
from . import _prototypes
from ._batch import Fields, as_array
from ._graph import OF_GRAPH, Graph, Tensor, tensor_of, view
from ._library import Error, library
from ._plan import Plan, solve
from ._runtime import Entry, Handle, option_texts, options_on
from ._safetensors import Writer, is_path

ALL = _prototypes.CONSTANTS["RENGA_TO_ALL"]
# What torch calls settings of optimizers, and what Renga does.
_OPTIMIZER = {"optimizer": "optimizer_type", "lr": "optimizer_learning_rate",
              "momentum": "optimizer_momentum", "nesterov": "optimizer_nesterov",
              "eps": "optimizer_epsilon", "weight_decay": "optimizer_weight_decay",
              "betas": ""}
# What is said of some options of renga train.
_CURES = {"initial": ": Pipeline.read_initial(PATH) and renga.from_pretrained(FOLDER) read parameters",
          "initial_adapter": ": Pipeline.read_adapter(PATH) reads it",
          "resume": ": Checkpoint.resume() goes on, and Trainer(resume=True)",
          **dict.fromkeys(("early_stop", "keep_best", "rollback_limit"), ": Trainer has it")}


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


def _refuse_others(given: Dict[str, Any]) -> None:
    """Options of renga train and of networks, which nothing here reads."""
    for name in given:
        if name in ("graph", *OF_GRAPH) or name.startswith("graph_"):
            raise Error(f"{name}= is not an option of a pipeline, but of its network: renga.Graph has "
                        "precision=, graph_lanes= and others", "OPTION")
        if name in _CURES or name.startswith(("train_", "data_", "checkpoint_", "eval_")):
            raise Error(f"{name}= is not an option of a pipeline"
                        f"{_CURES.get(name, ', but of renga train')}", "OPTION")


class Pipeline(Handle):
    """A network that runs on all ranks of its communicator; set up when it is made. Collective.

    plan: who computes what; None: found now, from the options (``batch_size=``,
    ``layout_pipeline=`` ...). seed: of first values and of dropout. given: options by Renga's
    names without the dash, or torch's for the optimizer: optimizer="sgd"|"adam"|"adamw", lr,
    momentum, nesterov, betas, eps, weight_decay; defaults as in torch.

    A batch is a mapping from the names of the network's inputs to arrays, or a sequence of arrays
    in their order. An array has the whole batch, the same on each rank; a rank that does not need
    an input may leave it out or give a function ``f(first, count)``, which returns the rows that
    are needed here. Batches may have any number of samples.

    total_steps: how many there will be, for optimizer_schedule. passes: samples of the data sets
    that are gone through batch by batch: their last batches, which may be short, are prepared.
    """

    _destroy = "RengaPipelineDestroy"

    def __init__(self, graph: Graph, plan: Optional[Plan] = None, *, seed: Optional[int] = None,
                 total_steps: Optional[int] = None, passes: Sequence[int] = (), **given: Any):
        self.graph, self.comm = graph, graph.comm
        with self.comm.enter("Pipeline"):
            _refuse_others(given)
            self._fields = Fields(graph.inputs)
            texts = option_texts(option_names(given))
            number = None if seed is None else ctypes.c_uint64(seed)
            self._passes = [int(samples) for samples in passes]
            steps = None if total_steps is None else int(total_steps)
        super().__init__(c.get(library.RengaPipelineCreate, self.comm))
        self._moments: List[str] = []
        self._sizes: set = set()
        try:
            with options_on(self.comm, texts):
                self._set_up(graph, plan, number, steps)
            self._moments = self._find_moments()
        except BaseException as error:
            self.free_after(error)
            raise

    def _set_up(self, graph: Graph, plan: Optional[Plan], seed: Optional[ctypes.c_uint64],
                steps: Optional[int]) -> None:
        made = None
        try:
            with self.comm.together():
                if seed is not None:
                    library.RengaSettingsSetSeed(c.get(library.RengaPipelineGetSettings, self), seed)
                library.RengaPipelineSetFromOptions(self)
                if steps is not None:
                    library.RengaOptimizerSetTotalSteps(self.optimizer, steps)
            if plan is None:
                with self.comm.together():
                    settings = ctypes.c_void_p(c.get(library.RengaPipelineGetSettings, self))
                    plan = made = solve(graph, settings, passes=self._passes)
            self.plan_table = plan.table
            self.plan_text = plan.text()
            self.plan_batch = plan.batch_size
            self._sizes.add(plan.batch_size)
            with self.comm.together():
                library.RengaPipelineSetPlan(self, graph, plan)
                for rest in {samples % plan.batch_size for samples in self._passes} - {0}:
                    library.RengaPipelineSetDataShortBatch(self, rest)
                    self._sizes.add(rest)
            with self.comm.together():
                library.RengaPipelineSetUp(self)
        finally:
            if made is not None:
                made.free()

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

    def _prepare(self, call: str, batch: Callable[[], Any], samples: Optional[int],
                 look: Callable[[Entry], None] = lambda entry: None) -> int:
        """The number of samples. batch: is called for it; look: is called too, with what the
        ranks compare."""
        with self.comm.enter(f"Pipeline.{call}") as entry:
            entry.samples = self._fields.take(batch(), samples)
            entry.digest = self._fields.digest() if self.comm.size > 1 else None
            look(entry)
        if entry.samples not in self._sizes:
            self._resize(entry.samples)
        return entry.samples

    def _run(self, function: Any, samples: int, *rest: Any) -> None:
        batch = c.Batch(samples, ctypes.cast(self._fields.reader, ctypes.c_void_p), None)
        try:
            with self._fields.callbacks.watch(), self.comm.together(always=False):
                function(self, ctypes.byref(batch), *rest)
        finally:
            self._fields.forget()

    def step(self, batch: Any, *, samples: Optional[int] = None,
             before: Optional[Callable[[], None]] = None) -> float:
        """Train with one batch; the loss before the update, the same bits on every rank.
        Collective.

        samples: of the batch, where this rank has no array that says it. before: called first; what
        it raises on one rank is raised on all.
        """
        def given() -> Any:
            if before is not None:
                before()
            return batch
        return self.step_on(given, samples)

    def step_on(self, batch: Callable[[], Any], samples: Optional[int] = None) -> float:
        """``step`` with what a function gives, which may fail. Collective."""
        loss = ctypes.c_double()
        count = self._prepare("step", batch, samples)
        self._run(library.RengaPipelineStep, count, ctypes.byref(loss))
        return loss.value

    def evaluate(self, batch: Any, *, samples: Optional[int] = None) -> float:
        """The loss of a batch; nothing changes. Collective."""
        return self.evaluate_on(lambda: batch, samples)

    def evaluate_on(self, batch: Callable[[], Any], samples: Optional[int] = None) -> float:
        """``evaluate`` with what a function gives, which may fail. Collective."""
        loss = ctypes.c_double()
        count = self._prepare("evaluate", batch, samples)
        self._run(library.RengaPipelineEvaluate, count, ctypes.byref(loss))
        return loss.value

    def forward(self, batch: Any, output: Optional[str] = None, *, to: Optional[int] = None,
                samples: Optional[int] = None) -> Optional[np.ndarray]:
        """An output of the network for all samples of a batch. Collective.

        output: its name; None: the one output besides the loss. to: the rank that gets it, others
        get None; None: all ranks. Inputs that it does not need are not looked at.
        """
        return self.forward_on(lambda: batch, output, to, samples)

    def forward_on(self, batch: Callable[[], Any], output: Optional[str] = None,
                   to: Optional[int] = None, samples: Optional[int] = None) -> Optional[np.ndarray]:
        """``forward`` with what a function gives, which may fail. Collective."""
        root = self._root(to)
        made: List[Any] = []

        def look(entry: Entry) -> None:
            name, spec = self._find_output(output)
            shape = [-d * entry.samples if d < 0 else d for d in spec.shape]
            made.extend([name, np.empty(shape, spec.dtype) if self._is_for(root) else None])
            entry.choice = list(self.graph.outputs).index(name) * (self.comm.size + 2) + root
            entry.words = "other outputs, or outputs for other ranks"
        count = self._prepare("forward", batch, samples, look)
        name, array = made
        pointer = array.ctypes.data_as(ctypes.c_void_p) if array is not None else None
        self._run(library.RengaPipelineForwardTo, count, name.encode(), root, pointer)
        return array

    @staticmethod
    def _root(to: Optional[int]) -> int:
        return ALL if to is None else to

    def _is_for(self, root: int) -> bool:
        if root != ALL and not 0 <= root < self.comm.size:
            raise Error(f"rank {root} of {self.comm.size}", "ARGUMENT")
        return root in (ALL, self.comm.rank)

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

    def _get(self, name: str, array: Optional[np.ndarray], to: int) -> None:
        pointer = array.ctypes.data_as(ctypes.c_void_p) if array is not None else None
        library.RengaPipelineGetParameter(self, name.encode(), to, pointer)

    def set_tensor(self, name: str, array: Optional[np.ndarray], root: int) -> None:
        """Values of one tensor, float32 and whole, from a rank to those that have it. Collective."""
        pointer = array.ctypes.data_as(ctypes.c_void_p) if array is not None else None
        library.RengaPipelineSetParameter(self, name.encode(), root, pointer)

    def state_dict(self, *, optimizer: bool = False, to: Any = None) -> Dict[str, np.ndarray]:
        """Parameters and states, whole, as float32 arrays by name. Collective.

        optimizer: with the optimizer's moments ("NAME:first_moment") and "step". to: the rank that
        gets them, others get an empty dict; None: all ranks; a path: they are written there tensor
        by tensor, as a safetensors file, and all ranks get an empty dict.
        """
        if is_path(to):
            self._write_state(to, optimizer)
            return {}
        state = {name: array for name, array in self.tensors(optimizer=optimizer, to=to)
                 if array is not None}
        if optimizer and to in (None, self.comm.rank):
            state["step"] = np.array(self.step_number)
        return state

    def tensors(self, *, optimizer: bool = False,
                to: Optional[int] = 0) -> Iterator[Tuple[str, Optional[np.ndarray]]]:
        """Parameters and states one after the other, as (name, float32 array). Collective: all ranks
        go through all of them, without another call of the pipeline between.

        to: the rank that gets them, others get None in their place; None: all ranks. Nobody has more
        than the one that is looked at.
        """
        with self.comm.enter("Pipeline.tensors") as entry:
            root = self._root(to)
            mine = self._is_for(root)
            tensors = self._tensors(optimizer)
            entry.choice, entry.words = 2 * root + bool(optimizer), "optimizer= or to="
        return self._each(tensors, root, mine)

    def _each(self, tensors: Mapping[str, Tensor], root: int,
              mine: bool) -> Iterator[Tuple[str, Optional[np.ndarray]]]:
        for name, tensor in tensors.items():
            array = np.empty(tensor.shape, np.float32) if mine else None
            self._get(name, array, root)
            yield name, array
            del array

    def _write_state(self, path: Any, optimizer: bool) -> None:
        """Rank 0 writes each tensor as it comes."""
        tensors = self._tensors(optimizer)
        each = self.tensors(optimizer=optimizer, to=0)
        writer: Optional[Writer] = None
        with self.comm.together():
            if self.comm.rank == 0:
                writer = Writer(path, {n: t.shape for n, t in tensors.items()},
                                {"step": str(self.step_number)} if optimizer else {})
        error: Optional[BaseException] = None
        try:
            for _, array in each:
                if writer is not None and error is None:
                    try:
                        writer.write(array)
                    except BaseException as caught:  # the others are told when all have come so far
                        error = caught
        except BaseException as caught:
            if writer is not None:
                writer.close(caught)  # leaves no part of a file
            raise
        with self.comm.together():
            if writer is not None:
                writer.close(error)

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True,
                        root: Optional[int] = None) -> None:
        """Take what ``state_dict`` gave, here or on another layout. Collective.

        strict: names that are missing or too many are an error; else they are left as they are.
        root: the rank whose dict counts; None: all have the same, which is checked.
        """
        self.load_state_on(lambda: state, strict, root)

    def load_state_on(self, given: Callable[[], Mapping[str, Any]], strict: bool = True,
                      root: Optional[int] = None) -> None:
        """``load_state_dict`` of what a function gives, which may fail. Collective."""
        arrays: Dict[str, np.ndarray] = {}
        names: List[str] = []
        step = -1
        with self.comm.enter("Pipeline.load_state_dict") as entry:
            has = self._is_for(self._root(root))
            if has:
                state = given()
                arrays = _check_state(state, self._tensors(True), set(self.parameters), strict)
                step = int(as_array("step", state["step"])) if "step" in state else -1
                names = sorted(arrays)
            entry.choice = self._root(root)
            entry.words = "root= is not the same on all of them"
            if root is None:
                entry.choice = zlib.crc32("\0".join([*names, str(step)]).encode())
                entry.words = "the names or the numbers of steps of the states differ"
        if root is not None:
            told = self.comm.send("\0".join([str(step), *names]).encode() if has else None, root)
            first, *names = told.decode().split("\0")
            step = int(first)
        for name in names:
            self.set_tensor(name, arrays.get(name), self._root(root))
        if step >= 0:
            library.RengaPipelineSetStepNumber(self, step)

    def _resize(self, samples: int) -> None:
        """Set up again for batches of another size too. What lives across steps waits on all ranks,
        each tensor on one of them."""
        tensors = list(self._tensors(True).items())
        size = self.comm.size
        with self.comm.together():
            kept = [np.empty(t.shape, np.float32) if i % size == self.comm.rank else None
                    for i, (_, t) in enumerate(tensors)]
        for i, (name, _) in enumerate(tensors):
            self._get(name, kept[i], i % size)
        step = self.step_number
        library.RengaPipelineReset(self)
        library.RengaPipelineSetDataShortBatch(self, samples)
        library.RengaPipelineSetUp(self)
        for i, (name, _) in enumerate(tensors):
            self.set_tensor(name, kept[i], i % size)
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
        with self.comm.enter("Pipeline.digest"):
            pass
        return c.get(library.RengaPipelineGetDigest, self, kind=ctypes.c_uint64)

    def text(self) -> str:
        """What each rank does and holds. Collective."""
        return view(self.comm, lambda v: library.RengaPipelineView(self, v))

    def read_initial(self, path: Any, *, partial: bool = False) -> int:
        """Parameters and states of another run's checkpoint, or of the newest of a directory; the
        number of tensors taken. Collective."""
        initial = c.structs["RengaCheckpointInitial"]()
        with Checkpoint(self, None) as reader:
            with self.comm.enter("Pipeline.read_initial") as entry:
                name = c.text(path)
                entry.choice, entry.words = bool(partial), "partial="
            with self.comm.together():
                library.RengaCheckpointReadInitial(reader, name, partial, ctypes.byref(initial))
        return initial.taken

    def read_adapter(self, path: Any) -> int:
        """The adapters of a folder of peft, after those of their network; the number of tensors
        taken. Collective."""
        initial = c.structs["RengaCheckpointInitial"]()
        with Checkpoint(self, None) as reader:
            with self.comm.enter("Pipeline.read_adapter"):
                name = c.text(path)
            with self.comm.together():
                library.RengaCheckpointReadAdapter(reader, name, ctypes.byref(initial))
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
        array = np.ascontiguousarray(as_array(name, state[name]), np.float32)
        if array.shape != tensors[name].shape:
            raise Error(f"{name} is {list(array.shape)}, the network has "
                        f"{list(tensors[name].shape)}", "SHAPE")
        arrays[name] = array
    return arrays


class Checkpoint(Handle):
    """Checkpoints of a pipeline in a directory, which any layout can read. Collective.

    given: options, such as checkpoint_every=100 (or "30min") and checkpoint_keep=3.
    """

    _destroy = "RengaCheckpointDestroy"

    def __init__(self, pipeline: Pipeline, directory: Any, **given: Any):
        self.comm = pipeline.comm
        with self.comm.enter("Checkpoint"):
            texts = option_texts(given)
            name = None if directory is None else c.text(directory)
        super().__init__(c.get(library.RengaCheckpointCreate, self.comm))
        self._stop = False
        try:
            with options_on(self.comm, texts), self.comm.together():
                library.RengaCheckpointSetFromOptions(self)
                library.RengaCheckpointSetPipeline(self, pipeline)
            if name is not None:
                with self.comm.together():
                    library.RengaCheckpointSetDirectory(self, name)
                    library.RengaCheckpointSetUp(self)
        except BaseException as error:
            self.free_after(error)
            raise

    @contextmanager
    def _call(self, name: str) -> Iterator[None]:
        with self.comm.enter(f"Checkpoint.{name}"):
            pass
        with self.comm.together():
            yield

    def write(self) -> str:
        """Write one now; its path. Collective."""
        with self._call("write"):
            path = ctypes.c_void_p(c.get(library.RengaCheckpointWrite, self))
        text = ctypes.cast(path, ctypes.c_char_p).value or b""
        library.RengaMemoryFree(ctypes.byref(path))
        return text.decode()

    def set_attribute(self, name: str, value: str) -> None:
        """A word of the program in all files from now on, the same on all ranks."""
        library.RengaCheckpointSetAttribute(self, c.text(name), c.text(value))

    def newest(self) -> Optional[int]:
        """The step of the newest whole file, None where there is none; it is not read.
        Collective."""
        found, step = ctypes.c_bool(), ctypes.c_int64()
        with self._call("newest"):
            library.RengaCheckpointGetNewest(self, ctypes.byref(found), ctypes.byref(step))
        return step.value if found.value else None

    def resume(self) -> Optional[int]:
        """Read the newest whole file; the number of steps done then, None where there is no file.
        Collective."""
        found, step = ctypes.c_bool(), ctypes.c_int64()
        with self._call("resume"):
            library.RengaCheckpointResume(self, ctypes.byref(found), ctypes.byref(step))
        return step.value if found.value else None

    def read(self, file: Any) -> None:
        """Read a certain file. Collective."""
        with self.comm.enter("Checkpoint.read"):
            name = c.text(file)
        with self.comm.together():
            library.RengaCheckpointRead(self, name)

    def step(self) -> bool:
        """After each step: writes where it is due (checkpoint_every); whether it did.
        Collective."""
        wrote, stop = ctypes.c_bool(), ctypes.c_bool()
        with self._call("step"):
            library.RengaCheckpointStep(self, ctypes.byref(wrote), ctypes.byref(stop))
        self._stop = stop.value
        return wrote.value

    @property
    def stop(self) -> bool:
        """Whether the last ``step`` said that the run is to leave now."""
        return self._stop
