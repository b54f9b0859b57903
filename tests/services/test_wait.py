"""Starting a run and waiting for its result in code, also on an event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, TypedDict

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import User
from django.db import transaction
from pydantic import BaseModel, ValidationError

from hitl_django import services, testing
from hitl_django.errors import NotAllowedError, RunNotFound, RunStateError, RunTimeoutError
from hitl_django.models import AuditEntry, Interrupt, Run
from hitl_django.services.runs import wait

pytestmark = pytest.mark.django_db(transaction=True)


class Steps(BaseModel):
    log: list[str]


class Log(TypedDict):
    log: list[str]


@pytest.fixture
def worker(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    """Let a worker run due tasks instead of waiting, and return the seconds of each wait."""
    pauses: list[float] = []
    with testing.inline() as advance:

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            advance()

        clock = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
        monkeypatch.setattr(wait, "time", clock)
        monkeypatch.setattr(wait, "asyncio", SimpleNamespace(sleep=sync_to_async(sleep)))
        yield pauses


@pytest.fixture
def nora(db: None) -> User:
    return User.objects.create_user("nora")


both = pytest.mark.parametrize(
    "start",
    [services.start_and_wait, async_to_sync(services.astart_and_wait)],
    ids=["thread", "event loop"],
)


@both
def test_start_and_wait_returns_succeeded_run_with_its_result(
    start: Any, worker: list[float]
) -> None:
    run = start("steps", {"log": ["in"]}, timeout=60, key="k")
    assert (run.state, run.created) == ("succeeded", True)
    assert run.result()["log"] == ["in", "a", "b", "c", "d", "e"]
    assert len(worker) == 1
    again = start("steps", {"log": ["in"]}, timeout=0, key="k")
    assert (again.id, again.created) == (run.id, False)


@both
def test_start_and_wait_returns_interrupted_run_at_an_interrupt(
    start: Any, worker: list[float]
) -> None:
    run = start("approval", {"text": "x"}, timeout=60)
    assert run.state == "interrupted"
    with pytest.raises(RunStateError, match="interrupted"):
        run.result()


@both
def test_start_and_wait_beyond_timeout_raises_run_timeout_error_with_run_id(start: Any) -> None:
    with testing.inline(), pytest.raises(RunTimeoutError) as late:
        start("steps", {"log": []}, timeout=0.01)
    run = Run.objects.get()
    assert (late.value.run_id, run.state) == (run.pk, "queued")
    assert str(run.pk) in str(late.value)
    assert isinstance(late.value, TimeoutError)


def test_start_and_wait_shortens_the_pause_between_polls_before_the_timeout(settings: Any) -> None:
    settings.HITL = {**settings.HITL, "EVENT_POLL_SECONDS": 30}
    run: Any = SimpleNamespace(id="7")
    assert wait._measure_pause(run, time.monotonic() + 1000) == 30
    assert 0 < wait._measure_pause(run, time.monotonic() + 20) <= 20


@both
def test_start_and_wait_inside_transaction_raises_runtime_error(start: Any) -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="before the commit"):
        start("steps", {"log": []}, timeout=60)
    assert not Run.objects.exists()


@pytest.mark.django_db(transaction=False)
def test_start_and_wait_inside_transaction_of_test_case_returns_succeeded_run(
    worker: list[float],
) -> None:
    run = services.start_and_wait("steps", {"log": []}, timeout=60)
    assert run.state == "succeeded"


def test_start_and_wait_without_start_permission_raises_not_allowed_error_immediately(
    nora: User,
) -> None:
    with pytest.raises(NotAllowedError):
        services.start_and_wait("steps", {"log": []}, timeout=60, by=nora)
    assert not Run.objects.exists()


def test_run_result_with_class_returns_validated_instance_of_that_class(
    worker: list[float],
) -> None:
    run = services.start_and_wait("steps", {"log": []}, timeout=60)
    assert run.result(Steps) == Steps(log=["a", "b", "c", "d", "e"])
    assert services.run_result(run.id, Log) == {"log": ["a", "b", "c", "d", "e"]}

    class Other(BaseModel):
        number: int

    with pytest.raises(ValidationError):
        run.result(Other)


@pytest.mark.promise("P18")
def test_result_of_run_without_view_permission_raises_run_not_found(
    worker: list[float], nora: User
) -> None:
    run = services.start_and_wait("steps", {"log": []}, timeout=60)
    with pytest.raises(RunNotFound):
        run.result(by=nora)


@pytest.mark.promise("P18")
def test_result_of_run_started_by_user_without_state_permission_raises_not_allowed_error(
    worker: list[float], nora: User
) -> None:
    run = services.start_and_wait(
        "steps", {"log": []}, timeout=60, by=nora, skip_permission_checks=True
    )
    with pytest.raises(NotAllowedError):
        run.result(by=nora)


def test_async_start_decide_retry_and_cancel_services_have_same_effects_as_sync_services(
    worker: list[float],
) -> None:
    with testing.inline() as advance:

        async def live() -> None:
            run = await services.astart("approval", {"text": "x"}, key="k")
            await sync_to_async(advance)()
            interrupt = await Interrupt.objects.aget(run=run.id)
            await services.adecide(interrupt.pk, "approve", reason="because")
            await sync_to_async(advance)()
            assert (await services.arun_result(run.id))["text"] == "x"
            assert (await services.arun_result(run.id, dict))["text"] == "x"
            other = await services.astart("approval", {"text": "y"})
            await Run.objects.filter(pk=other.id).aupdate(state="failed")
            assert (await services.aretry(other.id)).state == "queued"
            assert (await services.acancel(other.id, reason="enough")).state == "cancelled"

        async_to_sync(live)()
    verbs = list(AuditEntry.objects.order_by("pk").values_list("verb", flat=True))
    assert verbs == ["start", "decide", "start", "retry", "cancel"]


@pytest.mark.any_database
@pytest.mark.parametrize(
    "name", ["astart", "adecide", "acancel", "aretry", "arun_result", "astart_and_wait"]
)
def test_async_service_has_name_and_docstring_of_its_sync_service(name: str) -> None:
    twin: Callable[..., Any] = getattr(services, name)
    assert asyncio.iscoroutinefunction(twin)
    assert twin.__name__ == name
    assert f"like {name[1:]}" in (twin.__doc__ or "").replace("``", "").lower()
