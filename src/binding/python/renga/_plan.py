"""Plans: who computes what, and what is expected of it."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Dict, List, Optional, Sequence

from . import _library as c
from ._graph import Graph, view
from ._library import Error, library
from ._runtime import Comm, Handle, communicator, option_texts, options_on, start

_ANY_NUMBER = 1 << 20


class Plan(Handle):
    """Stages of a network, their replicas and ranks, and the predicted step.

    Made by ``renga.plan`` or read by ``Plan.load``. ``str(plan)`` is a table; a notebook shows a
    picture.
    """

    _destroy = "RengaPlanDestroy"

    def __init__(self, handle: Any, comm: Comm):
        self.comm = comm
        self._table: Optional[Dict[str, Any]] = None
        super().__init__(handle)

    @classmethod
    def load(cls, file: Any, graph: Optional[Graph] = None, comm: Any = None) -> "Plan":
        """A plan that ``save`` wrote. Without its graph it can be looked at only. Collective."""
        start()
        ranks = communicator(comm if comm is not None else graph.comm if graph else None)
        with ranks.enter("Plan.load"):
            name = c.text(file)
        plan = cls(c.get(library.RengaPlanCreate, ranks), ranks)
        try:
            with ranks.together():
                library.RengaPlanLoad(plan, graph, name)
        except BaseException as error:
            plan.free_after(error)
            raise
        return plan

    @property
    def table(self) -> Dict[str, Any]:
        """All that the plan says, as in the JSON of ``renga plan -plan_view json``. Collective when
        it is first read."""
        if self._table is None:
            self._table = json.loads(
                view(self.comm, lambda v: library.RengaPlanView(self, v), "json"))
        return self._table

    @property
    def stages(self) -> List[Dict[str, Any]]:
        """A row for each stage: nodes first to last, replicas, ranks, memory, seconds."""
        return self.table["stages"]

    @property
    def prediction(self) -> Dict[str, float]:
        """Seconds of a step and of its parts, the lower bound, the gap; empty where not known."""
        return self.table.get("predicted", {})

    @property
    def batch_size(self) -> int:
        """Samples of a step."""
        return self._batch()[0]

    @property
    def microbatch_size(self) -> int:
        """Samples of a micro-batch."""
        return self._batch()[1]

    def _batch(self) -> List[int]:
        sizes = [ctypes.c_int64(), ctypes.c_int64()]
        library.RengaPlanGetBatch(self, *[ctypes.byref(s) for s in sizes])
        return [s.value for s in sizes]

    @property
    def reasons(self) -> Dict[str, str]:
        """Why the plan is as it is: sentences by topic."""
        found: Dict[str, str] = {}
        topic, sentence = ctypes.c_char_p(), ctypes.c_char_p()
        number = 0
        while True:
            library.RengaPlanGetReason(self, number, ctypes.byref(topic), ctypes.byref(sentence))
            if topic.value is None:
                return found
            found[topic.value.decode()] = (sentence.value or b"").decode()
            number += 1

    def text(self) -> str:
        """The table that ``renga plan`` prints. Collective."""
        return view(self.comm, lambda v: library.RengaPlanView(self, v))

    def explain(self) -> str:
        """Why the plan is as it is. Collective."""
        return view(self.comm, lambda v: library.RengaPlanExplain(self, v))

    def svg(self) -> str:
        """A picture: stages along the network, load, memory. Collective."""
        return view(self.comm, lambda v: library.RengaPlanView(self, v), "draw")

    def compare(self, other: "Plan") -> str:
        """What is different in another plan. Collective."""
        return view(self.comm, lambda v: library.RengaPlanCompare(self, other, v))

    def save(self, file: Any) -> None:
        """Write it to a file that ``Plan.load`` and ``-plan_load`` read. Collective."""
        with self.comm.enter("Plan.save"):
            name = c.text(file)
        with self.comm.together():
            library.RengaPlanSave(self, name)

    def __str__(self) -> str:
        return self.text() if self._handle else "<renga.Plan, closed>"

    def __repr__(self) -> str:
        return "<renga.Plan>" if self._handle else "<renga.Plan, closed>"

    def _repr_svg_(self) -> str:
        return self.svg()


def _given(name: str) -> bool:
    given = ctypes.c_bool()
    library.RengaOptionsGetString(name.encode(), ctypes.byref(ctypes.c_char_p()),
                                  ctypes.byref(given))
    return given.value


def solve(graph: Graph, settings: Any, machine: Any = None, profile: Any = None,
          ranks: Optional[int] = None, alone: bool = False, passes: Sequence[int] = ()) -> Plan:
    """A plan by the options that stand. alone: one process that asks for no number of ranks. passes:
    samples of data sets that are gone through batch by batch."""
    partition = ctypes.c_void_p(c.get(library.RengaPartitionCreate, graph.comm))
    fixed = ("partition_type", "layout_pipeline", "layout_data", "partition_cuts",
             "plan_load")
    try:
        library.RengaPartitionSetGraph(partition, graph)
        if settings is not None:
            library.RengaPartitionSetSettings(partition, settings)
        if machine is not None:
            library.RengaPartitionSetMachine(partition, machine)
            library.RengaPartitionSetProfile(partition, profile)
        if machine is not None or (graph.comm.size > 1 and not any(map(_given, fixed))):
            library.RengaPartitionSetType(partition, b"auto")
        if alone:
            library.RengaPartitionSetReplicas(partition, 1)
            if _option("partition_type") != "manual":
                library.RengaPartitionSetStages(partition, 1)
        if ranks or alone:
            library.RengaPartitionSetRanks(partition, _ANY_NUMBER if alone else ranks)
        library.RengaPartitionSetFromOptions(partition)
        for samples in passes:
            library.RengaPartitionAddDataPass(partition, samples)
        made = Plan(c.get(library.RengaPartitionSolve, partition), graph.comm)
    finally:
        library.RengaPartitionDestroy(ctypes.byref(partition))
    if alone:
        library.RengaPlanSetAvailableRanks(made, 0)
    return made


def _option(name: str) -> str:
    value = ctypes.c_char_p()
    library.RengaOptionsGetString(name.encode(), ctypes.byref(value), None)
    return (value.value or b"").decode()


def _solve_for(graph: Graph, machine: bytes, nodes: int, memory: int, ranks: Optional[int]) -> Plan:
    described = ctypes.c_void_p(c.get(library.RengaMachineCreate, graph.comm))
    profile = ctypes.c_void_p()
    try:
        library.RengaMachineLoad(described, machine)
        if nodes:
            library.RengaMachineSetNodes(described, nodes)
        if memory:
            library.RengaMachineSetMemory(described, memory)
        profile.value = c.get(library.RengaProfileCreate, graph.comm)
        library.RengaProfileSetMachine(profile, described)
        library.RengaProfileSetType(profile, b"analytic")
        library.RengaProfileSetFromOptions(profile)
        devices = c.get(library.RengaMachineGetDeviceCount, described, kind=ctypes.c_int64)
        return solve(graph, None, described, profile, ranks or devices)
    finally:
        if profile:
            library.RengaProfileDestroy(ctypes.byref(profile))
        library.RengaMachineDestroy(ctypes.byref(described))


def plan(graph: Graph, machine: Any = None, *, nodes: int = 0, memory: int = 0,
         batch_size: Optional[int] = None, microbatch_size: Optional[int] = None,
         ranks: Optional[int] = None, **given: Any) -> Plan:
    """The best plan that is found for a network on a machine, without running it. Collective.

    machine: a name of share/renga/machines ("v100") or a machine file; None: these ranks, whose
    costs are measured. nodes: of the machine; 0: as many as its file says. memory: bytes of each of
    its devices; 0: the file's. ranks: devices to use; None: all. given: options, without the dash,
    such as layout_pipeline=4. On one process and without machine and ranks, the plan has one stage
    and one replica, or as many as the options ask for.

    Raises renga.Error where nothing fits (name "PLAN") or an option is wrong.
    """
    given.update(batch_size=batch_size, microbatch_size=microbatch_size)
    with graph.comm.enter("plan"):
        if machine is None and (nodes or memory):
            raise Error("nodes and memory are of a machine, and none is named", "ARGUMENT")
        texts = option_texts(given)
        file = None if machine is None else c.text(machine)
        numbers = [ctypes.c_int64(n or 0).value for n in (nodes, memory, ranks)]
    with options_on(graph.comm, texts), graph.comm.together():
        nodes, memory = numbers[:2]
        if file is not None:
            return _solve_for(graph, file, nodes, memory, ranks)
        alone = graph.comm.size == 1 and ranks is None and not _given("partition_ranks")
        return solve(graph, None, ranks=ranks, alone=alone)
