"""Callback handlers in ``config["callbacks"]``: called when a run pauses and when it goes on."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..types import Interrupt

logger = logging.getLogger("hitl_django")


#: Where a run stood when an event of it was sent.
GraphLifecycleStatus = Literal[
    "input", "pending", "done", "interrupt_before", "interrupt_after", "out_of_steps"
]


@dataclass(frozen=True, slots=True)
class GraphInterruptEvent:
    """A run has paused: at which checkpoint of which graph, and to ask what."""

    run_id: Any
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]
    interrupts: tuple[Interrupt, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphResumeEvent:
    """A graph goes on from a stored checkpoint."""

    run_id: Any
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]


GraphLifecycleEvent = GraphInterruptEvent | GraphResumeEvent


class GraphCallbackHandler:
    """Override what you want to hear of; pass an instance in ``config["callbacks"]``.

    An exception in a handler is logged, and raised where ``raise_error`` is set.
    """

    raise_error = False
    run_inline = False
    # langchain's runnables and tools are handed the same callbacks, and ask a handler what it
    # doesn't want to hear of.
    ignore_llm = ignore_chain = ignore_agent = ignore_retriever = ignore_retry = True
    ignore_chat_model = ignore_custom_event = True

    def on_interrupt(self, event: GraphInterruptEvent) -> Any:
        """Hear that the run has paused."""

    def on_resume(self, event: GraphResumeEvent) -> Any:
        """Hear that a graph goes on from a stored checkpoint."""


def list_handlers(callbacks: Any) -> list[GraphCallbackHandler]:
    """Return the graph handlers among a config's callbacks: a list, or a manager with handlers."""
    found: Iterable[Any] = getattr(callbacks, "handlers", callbacks) or ()
    return [handler for handler in found if isinstance(handler, GraphCallbackHandler)]


def _calls(
    handlers: Iterable[GraphCallbackHandler], event: GraphLifecycleEvent
) -> Iterator[tuple[GraphCallbackHandler, Any]]:
    for handler in handlers:
        pauses = isinstance(event, GraphInterruptEvent)
        yield handler, handler.on_interrupt if pauses else handler.on_resume


def call_handlers(handlers: Iterable[GraphCallbackHandler], event: GraphLifecycleEvent) -> None:
    """Call each handler with the event."""
    for handler, call in _calls(handlers, event):
        try:
            call(event)
        except Exception:
            if handler.raise_error:
                raise
            logger.exception("Callback handler %s failed", type(handler).__name__)


async def acall_handlers(
    handlers: Iterable[GraphCallbackHandler], event: GraphLifecycleEvent
) -> None:
    """Like call_handlers; a handler may be async."""
    for handler, call in _calls(handlers, event):
        try:
            answer = call(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            if handler.raise_error:
                raise
            logger.exception("Callback handler %s failed", type(handler).__name__)
