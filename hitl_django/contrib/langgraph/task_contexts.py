"""Contexts for ``once``, ``transact`` and ``review`` in nodes and tools of LangGraph graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Lock
from typing import Any, cast

from langgraph._internal import _constants as keys
from langgraph.config import get_config
from langgraph.errors import GraphInterrupt as ForeignPause

from hitl_django.engine import ids
from hitl_django.engine.constants import INTERRUPT, NS_END, NS_SEP
from hitl_django.engine.errors import GraphInterrupt, InterruptChangedError
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from hitl_django.engine.task.context import TaskContext
from hitl_django.engine.task.nodes import Node
from hitl_django.engine.task.part_context import PartContext
from hitl_django.engine.task.run_context import RunContext
from hitl_django.engine.task.runtime import Runtime
from hitl_django.engine.task.task import StepOrigin, Task
from hitl_django.engine.task.task_memory import NO_MEMORY, TaskMemory
from hitl_django.engine.task.task_status import TaskStatus
from hitl_django.engine.types import Expiry, RunnableConfig

from .conversions import convert_to_theirs
from .task_interrupts import TaskInterrupts
from .tool_call_ids import tool_call_id


class GraphNodeContext(PartContext):
    """The context of an engine task that runs a LangGraph graph.

    An interrupt or a once() result is identified by the LangGraph task and the tool call that
    created it.
    """

    def get_part(self) -> str:
        task_id, called = get_config()["configurable"][keys.CONFIG_KEY_TASK_ID], tool_call_id.get()
        return f"{task_id}/{called}" if called else str(task_id)

    def _count_interrupt(self, part: str) -> int:
        return super()._count_interrupt(f"{part} {_get_attempt(get_config()['configurable'])}")


class LangGraphTaskContext(PartContext):
    """The context of a task of a registered LangGraph graph.

    Interrupts and once() results are identified by the tool call that creates them.
    """

    def __init__(self, context: TaskContext, asked: TaskInterrupts, attempt: int) -> None:
        super().__init__(context, context.perform)
        self._asked, self.number = asked, attempt

    def get_part(self) -> str:
        return tool_call_id.get()

    def ask(
        self,
        value: Any,
        schema: Any,
        key: str | None,
        expires: Expiry | None = None,
        review_options: Any = None,
    ) -> Any:
        """Create an interrupt with a key, and pause the task with LangGraph's exception."""
        try:
            return super().ask(value, schema, key, expires, review_options)
        except GraphInterrupt:
            self._asked.add_keyed(self._context.open)
            raise self.build_pause() from None
        except InterruptChangedError as error:
            self._asked.misplaced = error
            raise ForeignPause(()) from None

    def build_pause(self) -> ForeignPause:
        """Return LangGraph's exception with all interrupts that the task has created."""
        asked = [one.interrupt for one in self._context.open]
        return ForeignPause(convert_to_theirs(INTERRUPT, asked))


class _ForeignTask(Task):
    """A task of a LangGraph graph, with LangGraph's id."""

    __slots__ = ()

    def __init__(self, name: str, task_id: str, path_key: str, origin: StepOrigin) -> None:
        super().__init__(name, _NODE, (), (), None, origin)
        self._id, self._path_key = task_id, path_key


_NODE = Node(action=None, triggers=(), keys=())


class _StoredSteps:
    """The super-steps of a LangGraph graph. LangGraph stores them, so the engine stores none."""

    has_unsaved_commits = False

    def store_overdue(self) -> None:
        pass


class TaskContexts:
    """The contexts of the tasks of one run of a registered LangGraph graph.

    ``find_status`` returns the stored status of a task. ``list_awaited`` returns the futures that
    must complete before results of a task are stored.
    """

    def __init__(
        self,
        saver: BaseCheckpointSaver,
        thread_id: str,
        asked: TaskInterrupts,
        perform: Callable[..., Any],
        list_awaited: Callable[[RunnableConfig], Sequence[Future[None]]],
        find_status: Callable[[str, str], TaskStatus | None],
    ) -> None:
        self._asked, self._call = asked, perform
        self._list_awaited, self._find_status = list_awaited, find_status
        self._lock = Lock()
        self._found: dict[str, LangGraphTaskContext] = {}
        self._run = run = RunContext(
            config={"configurable": {"on_interrupt_change": "error"}}, saver=saver,
            thread_id=thread_id, store=None, runtime=Runtime(), control=None, durability="async",
            modes=frozenset(), emit=_ignore, forwards=frozenset(), subgraphs=False, live=False,
            perform=perform, answers={}, passes_breakpoints=False, checkpoint_map={},
        )  # fmt: skip
        run.reasks, run.loop_state = True, _StoredSteps()

    def find_context(
        self, configurable: Mapping[str, Any], ns: str, checkpoint_id: str
    ) -> LangGraphTaskContext:
        """Return the context of the running task of the graph in a namespace.

        ``checkpoint_id`` is the id of the checkpoint from which the task started.
        """
        task_id, attempt = configurable[keys.CONFIG_KEY_TASK_ID], _get_attempt(configurable)
        with self._lock:
            known = self._found.get(task_id)
            if known is None:
                context = self._build_context(configurable, ns, checkpoint_id)
            elif known.number == attempt:
                return known
            else:
                context = known.full_context
                context.begin_attempt()
            found = LangGraphTaskContext(context, self._asked, attempt)
            self._found[task_id] = found
            return found

    def find_pause(self, configurable: Mapping[str, Any], pause: ForeignPause) -> ForeignPause:
        """Return the pause of a task, with the interrupts of all tools that the task has called."""
        known = self._found.get(configurable[keys.CONFIG_KEY_TASK_ID])
        if known is None:
            return pause
        asked = {one.id: one for one in (*pause.args[0], *known.build_pause().args[0])}
        return ForeignPause(tuple(asked.values()))

    def _build_context(
        self, configurable: Mapping[str, Any], ns: str, checkpoint_id: str
    ) -> TaskContext:
        own = configurable[keys.CONFIG_KEY_CHECKPOINT_NS].rpartition(NS_SEP)[2]
        name, _, task_id = own.partition(NS_END)
        path = ids.make_path_key(get_config()["metadata"]["langgraph_path"])
        origin = StepOrigin(cast(Any, None), {}, checkpoint_id, ns, 0, 0)
        task = _ForeignTask(name, task_id, path, origin)
        status = self._find_status(ns, task_id)
        memory = NO_MEMORY if status is None else TaskMemory.from_status(status)
        context = TaskContext(task, self._run, memory)
        base: RunnableConfig = {
            "configurable": {"checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
        }
        context.perform = partial(self._perform, base)
        return context

    def _perform(self, base: RunnableConfig, function: Callable[..., Any], *args: Any) -> Any:
        """Wait until the checkpoint from which the task started is stored, then call ``function``.

        ``base`` is the config of this checkpoint.

        Raises:
            RuntimeError: the checkpoint isn't stored yet, and waiting would block the event loop.
        """
        for stored in self._list_awaited(base):
            if not stored.done() and _is_on_event_loop():
                raise RuntimeError(
                    "once() and transact() can't be called on the event loop before the graph's "
                    "step is stored. Pass an async function to once(), call them in "
                    'asyncio.to_thread(), or register the graph with durability="sync".'
                )
            stored.result()
        return self._call(function, *args)


def _get_attempt(configurable: Mapping[str, Any]) -> int:
    runtime = configurable.get(keys.CONFIG_KEY_RUNTIME)
    return getattr(getattr(runtime, "execution_info", None), "node_attempt", 1)


def _is_on_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _ignore(chunk: tuple[Any, ...]) -> None:
    pass
