"""Modules of torch: trained on all ranks, with torch's names."""
from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import numpy as np

from . import _watch
from ._batch import as_array
from ._export import Targets, export
from ._export import _import_torch, _loss_of, _read_example  # noqa: F401: tests use them too
from ._graph import OF_GRAPH, Graph
from ._hollow import has_hollow
from ._library import Error
from ._optimizer import escape
from ._optimizer import find as find_optimizer
from ._pipeline import Pipeline
from ._runtime import communicator, is_forked, is_told
from ._safetensors import Reader


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
    is kept there; without it, it is removed by ``close``. initial: a folder of Hugging Face or a
    checkpoint, whose numbers are taken in place of the module's, which may then be on "meta", without
    any. given: options, as of Pipeline; optimizer
    may also be a torch.optim.SGD, Adam or AdamW of the module's parameters, whose settings and
    groups are taken, and whose learning rates count at each step: schedulers of torch change them.

    A batch is the whole batch on each rank: give each rank's DataLoader the same seed.
    BatchNormalization has the statistics of a micro-batch, which is the whole batch unless a
    smaller microbatch_size is given: then they are torch's.
    """

    def __init__(self, module: Any, loss: Optional[Callable[..., Any]] = None,
                 example: Any = None, *, targets: Optional[Targets] = None, comm: Any = None,
                 directory: Any = None, whole_batch: int = 0, seed: Optional[int] = None,
                 initial: Any = None, **given: Any):
        self.given, self.comm = module, communicator(comm)
        self._folder: Optional[str] = None
        self.graph: Optional[Graph] = None
        self.pipeline: Optional[Pipeline] = None
        try:
            with self.comm.enter("Module"):
                self.module = module = _watch.unwrap(module)
                self._call = _read_example(module, loss, example, targets)
                self._optimizer = find_optimizer(given, module)
                given.setdefault("batch_size", len(self._call.tensors[0]))
                if initial is None and self.comm.rank == 0 and has_hollow(module):
                    raise Error("the module is on \"meta\", without numbers: initial= names a "
                                "folder or a checkpoint that has them", "ARGUMENT")
                if directory is None and self.comm.nodes > 1:
                    raise Error("ranks on several nodes: directory= names a folder that all of "
                                "them see", "ARGUMENT")
            self.file = self._export(loss, example, targets, directory)
            of_graph = {name: given.pop(name) for name in OF_GRAPH if name in given}
            self.graph = self._read(whole_batch, given, of_graph)
            with self.comm.together():
                self._names = self._find_names()
                if self._optimizer is not None:
                    given.update(self._optimizer.options(self._by_tensor()))
            self.pipeline = Pipeline(self.graph, seed=seed, **given)
            if initial is not None:
                self._read_initial(initial)
            self._load_moments()
            with self.comm.together():
                self._watch = _watch.Watch(module, loss)
            self._current = initial is None  # the module has the values of the network
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

    def _read(self, whole_batch: int, given: Mapping[str, Any],
              of_graph: Mapping[str, Any]) -> Graph:
        """The network; one that mixes samples is read for whole batches where micro-batches are."""
        frozen = ",".join(escape(n) for n, p in self.module.named_parameters()
                          if not p.requires_grad and p.device.type == "meta") or None
        frozen = self.comm.send(os.fsencode(frozen or "")).decode() or None
        try:
            return Graph(self.file, self.comm, whole_batch=whole_batch, frozen=frozen, **of_graph)
        except Error as error:
            batch = given["batch_size"]
            if whole_batch or given.get("microbatch_size") != batch or \
                    "may be the whole batch" not in str(error):
                raise
        return Graph(self.file, self.comm, whole_batch=batch, frozen=frozen, **of_graph)

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

    def _read_initial(self, initial: Any) -> None:
        """The numbers of a folder or a checkpoint, by the network's names; where tensors have several
        names, of which the folder may have another, by any of them."""
        tied = any(name != there for name, there in self._names.items())
        sources: Dict[str, str] = {}
        reader: Any = None
        with self.comm.together():
            constants = [n for n, b in self.module.named_buffers() if b.device.type == "meta" and
                         n not in self._names and not n.endswith("num_batches_tracked")]
            if constants and self.comm.rank == 0:
                raise Error(f"{constants[0]} is a buffer on \"meta\" and a constant of the network: "
                            "give it its numbers before the renga.Module is made", "SUPPORT")
            if tied and self.comm.rank == 0 and os.path.isdir(initial):
                reader = Reader(initial)
                sources = {there: name for name, there in self._names.items()
                           if name in reader.rows}
                missing = set(self._names.values()) - set(sources)
                if reader.rows and missing:
                    raise Error(f"{initial} has no {', '.join(sorted(missing)[:5])}", "SHAPE")
        if not self.comm.agree(None, len(sources))[0]:
            self._pipeline.read_initial(initial)
            return
        for there in sorted(set(self._names.values())):
            array: Optional[np.ndarray] = None
            with self.comm.together():
                if reader is not None:
                    array = reader.get(sources[there])
                    wanted = self._pipeline.parameters[there].shape
                    if array.shape != wanted:
                        raise Error(f"{there} of {initial} is {list(array.shape)}, the network has "
                                    f"{list(wanted)}", "SHAPE")
            self._pipeline.set_tensor(there, array, 0)

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

    def _look(self, training: bool = True) -> List[str]:
        """What the program did to the module between steps; names of values that it has set."""
        if training:
            self._watch.check()
        changed = self._watch.changed_values()
        if changed and not self._current:
            raise Error(f"{', '.join(changed[:5])} of the module "
                        f"{'was' if len(changed) == 1 else 'were'} set between steps, and the "
                        "module does not have the values that are trained: call update() before, "
                        "or load_state_dict(net.state_dict()) after", "SUPPORT")
        others = [n for n in changed if n not in self._names and
                  not n.endswith("num_batches_tracked")]
        if others:
            raise Error(f"{others[0]} is a constant of the network, and was set: make another "
                        "renga.Module", "SUPPORT")
        return changed

    def _take_values(self, training: bool = True) -> None:
        """Values that the program has set while the module had those of the network are taken: the
        first rank's count."""
        if not self._current:
            return
        with self.comm.enter("Module.step, evaluate or predict"):
            changed = self._look(training)
        if self.comm.agree(None, len(changed))[0]:
            self._pipeline.load_state_on(lambda: {
                there: as_array(name, tensor) for name, tensor in self.module.state_dict().items()
                for there in [self._names.get(name)] if there}, strict=False, root=0)
            self._watch.remember_values()

    def _follow(self) -> None:
        self._look()
        if self._optimizer is not None:
            self._optimizer.follow(self._pipeline.optimizer)

    def _batch(self, batch: Tuple[Any, ...]) -> Any:
        only = batch[0] if len(batch) == 1 else batch
        inputs = self.graph.inputs if self.graph else {}
        if isinstance(only, Mapping):
            only = self._call.with_names(only)
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
        self._take_values()
        loss = self._pipeline.step_on(given)
        self._current = False
        return loss

    def evaluate(self, *batch: Any) -> float:
        """The loss of a batch, as in ``module.eval()``; nothing changes. Collective."""
        self._take_values(training=False)
        return self._pipeline.evaluate_on(lambda: self._batch(batch))

    def predict(self, *inputs: Any) -> Any:
        """What the module gives for inputs, as in ``module.eval()``: a tensor, on all ranks.
        Collective. Only where it is one tensor with a row for each sample."""
        def given() -> Any:
            only = inputs[0] if len(inputs) == 1 else inputs
            if not isinstance(only, Mapping):
                only = only if isinstance(only, (list, tuple)) else (only,)
                only = dict(zip(self._call.given, only))
            return self._call.with_names(only)
        self._take_values(training=False)
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

    def state_dict(self, *, to: Any = None) -> Dict[str, Any]:
        """Parameters and buffers by torch's names, as of ``module.state_dict()``. Collective.
        Buffers that training does not change, and counters of batches, are the module's. to: the
        rank that gets them, others get an empty dict; None: all ranks; a path: what the network has
        is written there tensor by tensor, by the network's names, as a safetensors file."""
        values = self._pipeline.state_dict(to=to)
        return self._with_names(values) if to is None or to == self.comm.rank else {}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Take parameters and buffers by torch's names; the same on all ranks. Collective."""
        self._pipeline.load_state_on(lambda: self._without_names(state, strict), strict=False)
        self._watch.remember_values()
        self._current = False

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
        places: Dict[str, Any] = {}
        moments: Dict[str, Any] = {}
        with self.comm.together():
            tensors = self.module.state_dict(keep_vars=True)
            places = {there: tensors[name] for name, there in self._names.items()}
            if self._optimizer is not None:
                moments = self._optimizer.places(self._by_tensor())
        self._copy_each(places, moments)
        self._watch.remember_values()
        self._current = True
        return self.given

    def _copy_each(self, places: Mapping[str, Any], moments: Mapping[str, Any]) -> None:
        """Each tensor of the network into the module's, or the optimizer's, one after the other."""
        torch = _import_torch()
        step, error = self._pipeline.step_number, None
        for name, array in self._pipeline.tensors(optimizer=bool(moments), to=None):
            try:
                if name in places and places[name].device.type != "meta":
                    with torch.no_grad():
                        places[name].copy_(torch.from_numpy(array))
                elif name in moments and self._optimizer is not None:
                    self._optimizer.take_moment(*moments[name], array, step)
            except BaseException as caught:  # the others are told when all have come so far
                error = error or caught
        with self.comm.together():
            if error is not None:
                raise error

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
