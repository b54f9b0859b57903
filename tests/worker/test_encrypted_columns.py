"""Encrypted columns with ENCRYPTION_KEYS: no readable requests, responses or texts."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import User
from django.core.exceptions import FieldError
from django.core.management import call_command
from django.db import connection, models
from django.test import Client
from django.urls import reverse

import hitl_django
from hitl_django import audit, services
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import restore_thread
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.encryption import decrypt_text, encrypt_text
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.extensions import list_models
from hitl_django.management.diagnosis import examine_installation
from hitl_django.models import Comment, Decision, Interrupt, Run, RunEvent, Thread
from hitl_django.models.fields import EncryptedField
from hitl_django.worker import reencryption, retention
from tests.contrib.archive.conftest import advance, age, ended, rows_of

__all__ = ["advance", "ended"]

pytestmark = pytest.mark.django_db

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))
SECRET = "canary4711"
ENVELOPE = "@hitl:e:"

#: Text columns that aren't encrypted, because rows are selected by them or they contain names. A
#: new column must be encrypted, or listed here and in docs/guides/deploying.md.
READABLE = {
    "Thread": {"metadata"},
    "Checkpoint": {"ns"},
    "ChannelBlob": {"ns", "channel"},
    "GraphShape": {"shape"},
    "PendingWrite": {"ns", "task_path"},
    "Interrupt": {
        "checkpoint_ns", "task_path", "key", "search_text", "search_grams", "allowed_decisions",
        "editable",
    },
    "Comment": {"mentions"},
    "RunEvent": {"ns"},
    "ReviewLink": {"decisions"},
    "SavedFilter": {"query"},
    "Schedule": {"metadata"},
    "StoreItem": {"key", "value"},
    "Assistant": {"description", "metadata"},
    "AssistantVersion": {"description", "metadata"},
    "WebhookEndpoint": {"events", "graphs"},
    "Delivery": {"data"},
}  # fmt: skip
ENCRYPTED = {
    "Run": {"input", "options", "error", "traceback"},
    "Interrupt": {
        "why",
        "payload",
        "payload_formats",
        "response_schema",
        "proposal",
        "expiry",
    },
    "Decision": {"value", "refusal", "reason", "patch"},
    "SpotCheck": {"reason"},
    "Comment": {"text"},
    "RunEvent": {"data"},
    "AuditEntry": {"detail"},
    "Schedule": {"input", "context", "configurable", "last_error"},
    "Assistant": {"config", "context"},
    "AssistantVersion": {"config", "context"},
}


@pytest.fixture
def keys(ended: Any, settings: Any) -> Callable[..., None]:

    def use(*keys: str) -> None:
        settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": keys}

    return use


def list_columns(*, encrypted: bool) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for model in list_models():
        for field in model._meta.concrete_fields:
            is_text = isinstance(field, models.TextField | models.JSONField)
            is_encrypted = isinstance(field, EncryptedField)
            if not model._meta.proxy and is_text and is_encrypted is encrypted:
                found.setdefault(model.__name__, set()).add(field.name)
    return found


def test_every_text_column_is_encrypted_or_declared_readable() -> None:
    assert list_columns(encrypted=True) == ENCRYPTED
    assert list_columns(encrypted=False) == READABLE


def test_deploying_guide_lists_every_encrypted_and_readable_column() -> None:
    guide = Path(hitl_django.__file__).parents[1] / "docs/guides/deploying.md"
    named: list[dict[str, set[str]]] = [{}, {}]
    for line in guide.read_text().partition("## Encryption")[2].splitlines():
        if line.startswith("| `"):
            model, *cells = (set(re.findall(r"`(\w+)`", cell)) for cell in line.split("|")[1:4])
            for columns, cell in zip(named, cells, strict=True):
                columns[model.pop() if columns is named[1] else min(model)] = cell
    encrypted, readable = named
    assert {model: columns for model, columns in encrypted.items() if columns} == ENCRYPTED
    for model, columns in READABLE.items():
        assert columns <= readable[model]
    for model, columns in ENCRYPTED.items():
        assert not columns & readable[model]


def dump_database() -> Iterator[tuple[str, str]]:
    """Yield every stored value of every table, with the names of its columns."""
    for table in connection.introspection.table_names():
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for name, value in zip(names, row, strict=True):
                    is_bytes = isinstance(value, memoryview | bytes)
                    text = bytes(value).decode("latin-1") if is_bytes else str(value)
                    yield f"{table}.{name}", text


def find_readable(words: str = SECRET) -> set[str]:
    return {column for column, text in dump_database() if words in text.casefold()}


def read_raw(table: Any, column: str, pk: Any) -> Any:
    text = models.functions.Cast(column, models.TextField())
    return table.objects.filter(pk=pk).annotate(raw=text).values_list("raw", flat=True).get()


def write_raw(table: Any, column: str, pk: Any, stored: str) -> None:
    value = models.Value(stored, output_field=models.TextField())
    table.objects.filter(pk=pk).update(**{column: value})


def reencrypt() -> str:
    out = io.StringIO()
    call_command("hitl", "reencrypt", stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_values_without_encryption_key_are_stored_as_plaintext(keys: Any, ended: Any) -> None:
    keys()
    ended(text=SECRET)
    asked = Interrupt.objects.get()
    title = f"Publish {SECRET}?"
    stored = json.dumps({"title": title, "text": SECRET}, separators=(",", ":"))
    assert read_raw(Interrupt, "payload", asked.pk) == stored
    assert asked.title == title
    comment = Comment.objects.get()
    assert read_raw(Comment, "text", comment.pk) == f"What of {SECRET}?"
    assert not [text for _, text in dump_database() if ENVELOPE in text]


def test_complete_review_with_encryption_key_leaves_no_plaintext_in_database(
    keys: Any, advance: Callable[[], int], client: Client
) -> None:
    keys(NEW)
    boss = User.objects.create_superuser("boss")
    client.force_login(boss)
    webhook_services.create_webhook("https://example.com/", by=boss)
    text = f"it is {SECRET}"
    asks = {"payload": {"text": text}}
    run = services.start("plain", asks, events=["updates", "values"], metadata={})
    advance()
    asked = Interrupt.objects.get()
    assert asked.payload["text"] == text
    assert SECRET not in asked.title
    page = reverse("admin:hitl_django_reviewitem_change", args=[asked.pk])
    assert SECRET in client.get(page).content.decode()
    shown = client.get(reverse("hitl_django:interrupt", args=[asked.pk]))
    assert SECRET in shown.content.decode()
    services.comment(asked.pk, f"Why {SECRET}?", by=boss)
    link = create_review_link(asked.pk, name="Lena", email="lena@example.com")
    assert SECRET in client.get(link.url).content.decode()
    answer = {"approved": True, "text": f"better {SECRET}"}
    services.decide(asked.pk, "respond", answer, reason=f"since {SECRET}", by=boss)
    advance()
    assert services.run_result(run.id)["answer"] == answer
    assert Decision.objects.get().reason == f"since {SECRET}"
    assert any(SECRET in str(event.data) for event in RunEvent.objects.all())
    Run.objects.filter(pk=run.id).update(error=f"no {SECRET}", traceback=f"in {SECRET}")
    runs = client.get(reverse("admin:hitl_django_run_changelist")).content.decode()
    assert ENVELOPE not in runs
    assert find_readable() == set()
    if connection.vendor == "sqlite":
        file = connection.connection.serialize()  # including the contents of free pages
        assert b"plain" in file
        assert SECRET.encode() not in file
    assert list(audit.find_faults()) == []

    thread = Thread.objects.get()
    age(run.id, 100)
    before = rows_of(thread)
    archive_ended(30, 10)
    assert ArchivedThread.objects.exists()
    assert find_readable() == set()
    restore_thread(thread.thread_id)
    assert rows_of(thread) == before
    assert find_readable() == set()
    retention.delete_ended(30, 10)
    assert not Thread.objects.exists()


def test_error_and_traceback_of_failed_run_are_encrypted_in_database(keys: Any, ended: Any) -> None:
    keys(NEW)
    thread = ended(text=SECRET)
    run = Run.objects.get(thread=thread)
    Run.objects.filter(pk=run.pk).update(error=SECRET, traceback=SECRET)
    assert read_raw(Run, "error", run.pk).startswith(ENVELOPE)
    assert Run.objects.filter(pk=run.pk).values_list("error", "traceback").get() == (SECRET,) * 2
    Run.objects.filter(pk=run.pk).update(error="")
    assert Run.objects.filter(error="").count() == 1


def test_interrupt_title_is_stored_readable_and_searchable_with_encryption_key(
    keys: Any, advance: Callable[[], int]
) -> None:
    keys(NEW)
    payload = {"title": "Dana", "text": SECRET}
    for terms in ({}, {"title": "Send the letter?", "why": SECRET}):
        services.start("reviewed", {"payload": payload, "terms": terms})
    advance()
    asked = Interrupt.objects.order_by("created_at", "id")
    assert [row.title for row in asked] == ["Dana", "Send the letter?"]
    assert asked[1].search_text == " send the letter ask"
    assert asked[1].why == SECRET
    assert find_readable() == set()


def test_edited_payload_patch_options_and_events_are_encrypted_in_database(
    keys: Any, advance: Callable[[], int], client: Client
) -> None:
    keys(NEW)
    client.force_login(User.objects.create_superuser("boss"))
    options = services.RunOptions(metadata={"note": SECRET}, interrupt_after=["ask"])
    given = {"payload": {"amount": SECRET}, "terms": {"quorum": 1}}
    run = services.start("reviewed", given, options=options, events=["updates"])
    advance()
    asked = Interrupt.objects.get()
    body = {"type": "edit", "value": {"amount": f"{SECRET} more"}, "reason": SECRET}
    address = reverse("hitl_django:decisions", args=[asked.pk])
    headers = {"If-Match": client.get(reverse("hitl_django:interrupt", args=[asked.pk]))["ETag"]}
    made = client.post(address, body, "application/json", headers=headers)
    assert made.status_code == 202
    advance()
    assert Decision.objects.get().value == {"amount": f"{SECRET} more"}
    assert Decision.objects.get().patch
    # The run's options name a breakpoint after the node, so the worker has decrypted the options.
    assert Interrupt.objects.filter(run=run.id, kind="breakpoint").exists()
    events = client.get(reverse("hitl_django:run-events", args=[run.id]))
    assert SECRET in events.getvalue().decode() if events.streaming else events.content.decode()
    assert find_readable() == set()


def test_encrypted_error_of_parked_run_is_readable_through_the_orm(
    keys: Any, advance: Callable[[], int]
) -> None:
    keys(NEW)
    run = services.start("plain", {"payload": "x"})
    Run.objects.filter(pk=run.id).update(error=SECRET)
    Thread.objects.update(attempts=99)
    advance()
    row = Run.objects.get(pk=run.id)
    assert row.state == Run.State.PARKED
    assert row.error.startswith(SECRET)
    assert find_readable() == set()


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize(
    "text", [f"{ENVELOPE}AAAA", "@hitl:p:", "@hitl:p:@hitl:e:", "@hitl:", ENVELOPE, " @hitl:e:", ""]
)
def test_text_resembling_encryption_envelope_is_restored_unchanged(
    keys: Any, ended: Any, text: str, keyed: bool
) -> None:
    keys(*([NEW] if keyed else []))
    ended()
    Comment.objects.update(text=text)
    Decision.objects.update(value=text)
    assert Comment.objects.get().text == text
    assert Decision.objects.get().value == text
    keys(NEW)
    assert Comment.objects.get().text == text
    reencrypt()
    assert Comment.objects.get().text == text
    assert Decision.objects.get().value == text


def test_text_with_unknown_envelope_kind_raises_corrupt_payload_error(
    keys: Any, ended: Any
) -> None:
    keys(NEW)
    ended(text=SECRET)
    comment = Comment.objects.get()
    write_raw(Comment, "text", comment.pk, "@hitl:x:" + read_raw(Comment, "text", comment.pk)[8:])
    with pytest.raises(CorruptPayloadError, match="no known kind"):
        Comment.objects.get()


def test_envelope_copied_from_another_column_raises_corrupt_payload_error(
    keys: Any, ended: Any
) -> None:
    keys(NEW)
    ended(text=SECRET)
    asked, comment = Interrupt.objects.get(), Comment.objects.get()
    write_raw(Comment, "text", comment.pk, read_raw(Interrupt, "why", asked.pk) or encrypted_why())
    with pytest.raises(CorruptPayloadError, match="corrupt data"):
        Comment.objects.get()
    patch = read_raw(Interrupt, "payload", asked.pk)
    write_raw(Interrupt, "proposal", asked.pk, patch)
    with pytest.raises(CorruptPayloadError, match="corrupt data"):
        Interrupt.objects.get()


def encrypted_why() -> str:
    return encrypt_text(SECRET, "hitl_django_interrupt.why")


@pytest.mark.parametrize("damage", ["A", "=", "ü", "!"])
def test_modified_encryption_envelope_raises_corrupt_payload_error(
    keys: Any, ended: Any, damage: str
) -> None:
    keys(NEW)
    ended(text=SECRET)
    comment = Comment.objects.get()
    stored = read_raw(Comment, "text", comment.pk)
    changed = damage if stored[20] != damage else "B"
    write_raw(Comment, "text", comment.pk, stored[:20] + changed + stored[21:])
    with pytest.raises(CorruptPayloadError):
        Comment.objects.get()


def test_filtering_by_encrypted_column_raises_field_error(keys: Any, ended: Any) -> None:
    keys(NEW)
    with pytest.raises(FieldError, match=r"hitl_django_comment.text is encrypted"):
        Comment.objects.filter(text__contains="x")
    with pytest.raises(FieldError, match=r"hitl_django_run.error is encrypted"):
        Run.objects.filter(error__startswith="x")
    with pytest.raises(FieldError, match=r"hitl_django_run.error is encrypted"):
        Run.objects.filter(error="x").exists()
    with pytest.raises(FieldError, match=r"hitl_django_decision.value is encrypted"):
        Decision.objects.filter(value={"a": 1}).exists()
    assert not Run.objects.exclude(error="").exists()
    keys()
    assert not Comment.objects.filter(text__contains="x").exists()


def test_admin_page_without_matching_encryption_key_returns_503_naming_the_setting(
    keys: Any, ended: Any, client: Client, caplog: Any
) -> None:
    keys(OLD)
    ended(text=SECRET)
    asked = Interrupt.objects.get()
    client.force_login(User.objects.create_superuser("root"))
    page = reverse("admin:hitl_django_reviewitem_change", args=[asked.pk])
    assert client.get(page).status_code == 200
    for now, words in ((NEW, "with a key that is not configured"), (None, "ENCRYPTION_KEYS")):
        keys(*([now] if now else []))
        with caplog.at_level(logging.ERROR):
            answer = client.get(page)
        assert answer.status_code == 503
        assert "The stored data can’t be read" in answer.content.decode()
        assert words in answer.content.decode()
        assert "the admin can't read the stored data" in caplog.text
        caplog.clear()


def test_encrypted_columns_are_readable_without_old_key_after_reencrypt_command(
    keys: Any, ended: Any
) -> None:
    keys(OLD)
    thread = ended(text=SECRET)
    names = ENCRYPTED.keys()
    before = {name: rows for name, rows in rows_of(thread).items() if name in names}
    keys(NEW)
    with pytest.raises(CorruptPayloadError):
        Decision.objects.get()
    keys(NEW, OLD)
    assert reencrypt().endswith("All rows use the first key.\n")
    assert reencrypt().startswith("0 rows rewritten.")
    keys(NEW)
    assert {name: rows for name, rows in rows_of(thread).items() if name in names} == before
    assert list(audit.find_faults()) == []


def test_columns_stored_before_first_key_are_readable_and_encrypted_by_reencrypt_command(
    keys: Any, ended: Any
) -> None:
    keys()
    thread, archived = ended(text=SECRET, days=1), ended(text=SECRET, days=100)
    Interrupt.objects.update(title="Publish it?")
    archive_ended(30, 10)
    before = rows_of(thread)
    keys(NEW)
    assert rows_of(thread) == before
    found = [each.message for each in examine_installation(audited=True)]
    assert any("not encrypted, 0 under a key other than the first" in words for words in found)
    reencrypt()
    assert find_readable() == set()
    (was,), (now,) = before.pop("Interrupt"), rows_of(thread)["Interrupt"]
    assert [column for column in now if column not in was] == [" publish it ask"]
    assert reencrypt().startswith("0 rows rewritten.")
    found = [each.message for each in examine_installation(audited=True)]
    assert "All rows are encrypted with the first of ENCRYPTION_KEYS." in found
    restore_thread(archived.thread_id)
    assert find_readable() == set()


def test_column_changed_during_reencrypt_command_retains_the_changed_value(
    keys: Any, ended: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys(OLD)
    ended(text=SECRET)
    keys(NEW, OLD)
    encrypt = reencryption.encrypt_text

    def change_first(text: str, column: str) -> str:
        if column.endswith("decision.reason"):
            Decision.objects.update(reason="changed in the meantime")
        return encrypt(text, column)

    monkeypatch.setattr(reencryption, "encrypt_text", change_first)
    reencrypt()
    assert Decision.objects.get().reason == "changed in the meantime"


def test_webhook_deliveries_of_encrypted_interrupt_contain_no_payload(
    keys: Any, advance: Callable[[], int]
) -> None:
    keys(NEW)
    webhook_services.create_webhook(
        "https://example.com/", by=User.objects.create_superuser("boss")
    )
    services.start("approval", {"text": SECRET})
    advance()
    assert all(SECRET not in json.dumps(row.data) for row in Delivery.objects.all())


def test_encrypted_fields_are_absent_from_migrations() -> None:
    for model in (Interrupt, Comment):
        for field in model._meta.concrete_fields:
            if isinstance(field, EncryptedField):
                assert "Encrypted" not in field.deconstruct()[1]


def test_same_text_encrypted_twice_has_different_envelopes(keys: Any) -> None:
    keys(NEW)
    first, second = (encrypt_text(SECRET, "a.b") for _ in range(2))
    assert first != second
    assert decrypt_text(first, "a.b") == decrypt_text(second, "a.b") == SECRET
