"""The status line of a run after a decision, which a script keeps up to date."""

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
#: Of a run that waits for an undo.
UNDOABLE = _("The run resumes shortly unless you undo the decision.")
NOBODY_WORKS = _("Queued, but no worker is running.")
#: What leads to a question whose answer could not be used.
ASKED_AGAIN = _("The request is pending again. Open it")
#: Characters of the reason on the line; the question's own page has all of them.
MAX_WHY = 200
#: In these states a worker, and nobody else, has the next move.
MOVING = (Run.State.QUEUED, Run.State.RUNNING)


@dataclass(frozen=True)
class RunStatusLine:
    """One sentence on where a run is; ``moves`` while it is worth asking again."""

    text: Any
    moves: bool


def describe_refused_answer(decision: Decision) -> str:
    """Says why an answer could not be used, so that its question is open again."""
    why = escape_hidden(" ".join(decision.refusal.split()))
    return _("The graph rejected the response: %(why)s") % {"why": Truncator(why).chars(MAX_WHY)}


def describe_run(run: Run, health: WorkerHealth | None = None) -> RunStatusLine:
    """Says where a run is; by ``health``, whether one that waits has any worker to wait for."""
    state = Run.State(run.state)
    if state == Run.State.QUEUED and health is not None and health.is_missing:
        return RunStatusLine(NOBODY_WORKS, moves=True)
    if state == Run.State.INTERRUPTED and run.resumes_at is not None:
        return RunStatusLine(UNDOABLE, moves=True)
    return RunStatusLine(LINES[state], moves=state in MOVING)
