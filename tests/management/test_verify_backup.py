"""``hitl verify-backup``: missing and damaged rows of a restored database."""

from __future__ import annotations

import io
import json
from collections.abc import Callable

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F

from hitl_django.models import AuditEntry, ChannelBlob, Checkpoint, Interrupt, Run
from hitl_django.testing import GraphEnvironment

pytestmark = pytest.mark.django_db


def check(*arguments: str) -> tuple[str, str]:
    """Return the output and the error of the command."""
    out = io.StringIO()
    try:
        call_command("hitl", "verify-backup", *arguments, stdout=out, stderr=io.StringIO())
    except CommandError as error:
        return out.getvalue(), str(error)
    return out.getvalue(), ""


@pytest.fixture(autouse=True)
def threads() -> None:
    with GraphEnvironment() as hitl:
        for name in ("waits", "ended"):
            hitl.start("approval", {"text": "long " * 5000}, thread_id=name)
        ended = Run.objects.get(thread__thread_id="ended")
        hitl.decide(run=ended.pk, type="approve")


def test_verify_backup_command_of_complete_database_reports_no_problems() -> None:
    assert check() == ("2 threads checked: no problems found.\n", "")
    assert check("--json") == ("", "")


def damage_a_blob() -> None:
    ChannelBlob.objects.filter(thread__thread_id="waits").update(data=b"\xc1")


def damage_a_checkpoint() -> None:
    Checkpoint.objects.filter(thread__thread_id="waits").update(data=b"\xc1")


def lose_the_interrupt() -> None:
    Interrupt.objects.filter(thread__thread_id="waits").delete()


def ask_after_the_end() -> None:
    Interrupt.objects.filter(thread__thread_id="ended").update(status="pending")


def change_the_record() -> None:
    AuditEntry.objects.filter(thread__thread_id="waits").update(actor_label=F("subject"), via="x")


@pytest.mark.parametrize(
    ("damage", "thread", "words"),
    [
        (damage_a_blob, "waits", "can't read its state: CorruptPayloadError"),
        (damage_a_checkpoint, "waits", "can't read its state: CorruptPayloadError"),
        (lose_the_interrupt, "waits", " is interrupted, but has no pending interrupt"),
        (ask_after_the_end, "ended", " is pending, but its run has ended"),
        (change_the_record, "waits", "audit log is broken at entry 1"),
    ],
)
def test_verify_backup_command_names_thread_with_missing_or_damaged_row(
    damage: Callable[[], None], thread: str, words: str
) -> None:
    damage()
    said, failure = check()
    (line,) = said.splitlines()
    assert line.startswith(f"{thread}: ")
    assert words in line
    assert failure == "1 of 2 threads have problems."

    found = json.loads(check("--json")[0])
    assert found["thread"] == thread
    assert words in found["fault"]
    assert "long" not in line
