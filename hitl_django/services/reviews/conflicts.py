"""Why a decision isn't taken any more: what to say to whoever came too late."""

from __future__ import annotations

from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import HitlError
from hitl_django.errors import AlreadyDecidedError, RunStateError, StaleQuestionError
from hitl_django.models import Decision, Interrupt, Run

from ..results import DecisionInfo


def already_decided(interrupt: Interrupt) -> AlreadyDecidedError:
    """Returns the error for a question that is closed, with the decision that closed it."""
    # An earlier decision may have been refused, so it is the one of the version before.
    decisions = Decision.objects.using(write_alias()).filter(interrupt=interrupt)
    decision = decisions.filter(version=interrupt.version - 1, effective=True).first()
    message = f"The question is no longer open: it is {interrupt.get_status_display()}."
    if interrupt.status == Interrupt.Status.EXPIRED:
        message = "The question expired before. Nothing of yours was recorded."
    elif decision is not None:
        message = (
            f"The question was already decided: {decision.type} by {decision.by_label} at "
            f"{decision.created_at:%Y-%m-%d %H:%M:%S}. Nothing of yours was recorded."
        )
    info = None if decision is None else DecisionInfo.of(decision, interrupt.run_id)
    return AlreadyDecidedError(message, status=str(interrupt.status), decision=info)


def unheard(run: Run) -> RunStateError:
    """Returns the error for a question whose run has stopped otherwise."""
    return RunStateError(
        f"The run is {run.state}; the question can be decided once it goes on.",
        state=str(run.state),
        allowed=Run.ANSWERABLE,
    )


def overtaken(interrupt: Interrupt) -> HitlError:
    """Returns the error for a question that is not as it was looked at; it is read anew."""
    interrupt.refresh_from_db(write_alias())
    if interrupt.status == Interrupt.Status.PENDING:
        return StaleQuestionError()
    return already_decided(interrupt)
