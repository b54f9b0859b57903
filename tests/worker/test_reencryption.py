"""Reencryption with the first key, after which the other keys can be removed."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command

from hitl_django import audit, services
from hitl_django.checkpoints import value_deltas
from hitl_django.checkpoints.encrypted_rows import decrypt_row
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import restore_thread
from hitl_django.encryption import get_key_ring
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.serde import digest
from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite, Thread
from hitl_django.worker import reencryption
from tests.checkpoints import test_encryption as stepwise
from tests.contrib.archive.conftest import advance, ended, rows_of

__all__ = ["advance", "ended"]

pytestmark = pytest.mark.django_db

Ended = Callable[..., Thread]
OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
SECRET = "canary 4711"
#: Encrypted values and digests of them, which get new bytes, as placeholders for comparison.
BYTES = ("Checkpoint", "ChannelBlob", "PendingWrite")


@pytest.fixture
def keys(ended: Ended, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the keys, and store lists of a few words in parts.

    The settings are nested within those of ``ended``, so that both are restored in reverse order.
    """
    monkeypatch.setattr(value_deltas, "MIN_BYTES", 20)

    def use(*keys: str) -> None:
        settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": keys}

    return use


def reencrypt(*arguments: str) -> tuple[str, bool]:
    """Return the output, and whether the exit code is 0."""
    out = io.StringIO()
    try:
        call_command("hitl", "reencrypt", *arguments, stdout=out, stderr=io.StringIO())
    except CommandError as error:
        return out.getvalue() + str(error), False
    return out.getvalue(), True


def read_columns(thread: Thread) -> dict[str, Any]:
    return {name: rows for name, rows in rows_of(thread).items() if name not in BYTES}


def test_checkpoints_are_readable_without_old_key_after_reencrypt_command(
    keys: Any, ended: Ended
) -> None:
    keys(OLD)
    values = stepwise.run()
    thread, archived = ended(days=1, text=SECRET), ended(days=50, text=SECRET)
    before = read_columns(thread)
    archive_ended(30, 10)

    keys(NEW, OLD)
    said, sound = reencrypt("--check")
    assert not sound
    assert "rows need a key other than the first." in said
    said, sound = reencrypt()
    assert sound
    assert said.endswith("All rows use the first key.\n")
    assert reencrypt("--check") == ("All rows use the first key.\n", True)
    assert reencrypt()[0].startswith("0 rows rewritten.")

    keys(NEW)
    assert stepwise.read() == values
    assert read_columns(thread) == before
    restore_thread(archived.thread_id)
    run = Thread.objects.get(pk=archived.pk).runs.get()
    assert services.run_result(run.pk)["answer"] == {"approved": True, "text": SECRET}
    assert list(audit.find_faults()) == []


def test_checkpoints_are_unreadable_without_old_key_before_reencrypt_command(
    keys: Any, ended: Ended
) -> None:
    keys(OLD)
    stepwise.run()
    keys(NEW)
    with pytest.raises(CorruptPayloadError):
        stepwise.read()
    said, sound = reencrypt()
    assert not sound
    assert said.startswith("0 rows rewritten.")
    assert said.endswith(" rows need a key other than the first.")


def test_checkpoints_stored_before_first_key_are_encrypted_by_reencrypt_command(
    keys: Any, ended: Ended
) -> None:
    keys()
    values = stepwise.run()
    assert stepwise.is_readable()
    keys(NEW)
    assert "not encrypted" in reencrypt("--check")[0]
    assert reencrypt()[1]
    assert "not encrypted" not in reencrypt("--check")[0]
    assert not stepwise.is_readable()
    assert stepwise.read() == values


def test_row_changed_during_reencrypt_command_retains_the_changed_value(
    keys: Any, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys(OLD)
    stepwise.run()
    keys(NEW, OLD)
    encrypt, rows = reencryption.encrypt_row, PendingWrite.objects.order_by("pk")[:1]
    changed = b"changed", digest(b"changed")

    def change_first(*given: Any) -> Any:
        monkeypatch.undo()
        data, stored = encrypt(*changed, 0, get_key_ring())
        PendingWrite.objects.filter(pk=rows.get().pk).update(data=data, digest=stored)
        return encrypt(*given)

    monkeypatch.setattr(reencryption, "encrypt_row", change_first)
    assert reencrypt()[1]
    row = rows.get()
    assert decrypt_row(bytes(row.data), row.digest, 0, "write") == changed


@pytest.mark.parametrize("table", [ChannelBlob, PendingWrite])
def test_damaged_row_is_counted_and_left_unchanged_by_reencrypt_command(
    keys: Any, ended: Ended, table: Any
) -> None:
    keys(OLD)
    stepwise.run()
    row = table.objects.order_by("pk")[0]
    data = bytearray(row.data)
    data[-1] ^= 1
    table.objects.filter(pk=row.pk).update(data=bytes(data))
    keys(NEW, OLD)
    said, sound = reencrypt()
    assert not sound
    assert "1 row needs a key other than the first" in said
    assert bytes(table.objects.get(pk=row.pk).data) == bytes(data)


def test_reencryption_batches_include_every_row_exactly_once(
    keys: Any, ended: Ended, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys(OLD)
    for _ in range(3):
        ended(days=1, text=SECRET)
    keys(NEW, OLD)
    monkeypatch.setattr(reencryption, "BATCH", 2)
    rows = Checkpoint.objects.count()
    seen = [counts for counts in reencryption.count_rows() if counts.table.endswith("checkpoint")]
    assert [counts.rows for counts in seen] == [2] * (rows // 2) + [1] * (rows % 2)
    assert sum(counts.old for counts in seen) > 2
    assert reencrypt()[1]


def test_reencrypt_check_reports_archive_document_with_rows_encrypted_with_old_key(
    keys: Any, ended: Ended
) -> None:
    """The document is encrypted with the new key, and its rows with the old key."""
    keys(OLD)
    ended(days=50, text=SECRET)
    keys(NEW, OLD)
    archive_ended(30, 10)
    assert not reencrypt("--check")[1]
    assert reencrypt()[1]
    keys(NEW)
    row = ArchivedThread.objects.get()
    restore_thread(row.thread_id)
    assert services.run_result(Thread.objects.get().runs.get().pk)["text"] == SECRET


def test_reencrypt_command_without_encryption_keys_reports_empty_setting(keys: Any) -> None:
    keys()
    assert reencrypt() == ("HITL['ENCRYPTION_KEYS'] is empty.", False)
