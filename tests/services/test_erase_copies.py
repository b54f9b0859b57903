"""Erasure of a thread together with its copies, and their copies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from hitl_django import audit, services
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.errors import NotAllowedError, RunStateError
from hitl_django.models import (
    AuditEntry,
    ChannelBlob,
    Checkpoint,
    Interrupt,
    PendingWrite,
    Run,
    RunEvent,
    Thread,
)
from hitl_django.permissions import get_policy

WORD = "Zweigelt"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def finish(advance: Callable[[], int]) -> Callable[[str | None], str]:
    """Finish a run on the given or a new thread, and return the id of the thread."""

    def finish_run(thread_id: str | None) -> str:
        interrupt = ask_in(thread_id, advance)
        services.decide(interrupt.pk, "approve")
        advance()
        return interrupt.thread.thread_id

    return finish_run


@pytest.fixture
def source(finish: Callable[[str | None], str]) -> str:
    return finish(None)


@pytest.fixture
def used(source: str, finish: Callable[[str | None], str]) -> str:
    return finish(copy(source))


def stored() -> str:
    tables: tuple[Any, ...] = (
        AuditEntry,
        ChannelBlob,
        Checkpoint,
        Interrupt,
        PendingWrite,
        Run,
        RunEvent,
        Thread,
    )
    return str([list(table.objects.values_list()) for table in tables])


def copy(thread_id: str) -> str:
    return services.copy_thread(thread_id).thread_id


def ask_in(thread_id: str | None, advance: Callable[[], int]) -> Interrupt:
    run = services.start("approval", {"text": WORD}, thread_id=thread_id)
    advance()
    return Interrupt.objects.get(run_id=run.id)


def test_erase_thread_also_erases_copies_and_copies_of_copies(source: str, used: str) -> None:
    unused, nested = copy(source), copy(used)
    assert WORD in stored()

    assert services.erase_thread(source) == [source, used, unused, nested]

    assert WORD not in stored()
    assert not Checkpoint.objects.exists()
    assert {*Thread.objects.values_list("thread_id", flat=True)} == {source, used}
    for thread in Thread.objects.all():
        assert audit.find_first_fault(thread) is None


def test_erase_thread_also_erases_copy_of_a_deleted_copy(source: str) -> None:
    between = copy(source)
    last = copy(between)
    Thread.objects.get(thread_id=between).delete()
    assert services.erase_thread(source) == [source, last]
    assert WORD not in stored()


def test_erase_thread_also_erases_archived_copy(source: str, used: str) -> None:
    long_ago = timezone.now() - timedelta(days=90)
    Thread.objects.filter(thread_id=used).update(ended_at=long_ago)
    assert archive_ended(30, 10) == 1
    assert services.erase_thread(source) == [source, used]
    assert WORD not in stored()


def test_erase_thread_of_a_copy_leaves_its_source_and_other_copies_unchanged(source: str) -> None:
    first, second = copy(source), copy(source)
    assert services.erase_thread(first) == [first]
    assert Thread.objects.filter(thread_id=second).exists()
    assert Checkpoint.objects.filter(thread__thread_id=source).exists()


def test_erase_thread_with_active_run_in_a_copy_raises_run_state_error_and_erases_no_thread(
    source: str, advance: Callable[[], int]
) -> None:
    busy = copy(source)
    interrupt = ask_in(busy, advance)
    with pytest.raises(RunStateError, match=f"in the copy '{busy}'"):
        services.erase_thread(source)
    assert Checkpoint.objects.filter(thread__thread_id=source).exists()
    services.decide(interrupt.pk, "approve")


@pytest.mark.any_database
def test_erase_thread_without_permission_for_a_copy_raises_not_allowed_error_and_erases_no_thread(
    source: str, user: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = copy(source)
    policy = type(get_policy())
    may_operate = policy.may_operate

    def may_operate_but_not_the_copy(self: Any, by: Any, run: Any) -> bool:
        return run.thread.thread_id != other and may_operate(self, by, run)

    monkeypatch.setattr(policy, "may_operate", may_operate_but_not_the_copy)
    with pytest.raises(NotAllowedError):
        services.erase_thread(source, by=user("olga", "view_run", "view_thread", "operate_run"))
    assert Checkpoint.objects.filter(thread__thread_id=source).exists()
    assert Checkpoint.objects.filter(thread__thread_id=other).exists()
