"""Detection of manually changed rows and lost keys by verify-audit and doctor."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from hitl_django import audit, services, testing
from hitl_django.management.diagnosis import examine_installation
from hitl_django.models import Decision, Interrupt
from hitl_django.models.fields import digest_json
from hitl_django.services.audit_comparison import find_forged_rows


@pytest.fixture
def advance(db: None) -> Iterator[Callable[[], int]]:
    with testing.inline() as advance_all:
        yield advance_all


def decided(advance: Callable[[], int]) -> Interrupt:
    run = services.start("plain", {"payload": {"amount": 5}})
    advance()
    item = Interrupt.objects.get(run=run.id)
    services.decide(item.pk, "edit", {"amount": 6})
    advance()
    return item


def words() -> str:
    return " ".join(found for _, found in find_forged_rows())


def test_find_forged_rows_reports_no_row_of_decided_and_erased_threads(
    advance: Callable[[], int],
) -> None:
    item = decided(advance)
    assert words() == ""
    services.erase_thread(item.thread.thread_id)
    assert words() == ""


def test_find_forged_rows_reports_no_row_of_a_rejected_interrupt(
    advance: Callable[[], int],
) -> None:
    run = services.start("approval", {"text": "x"})
    advance()
    services.decide(Interrupt.objects.get(run=run.id).pk, "reject", reason="no")
    advance()
    assert words() == ""


@pytest.mark.parametrize(
    ("forge", "found"),
    [
        (lambda item: Decision.objects.update(value={"amount": 600}), "doesn't match entry"),
        (lambda item: Decision.objects.update(type="approve"), "doesn't match entry"),
        (lambda item: Decision.objects.all().delete(), "is missing"),
        (lambda item: Interrupt.objects.update(payload={"amount": 1}), "the payload of interrupt"),
        (
            lambda item: Interrupt.objects.update(
                payload={"amount": 1}, payload_digest=digest_json({"amount": 1})
            ),
            "the payload of interrupt",
        ),
    ],
)
def test_verify_audit_command_reports_rows_that_differ_from_the_audit_log(
    advance: Callable[[], int], forge: Callable[[Any], Any], found: str
) -> None:
    forge(decided(advance))
    assert found in words()
    errors = io.StringIO()
    with pytest.raises(CommandError, match="The audit log of 1 thread is broken"):
        call_command("hitl", "verify-audit", stderr=errors)
    assert found in errors.getvalue()


def test_audit_check_with_lost_encryption_key_reports_undecryptable_log_and_continues(
    advance: Callable[[], int], settings: Any
) -> None:
    given = settings.HITL
    settings.HITL = {**given, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
    decided(advance)
    for keys in ([Fernet.generate_key().decode()], []):
        settings.HITL = {**given, "ENCRYPTION_KEYS": keys}
        [checked] = audit.check_threads()
        assert checked.unreadable
        found = [each for each in examine_installation(audited=True) if each.level == "error"]
        assert [each for each in found if "Stored rows can't be decrypted" in each.message]
        assert [each for each in found if "audit log could not be decrypted" in each.message]
        with pytest.raises(CommandError, match="The audit log of 1 thread is broken"):
            call_command("hitl", "verify-audit", stderr=io.StringIO())
