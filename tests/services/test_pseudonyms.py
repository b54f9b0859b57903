"""Pseudonymization of a user, after which the audit log still verifies."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

import hitl_django
from hitl_django import audit, leases, services
from hitl_django.contrib.archive import document, extension
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import archived_thread, restore_thread
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import create_review_link, decide_by_link, revoke_link
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.webhooks.models import WebhookEndpoint
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.extensions import list_models
from hitl_django.management import verify_audit
from hitl_django.models import (
    AuditEntry,
    Comment,
    Decision,
    Interrupt,
    Run,
    Thread,
)
from hitl_django.services import pseudonyms
from hitl_django.services.people import Person, list_keys, list_labels
from hitl_django.services.pseudonyms import KEPT
from tests.chaos import audit_chain

from .conftest import asked

pytestmark = [pytest.mark.django_db, pytest.mark.promise("P20")]

Advance = Callable[[], int]
#: Data in the user tables doesn't belong to this package.
ACCOUNTS = {"auth_user", "django_session", "django_admin_log"}


def read_values() -> Iterator[tuple[str, Any]]:
    """Yield every stored value of the database and the archived rows."""
    for table in {*connection.introspection.table_names()} - ACCOUNTS:
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                yield from (
                    (f"{table}.{name}", value) for name, value in zip(names, row, strict=True)
                )
    for row in read_rows():
        for field in row._meta.concrete_fields:
            yield f"{row._meta.model_name}.{field.name}", getattr(row, field.attname)


def read_rows() -> Iterator[Any]:
    """Yield all rows. Rows of archived threads are read from their documents."""
    for model in list_models():
        rows = list(model._base_manager.all())
        if model is ArchivedThread:
            documents = [document.read_document(row) for row in rows]
            rows = [row for each in documents for found in each.values() for row in found]
        yield from rows


def find_name(name: str) -> set[str]:
    """Return the columns that contain a name."""
    found = set()
    for column, value in read_values():
        is_bytes = isinstance(value, memoryview | bytes)
        text = bytes(value).decode("latin-1") if is_bytes else str(value)
        if name in text.casefold():
            found.add(column)
    return found


def find_key(user: User) -> set[str]:
    """Return the foreign keys and audit log entries that refer to a user."""
    found = set()
    for row in read_rows():
        keys = [getattr(row, f"{key}_id") for key in list_keys(type(row))]
        if isinstance(row, AuditEntry):
            keys.append(row.detail.get("actor_id"))
        if str(user.pk) in map(str, keys):
            found.add(row._meta.model_name)
    return found


def export() -> list[dict[str, Any]]:
    threads = Thread.objects.order_by("pk").values_list("thread_id", flat=True)
    entries = [entry for name in threads for entry in services.list_audit_entries(name)]
    return [json.loads(json.dumps(asdict(entry), default=str)) for entry in entries]


def check_export(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list(verify_audit.check_lines([json.dumps(entry).encode() for entry in entries]))


def find_faults() -> dict[str, list[Any]]:
    """Return the faults found by the database, the package and the verifier of an exported file."""
    found: dict[str, list[Any]] = {
        "package": list(audit.find_faults()),
        "judge": [fault for thread in Thread.objects.all() for fault in ask_judge(thread)],
        "file": [each for each in check_export(export()) if "entry" in each],
        "recipe": follow_recipe(export()),
    }
    return {name: faults for name, faults in found.items() if faults}


def follow_recipe(entries: list[dict[str, Any]]) -> list[str]:
    """Return the faults that the guide's program finds in a file with these entries."""
    guide = Path(hitl_django.__file__).parents[1] / "docs/guides/leads.md"
    (program,) = (
        block.partition("```")[0]
        for block in guide.read_text().split("```python\n")[1:]
        if "def find_faults(" in block
    )
    names: dict[str, Any] = {}
    exec(compile(program, guide, "exec", dont_inherit=True), names)
    columns = [*entries[0]]
    with tempfile.NamedTemporaryFile("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows({**entry, "names": json.dumps(entry["names"])} for entry in entries)
        file.flush()
        found: list[str] = names["find_faults"](file.name)
    return found


def ask_judge(thread: Thread) -> list[str]:
    try:
        return list(audit_chain.faults(thread.pk))
    except (KeyError, TypeError) as error:
        return [f"it can't be read: {error!r}"]


VERIFIERS = {"package", "judge", "file", "recipe"}


@pytest.mark.parametrize("keyed", [True, False], ids=["encrypted", "plain"])
def test_pseudonymize_user_removes_name_from_all_rows_and_audit_logs_still_verify(
    lena: User, settings: Any, keyed: bool, advance: Advance
) -> None:
    if keyed:
        settings.HITL = {**settings.HITL, "ENCRYPTION_KEYS": [Fernet.generate_key().decode()]}
        asked("approval", {"text": "x"}, advance)
        services.assign(Interrupt.objects.get(status="pending").pk, to=lena, by=lena)
    before = {row.table for row in services.export_person(lena)}
    assert find_name("lena")
    assert find_key(lena)

    forgotten = services.pseudonymize_user(lena)

    assert find_name("lena") == set()
    assert find_key(lena) == set()
    assert find_faults() == {}
    assert {column for row in services.export_person(lena) for column in row.columns} <= {*KEPT}
    assert before - {"hitl_django.Thread", "hitl_django.Delivery"} == {
        table for table, count in forgotten.rows.items() if count
    }
    assert set(Decision.objects.filter(by=None).values_list("by_label", flat=True)) == {
        forgotten.pseudonym
    }


def test_pseudonymize_user_leaves_rows_of_other_users_unchanged(lena: User) -> None:
    rita = User.objects.get(username="rita")
    before = [(row.table, row.columns, row.thread_id) for row in services.export_person(rita)]
    forgotten = services.pseudonymize_user(lena)
    after = list(services.export_person(rita))
    assert [(row.table, row.columns, row.thread_id) for row in after] == before
    comment = Comment.objects.get(text__contains="knows")
    assert comment.text == f"I think @{forgotten.pseudonym} knows."
    assert (comment.by_label, comment.mentions) == ("rita", [forgotten.pseudonym])
    own = Comment.objects.get(text="I do.")
    assert (own.by, own.by_label) == (None, forgotten.pseudonym)


def test_pseudonymize_user_preserves_entry_hashes_and_adds_an_audit_entry(lena: User) -> None:
    columns = ("pk", "seq", "verb", "subject", "via", "at", "prev_hash", "hash")
    before = list(AuditEntry.objects.values(*columns))
    rita = User.objects.get(username="rita")
    forgotten = services.pseudonymize_user(lena, by=rita, via="admin")
    assert list(AuditEntry.objects.exclude(verb="pseudonymize_user").values(*columns)) == before
    for thread in Thread.objects.all():
        entry = AuditEntry.objects.get(thread=thread, verb="pseudonymize_user")
        assert (entry.actor, entry.via, entry.seq) == (rita, "admin", thread.audit_seq)
        assert entry.detail["pseudonym"] == forgotten.pseudonym
        for seq, places in entry.detail["entries"]:
            redacted = AuditEntry.objects.get(thread=thread, seq=seq)
            assert {*places} <= redacted.detail["redacted"].keys()
    redacted = AuditEntry.objects.get(verb="take_over", actor=None)
    assert redacted.actor_label == redacted.detail["actor_id"] == forgotten.pseudonym
    assert redacted.detail["from"] == "rita"
    assert redacted.detail["salts"].keys() == {"from"}


@pytest.mark.parametrize("page", [1, 2, 3])
def test_pseudonymize_user_removes_name_from_all_audit_entries_for_any_page_size(
    lena: User, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    monkeypatch.setattr(pseudonyms, "PAGE", page)
    services.pseudonymize_user(lena)
    assert find_name("lena") == find_key(lena) == set()
    assert find_faults() == {}
    assert AuditEntry.objects.filter(verb="pseudonymize_user").count() > 2


def test_pseudonymize_user_called_twice_returns_same_pseudonym_and_changes_no_row(
    lena: User,
) -> None:
    first = services.pseudonymize_user(lena)
    before = list(AuditEntry.objects.values())
    second = services.pseudonymize_user(lena)
    assert second.pseudonym == first.pseudonym
    assert not any(second.rows.values())
    assert list(AuditEntry.objects.values()) == before


def test_pseudonymize_user_gives_different_users_different_pseudonyms(lena: User) -> None:
    rita = User.objects.get(username="rita")
    found = {services.pseudonymize_user(user, by=rita).pseudonym for user in (lena, rita)}
    assert len(found) == 2
    assert find_name("rita") == set()
    assert find_faults() == {}


def test_pseudonymize_user_called_by_that_user_stores_no_name_in_new_audit_entry(
    lena: User,
) -> None:
    forgotten = services.pseudonymize_user(lena, by=lena)
    assert find_name("lena") == find_key(lena) == set()
    entries = AuditEntry.objects.filter(verb="pseudonymize_user")
    assert {entry.actor_label for entry in entries} == {forgotten.pseudonym}
    assert find_faults() == {}


def test_pseudonymize_user_by_user_who_is_not_superuser_raises_not_allowed_error(
    lena: User,
) -> None:
    staff = User.objects.create_user("staff", is_staff=True)
    with pytest.raises(NotAllowedError):
        services.pseudonymize_user(lena, by=staff)
    assert find_name("lena")


def test_foreign_keys_to_user_without_label_column_are_not_nullable(lena: User) -> None:
    for model in list_models():
        for key in {*list_keys(model)} - {*list_labels(model).values()}:
            assert not model._meta.get_field(key).null


def test_pseudonymize_user_removes_user_from_schedules_and_webhooks(
    lena: User,
) -> None:
    Schedule.objects.create(
        graph="approval", expression="* * * * *", timezone="UTC", owner=lena, owner_label="lena",
        next_at="2030-01-01T00:00Z",
    )  # fmt: skip
    pseudonym = services.pseudonymize_user(lena).pseudonym
    assert Schedule.objects.values_list("owner", "owner_label").get() == (None, pseudonym)
    made = WebhookEndpoint.objects.values_list("created_by", "created_by_label").get()
    assert made == (None, pseudonym)


def find_entry(verb: str) -> AuditEntry:
    return AuditEntry.objects.filter(verb=verb).order_by("-pk" if verb == "take_over" else "pk")[0]


def change(of: str, **columns: Any) -> None:
    entry = find_entry(of)
    for name, value in columns.items():
        setattr(entry, name, value(entry) if callable(value) else value)
    entry.save()


def rename_to_pseudonym(entry: AuditEntry) -> dict[str, Any]:
    detail = entry.detail
    salt = detail["salts"].pop("from")
    kept = hashlib.sha256((salt + detail["from"]).encode()).hexdigest()
    forgotten = {**detail.get("forgotten", {}), "from": kept}
    return {**detail, "from": audit.make_pseudonym(User(pk=4711)), "forgotten": forgotten}


def shift_salt(entry: AuditEntry) -> dict[str, Any]:
    detail = entry.detail
    salt, name = detail["salts"]["from"], detail["from"]
    salts = {**detail["salts"], "from": salt + name[:2]}
    return {**detail, "from": name[2:], "salts": salts}


def drop(*keys: str) -> Callable[[AuditEntry], dict[str, Any]]:
    return lambda entry: {key: value for key, value in entry.detail.items() if key not in keys}


def point_to(name: Any) -> Callable[[AuditEntry], dict[str, Any]]:
    def moved(entry: AuditEntry) -> dict[str, Any]:
        return {**entry.detail, "pseudonym": name}

    return moved


OTHER = audit.make_pseudonym(User(pk=4711))
#: Changes that an attacker with write access to the table may try after a pseudonymization.
TAMPERINGS: dict[str, Callable[[], None]] = {
    "another pseudonym": lambda: change("start", actor_label=OTHER),
    "a name for a pseudonym": lambda: change("start", actor_label="eve"),
    "a name for a name": lambda: change("assign", actor_label="eve"),
    "a name for a name in the detail": lambda: change(
        "take_over", detail=lambda entry: {**entry.detail, "from": "eve"}
    ),
    "a forged pseudonym": lambda: change(
        "take_over", detail=lambda entry: rename_to_pseudonym(entry)
    ),
    "a forged pseudonym of the one who was forgotten": lambda: change(
        "take_over",
        detail=lambda entry: {
            **rename_to_pseudonym(entry),
            "from": AuditEntry.objects.filter(verb="pseudonymize_user")[0].detail["pseudonym"],
        },
    ),
    "a name's letters in the salt": lambda: change("take_over", detail=shift_salt),
    "a verb": lambda: change("start", verb="cancel"),
    "a type": lambda: change("decide", detail=lambda entry: {**entry.detail, "type": "reject"}),
    "a commitment": lambda: change(
        "start", detail=lambda entry: {**entry.detail, "redacted": {"actor": "0" * 64}}
    ),
    "no commitments": lambda: change("start", detail=drop("redacted")),
    "no salts": lambda: change("assign", detail=drop("salts")),
    "invalid salts": lambda: change(
        "assign", detail=lambda entry: {**entry.detail, "salts": {"actor": 1, "to": [1]}}
    ),
    "pseudonymization entry with another pseudonym": lambda: change(
        "pseudonymize_user", detail=point_to(OTHER)
    ),
    "pseudonymization entry with a name": lambda: change(
        "pseudonymize_user", detail=point_to("eve")
    ),
    "pseudonymization entry without entries": lambda: change(
        "pseudonymize_user", detail=drop("entries")
    ),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_tampering_with_pseudonymized_audit_log_is_found_by_every_verifier(
    lena: User, name: str
) -> None:
    rita = User.objects.get(username="rita")
    services.pseudonymize_user(lena, by=rita)
    assert find_faults() == {}
    TAMPERINGS[name]()
    found = find_faults()
    assert found.keys() == VERIFIERS
    assert len(found["package"]) == len(found["file"]) == 1


def append_forged(thread: Thread, **detail: Any) -> None:
    locked = leases.lock_thread(pk=thread.pk)
    audit.append_alone(locked, "pseudonymize_user", by=None, via="code", detail=detail)


def test_forged_audit_entry_about_a_pseudonym_cannot_insert_a_real_name_undetected(
    lena: User,
) -> None:
    """A forged entry can insert a pseudonym, which is visible in the audit log, but not a name."""
    change("take_over", detail=lambda row: {**rename_to_pseudonym(row), "from": "eve"})
    entry = find_entry("take_over")
    append_forged(entry.thread, pseudonym="eve", entries=[[entry.seq, ["from"]]])
    assert [seq for _, seq in audit.find_faults()] == [entry.seq]
    assert find_faults().keys() == VERIFIERS


@pytest.mark.parametrize("salts", ["x", {"actor": 1, "from": [1]}])
def test_pseudonymize_user_removes_name_from_damaged_audit_entry_and_damage_stays_detectable(
    lena: User, salts: Any
) -> None:
    change("take_over", detail=lambda entry: {**entry.detail, "salts": salts})
    damaged = find_entry("take_over").seq
    assert [seq for _, seq in audit.find_faults()] == [damaged]
    services.pseudonymize_user(lena)
    assert find_name("lena") == find_key(lena) == set()
    assert [seq for _, seq in audit.find_faults()] == [damaged]


def test_audit_entries_without_user_contain_no_salts(advance: Advance) -> None:
    interrupt = asked("approval", {"text": "x"}, advance)
    services.decide(interrupt.pk, "approve")
    assert not [entry for entry in AuditEntry.objects.all() if "salts" in entry.detail]


def test_each_name_in_audit_entries_has_a_different_salt(lena: User) -> None:
    salts = [
        salt
        for entry in AuditEntry.objects.all()
        for salt in entry.detail.get("salts", {}).values()
    ]
    assert len(salts) == len({*salts}) > 10
    for entry in AuditEntry.objects.exclude(actor=None):
        assert {"actor", "actor_id"} <= entry.detail["salts"].keys()


def test_hashed_text_of_audit_entry_equals_the_recorded_text() -> None:
    """Later releases must verify the entries too, so the hashed text must never change."""
    entry = AuditEntry(
        seq=2,
        verb="take_over",
        subject="q",
        actor_label="lena",
        via="api",
        at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        detail={"from": "rita", "version": 1, "actor_id": "7"},
        prev_hash="a" * 64,
    )
    frame = (
        '{"actor":%s,"at":"2026-01-02T03:04:05.000006+00:00","detail":{"actor_id":%s,"from":%s,'
        '"version":1},"seq":2,"subject":"q","thread":"t","verb":"take_over","via":"api"}'
    )
    plain = frame % ('"lena"', '"7"', '"rita"')
    assert audit.get_hashed_text(entry, "t") == plain
    assert audit.hash_entry(entry, "t") == hashlib.sha256(("a" * 64 + plain).encode()).hexdigest()
    salts = {"actor": "0" * 32, "actor_id": "1" * 32, "from": "2" * 32}
    names = ("0" * 32 + "lena", "1" * 32 + "7", "2" * 32 + "rita")
    kept = [hashlib.sha256(name.encode()).hexdigest() for name in names]
    salted = frame % tuple(f'{{"name":"{one}"}}' for one in kept)
    entry.detail |= {"salts": salts}
    assert audit.get_hashed_text(entry, "t") == salted
    redaction = audit.Redaction("forgotten-0123456789ab")
    redaction.redact(entry, ["actor", "actor_id"])
    assert entry.detail == {
        "from": "rita",
        "version": 1,
        "actor_id": "forgotten-0123456789ab",
        "salts": {"from": "2" * 32},
        "redacted": {"actor": kept[0], "actor_id": kept[1]},
    }
    assert audit.get_hashed_text(entry, "t") == salted
    assert redaction.take_detail() == {
        "pseudonym": "forgotten-0123456789ab",
        "entries": [[2, ["actor", "actor_id"]]],
    }


def test_audit_export_contains_names_with_salts_and_tampered_names_fail_its_check(
    lena: User,
) -> None:
    entry = next(each for each in export() if each["verb"] == "take_over")
    hashed = json.loads(entry["hashed"])
    assert entry["names"].keys() == {"actor", "actor_id", "from"}
    told = entry["names"]["from"]
    digest = hashlib.sha256((told["salt"] + told["name"]).encode()).hexdigest()
    assert hashed["detail"]["from"] == {"name": digest}
    entries = export()
    for changed in (
        {"actor": "eve"},
        {"names": {}},
        {"names": entry["names"] | {"from": told | {"name": "eve"}}},
        {"names": entry["names"] | {"from": {"name": OTHER}}},
        {
            "names": {
                **entry["names"],
                "from": {"name": told["name"][1:], "salt": told["salt"] + told["name"][:1]},
            }
        },
        {"names": {**entry["names"], "subject": {"name": "eve"}}},
    ):
        tampered = [{**each, **changed} if each == entry else each for each in entries]
        (fault,) = check_export(tampered)
        assert (fault["entry"], fault["thread"]) == (entry["seq"], entry["thread_id"])
        assert tampered[fault["line"] - 1]["seq"] == entry["seq"]


def test_audit_export_made_before_pseudonymize_user_still_verifies_afterwards(
    lena: User,
) -> None:
    before = export()
    services.pseudonymize_user(lena)
    after = export()
    assert check_export(before) == check_export(after) == []
    hashes = {entry["hash"]: entry["hashed"] for entry in after}
    for entry in before:
        assert hashes[entry["hash"]] == entry["hashed"]


class TestArchive:
    def test_pseudonymize_user_changes_archived_thread_that_verifies_after_restore(
        self, lena: User
    ) -> None:
        names = list(Thread.objects.values_list("thread_id", flat=True))
        Thread.objects.update(ended_at="2020-01-01T00:00Z")
        assert archive_ended(30, 10) == 2
        assert find_name("lena")

        forgotten = services.pseudonymize_user(lena)

        assert find_name("lena") == find_key(lena) == set()
        assert not Thread.objects.exists()
        assert forgotten.rows["hitl_django.AuditEntry"] > 5
        for name in names:
            restore_thread(name)
        assert find_faults() == {}
        entries = AuditEntry.objects.filter(verb="pseudonymize_user")
        assert entries.count() == 2
        assert find_name("lena") == find_key(lena) == set()
        services.pseudonymize_user(lena)
        assert entries.count() == 2

    def test_archived_thread_view_and_person_export_contain_no_salts(self, lena: User) -> None:
        name = Thread.objects.values_list("thread_id", flat=True)[0]
        Thread.objects.update(ended_at="2020-01-01T00:00Z")
        archive_ended(30, 10)
        shown = archived_thread(name).rows["AuditEntry"]
        assert shown
        assert "salts" not in json.dumps(shown)
        exported = [row.row for row in services.export_person(lena) if "Audit" in row.table]
        assert "salts" not in str(exported)

    def test_pseudonymize_user_finds_thread_restored_while_the_archive_is_read(
        self, lena: User, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = list(Thread.objects.values_list("thread_id", flat=True))
        Thread.objects.update(ended_at="2020-01-01T00:00Z")
        archive_ended(30, 10)
        read = document.read_document

        def restore_first(archived: ArchivedThread) -> Any:
            monkeypatch.setattr(extension, "read_document", read)
            restore_thread(names[0])
            return read(archived)

        monkeypatch.setattr(extension, "read_document", restore_first)
        services.pseudonymize_user(lena)
        assert Thread.objects.count() == 1
        assert find_name("lena") == find_key(lena) == set()
        assert find_faults() == {}


class StoppedError(Exception):
    """Error that simulates the end of the process."""


@pytest.mark.parametrize("renamed", ["", "renamed", "renamed and archived"])
@pytest.mark.parametrize("count", range(1, 8))
def test_pseudonymize_user_called_again_after_interruption_removes_all_names(
    lena: User, advance: Advance, monkeypatch: pytest.MonkeyPatch, count: int, renamed: str
) -> None:
    rita = User.objects.get(username="rita")
    # In one thread, only the name identifies the user.
    other = asked("approval", {"text": "z"}, advance)
    services.assign(other.pk, to=lena, by=rita)
    services.assign(other.pk, to=rita, by=rita)
    if renamed:
        # Only lena's actions in the first thread link her former name to her account.
        WebhookEndpoint.objects.all().delete()
        lena.username = "renamed"
        lena.save()
    if "archived" in renamed:
        # This thread contains only her name.
        second = AuditEntry.objects.get(verb="release").thread_id
        Thread.objects.filter(pk=second).update(ended_at="2020-01-01T00:00Z")
        assert archive_ended(30, 10) == 1
    begun = []

    def stop_at(act: Callable[..., Any]) -> Callable[..., Any]:
        def stop(*which: Any, **more: Any) -> Any:
            begun.append(which)
            if len(begun) == count:
                raise StoppedError
            return act(*which, **more)

        return stop

    with monkeypatch.context() as stopped:
        stopped.setattr(leases, "lock_thread", stop_at(leases.lock_thread))
        stopped.setattr(extension, "read_document", stop_at(document.read_document))
        with suppress(StoppedError):
            services.pseudonymize_user(lena)
    assert find_faults() == {}

    services.pseudonymize_user(lena)

    assert find_name("lena") == find_name("renamed") == find_key(lena) == set()
    assert find_faults() == {}


def test_failed_pseudonymize_user_transaction_changes_no_audit_entry_and_no_run(
    lena: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise StoppedError

    before = list(AuditEntry.objects.values()), list(Run.objects.values())
    monkeypatch.setattr(audit, "append_alone", stop)
    with pytest.raises(StoppedError):
        services.pseudonymize_user(lena)
    assert (list(AuditEntry.objects.values()), list(Run.objects.values())) == before


def test_pseudonymize_user_includes_decision_made_just_before_the_thread_lock(
    lena: User, advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (asked("approval", {"text": text}, advance) for text in "ab")
    services.comment(first.pk, "Well.", by=lena)
    lock, moments = leases.lock_thread, [first, second]

    def decide_first(**which: Any) -> Thread:
        if moments:
            interrupt = moments.pop()
            services.decide(interrupt.pk, "approve", by=lena)
        return lock(**which)

    monkeypatch.setattr(leases, "lock_thread", decide_first)
    services.pseudonymize_user(lena)
    assert Decision.objects.filter(interrupt__in=[first, second]).count() == 2
    assert find_name("lena") == find_key(lena) == set()
    assert find_faults() == {}


@pytest.mark.database("postgresql")
@pytest.mark.django_db(transaction=True)
def test_pseudonymize_user_during_decisions_of_the_user_leaves_valid_audit_logs(
    lena: User, advance: Advance
) -> None:
    interrupts = [asked("approval", {"text": "x"}, advance) for _ in range(12)]
    for interrupt in interrupts[::2]:
        services.comment(interrupt.pk, "Well.", by=lena)
    halfway = threading.Event()

    def decide_all() -> None:
        try:
            for interrupt in interrupts:
                services.decide(interrupt.pk, "approve", by=lena)
                halfway.set()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        deciding = other.submit(decide_all)
        assert halfway.wait(30)
        services.pseudonymize_user(lena)
        deciding.result(30)
    assert find_faults() == {}
    assert Decision.objects.filter(interrupt__in=interrupts).count() == 12
    services.pseudonymize_user(lena)
    assert find_name("lena") == find_key(lena) == set()
    assert find_faults() == {}


def test_pseudonymize_user_preserves_claim_that_another_user_takes_over_during_the_call(
    lena: User, advance: Advance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim doesn't lock the thread."""
    interrupt = asked("approval", {"text": "x"}, advance)
    services.claim(interrupt.pk, by=lena)
    rita = User.objects.get(username="rita")
    find = Person.find_columns

    def claim_first(self: Person, row: Any) -> Iterator[str]:
        if isinstance(row, Interrupt) and row.pk == interrupt.pk:
            services.claim(interrupt.pk, by=rita, take_over=True)
        yield from find(self, row)

    monkeypatch.setattr(Person, "find_columns", claim_first)
    services.pseudonymize_user(lena)
    interrupt.refresh_from_db()
    assert (interrupt.claimed_by, interrupt.claimed_by_label) == (rita, "rita")


class TestGuests:
    """Guests without an account, whose review links were created for the user's address."""

    @pytest.fixture
    def decided(self, lena: User, advance: Advance) -> Interrupt:
        """Create an interrupt with an undone link decision, and one with a revoked link."""
        lena.email = "lena@example.com"
        lena.save()
        rita = User.objects.get(username="rita")
        for text in "ab":
            interrupt = asked("approval", {"text": text}, advance)
            link = create_review_link(
                interrupt.pk, name="Magda L.", email="Lena@Example.com", by=rita
            )
            other = create_review_link(interrupt.pk, name="Dana", email="dana@example.com", by=lena)
            revoke_link(other.id if text == "a" else link.id, by=rita)
            if text == "a":
                decide_by_link(link.url.rsplit("/", 2)[-2], "approve")
                decided = interrupt
            else:
                decide_by_link(other.url.rsplit("/", 2)[-2], "approve")
        advance()
        return decided

    def test_pseudonymize_user_replaces_guest_names_of_review_links_to_the_users_email(
        self, lena: User, decided: Interrupt
    ) -> None:
        assert "hitl_links_reviewlink.email" in find_name("lena@")
        pseudonym = services.pseudonymize_user(lena).pseudonym
        assert find_name("magda") == find_name("lena") == set()
        assert find_name("dana@")
        (by_dana,) = AuditEntry.objects.filter(actor_label="Dana")
        assert by_dana.detail["invited_by"] == pseudonym
        assert by_dana.detail["salts"].keys() == {"actor"}
        assert Decision.objects.get(interrupt=decided).by_label == pseudonym
        assert find_faults() == {}

    def test_pseudonymize_user_leaves_guest_name_of_email_shared_with_another_user(
        self, lena: User, decided: Interrupt
    ) -> None:
        User.objects.create_user("twin", email="LENA@example.com")
        services.pseudonymize_user(lena)
        assert find_name("magda")
        assert ReviewLink.objects.filter(email="Lena@Example.com").count() == 2

    def test_pseudonymize_user_replaces_guest_names_in_archived_threads(
        self, lena: User, decided: Interrupt
    ) -> None:
        Run.objects.exclude(state="succeeded").update(state="cancelled")
        Thread.objects.update(ended_at="2020-01-01T00:00Z")
        assert archive_ended(30, 10) == 4
        services.pseudonymize_user(lena)
        assert find_name("magda") == find_name("lena") == set()

    def test_export_person_includes_review_links_and_guest_decisions_of_the_users_email(
        self, lena: User, decided: Interrupt
    ) -> None:
        found = {
            (row.table, column) for row in services.export_person(lena) for column in row.columns
        }
        assert found >= {
            ("hitl_links.ReviewLink", "email"),
            ("hitl_django.Decision", "by_label"),
            ("hitl_django.AuditEntry", "actor_label"),
        }


def test_username_equal_to_a_pseudonym_is_stored_with_at_sign_and_rejected_as_link_name(
    lena: User, advance: Advance
) -> None:
    pseudonym = services.pseudonymize_user(lena).pseudonym
    eve = User.objects.create_superuser(pseudonym)
    interrupt = asked("approval", {"text": "x"}, advance)
    services.decide(interrupt.pk, "approve", by=eve)
    assert Decision.objects.get(by=eve).by_label == f"@{pseudonym}"
    other = asked("approval", {"text": "y"}, advance)
    with pytest.raises(InvalidInputError, match="pseudonym of an erased person"):
        create_review_link(other.pk, name=pseudonym, expires=timedelta(days=1))


class TestCommand:
    def run(self, *arguments: str) -> str:
        out = io.StringIO()
        call_command("hitl", "pseudonymize-user", *arguments, stdout=out)
        return out.getvalue()

    def test_pseudonymize_command_without_yes_counts_rows_and_changes_none(
        self, lena: User
    ) -> None:
        said = self.run("lena")
        assert "hitl_django.Decision: 3 rows\n" in said or "hitl_django.Decision: " in said
        assert "1 thread is about this user" in said
        assert said.endswith("Use --yes to replace the user with a pseudonym.\n")
        assert find_name("lena")

        done = self.run("lena", "--yes")

        assert done.endswith(f"The user is now stored as {audit.make_pseudonym(lena)}.\n")
        counts = [line for line in said.splitlines() if line.startswith("hitl_django")]
        assert [line for line in done.splitlines() if line.startswith("hitl_django")] == counts
        assert {entry.via for entry in AuditEntry.objects.filter(verb="pseudonymize_user")} == {
            "command"
        }
        assert "rows" not in self.run("lena")

    def test_pseudonymize_command_with_unknown_user_raises_command_error(self, lena: User) -> None:
        with pytest.raises(CommandError, match="Unknown user 'nobody'"):
            self.run("nobody")
