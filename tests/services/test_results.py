"""run_result: the result of a run, by permission."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection

from hitl_django import services
from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.errors import ThreadNotFound
from hitl_django.errors import NotAllowedError, RunNotFound, RunStateError
from hitl_django.models import Run, Thread
from hitl_django.services.runs import state
from hitl_django.services.runs.state import find_later_run

Advance = Callable[[], int]


def test_run_result_is_final_state_of_succeeded_run_and_raises_run_state_error_for_queued_run(
    advance: Advance,
) -> None:
    info = services.start("steps", {"log": ["in"]})
    with pytest.raises(RunStateError) as caught:
        services.run_result(info.id)
    assert (caught.value.state, caught.value.allowed) == ("queued", ("succeeded",))
    advance()
    assert services.run_result(info.id)["log"] == ["in", "a", "b", "c", "d", "e"]
    assert services.run_result(str(info.id)) == services.run_result(info.id)


def test_run_result_contains_only_json_values(advance: Advance) -> None:
    info = services.start("panel", {"log": []})
    advance()
    for row in Run.objects.get().interrupts.all():
        services.decide(row.pk, "approve")
    advance()
    answers: Any = services.run_result(info.id)["answers"]
    assert answers == [["left", True], ["right", True]]


def test_run_result_of_earlier_run_excludes_values_of_later_runs(advance: Advance) -> None:
    runs = []
    for number in range(3):
        runs.append(services.start("steps", {"log": [str(number)]}, thread_id="t"))
        advance()
    assert [len(services.run_result(run.id)["log"]) for run in runs] == [6, 12, 18]
    DjangoSaver().prune(["t"])
    for run in runs[:2]:
        with pytest.raises(RunStateError, match="pruned"):
            services.run_result(run.id)
    assert len(services.run_result(runs[2].id)["log"]) == 18


def test_run_result_read_while_next_run_executes_excludes_values_of_the_next_run(
    advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = services.start("steps", {"log": ["0"]}, thread_id="t")
    advance()

    def read_before_the_next_run(run: Run) -> Any:
        found = find_later_run(run)
        services.start("steps", {"log": ["1"]}, thread_id="t")
        advance()
        return found

    monkeypatch.setattr(state, "find_later_run", read_before_the_next_run)
    assert len(services.run_result(first.id)["log"]) == 6


def test_thread_state_and_run_result_contain_no_values_of_other_threads(advance: Advance) -> None:
    runs = [services.start("steps", {"log": [str(number)]}) for number in range(3)]
    advance()
    for number, run in enumerate(runs):
        state = services.thread_state(run.thread_id)
        assert state is not None
        assert state.thread_id == run.thread_id
        assert services.run_result(run.id)["log"][0] == state.values["log"][0] == str(number)


@pytest.mark.promise("P18")
def test_thread_state_without_view_permission_raises_not_found_or_not_allowed_error(
    advance: Advance, user: Callable[..., User]
) -> None:
    runs = [services.start("steps", {"log": []}) for _ in range(2)]
    advance()
    with pytest.raises(ThreadNotFound):
        services.thread_state("absent")
    with pytest.raises(ThreadNotFound):
        services.thread_state(runs[1].thread_id, by=user("una", "view_thread_state"))
    with pytest.raises(ThreadNotFound):
        services.thread_state(runs[1].thread_id, by=user("nobody"))
    Thread.objects.filter(thread_id=runs[0].thread_id).update(graph="gone")
    wim = user("wim", "view_thread")
    for run in runs:
        with pytest.raises(NotAllowedError):
            services.thread_state(run.thread_id, by=wim)
    pia = user("pia", "view_thread", "view_thread_state")
    assert services.thread_state(runs[1].thread_id, by=pia)


def test_run_result_of_run_created_at_whole_second_is_returned(advance: Advance) -> None:
    info = services.start("steps", {"log": []})
    advance()
    with connection.cursor() as cursor:  # SQLite's clock writes this text at a whole second
        cursor.execute("UPDATE hitl_django_run SET created_at = '2026-01-02 03:04:05.000'")
    assert services.run_result(info.id)


@pytest.mark.promise("P18")
def test_run_result_without_view_permission_raises_not_found_or_not_allowed_error(
    advance: Advance, user: Callable[..., User]
) -> None:
    info = services.start("steps", {"log": []})
    wim = user("wim", "view_run")
    with pytest.raises(NotAllowedError):  # regardless of whether the run exists
        services.run_result(info.id, by=wim)
    advance()
    with pytest.raises(RunNotFound):
        services.run_result(info.id, by=user("una", "view_thread_state"))
    with pytest.raises(NotAllowedError):
        services.run_result(info.id, by=wim)
    assert services.run_result(info.id, by=user("pia", "view_run", "view_thread_state"))
    for bad in ("x", uuid.uuid4(), None):
        with pytest.raises(RunNotFound):
            services.run_result(bad)
