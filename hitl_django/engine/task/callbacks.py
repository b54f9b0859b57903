"""Callback handlers in ``config["callbacks"]``, called when a run pauses or resumes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..types import Interrupt

logger = logging.getLogger("hitl_django")


#: The state of a run when an event was sent.
GraphLifecycleStatus = Literal[
    "input", "pending", "done", "interrupt_before", "interrupt_after", "out_of_steps"
]


@dataclass(frozen=True, slots=True)
class GraphInterruptEvent:
    """The event of a paused run, with the run's checkpoint and interrupts."""

    run_id: Any
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]
    interrupts: tuple[Interrupt, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphResumeEvent:
    """The event of a run that resumes from a stored checkpoint, with the checkpoint's id."""

    run_id: Any
    status: GraphLifecycleStatus
    checkpoint_id: str
    checkpoint_ns: tuple[str, ...]


GraphLifecycleEvent = GraphInterruptEvent | GraphResumeEvent


class GraphCallbackHandler:
    """Base class of handlers in ``config["callbacks"]`` for pauses and resumptions of runs.

    Subclasses override the methods of the events to handle. An exception in a handler is logged. If
    ``raise_error`` is set, the exception is also raised.
    """

    raise_error = False
    run_inline = False
    # langchain's runnables and tools receive the same callbacks and use these attributes to skip
    # events.
    ignore_llm = ignore_chain = ignore_agent = ignore_retriever = ignore_retry = True
    ignore_chat_model = ignore_custom_event = True

    def on_interrupt(self, event: GraphInterruptEvent) -> Any:
        """Handle the pause of a run."""

    def on_resume(self, event: GraphResumeEvent) -> Any:
        """Handle the resumption of a run from a stored checkpoint."""


def list_handlers(callbacks: Any) -> list[GraphCallbackHandler]:
    """Return the GraphCallbackHandlers in ``callbacks``, a list or a callback manager."""
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
    for handler, call in _calls(handlers, event):
        try:
            answer = call(event)
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            if handler.raise_error:
                raise
            logger.exception("Callback handler %s failed", type(handler).__name__)
