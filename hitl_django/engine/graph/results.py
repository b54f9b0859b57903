"""Conversion of a run's outcome to the caller's result: the state, the chunks, or an exception."""

from __future__ import annotations

from typing import Any

from ..arguments import check_choice
from ..constants import INTERRUPT, START
from ..errors import DrainSignal, GraphDrained, GraphInterrupt
from ..loop.compiled_graph import CompiledGraph
from ..loop.state import LoopState
from ..state.schema import get_coercion
from ..types import STREAM_MODES, Chunk, GraphOutput


def build_result(state: LoopState, version: str) -> Any:
    """Return the result of ``invoke`` for a run that has ended, or raise the error of the run."""
    raise_outcome(state)
    assert state.outcome is not None
    values = state.read_output() if state.has_values else None
    interrupts = [q.interrupt for q in state.outcome.pending_interrupts if q.kind == "interrupt"]
    if version == "v2":
        return GraphOutput(_coerced(state.graph.output_type, values), tuple(interrupts))
    if not interrupts:
        return values
    return (
        {**values, INTERRUPT: interrupts} if isinstance(values, dict) else {INTERRUPT: interrupts}
    )


def raise_outcome(state: LoopState) -> None:
    """Raise the exception that ``find_failure`` returns for a run, unless the result is None."""
    failure = find_failure(state)
    if failure is not None:
        raise failure


def find_failure(state: LoopState) -> BaseException | None:
    """Return the exception that a run must raise, or None.

    A run must raise an exception if it failed, or if a requested stop (a drain) stopped the run. A
    run of a subgraph must also raise an exception if it paused.
    """
    failure = _find_own_failure(state)
    if failure is None or state.run.host is None:
        return failure
    return state.run.host.convert_failure(failure)  # type: ignore[no-any-return]


def _find_own_failure(state: LoopState) -> BaseException | None:
    outcome = state.outcome
    if outcome is None:
        return None
    if outcome.error is not None:
        return outcome.error
    if outcome.status == "drained" and state.job.nested:
        return DrainSignal()
    if outcome.status == "drained":
        control = state.run.control
        return GraphDrained((control and control.drain_reason) or "shutdown")
    if outcome.status == "interrupted" and state.job.nested:
        return GraphInterrupt(outcome.pending_interrupts)
    return None


def parse_modes(stream_mode: Any) -> frozenset[str]:
    """Return the ``stream_mode`` argument as a set.

    Raises:
        ValueError: a mode doesn't exist.
    """
    modes = frozenset((stream_mode,) if isinstance(stream_mode, str) else stream_mode)
    for mode in modes:
        check_choice("stream_mode", mode, STREAM_MODES)
    return modes


def convert_chunk(
    graph: CompiledGraph, chunk: Chunk, modes: Any, subgraphs: bool, version: str
) -> Any:
    """Return a stream chunk in the form that the caller has requested.

    In version 1, the chunk includes the namespace only with ``subgraphs``, and the mode only if
    ``modes`` is a list.
    """
    ns, mode, data = chunk
    if version == "v2":
        return _build_part(graph, ns, mode, data)
    if isinstance(modes, str):
        return (ns, data) if subgraphs else data
    return (ns, mode, data) if subgraphs else (mode, data)


def _build_part(graph: CompiledGraph, ns: Any, mode: str, data: Any) -> dict[str, Any]:
    part = {"type": mode, "ns": ns, "data": data}
    if mode == "values":
        interrupts = data.get(INTERRUPT, ()) if isinstance(data, dict) else ()
        if isinstance(data, dict):
            data = {key: value for key, value in data.items() if key != INTERRUPT}
            part["data"] = _coerced(graph.output_type, data)
        part["interrupts"] = interrupts
    elif mode == "checkpoints":
        part["data"] = _coerce_checkpoint(graph, data)
    elif mode == "debug" and data["type"] == "checkpoint":
        part["data"] = {**data, "payload": _coerce_checkpoint(graph, data["payload"])}
    return part


def _coerce_checkpoint(graph: CompiledGraph, checkpoint: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a checkpoint chunk in which the state is an instance of the state schema.

    Before the first input, the state doesn't fit the schema, and the chunk is returned unchanged.
    """
    if START in checkpoint["next"]:
        return checkpoint
    return {**checkpoint, "values": _coerced(graph.state_schema, checkpoint["values"])}


def _coerced(schema: Any, values: Any) -> Any:
    coercion = get_coercion(schema)
    return coercion(values) if coercion is not None and isinstance(values, dict) else values
