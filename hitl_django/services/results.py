"""What the verbs return: plain values, so that no row leaves the services."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from hitl_django.models import Decision, Run


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
    def of(cls, run: Run, *, created: bool = False) -> RunInfo:
        return cls(
            id=run.pk,
            thread_id=run.thread.thread_id,
            graph=run.graph,
            state=str(run.state),
            created=created,
            step=run.step,
            error=run.error,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionInfo:
    """A decision; ``repeated`` where the same request had been carried out before.

    ``value`` is the resume value that the graph receives, ``version`` that of the question which
    it decides. ``refusal`` says why the graph couldn't use the value, where it couldn't.
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
    complete: bool
    approvals: int
    quorum: int
    patch: list[dict[str, Any]] | None
    repeated: bool = False

    @classmethod
    def of(cls, decision: Decision, run_id: UUID, *, repeated: bool = False) -> DecisionInfo:
        return cls(
            id=decision.pk,
            interrupt_id=decision.interrupt_id,
            version=decision.version,
            run_id=run_id,
            type=str(decision.type),
            value=decision.value,
            reason=decision.reason,
            refusal=decision.refusal,
            by_label=decision.by_label,
            via=decision.via,
            created_at=decision.created_at,
            complete=decision.effective is True,
            approvals=decision.approvals,
            quorum=decision.quorum,
            patch=decision.patch,
            repeated=repeated,
        )
