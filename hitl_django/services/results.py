"""Results of the services: plain values, so that no row leaves them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar, overload
from uuid import UUID

from hitl_django.models import Decision, Run

from .runs.state import run_result

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """A run as it stands; ``created`` is False where ``start`` found the one it was asked for."""

    id: UUID
    thread_id: str
    graph: str
    state: str
    created: bool
    step: int
    error: str

    @classmethod
    def from_row(cls, run: Run, *, created: bool = False) -> RunInfo:
        """Return a run's row as a plain value."""
        return cls(
            id=run.pk,
            thread_id=run.thread.thread_id,
            graph=run.graph,
            state=str(run.state),
            created=created,
            step=run.step,
            error=run.error,
        )

    @overload
    def result(self, *, by: Any = None) -> Any: ...

    @overload
    def result(self, schema: type[ResultT], *, by: Any = None) -> ResultT: ...

    def result(self, schema: Any = None, *, by: Any = None) -> Any:
        """Return what came of the run, as ``run_result`` does, looked up anew."""
        return run_result(self.id, schema, by=by)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInfo:
    """A decision; ``repeated`` where the same request had been carried out before.

    ``value`` is the resume value that the graph receives, ``version`` that of the question which
    it decides. ``refusal`` says why the graph couldn't use the value, where it couldn't,
    ``claimed_by_label`` who else held the question, where somebody did. One that was undone says
    when (``undone_at``) and isn't ``complete``.
    """

    id: UUID
    interrupt_id: UUID
    version: int
    run_id: UUID
    type: str
    value: Any
    reason: str
    refusal: str
    by_label: str
    via: str
    created_at: datetime
    claimed_by_label: str
    complete: bool
    approvals: int
    quorum: int
    patch: list[dict[str, Any]] | None
    undone_at: datetime | None
    repeated: bool = False

    @classmethod
    def from_row(cls, decision: Decision, run_id: UUID, *, repeated: bool = False) -> DecisionInfo:
        """Return a decision's row as a plain value."""
        return cls(
            **read_fields(cls, decision, but=("run_id", "type", "complete", "repeated")),
            run_id=run_id,
            type=str(decision.type),
            complete=decision.effective is True,
            repeated=repeated,
        )


def read_fields(info: type[Any], row: Any, *, but: Collection[str] = ()) -> dict[str, Any]:
    """Return what a row has of the fields of a dataclass, less those that are told otherwise."""
    names = info.__dataclass_fields__
    return {name: getattr(row, name) for name in names if name not in but}
