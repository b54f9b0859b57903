"""The state of a run's thread, displayed as a tree of fields and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest

from hitl_django import services
from hitl_django.admin.display.payload_display import (
    DisplayedValue,
    display_payload,
    display_raw,
)
from hitl_django.engine.errors import HitlError
from hitl_django.models import Run
from hitl_django.permissions import get_policy


@dataclass(frozen=True, slots=True)
class DisplayedState:
    """The state of a thread after a step, with the values of secret keys masked."""

    step: int | None
    values: Sequence[DisplayedValue]
    raw: DisplayedValue


def read_state(request: HttpRequest, run: Run) -> DisplayedState | None:
    """Return the state of the run's thread.

    The result is None if the state can't be read, or if the user can't view the state.
    """
    if not get_policy().may_view_state(request.user, run.thread):
        return None
    try:
        found = services.thread_state(run.thread.thread_id)
    except HitlError:
        return None  # The graph isn't registered, or a value can't be read.
    if found is None or found.checkpoint_id is None:
        return None
    return DisplayedState(found.step, display_payload(found.values), display_raw(found.values))
