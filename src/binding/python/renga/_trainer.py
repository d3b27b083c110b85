"""A training from the first step to the last: batches, evaluations, checkpoints."""
from __future__ import annotations

import ctypes
from typing import Any, Callable, Dict, List, Optional, Union

from . import _library as c
from ._data import VALIDATION, Data
from ._graph import OF_GRAPH, Graph
from ._library import Error, library
from ._pipeline import Checkpoint, Pipeline
from ._pretrained import Pretrained, save_pretrained
from ._runtime import Callbacks, Handle, communicator, option_texts, options_on

Row = Dict[str, Union[int, float]]
_RULES = ("early_stop", "keep_best", "rollback_limit")


class _Loop(Handle):
    """The library's trainer, which makes the steps and calls back."""

    _destroy = "RengaTrainerDestroy"

    def __init__(self, trainer: "Trainer", given: Dict[str, Any]):
        self.comm, self._trainer = trainer.comm, trainer
        super().__init__(c.get(library.RengaTrainerCreate, self.comm))
        self._callbacks = Callbacks()
        self._reader = c.TrainerReader(self._read)
        self._step = c.TrainerStep(lambda user, row: self._callbacks.guard("", trainer._after_step))
        self._evaluated = c.TrainerEvaluated(
            lambda user, loss, step, samples: self._callbacks.guard("", lambda: trainer._add(
                {"step": step, "validation_loss": loss})))
        step, evaluated = (ctypes.cast(f, ctypes.c_void_p) for f in (self._step, self._evaluated))
        monitor = c.structs["RengaTrainerMonitor"](step=step, evaluated=evaluated)
        try:
            with options_on(self.comm, option_texts(given)), self.comm.together():
                library.RengaTrainerSetFromOptions(self)
                library.RengaTrainerAddMonitor(self, ctypes.byref(monitor))
                if trainer.data.is_of_arrays:
                    library.RengaTrainerSetReader(self, ctypes.cast(self._reader, ctypes.c_void_p),
                                                  None)
                library.RengaTrainerSetData(self, trainer.graph, trainer.data)
        except BaseException as error:
            self.free_after(error)
            raise

    def _read(self, user: Any, part: int, field: int, epoch: int, first: int, count: int,
              buffer: int) -> int:
        def copy() -> None:
            rows = self._trainer.data.rows(part, field, epoch, first, count)
            ctypes.memmove(buffer, rows.ctypes.data, rows.nbytes)
        return self._callbacks.guard("a batch could not be read: ", copy)

    def call(self, function: Any, *arguments: Any) -> None:
        """A function of the library that trains or evaluates. Collective."""
        with self.comm.enter(function.__name__):
            pass
        with self._callbacks.watch(), self.comm.together(always=False):
            function(self, *arguments)


class Trainer:
    """Trains a network on all ranks for a number of steps. Collective.

        model = renga.from_pretrained("Llama-3.2-1B", sequence=1024)
        with renga.Trainer(model, "llama.h5", steps=1000, batch_size=8, lr=1e-5,
                           checkpoint_dir="checkpoints") as trainer:
            trainer.train()
            trainer.save_pretrained("Llama-3.2-1B-trained")

    model: what ``from_pretrained`` gives, a ``renga.Graph``, or its name ("mlp:sizes=4-64-3").
    data: a data file, or the arrays of all samples (see ``renga.Data``). validation: the same, of
    samples that only test; None: those that the file has. steps: the number of the last one; learning
    rates follow -optimizer_schedule up to there. eval_every: steps between evaluations, 0: after the
    last alone. eval_samples: of those that test, at most; 0: all. checkpoint_dir: where checkpoints
    are kept, checkpoint_every= and so on as of Checkpoint. resume: go on from the newest there, if
    there is one. seed: of first values, dropout and the order of samples. on_row: called on all
    ranks with a dictionary after each step ("loss", "learning_rate", …) and each evaluation
    ("validation_loss"). given: early_stop, keep_best, rollback_limit as of ``renga train``, and
    options as of Pipeline. The numbers are those of ``renga train`` with the same options.
    """

    def __init__(self, model: Any, data: Any, *, steps: int, batch_size: int,
                 validation: Any = None, eval_every: int = 0, eval_samples: int = 0,
                 checkpoint_dir: Any = None, resume: bool = False, seed: int = 0,
                 on_row: Optional[Callable[[Row], Any]] = None, comm: Any = None, **given: Any):
        named = isinstance(model, (str, bytes))
        self.pretrained = model if isinstance(model, Pretrained) else None
        of_graph = {name: given.pop(name) for name in OF_GRAPH if named and name in given}
        self.graph = Graph(model, comm, **of_graph) if named else \
            self.pretrained.graph if self.pretrained else model
        self.comm = self.graph.comm if isinstance(self.graph, Graph) else communicator(comm)
        self._own: List[Any] = [self.graph] if named else []
        self.history: List[Row] = []
        self.stopped = False
        self.checkpoint: Optional[Checkpoint] = None
        try:
            kinds = {kind: {k: v for k, v in given.items() if k.startswith(kind)}
                     for kind in ("data_", "checkpoint_")}
            rest = {k: v for k, v in given.items() if not k.startswith(tuple(kinds))}
            rules = {name: rest.pop(name) for name in _RULES if name in rest}
            with self.comm.enter("Trainer") as entry:
                if checkpoint_dir is None and (resume or kinds["checkpoint_"]):
                    raise Error("checkpoints have no folder: give checkpoint_dir=", "ARGUMENT")
                if not isinstance(self.graph, Graph):
                    raise Error(f"{type(model).__name__} is no network: renga.from_pretrained and "
                                "renga.Graph make some", "ARGUMENT")
                self.steps, self.batch_size = int(steps), int(batch_size)
                self._on_row = on_row
                numbers = self.steps, self.batch_size, int(eval_every), int(eval_samples)
                if min(numbers) < 0:
                    raise Error("steps=, batch_size=, eval_every= and eval_samples= are {}, {}, {} "
                                "and {}: none may be below 0".format(*numbers), "ARGUMENT")
                entry.choice = hash((*numbers, bool(resume))) & 0x7fffffff
                entry.words = "steps=, batch_size=, eval_every=, eval_samples= or resume="
            self.data = self._keep(Data(self.graph, data, validation, seed=seed,
                                        **kinds["data_"]))
            there = self.data.count(VALIDATION)
            self.eval_samples = min(int(eval_samples) or there, there)
            passes = [self.data.count()] + ([self.eval_samples] if self.eval_samples else [])
            self.pipeline = self._keep(Pipeline(
                self.graph, seed=seed, total_steps=self.steps, passes=passes,
                batch_size=self.batch_size, **rest))
            rules.update(steps=self.steps, eval_every=int(eval_every),
                         eval_samples=self.eval_samples)
            self._loop = self._keep(_Loop(self, rules))
            with self.comm.together():
                library.RengaTrainerSetPipeline(self._loop, self.pipeline,
                                                self.pipeline.plan_batch)
            with self.comm.together():
                library.RengaTrainerSetUp(self._loop)
            begun = False
            if checkpoint_dir is not None:
                begun = self._open(checkpoint_dir, resume, kinds["checkpoint_"])
            if self.pretrained is not None and not begun:
                self.pretrained.read_into(self.pipeline)
        except BaseException as error:
            self._leave(error)
            raise

    def _keep(self, made: Any) -> Any:
        self._own.append(made)
        return made

    def _open(self, directory: Any, resume: bool, given: Dict[str, Any]) -> bool:
        """Checkpoints; whether the run goes on from one."""
        self.checkpoint = self._keep(Checkpoint(self.pipeline, directory, **given))
        if self.pretrained is not None:
            self.checkpoint.set_attribute("graph", "hf:" + self.pretrained.folder)
        with self.comm.together():
            if not resume:
                library.RengaCheckpointCheckFresh(self.checkpoint)
            library.RengaTrainerSetCheckpoint(self._loop, self.checkpoint)
        if not resume:
            return False
        found, step = ctypes.c_bool(), ctypes.c_int64()
        self._loop.call(library.RengaTrainerResume, ctypes.byref(found), ctypes.byref(step))
        return found.value

    @property
    def step_number(self) -> int:
        """Steps done so far, those before a resume included."""
        return self.pipeline.step_number

    def train(self) -> List[Row]:
        """Train up to the last step, evaluate, and write a checkpoint; the rows of this run.
        Collective. Where it is asked to leave before (checkpoint_signals=True), ``stopped`` is
        true."""
        first = len(self.history)
        status = c.structs["RengaTrainerStatus"]()
        self._loop.call(library.RengaTrainerRun)
        library.RengaTrainerGetStatus(self._loop, ctypes.byref(status))
        self.stopped = status.stopped
        if status.unsaved:
            raise Error(f"the checkpoint after the last step, {status.step}, could not be written",
                        "FILE_WRITE")
        return self.history[first:]

    def step(self) -> Row:
        """One step; what came of it. Collective."""
        self._loop.call(library.RengaTrainerStep)
        return self.history[-1]

    def _after_step(self) -> None:
        self._add(dict(self.pipeline.last_step))

    def _add(self, row: Row) -> None:
        self.history.append(row)
        if self._on_row is not None:
            with self.comm.together():
                self._on_row(row)

    def evaluate(self) -> float:
        """The loss of the samples that test, as of one batch of them all; nothing changes.
        Collective."""
        if not self.eval_samples:
            raise Error("there are no samples that test: give validation=", "ARGUMENT")
        loss = ctypes.c_double()
        self._loop.call(library.RengaTrainerEvaluate, None, ctypes.byref(loss))
        return loss.value

    def save_pretrained(self, folder: Any, **given: Any) -> None:
        """The parameters as a new folder that Hugging Face's libraries load, with config.json and
        the tokenizer of the folder that they came from. Collective. dtype, merged, file_bytes, like:
        see ``renga.save_pretrained``."""
        if given.get("like") is None and self.pretrained is not None:
            given["like"] = self.pretrained.folder
        save_pretrained(self.pipeline, folder, **given)

    @property
    def digest(self) -> int:
        """A number of all parameters, moments and states, which no layout changes. Collective."""
        return self.pipeline.digest

    def close(self) -> None:
        """Free what the trainer made: not a network that it was given. Collective."""
        self._leave(None)

    def _leave(self, error: Optional[BaseException]) -> None:
        own, self._own = self._own, []
        for made in reversed(own):
            made._leave(error)

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        self._leave(error)
