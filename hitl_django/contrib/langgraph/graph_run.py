"""A segment of a run of a LangGraph graph: from the stored state to the next pause or the end."""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from langgraph._internal import _constants as keys
from langgraph.constants import START
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.pregel import Pregel as ForeignPregel
from langgraph.pregel._messages import StreamMessagesHandler
from langgraph.pregel.protocol import StreamProtocol
from langgraph.runtime import Runtime

from hitl_django.db.node_connections import close_node_connections
from hitl_django.engine import ids
from hitl_django.engine.constants import INTERRUPT, NULL_TASK_ID
from hitl_django.engine.errors import InterruptChangedError, SaverFailed
from hitl_django.engine.savers.checkpoint import (
    BaseCheckpointSaver,
    Commit,
    Outcome,
    PendingInterrupt,
)
from hitl_django.engine.task.runtime import RunControl
from hitl_django.engine.types import Interrupt, RunnableConfig

from .cross_thread_calls import CrossThreadCalls
from .graph_adapter import needs_event_loop
from .resolved_groups import resolve_groups
from .run_saver import RunSaver
from .saver import BridgedSaver
from .tool_call_ids import ToolCallIds
from .uncommitted_chunks import UncommittedChunks

_COORDINATES = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id"})


def bind_saver(graph: ForeignPregel, saver: BridgedSaver) -> ForeignPregel:
    """Return a copy of the graph that uses ``saver`` as its checkpointer."""
    twin = copy.copy(graph)
    twin.checkpointer = saver
    return twin


class GraphRun:
    """A segment of a run in which a worker executes a LangGraph graph.

    LangGraph stores state from several OS threads, but the connection and the transaction of a
    worker belong to one OS thread. The graph therefore runs on a separate OS thread, and the
    worker's OS thread makes all storage calls.
    """

    def __init__(
        self,
        graph: ForeignPregel,
        saver: BaseCheckpointSaver,
        config: RunnableConfig,
        *,
        modes: frozenset[str],
        subgraphs: bool,
        keep: Callable[[Any], Any] | None,
        durability: str,
        context: Any = None,
    ) -> None:
        self._ours = saver
        self._config: Any = config
        self._modes = modes
        self._calls = CrossThreadCalls(_call)
        self._ledger = UncommittedChunks(modes, subgraphs=subgraphs, keep=keep)
        thread_id = config["configurable"]["thread_id"]
        self._durability, self._context = durability, context
        self._saver = RunSaver(
            saver, self._calls, thread_id, self._ledger, at_exit=durability == "exit"
        )
        self._saver.private = frozenset(config["configurable"]) - _COORDINATES
        self._needs_loop = needs_event_loop(graph)
        self._graph = bind_saver(resolve_groups(graph), self._saver)

    def advance(self, control: RunControl | None) -> Outcome:
        """Resume the graph from its stored state, and return the outcome."""
        try:
            state, outcome = self._calls.serve(partial(self._run, control))
        except BaseException as error:
            if control is not None:
                control.note_stop(error, self._ledger.list_running())
            raise
        root: RunnableConfig = {"configurable": {**state.config["configurable"]}}
        # The commit for the last interrupt of a task contains the task's earlier interrupts.
        asked = {
            pending.task_id: self._saver.task_interrupts.record_task_interrupts(pending)
            for pending in outcome.pending_interrupts
            if pending.kind == "interrupt"
        }
        chunks = self._saver.take_rest(outcome.status)
        self._ours.commit_all(
            [Commit(root, chunks=chunks), *asked.values(), Commit(root, outcome=outcome)]
        )
        return outcome

    def _run(self, control: RunControl | None) -> tuple[Any, Outcome]:
        with close_node_connections():
            state = self._graph.get_state(self._config)
            if state.tasks and (stop := self._find_breakpoint(state)) is not None:
                # An earlier worker got this far, and was killed before the pause was stored.
                self._saver.add_chunk(((), "updates", {INTERRUPT: ()}))
                return state, Outcome("interrupted", (stop,), state.next)
            # The last checkpoint may have been stored without its events.
            goes_on = state.tasks or "checkpoints" in self._modes
            failure = self._drive(state, control) if goes_on else None
            self._saver.store_rest()
            state = self._graph.get_state(self._config)
            return state, self._build_outcome(state, failure)

    def _drive(self, state: Any, control: RunControl | None) -> BaseException | None:
        """Run the graph, and return the exception with which it ended, or None."""
        options: dict[str, Any] = {
            "stream_mode": [], "control": control, "durability": self._durability,
            "context": self._context,
        }  # fmt: skip
        config = self._build_config()
        limit = config.get("recursion_limit")
        if limit and limit > 1 and _is_unstarted(state):
            # As in a call with this input, where storing the input counts as a step.
            config["recursion_limit"] = limit - 1
        try:
            if self._needs_loop:
                asyncio.run(self._adrive(config, options))
            else:
                deque(self._graph.stream(None, config, **options), maxlen=0)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as raised:
            error = raised.error if isinstance(raised, SaverFailed) else raised
            if self._ours.is_storage_error(error) or error is self._saver.failure:
                raise error from None
            if isinstance(error, GraphRecursionError):
                text = str(error).replace(f" {config['recursion_limit']} ", f" {limit} ")
                return GraphRecursionError(text)
            return error
        return None

    async def _adrive(self, config: Any, options: dict[str, Any]) -> None:
        async for _ in self._graph.astream(None, config, **options):
            pass

    def _build_config(self) -> Any:
        """Return the run's config, with the saver as the receiver of stream chunks.

        LangGraph calls the saver on the OS thread that emits the chunk. The streams of subgraphs
        work in the same way. LangGraph's usual stream delivers a chunk later, possibly after the
        chunk's state was stored.
        """
        modes: set[Any] = {"values", "updates", "tasks", "checkpoints"}
        own = {
            keys.CONFIG_KEY_STREAM: StreamProtocol(self._saver.add_chunk, modes),
            keys.CONFIG_KEY_RUNTIME: Runtime(stream_writer=self._ledger.add_custom),
        }
        callbacks: list[Any] = [ToolCallIds()]
        if "messages" in self._modes:
            callbacks.append(StreamMessagesHandler(self._saver.add_message, True))
        configurable = {**self._config["configurable"], **own}
        return {**self._config, "configurable": configurable, "callbacks": callbacks}

    def _build_outcome(self, state: Any, failure: BaseException | None) -> Outcome:
        if self._saver.task_interrupts.misplaced is not None:
            return Outcome("failed", next=state.next, error=self._saver.task_interrupts.misplaced)
        if isinstance(failure, GraphDrained):
            return Outcome("drained", next=state.next)
        if failure is not None:
            out = isinstance(failure, GraphRecursionError)
            return Outcome("out_of_steps" if out else "failed", next=state.next, error=failure)
        if not state.tasks:
            return Outcome("finished")
        pending_interrupts = self._saver.task_interrupts.list_interrupts(self._ledger.list_names())
        if lost := {one.id for one in state.interrupts} - {
            q.interrupt.id for q in pending_interrupts
        }:
            return Outcome("failed", next=state.next, error=_refuse_interrupts(state, lost))
        return Outcome(
            "interrupted",
            tuple(pending_interrupts) or (_build_breakpoint(state, _list_nodes(state)),),
            state.next,
        )

    def _find_breakpoint(self, state: Any) -> PendingInterrupt | None:
        """Return the breakpoint at which the run has stopped, or None.

        Breakpoints that a person has already approved don't count.
        """
        if state.config["configurable"]["checkpoint_id"] in self._saver.task_interrupts.passed:
            return None
        before = self._graph.interrupt_before_nodes
        hits = [name for name in _list_nodes(state) if _is_named(name, before)]
        after = self._graph.interrupt_after_nodes
        if not hits and after and state.parent_config and state.metadata["source"] == "loop":
            ran = _list_nodes(self._graph.get_state(state.parent_config))
            hits = [name for name in ran if _is_named(name, after)]
        return _build_breakpoint(state, hits) if hits else None


def _call(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


def _list_nodes(state: Any) -> list[str]:
    """Return the names of the nodes in the next super-step of a state.

    Some of these nodes may already have run, if the super-step is unfinished.
    """
    return [task.name for task in state.tasks]


def _is_unstarted(state: Any) -> bool:
    """Return whether a state contains only the input of a run, because no task has run yet."""
    ran = any(task.interrupts or task.error or task.result for task in state.tasks)
    return state.metadata["source"] == "input" and not ran


def _is_named(name: str, stops: Any) -> bool:
    return name != START if stops == "*" else name in stops


def _build_breakpoint(state: Any, names: list[str]) -> PendingInterrupt:
    checkpoint_id = state.config["configurable"]["checkpoint_id"]
    title = f"Continue past the breakpoint at {', '.join(names)}?"
    return PendingInterrupt(
        Interrupt({"title": title}, ids.make_interrupt_id(f"@{checkpoint_id}", 0)),
        names[0], NULL_TASK_ID, "", "", checkpoint_id, kind="breakpoint",
    )  # fmt: skip


def _refuse_interrupts(state: Any, lost: set[str]) -> InterruptChangedError:
    asked = sorted(task.name for task in state.tasks if {one.id for one in task.interrupts} & lost)
    return InterruptChangedError(
        f"Node {', '.join(asked)} raised an interrupt in a subgraph without a "
        "checkpointer, so it can't be answered. Compile the subgraph without "
        "checkpointer=False."
    )
