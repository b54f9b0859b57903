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
    Run.State.WAITING: _("The run waits for those of its thread before it."),
    Run.State.QUEUED: _("Waiting for a worker."),
    Run.State.RUNNING: _("A worker advances the run now."),
    Run.State.INTERRUPTED: _("The run waits for an answer."),
    Run.State.SUCCEEDED: _("The run came to its end."),
    Run.State.FAILED: _("The run stopped with an error. What was decided is kept."),
    Run.State.PARKED: _("The run can't get on by itself. What was decided is kept."),
    Run.State.CANCELLED: _("The run was cancelled."),
}
#: Of a run that waits for an undo.
UNDOABLE = _("The run goes on in a moment, unless that is undone.")
NOBODY_WORKS = _("Waiting for a worker; none reports at the moment.")
#: What leads to a question whose answer could not be used.
ASKED_AGAIN = _("It is asked again. Open it")
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
    return _("The answer could not be used: %(why)s") % {"why": Truncator(why).chars(MAX_WHY)}


def describe_run(run: Run, health: WorkerHealth | None = None) -> RunStatusLine:
    """Says where a run is; by ``health``, whether one that waits has any worker to wait for."""
    state = Run.State(run.state)
    if state == Run.State.QUEUED and health is not None and health.is_missing:
        return RunStatusLine(NOBODY_WORKS, moves=True)
    if state == Run.State.INTERRUPTED and run.resumes_at is not None:
        return RunStatusLine(UNDOABLE, moves=True)
    return RunStatusLine(LINES[state], moves=state in MOVING)
