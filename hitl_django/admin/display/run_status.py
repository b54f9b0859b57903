"""Status line of a run after a decision.

A script updates the line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _

from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Decision, Run
from hitl_django.services import WorkerHealth

LINES = {
    Run.State.WAITING: _("Waiting for earlier runs of this thread."),
    Run.State.QUEUED: _("Queued, waiting for a worker."),
    Run.State.RUNNING: _("Running."),
    Run.State.INTERRUPTED: _("Waiting for review."),
    Run.State.SUCCEEDED: _("Succeeded."),
    Run.State.FAILED: _("Failed with an error. Decisions are kept."),
    Run.State.PARKED: _("Parked: needs an operator. Decisions are kept."),
    Run.State.CANCELLED: _("Cancelled."),
}
#: Shown while the decision can still be undone.
UNDOABLE = _("The run resumes shortly unless you undo the decision.")
NOBODY_WORKS = _("Queued, but no worker is running.")
#: Text of the link to an interrupt whose response the graph rejected.
ASKED_AGAIN = _("The request is pending again. Open it")
#: Maximum length of the reason. The interrupt's page shows the whole reason.
MAX_WHY = 200
#: States in which the run needs no person to continue, only a worker.
MOVING = (Run.State.QUEUED, Run.State.RUNNING)
#: States in which the run has stopped before its end.
STOPPED = (Run.State.FAILED, Run.State.PARKED, Run.State.CANCELLED)


@dataclass(frozen=True)
class RunStatusLine:
    """A sentence about a run's state.

    ``moves`` is true if the state may change soon, so the script requests the status again.
    ``is_problem`` is true if the run has stopped before its end.
    """

    text: Any
    moves: bool
    is_problem: bool = False


def describe_refused_answer(decision: Decision) -> str:
    """Return the reason why the graph rejected the response of this decision."""
    why = escape_hidden(" ".join(decision.refusal.split()))
    return _("The graph rejected the response: %(why)s") % {"why": Truncator(why).chars(MAX_WHY)}


def describe_run(run: Run, health: WorkerHealth | None = None) -> RunStatusLine:
    """Return the status line of a run.

    With ``health``, the line of a queued run also states that no worker is running, if this is the
    case.
    """
    state = Run.State(run.state)
    if state == Run.State.QUEUED and health is not None and health.is_missing:
        return RunStatusLine(NOBODY_WORKS, moves=True)
    if run.resumes_at is not None:
        return RunStatusLine(UNDOABLE, moves=True)
    return RunStatusLine(LINES[state], moves=state in MOVING, is_problem=state in STOPPED)
