"""A training from the first step to the last: batches, evaluations, checkpoints."""
from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Union

from ._data import VALIDATION, Data
from ._graph import Graph
from ._library import Error
from ._pipeline import Checkpoint, Pipeline
from ._pretrained import Pretrained, save_pretrained
from ._runtime import communicator

Row = Dict[str, Union[int, float]]


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
    ("validation_loss"). given: options, as of Pipeline. The numbers are those of ``renga train``
    with the same options.
    """

    def __init__(self, model: Any, data: Any, *, steps: int, batch_size: int,
                 validation: Any = None, eval_every: int = 0, eval_samples: int = 0,
                 checkpoint_dir: Any = None, resume: bool = False, seed: int = 0,
                 on_row: Optional[Callable[[Row], Any]] = None, comm: Any = None, **given: Any):
        named = isinstance(model, (str, bytes))
        self.pretrained = model if isinstance(model, Pretrained) else None
        self.graph = Graph(model, comm) if named else \
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
            with self.comm.enter("Trainer") as entry:
                if checkpoint_dir is None and (resume or kinds["checkpoint_"]):
                    raise Error("checkpoints have no folder: give checkpoint_dir=", "ARGUMENT")
                if not isinstance(self.graph, Graph):
                    raise Error(f"{type(model).__name__} is no network: renga.from_pretrained and "
                                "renga.Graph make some", "ARGUMENT")
                self.steps, self.batch_size = int(steps), int(batch_size)
                self.eval_every, self._on_row = int(eval_every), on_row
                numbers = self.steps, self.batch_size, self.eval_every, int(eval_samples)
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
        newest = self.checkpoint.newest()
        if newest is not None and not resume:
            raise Error(f"{directory} holds the checkpoints of another run, the newest of step "
                        f"{newest}, which are not replaced: go on from them with resume=True, or "
                        "give this run a folder of its own", "OPTION")
        return newest is not None and self.checkpoint.resume() is not None

    @property
    def step_number(self) -> int:
        """Steps done so far, those before a resume included."""
        return self.pipeline.step_number

    def train(self) -> List[Row]:
        """Train up to the last step, evaluate, and write a checkpoint; the rows of this run.
        Collective. Where it is asked to leave before (checkpoint_signals=True), ``stopped`` is
        true."""
        first = len(self.history)
        evaluated = -1
        begin = self.step_number
        while self.step_number < self.steps and not self.stopped:
            self.step()
            number = self.step_number
            if number == self.steps:
                break
            if self.checkpoint is not None:
                self.checkpoint.step()
                self.stopped = self.checkpoint.stop
            if self.eval_every and number % self.eval_every == 0 and not self.stopped:
                self._evaluate()
                evaluated = number
        if not self.stopped and evaluated != self.step_number:
            self._evaluate()
        if self.checkpoint is not None and not self.stopped and self.step_number > begin:
            self.checkpoint.write()
        return self.history[first:]

    def step(self) -> Row:
        """One step; what came of it. Collective."""
        batch = self.data.step(self.step_number, self.batch_size)
        self.pipeline.step(batch.inputs, samples=batch.samples)
        return self._add(dict(self.pipeline.last_step))

    def _add(self, row: Row) -> Row:
        self.history.append(row)
        if self._on_row is not None:
            with self.comm.together():
                self._on_row(row)
        return row

    def _evaluate(self) -> None:
        if self.eval_samples:
            self._add({"step": self.step_number, "validation_loss": self.evaluate()})

    def evaluate(self) -> float:
        """The loss of the samples that test, as of one batch of them all; nothing changes.
        Collective."""
        if not self.eval_samples:
            raise Error("there are no samples that test: give validation=", "ARGUMENT")
        return self.pipeline.evaluate_all(
            lambda: self.data.tests(self.batch_size, self.eval_samples))

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
