"""A task (one node call of one super-step), and the common origin of a super-step's tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from .. import ids
from ..constants import NS_END, NS_SEP, PULL, PUSH
from ..savers.checkpoint import PendingInterrupt
from ..types import Expiry, Interrupt
from .graph_spec import GraphSpec
from .nodes import Node, Write
from .renames import FormerNames

#: Locked while the id of a checkpoint is created, because parallel tasks may use it first.
_FIRST = Lock()


class StepOrigin:
    """The common origin of a super-step's tasks.

    The origin consists of the checkpoint, the namespace, the number of the super-step, and the
    channel values. ``values`` doesn't change while the tasks run.
    """

    __slots__ = (
        "_checkpoint_id",
        "_id_bytes",
        "_sent",
        "former_names",
        "ns",
        "spec",
        "step",
        "stop",
        "values",
    )  # fmt: skip

    def __init__(
        self,
        spec: GraphSpec,
        values: Mapping[str, Any],
        checkpoint_id: str | None,
        ns: str,
        step: int,
        stop: int,
    ) -> None:
        self.spec, self.values = spec, values
        self._checkpoint_id, self.ns, self.step, self.stop = checkpoint_id, ns, step, stop
        self._id_bytes = b""
        self._sent: dict[str, bytes] = {}
        #: The names used in ids, if nodes or channels were renamed since the checkpoint was stored.
        self.former_names: FormerNames | None = None

    @property
    def checkpoint_id(self) -> str:
        """The id of the checkpoint.

        If the checkpoint may never be stored, the id is created on first use.
        """
        if self._checkpoint_id is None:
            with _FIRST:
                if self._checkpoint_id is None:
                    self._checkpoint_id = ids.new_uuid6()
        return self._checkpoint_id

    @property
    def levels(self) -> tuple[str, ...]:
        """The namespace as in stream chunks: a tuple with ``"node:task id"`` for each subgraph.

        The tuple is empty in the root graph.
        """
        return tuple(self.ns.split(NS_SEP)) if self.ns else ()

    @property
    def id_bytes(self) -> bytes:
        """The id of the checkpoint as bytes, from which the ids of tasks are computed."""
        if not self._id_bytes:
            self._id_bytes = ids.encode_checkpoint_id(self.checkpoint_id)
        return self._id_bytes

    def sent_bytes(self, name: str) -> bytes:
        """Return the bytes from which the task ids of Sends to the node ``name`` are computed."""
        known = self._sent.get(name)
        if known is None:
            parts = self.node_ns(name), str(self.step), self.get_former_name(name), PUSH
            known = self._sent[name] = self.id_bytes + "".join(parts).encode()
        return known

    def node_ns(self, name: str) -> str:
        """Return the namespace of a node's tasks, without the task id at the end."""
        name = self.get_former_name(name)
        return f"{self.ns}{NS_SEP}{name}" if self.ns else name

    def get_former_name(self, name: str) -> str:
        """Return the name that a node had when this checkpoint was stored."""
        return name if self.former_names is None else self.former_names.nodes.get(name, name)

    def get_former_triggers(self, triggers: Sequence[str]) -> Sequence[str]:
        """Return the names that a node's triggers had when this checkpoint was stored."""
        return triggers if self.former_names is None else self.former_names.get_triggers(triggers)


class Task:
    """One call of a node in one super-step."""

    __slots__ = (
        "_id", "_path_key", "error", "input", "memory", "name", "node", "origin", "path",
        "pending_interrupts", "triggers", "writes",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        node: Node,
        path: tuple[Any, ...],
        triggers: tuple[str, ...],
        value: Any,
        origin: StepOrigin,
    ) -> None:
        self.name, self.node, self.path, self.triggers = name, node, path, triggers
        self.input, self.origin = value, origin
        #: Set when the task ends: the writes of a finished task (None before), the interrupts of a
        #: paused task, the error of a failed task, and the memory for the next attempt as control
        #: writes.
        self.writes: Sequence[Write] | None = None
        self.pending_interrupts: tuple[PendingInterrupt, ...] = ()
        self.error: BaseException | None = None
        self.memory: Sequence[Write] = ()
        self._id: str | None = None
        self._path_key: str | None = None

    @property
    def id(self) -> str:
        """The id of the task. Planning again from the same checkpoint results in the same id."""
        if self._id is None:
            origin, name = self.origin, self.origin.get_former_name(self.name)
            if self.path[0] == PULL:
                place = f"{self._node_ns()}{origin.step}{name}{PULL}"
                triggers = origin.get_former_triggers(self.triggers)
                self._id = ids.make_task_id(origin.id_bytes, place, *triggers)
            else:
                self._id = ids.make_task_id(origin.sent_bytes(self.name), str(self.path[1]))
        return self._id

    def _node_ns(self) -> str:
        return self.origin.node_ns(self.name)

    @property
    def ns(self) -> str:
        """The namespace of a subgraph called by this task."""
        return f"{self._node_ns()}{NS_END}{self.id}"

    @property
    def path_key(self) -> str:
        """The path of the task as a text key. The keys sort in the same order as the paths."""
        if self._path_key is None:
            path = self.path
            if path[0] == PULL:
                self._path_key = ids.make_triggered_path_key(path[1])
            elif path[2] is False:
                self._path_key = ids.make_sent_path_key(path[1])
            else:
                self._path_key = ids.make_path_key(path)
        return self._path_key

    @property
    def interrupts(self) -> tuple[Interrupt, ...]:
        """The pending interrupts of the task, except breakpoints of its subgraphs."""
        return tuple(q.interrupt for q in self.pending_interrupts if q.kind == "interrupt")

    def build_interrupt(
        self,
        interrupt: Interrupt,
        index: int,
        key: str | None = None,
        refusal: str = "",
        expires: Expiry | None = None,
        review_options: Any = None,
        payload_formats: Mapping[str, str] | None = None,
    ) -> PendingInterrupt:
        """Return a PendingInterrupt: an interrupt with this task, its checkpoint and a position.

        ``index`` is the position among the task's interrupts, and ``key`` the key of the interrupt,
        if it has one. ``refusal`` is the reason why the previous response was rejected.
        ``review_options`` are the options of ``review()``. ``payload_formats`` are the formats of
        values in the payload that were converted to text, by JSON pointer.
        """
        return PendingInterrupt(
            interrupt=interrupt,
            node=self.name,
            task_id=self.id,
            task_path=self.path_key,
            checkpoint_ns=self.origin.ns,
            checkpoint_id=self.origin.checkpoint_id,
            index=index,
            key=key,
            refusal=refusal,
            expires=expires,
            review_options=review_options,
            payload_formats=payload_formats,
        )
