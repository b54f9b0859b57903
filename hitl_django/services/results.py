"""Results of the services, as plain values instead of model instances."""

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
    """The state of a run.

    ``created`` is False if ``start`` found an existing run.
    """

    id: UUID
    thread_id: str
    graph: str
    state: str
    created: bool
    step: int
    error: str

    @classmethod
    def from_row(cls, run: Run, *, created: bool = False) -> RunInfo:
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
        """Return the result of the run, like ``run_result``.

        Each call reads the result from the database.
        """
        return run_result(self.id, schema, by=by)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInfo:
    """A decision on an interrupt.

    Attributes:
        value: the resume value that the graph receives.
        version: the version of the interrupt that was decided.
        refusal: the reason why the graph rejected the value, or an empty string.
        claimed_by_label: the name of another user who had claimed the interrupt, or an empty
            string.
        complete: whether the decision closed the interrupt. False for an approval if more are
            needed, and after an undo.
        undone_at: the time of the undo, or None.
        repeated: whether an earlier request with the same idempotency key stored this decision.
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
        return cls(
            **read_fields(cls, decision, but=("run_id", "type", "complete", "repeated")),
            run_id=run_id,
            type=str(decision.type),
            complete=decision.effective is True,
            repeated=repeated,
        )


def read_fields(info: type[Any], row: Any, *, but: Collection[str] = ()) -> dict[str, Any]:
    """Return a row's values for the fields of the dataclass ``info``, except those in ``but``."""
    names = info.__dataclass_fields__
    return {name: getattr(row, name) for name in names if name not in but}
