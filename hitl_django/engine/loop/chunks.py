"""What a loop tells while it goes: which chunks, in which of the modes that were asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..constants import INTERRUPT
from ..errors import DrainSignal, ParentCommand
from . import stream_modes
from .plan import Task
from .stream_modes import Chunk

if TYPE_CHECKING:
    from .loop import Loop


def of_step(loop: Loop) -> list[Chunk]:
    """Returns the chunks of a super-step about to begin, or of the run that ends before it.

    The checkpoint it starts from, its tasks, and what those had done that don't run again.
    """
    chunks: list[Chunk] = []
    if loop.saver is not None:
        _add(loop, chunks, "checkpoints", loop.graph.checkpoint_chunk, loop)
    if loop.outcome is None:
        shown = [task for task in loop.tasks if not task.node.hidden]
        about = (loop.user_metadata, loop.run.config.get("tags") or ())
        for task in shown:
            _add(loop, chunks, "tasks", stream_modes.task_started, task, *about)
        for task in shown:
            if task.writes and "updates" in loop.run.modes:
                update = stream_modes.updates_of_task(
                    task, task.writes, loop.output_keys, cached=True
                )
                chunks.append((loop.ns, "updates", update))
    elif loop.outcome.status == "interrupted" and "updates" in loop.run.modes:
        chunks.append((loop.ns, "updates", {INTERRUPT: ()}))
    return chunks


def of_call(loop: Loop, task: Task) -> list[Chunk]:
    """Returns the chunks of a task that a running one calls."""
    chunks: list[Chunk] = []
    about = (loop.user_metadata, loop.run.config.get("tags") or ())
    _add(loop, chunks, "tasks", stream_modes.task_started, task, *about)
    return chunks


def of_recalled(loop: Loop, task: Task) -> list[Chunk]:
    """Returns the chunks of a task whose result came from the cache."""
    if "updates" not in loop.run.modes:
        return []
    update = stream_modes.updates_of_task(task, task.writes or (), loop.output_keys, cached=True)
    return [(loop.ns, "updates", update)]


def of_task(loop: Loop, task: Task) -> list[Chunk]:
    """Returns the chunks of a task that has ended, after what it told and was held back."""
    chunks = [] if loop.run.notes is None else loop.run.notes.take(task.id)
    if loop.run.notes is not None and isinstance(task.error, DrainSignal):
        return []  # it runs again, and tells it then
    modes = loop.run.modes
    if task.questions:
        asked = task.asked
        if "updates" in modes:
            chunks.append((loop.ns, "updates", {INTERRUPT: asked}))
        if not asked:
            return chunks  # it stopped at a breakpoint further down, and has nothing to say
        if "values" in modes:
            values = loop.values()
            whole = {**values, INTERRUPT: asked} if isinstance(values, dict) else {INTERRUPT: asked}
            chunks.append((loop.ns, "values", whole))
    elif task.error is None and "updates" in modes:
        update = stream_modes.updates_of_task(
            task, task.writes or (), loop.output_keys, cached=False
        )
        chunks.append((loop.ns, "updates", update))
    if not isinstance(task.error, ParentCommand):
        _add(loop, chunks, "tasks", stream_modes.task_ended, task, loop.graph.stream_keys)
    return chunks


def _add(loop: Loop, chunks: list[Chunk], mode: str, make: Any, *args: Any) -> None:
    modes = loop.run.modes
    if mode not in modes and "debug" not in modes:
        return
    data = make(*args)
    if mode in modes:
        chunks.append((loop.ns, mode, data))
    if "debug" in modes:
        chunks.append((loop.ns, "debug", stream_modes.in_debug(mode, loop.origin.step, data)))
