"""Stream chunks of a run in the requested modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..constants import INTERRUPT
from ..errors import DrainSignal, ParentCommand
from ..task.context import TaskContext
from ..task.task import Task
from ..task.task_memory import NO_MEMORY
from ..types import Chunk
from . import stream_modes
from .checkpoint_chunk import build_checkpoint_chunk
from .effects import Emit
from .state import LoopState


def emit_writes(state: LoopState, task: Task | None, chunks: Sequence[Chunk]) -> Sequence[Emit]:
    """Emit the stream chunks about writes, or withhold them until the writes have been stored.

    If ``state.withheld`` is None, the chunks are emitted immediately. ``task`` is the task that
    made the writes, or None for the writes of a whole super-step.
    """
    if state.withheld is None:
        return (Emit(chunks),)
    state.withheld.append((None if task is None else task.id, chunks))
    return ()


def emit_withheld(state: LoopState) -> Sequence[Emit]:
    """Emit the stream chunks that were withheld until their writes were stored."""
    waiting, state.withheld = state.withheld, []
    return [Emit(chunks) for _, chunks in waiting or ()]


def emit_values(
    state: LoopState, tasks: Sequence[Task] | None, *, is_stored: bool = True
) -> Sequence[Emit]:
    """Emit the graph's output if writes of ``tasks`` have changed it.

    If ``tasks`` is None, the output is always emitted. If ``is_stored`` is false, the output is
    emitted later, after it has been stored.
    """
    if tasks is not None and not is_output_changed(state, tasks):
        return ()
    state.has_values = True
    if "values" not in state.run.modes:
        return ()
    emitted = [(state.ns, "values", state.read_output())]
    return (Emit(emitted),) if is_stored else emit_writes(state, None, emitted)


def is_output_changed(state: LoopState, tasks: Sequence[Task]) -> bool:
    """Return whether the writes of ``tasks`` have updated an output channel."""
    output = state.output_set
    if output.isdisjoint(state.channel_state.updated or ()):
        return False
    for task in tasks:
        for name, _ in task.writes or ():
            if name in output:
                return True
    return False


def emit_step(state: LoopState) -> Sequence[Emit]:
    """Emit the stream chunks at the start of the next super-step."""
    if state.run.modes and (chunks := build_step_chunks(state)):
        return (Emit(chunks),)
    return ()


def build_step_chunks(state: LoopState) -> list[Chunk]:
    """Return the stream chunks at the start of a super-step, or at the end of the run.

    The chunks describe the checkpoint, the tasks of the super-step, and the tasks that have
    finished.
    """
    chunks: list[Chunk] = []
    modes = state.run.modes
    if state.describes and state.saver is not None:
        _add(state, chunks, "checkpoints", build_checkpoint_chunk, state)
    if state.outcome is None:
        if state.describes:
            about = (state.user_metadata, state.run.config.get("tags") or ())
            for task in state.tasks:
                if not task.node.hidden:
                    _add(state, chunks, "tasks", stream_modes.describe_start, task, *about)
        if "updates" in modes:
            for task in state.tasks:
                if task.writes and not task.node.hidden:
                    update = stream_modes.build_update(
                        task, task.writes, state.output_keys, cached=True
                    )
                    chunks.append((state.ns, "updates", update))
    elif state.outcome.status == "interrupted":
        chunks += build_breakpoint_chunks(state)
    return chunks


def build_breakpoint_chunks(state: LoopState) -> list[Chunk]:
    """Return the stream chunks for a pause at a breakpoint.

    Only the root graph emits these chunks.
    """
    if state.job.nested or "updates" not in state.run.modes:
        return []
    return [(state.ns, "updates", {INTERRUPT: ()})]


def build_call_chunks(state: LoopState, task: Task) -> list[Chunk]:
    """Return the stream chunks for the start of a task that a running task has called."""
    chunks: list[Chunk] = []
    about = (state.user_metadata, state.run.config.get("tags") or ())
    _add(state, chunks, "tasks", stream_modes.describe_start, task, *about)
    return chunks


def build_cached_chunks(state: LoopState, task: Task) -> list[Chunk]:
    """Return the stream chunks of a task that doesn't run because its result is cached."""
    if "updates" not in state.run.modes:
        return []
    update = stream_modes.build_update(task, task.writes or (), state.output_keys, cached=True)
    return [(state.ns, "updates", update)]


def build_task_chunks(state: LoopState, task: Task) -> list[Chunk]:
    """Return the stream chunks of an ended task: first those that it emitted, then its result."""
    run, chunks = state.run, []
    modes = run.modes
    if run.chunk_buffer is not None:
        chunks = run.chunk_buffer.take(task.id)
        if isinstance(task.error, DrainSignal):
            return []  # The task runs again and then emits its chunks.
    if run.message_recorder is not None:
        chunks += run.message_recorder.take()
    if task.writes and run.message_stream is not None and "messages" in modes:
        metadata = TaskContext(task, run, NO_MEMORY).config()["metadata"]
        chunks += run.message_stream.build_chunks(state.ns, task.input, task.writes, metadata)
    if task.pending_interrupts:
        interrupts = task.interrupts
        if not interrupts:
            return chunks  # A breakpoint in a subgraph has no chunks in the calling graph.
        if "updates" in modes:
            chunks.append((state.ns, "updates", {INTERRUPT: interrupts}))
        if "values" in modes:
            values = state.read_output()
            data = (
                {**values, INTERRUPT: interrupts}
                if isinstance(values, dict)
                else {INTERRUPT: interrupts}
            )
            chunks.append((state.ns, "values", data))
    elif task.error is None and "updates" in modes:
        update = stream_modes.build_update(task, task.writes or (), state.output_keys, cached=False)
        chunks.append((state.ns, "updates", update))
    if state.describes and not isinstance(task.error, ParentCommand):
        _add(state, chunks, "tasks", stream_modes.describe_end, task, state.graph.stream_keys)
    return chunks


def _add(state: LoopState, chunks: list[Chunk], mode: str, make: Any, *args: Any) -> None:
    modes = state.run.modes
    if mode not in modes and "debug" not in modes:
        return
    data = make(*args)
    if mode in modes:
        chunks.append((state.ns, mode, data))
    if "debug" in modes:
        chunks.append(
            (state.ns, "debug", stream_modes.wrap_for_debug(mode, state.origin.step, data))
        )


def make_nested_sink(state: LoopState, parent: TaskContext) -> Callable[[Chunk], None]:
    """Return a function that receives the stream chunks of a subgraph called by ``parent``.

    If the calling run doesn't store chunks, the function emits the chunks in the calling run.
    Otherwise, the chunks become part of the subgraph's commits. If the subgraph makes no commits,
    the chunks are passed to the task ``parent``.
    """
    buffer = parent.run.chunk_buffer
    if buffer is None:
        return parent.run.emit
    pass_on = partial(buffer.forward, parent.task.id)
    if state.saver is None:
        return pass_on
    state.pass_on = pass_on
    return state.commits.chunks.append
