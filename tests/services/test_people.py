"""Export of data about a user, and completeness of the columns."""

from __future__ import annotations

import io
import json

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import models

from hitl_django import audit, services
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.db.alias import write_alias
from hitl_django.errors import NotAllowedError
from hitl_django.extensions import list_models
from hitl_django.models import AuditEntry, Run, Thread
from hitl_django.services.people import NAMES, list_labels

pytestmark = pytest.mark.django_db

#: Columns without a username or a key of a user. A new column is listed here or in services.people.
#: The contents of graphs and interrupts are the project's own data.
OTHERS = {
    "NotificationPreferences": "requested assigned mentioned due overdue language",
    "ArchivedThread": "thread_id graph key subject_id state document digest",
    "Assistant": "graph name description config context metadata",
    "AssistantVersion": "graph name description config context metadata",
    "AuditEntry": "verb subject via prev_hash hash",
    "ChannelBlob": "ns channel data digest",
    "Checkpoint": "ns checkpoint_id parent_id source data digest metadata scalars writes",
    "Comment": "via text",
    "Decision": "type value refusal reason via key request_digest payload_digest patch",
    "Delivery": "event data state fault",
    "GraphShape": "fingerprint graph version shape",
    "Interrupt": (
        "interrupt_id kind graph node checkpoint_ns checkpoint_id task_id task_path key title why "
        "payload payload_digest payload_formats search_text search_grams response_schema dialect "
        "allowed_decisions editable proposal status expiry group_label claim_key claim_filters"
    ),
    "IdempotencyRecord": "key digest outcome",
    "PendingWrite": "ns checkpoint_id task_id task_path data digest",
    "ReviewLink": "secret_digest name email decisions payload_digest",
    "Run": (
        "graph graph_version fingerprint key input_digest state events input options error "
        "traceback"
    ),
    "RunEvent": "kind ns data",
    "SavedFilter": "name query",
    "Schedule": (
        "graph thread_id description expression timezone input context configurable metadata "
        "overlap last_error"
    ),
    "SpotCheck": "result reason",
    "StoreItem": "namespace key value vectors",
    "NotificationCursor": "name",
    "Thread": "thread_id graph subject_id metadata lease_owner audit_hash",
    "WebhookEndpoint": (
        "channel url description events graphs group_label secret old_secret stopped"
    ),
    "WorkerHeartbeat": "owner host version",
}


def test_every_text_column_is_declared_as_personal_data_or_not() -> None:
    found: dict[str, set[str]] = {}
    for app in apps.get_app_configs():
        if not app.name.startswith("hitl_django"):
            continue
        for model in app.get_models():
            if model._meta.proxy:
                continue
            texts = {
                field.name
                for field in model._meta.concrete_fields
                if isinstance(field, models.CharField | models.TextField | models.BinaryField)
            }
            found[model.__name__] = texts - set(list_labels(model)) - set(NAMES.get(model, ()))
    assert found == {name: set(columns.split()) for name, columns in OTHERS.items()}


def test_every_username_label_column_has_a_foreign_key_to_user() -> None:
    for model in list_models():
        for label, key in list_labels(model).items():
            assert model._meta.get_field(label)
            assert model._meta.get_field(key).related_model is get_user_model()


def list_user_columns(user: User) -> set[tuple[str, str]]:
    rows = list(services.export_person(user))
    return {(row.table.partition(".")[2], column) for row in rows for column in row.columns}


EVERYWHERE = {
    ("NotificationPreferences", "user"),
    ("AuditEntry", "actor"),
    ("AuditEntry", "detail"),
    ("Comment", "by"),
    ("Comment", "mentions"),
    ("Decision", "by"),
    ("Decision", "claimed_by_label"),
    ("Delivery", "data"),
    ("Interrupt", "assignee"),
    ("IdempotencyRecord", "user"),
    ("ReviewLink", "created_by"),
    ("Run", "started_by"),
    ("SavedFilter", "owner"),
    ("Thread", "subject"),
    ("WebhookEndpoint", "created_by"),
}


def test_export_person_yields_rows_of_every_table_that_mentions_the_user(lena: User) -> None:
    Delivery.objects.create(
        endpoint=WebhookEndpoint.objects.get(), event="interrupt.mentioned",
        data={"users": f"4711 {lena.pk}"},
    )  # fmt: skip
    assert list_user_columns(lena) == EVERYWHERE
    text = json.dumps([str(row) for row in services.export_person(lena)])
    assert "geheim" not in text
    assert "Nothing about her" not in text


def test_export_person_finds_usernames_in_all_declared_audit_details(lena: User) -> None:
    for entry in AuditEntry.objects.all():
        names = [value for value in entry.detail.values() if value in ("lena", "rita")]
        assert audit.list_names(entry) == names
    exported = [row.row["verb"] for row in services.export_person(lena) if "detail" in row.columns]
    assert sorted(exported) == ["assign", "decide", "release", "take_over"]


def test_export_person_excludes_users_whose_name_or_id_has_the_same_prefix(lena: User) -> None:
    for pk, name in ((lena.pk * 10, "len"), (lena.pk * 10 + 1, "LENA")):
        assert list(services.export_person(User.objects.create_user(name, pk=pk))) == []


def test_export_person_yields_the_same_rows_after_threads_are_archived(lena: User) -> None:
    before = {(row.table, row.columns, row.thread_id) for row in services.export_person(lena)}
    Thread.objects.update(ended_at="2020-01-01T00:00Z")
    assert archive_ended(30, 10) == 2
    rows = list(services.export_person(lena))
    assert {(row.table, row.columns, row.thread_id) for row in rows} == before
    assert {row.is_archived for row in rows if row.thread_id} == {True}


def test_export_person_includes_rows_with_former_username_unless_reassigned(
    lena: User,
) -> None:
    before = list_user_columns(lena)
    lena.username = "lena.new"
    lena.save()
    assert list_user_columns(lena) == before
    other = User.objects.create_user("lena")
    by_name_alone = {
        ("AuditEntry", "detail"),
        ("Comment", "mentions"),
        ("Decision", "claimed_by_label"),
    }
    assert list_user_columns(lena) == before - by_name_alone
    assert list(services.export_person(other)) == []


def test_export_person_finds_row_without_foreign_key_by_username_label(lena: User) -> None:
    Run.objects.using(write_alias()).filter(started_by=lena).update(started_by=None)
    assert ("Run", "started_by_label") in list_user_columns(lena)


def test_export_person_by_user_who_is_not_superuser_raises_not_allowed_error(lena: User) -> None:
    staff = User.objects.create_user("staff", is_staff=True)
    with pytest.raises(NotAllowedError):
        services.export_person(lena, by=staff)
    assert list(services.export_person(lena, by=lena))


def test_export_person_command_prints_one_json_object_per_line(lena: User) -> None:
    out = io.StringIO()
    call_command("hitl", "export-person", "lena", stdout=out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert {row["table"].partition(".")[2] for row in rows} == {
        table for table, _ in EVERYWHERE
    } - {"Delivery"}
    with pytest.raises(CommandError, match="Unknown user 'nobody'"):
        call_command("hitl", "export-person", "nobody")
