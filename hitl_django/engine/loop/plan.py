"""Which tasks the next super-step runs: a function of the state and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from .. import ids
from ..channels import MISSING
from ..constants import INTERRUPT, NS_END, NS_SEP, PULL, PUSH, TASKS
from ..errors import annotate
from ..savers.checkpoint import Question
from ..task.nodes import Node, Write
from ..terms import ReviewTerms
from ..types import All, Expiry, Interrupt, Send
from .graph_spec import Blueprint, State


class Origin:
    """Where the tasks of one super-step start: checkpoint, namespace, step, and held values.

    ``values`` doesn't change while the tasks run.
    """

    __slots__ = (
        "_checkpoint_id", "_id_bytes", "_sent", "blueprint", "ns", "step", "stop", "values",
    )  # fmt: skip

    def __init__(
        self,
        blueprint: Blueprint,
        values: Mapping[str, Any],
        checkpoint_id: str | None,
        ns: str,
        step: int,
        stop: int,
    ) -> None:
        self.blueprint, self.values = blueprint, values
        self._checkpoint_id, self.ns, self.step, self.stop = checkpoint_id, ns, step, stop
        self._id_bytes = b""
        self._sent: dict[str, bytes] = {}

    @property
    def checkpoint_id(self) -> str:
        """The checkpoint's id; made at the first use, as an unsaved run rarely needs one."""
        if self._checkpoint_id is None:
            self._checkpoint_id = ids.new_uuid6()
        return self._checkpoint_id

    @property
    def id_bytes(self) -> bytes:
        """The checkpoint's id as bytes, of which the ids of all tasks of the step are made."""
        if not self._id_bytes:
            self._id_bytes = ids.checkpoint_bytes(self.checkpoint_id)
        return self._id_bytes

    def sent_bytes(self, name: str) -> bytes:
        """What the ids of all tasks that are sent to one node in this step begin with."""
        known = self._sent.get(name)
        if known is None:
            parts = self.node_ns(name), str(self.step), name, PUSH
            known = self._sent[name] = self.id_bytes + "".join(parts).encode()
        return known

    def node_ns(self, name: str) -> str:
        """Returns the namespace of a node's tasks, less their ids."""
        return f"{self.ns}{NS_SEP}{name}" if self.ns else name


class Task:
    """One node call of one super-step."""

    __slots__ = (
        "_id", "_path_key", "error", "input", "memory", "name", "node", "origin", "path",
        "questions", "triggers", "writes",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        node: Node,
        path: tuple[Any, ...],
        triggers: tuple[str, ...],
        value: Any,
        origin: Origin,
    ) -> None:
        self.name, self.node, self.path, self.triggers = name, node, path, triggers
        self.input, self.origin = value, origin
        #: What it wrote (None until it has finished), which questions stopped it, what failed it,
        #: and what it has to remember when it runs again, as control writes.
        self.writes: Sequence[Write] | None = None
        self.questions: tuple[Question, ...] = ()
        self.error: BaseException | None = None
        self.memory: Sequence[Write] = ()
        self._id: str | None = None
        self._path_key: str | None = None

    @property
    def id(self) -> str:
        """The id that the same task has whenever it is planned from the same checkpoint."""
        if self._id is None:
            origin, name = self.origin, self.name
            if self.path[0] == PULL:
                place = origin.node_ns(name), str(origin.step), name, PULL, *self.triggers
                self._id = ids.task_id(origin.id_bytes, *place)
            else:
                self._id = ids.task_id(origin.sent_bytes(name), str(self.path[1]))
        return self._id

    def _node_ns(self) -> str:
        return self.origin.node_ns(self.name)

    @property
    def ns(self) -> str:
        """The namespace of what runs inside this task."""
        return f"{self._node_ns()}{NS_END}{self.id}"

    @property
    def path_key(self) -> str:
        """The task's path as text that sorts."""
        if self._path_key is None:
            path = self.path
            is_sent = path[0] == PUSH and path[2] is False
            self._path_key = ids.sent_path_key(path[1]) if is_sent else ids.path_key(path)
        return self._path_key

    @property
    def asked(self) -> tuple[Interrupt, ...]:
        """The questions it waits for; a breakpoint further down is not one of them."""
        return tuple(q.interrupt for q in self.questions if q.kind == "interrupt")

    def question(
        self,
        interrupt: Interrupt,
        index: int,
        key: str | None = None,
        refusal: str = "",
        expires: Expiry | None = None,
        terms: ReviewTerms | None = None,
    ) -> Question:
        """Returns a question with this task's coordinates."""
        return Question(
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
            terms=terms,
        )


def plan(blueprint: Blueprint, state: State, origin: Origin) -> list[Task]:
    """Returns the tasks of the next super-step: what was sent, then what was triggered."""
    tasks: list[Task] = []
    sends = state.values.get(TASKS)
    if sends:
        for index, send in enumerate(sends):
            task = _sent_task(blueprint, send, index, origin)
            if task is not None:
                tasks.append(task)
    for name in _candidates(blueprint, state):
        node = blueprint.nodes[name]
        if _is_triggered(blueprint, state, name, node):
            task = _triggered_task(blueprint, state, name, node, origin)
            if task is not None:
                tasks.append(task)
    return tasks


def _sent_task(blueprint: Blueprint, send: Any, index: int, origin: Origin) -> Task | None:
    if not isinstance(send, Send) or send.node not in blueprint.nodes:
        return None
    node = blueprint.nodes[send.node]
    if send.timeout is not None:
        node = replace(node, timeout=send.timeout)
    return Task(send.node, node, (PUSH, index, False), (PUSH,), send.arg, origin)


def _triggered_task(
    blueprint: Blueprint, state: State, name: str, node: Node, origin: Origin
) -> Task | None:
    task = Task(name, node, (PULL, name), node.sorted_triggers, None, origin)
    try:
        task.input = read_input(blueprint, state, node, origin)
    except Exception as error:
        # The state doesn't fit what the node declares. That is this task's failure, and the step
        # before it, which has been taken, stays taken.
        annotate(error, f"Before task with name '{name}' and path '{task.path}'")
        task.error = error
    return None if task.input is MISSING else task


def _candidates(blueprint: Blueprint, state: State) -> Iterable[str]:
    if state.updated:
        mapping, names = blueprint.trigger_to_nodes, []
        for channel in state.updated:
            if channel in mapping:
                names += mapping[channel]
        return sorted(set(names)) if len(names) > 1 else names
    return blueprint.nodes if state.versions else ()


def _is_triggered(blueprint: Blueprint, state: State, name: str, node: Node) -> bool:
    values, versions = state.values, state.versions
    seen = state.seen.get(name)
    for trigger in node.triggers:
        held = values.get(trigger, MISSING)
        if held is MISSING:
            continue
        if trigger in blueprint.mixed and not blueprint.channels[trigger].is_held(held):
            continue
        if seen is None:
            return True
        version = versions.get(trigger)
        if version is not None:
            last = seen.get(trigger)
            if last is None or version > last:
                return True
    return False


def read_input(blueprint: Blueprint, state: State, node: Node, origin: Origin) -> Any:
    """Returns what a node is called with, or MISSING where its one channel is empty."""
    if isinstance(node.keys, str):
        held = state.values.get(node.keys, MISSING)
        value = held if held is MISSING else blueprint.channels[node.keys].read(held)
        if value is MISSING:
            return MISSING
        return value if node.coercion is None else node.coercion(value)
    # A set asked of a set looks at the smaller one: a wide state is not walked to be told that all
    # of it is plain.
    if blueprint.mixed.isdisjoint(node.key_set):
        stored, values = state.values, {}
        for key in node.keys:
            if key in stored:
                values[key] = stored[key]
    else:
        values = read_state(blueprint, state.values, node.keys)
    if blueprint.managed:
        for key in node.keys:
            if key in blueprint.managed:
                values[key] = blueprint.managed[key].compute(origin.step, origin.stop)
    return values if node.coercion is None else node.coercion(values)


def read_state(
    blueprint: Blueprint, values: Mapping[str, Any], keys: Sequence[str]
) -> dict[str, Any]:
    """Returns the state that nodes see of the channels ``keys``, leaving out empty ones."""
    if blueprint.mixed.isdisjoint(keys):
        return {key: values[key] for key in keys if key in values}
    state = {}
    for key in keys:
        held = values.get(key, MISSING)
        if held is not MISSING:
            value = blueprint.channels[key].read(held)
            if value is not MISSING:
                state[key] = value
    return state


def breakpoint_hits(state: State, names: All | Sequence[str], tasks: Iterable[Task]) -> list[Task]:
    """Returns the tasks that a static breakpoint stops at.

    None where nothing changed since the run last passed a breakpoint.
    """
    if not names:
        return []
    hits = [
        task for task in tasks if (not task.node.hidden if names == "*" else task.name in names)
    ]
    if not hits:
        return []
    passed_at = state.seen.get(INTERRUPT, {}).get(INTERRUPT)
    moved = state.clock is not None and (passed_at is None or state.clock > passed_at)
    return hits if moved else []
