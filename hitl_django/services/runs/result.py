"""run_result: what a run that succeeded left in its thread."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from pydantic_core import to_json

from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.errors import NotAllowedError, RunNotFound, RunStateError
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from hitl_django.permissions import get_policy

from .newest_run import later_run


def run_result(run_id: UUID | str, *, by: Any = None) -> Any:
    """Returns the state values that a run ended with, as plain JSON.

    RunStateError for a run that hasn't succeeded, and for one whose thread has gone on since: only
    the newest state of a thread is its result.
    """
    try:
        pk = UUID(str(run_id))
    except ValueError:
        raise RunNotFound from None
    runs = Run.objects.using(write_alias()).select_related("thread").filter(pk=pk)
    if by is not None:
        runs = get_policy().visible_runs(by, runs)
    run = runs.first()
    if run is None:
        raise RunNotFound
    if by is not None and not get_policy().may_view_state(by, run.thread):
        raise NotAllowedError("You may not see the state of this thread.")
    _refuse_if_not_last(run)

    graph = registry.get(run.graph).graph.with_saver(DjangoSaver())
    config = {"configurable": {"thread_id": run.thread.thread_id, "checkpoint_ns": ""}}
    return plain_json(graph.get_state(config).values)


def plain_json(values: Any) -> Any:
    """Returns state values as JSON has them; what it has no word for becomes text."""
    return json.loads(to_json(values, inf_nan_mode="strings", bytes_mode="base64", fallback=str))


def _refuse_if_not_last(run: Run) -> None:
    done = [Run.State.SUCCEEDED]
    if run.state not in done:
        raise RunStateError(f"The run is {run.state}.", state=str(run.state), allowed=done)
    if later_run(run) is not None:
        raise RunStateError(
            "A later run of the thread has changed its state.", state=str(run.state), allowed=done
        )
