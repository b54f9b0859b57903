"""People: where a user stands in what is stored, and all of it as rows to be handed out.

A user stands in a row by a foreign key, by the label beside it, or in a column of names alone. What
graphs and questions hold is the product's own: it is found by the subject of a thread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db.models import BinaryField, F, Model, Q

from hitl_django import archive, audit
from hitl_django.archive.thread_tables import THREAD_TABLES
from hitl_django.db.alias import write_alias
from hitl_django.errors import NotAllowedError
from hitl_django.models import (
    ArchivedThread,
    AuditEntry,
    Comment,
    Decision,
    Delivery,
    Interrupt,
    ReviewLink,
    Run,
    Schedule,
    SecondLook,
    Thread,
    WebhookEndpoint,
)

#: Columns with the names of users as they were then, each with the foreign key beside it.
LABELS: Mapping[type[Model], Mapping[str, str]] = {
    Run: {"started_by_label": "started_by"},
    Interrupt: {"assignee_label": "assignee", "claimed_label": "claimed_by"},
    Decision: {"by_label": "by"},
    SecondLook: {"by_label": "by"},
    Comment: {"by_label": "by"},
    ReviewLink: {"created_by_label": "created_by"},
    WebhookEndpoint: {"created_by_label": "created_by"},
    Schedule: {"owner_label": "owner"},
    AuditEntry: {"actor_label": "actor"},
}

#: Columns that have names, or keys, of users without a foreign key; each with what reads them.
NAMES: Mapping[type[Model], Mapping[str, Callable[[Any], list[str]]]] = {
    Decision: {"held_by_label": lambda row: [row.held_by_label]},
    Comment: {"mentions": lambda row: row.mentions or []},
    AuditEntry: {"detail": audit.list_names},
}

#: What is handed out of rows that hold more than what is about the user; of others it is all.
_SHOWN: Mapping[type[Model], tuple[str, ...]] = {
    Thread: ("thread_id", "graph", "metadata", "created_at"),
    Run: ("id", "graph", "key", "state", "started_by_label", "created_at", "finished_at"),
    Interrupt: (
        "id",
        "graph",
        "title",
        "status",
        "assignee_label",
        "claimed_label",
        "claimed_until",
        "created_at",
        "closed_at",
    ),
    ReviewLink: (
        "id",
        "interrupt_id",
        "name",
        "email",
        "decisions",
        "created_by_label",
        "created_at",
        "expires_at",
        "used_at",
        "revoked_at",
    ),
    WebhookEndpoint: (
        "id",
        "url",
        "description",
        "events",
        "graphs",
        "created_by_label",
        "created_at",
    ),
    Delivery: ("id", "event", "data", "created_at"),
    Schedule: (
        "id",
        "graph",
        "description",
        "expression",
        "timezone",
        "owner_label",
        "created_at",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """A row in which a user stands: of which table, in which of its columns, and what it says.

    ``thread_id`` is that of the thread that the row belongs to, empty where it belongs to none.
    """

    table: str
    columns: tuple[str, ...]
    thread_id: str
    is_archived: bool
    row: Mapping[str, Any]


def export_person(user: Any, *, by: Any = None) -> Iterator[PersonRow]:
    """Yields every row in which a user stands, table by table, and then those of the archive.

    The archive is read from end to end. NotAllowedError at once for who is no superuser; None may.
    """
    if by is not None and not (by.is_active and by.is_superuser):
        raise NotAllowedError("Only a superuser may export what is stored about a person.")
    return _Person(user).read_rows()


class _Person:
    """A user, the names that they had here, and where they stand."""

    def __init__(self, user: Any) -> None:
        self.user, self.using = user, write_alias()
        self.users = get_user_model()
        self.subject = {
            "subject_type_id": ContentType.objects.get_for_model(self.users).pk,
            "subject_id": str(user.pk),
        }
        self.names = self._find_names()

    def read_rows(self) -> Iterator[PersonRow]:
        for model in _list_models():
            selected = self._select(model)
            if selected is None:
                continue
            rows = model._base_manager.using(self.using).filter(selected).order_by("pk")
            if model in THREAD_TABLES:
                lookup = THREAD_TABLES[model]
                path = "thread_id" if lookup == "pk" else f"{lookup}__thread_id"
                rows = rows.annotate(in_thread=F(path))
            for row in rows.iterator():
                yield from self._build(row, getattr(row, "in_thread", ""), is_archived=False)
        for archived in ArchivedThread.objects.using(self.using).order_by("pk").iterator():
            for rows_of_one in archive.read_document(archived).values():
                for row in rows_of_one:
                    yield from self._build(row, archived.thread_id, is_archived=True)

    def _find_names(self) -> set[str]:
        """Returns the names of the user alone, today's and former ones.

        One that somebody else has, or had in what is stored, says of no row whose it is.
        """
        found = {audit.label_user(self.user)}
        for model, labels in LABELS.items():
            for label, key in labels.items():
                rows = model._base_manager.using(self.using).filter(**{key: self.user.pk})
                found.update(rows.order_by().values_list(label, flat=True).distinct())
        found.discard("")
        others = self.users._default_manager.using(self.using).exclude(pk=self.user.pk)
        same = others.filter(**{f"{self.users.USERNAME_FIELD}__in": found})
        taken = {audit.label_user(other) for other in same}
        for model, labels in LABELS.items():
            for label, key in labels.items():
                rows = model._base_manager.using(self.using).filter(**{f"{label}__in": found})
                theirs = rows.exclude(**{f"{key}__isnull": True}).exclude(**{key: self.user.pk})
                taken.update(theirs.order_by().values_list(label, flat=True).distinct())
        return found - taken

    def _select(self, model: type[Model]) -> Q | None:
        """Returns the condition on rows in which the user may stand; None where none can."""
        found = [Q(**{key: self.user.pk}) for key in _list_keys(model)]
        for label, key in LABELS.get(model, {}).items():
            found.append(Q(**{f"{label}__in": self.names, f"{key}__isnull": True}))
        if model is AuditEntry:
            # Each is read: a column that may be encrypted can't be asked for a name.
            return reduce(or_, [*found, Q(verb__in=list(audit.NAMES))])
        for column in NAMES.get(model, {}):
            for name in self.names:
                # As JSON has it; where the column is no JSON, without the quotes.
                said = json.dumps(name, ensure_ascii=False)[1:-1]
                found += [Q(**{f"{column}__contains": text}) for text in {name, said}]
        if model is Thread:
            found.append(Q(**self.subject))
        if model is Delivery:
            found.append(Q(data__contains=str(self.user.pk)))
        return reduce(or_, found) if found else None

    def _find_columns(self, row: Any) -> Iterator[str]:
        """Yields the columns of a row in which the user stands."""
        model = type(row)
        for key in _list_keys(model):
            if getattr(row, f"{key}_id") == self.user.pk:
                yield key
        for label, key in LABELS.get(model, {}).items():
            if getattr(row, f"{key}_id") is None and getattr(row, label) in self.names:
                yield label
        for column, read in NAMES.get(model, {}).items():
            if not self.names.isdisjoint(read(row)):
                yield column
        if model is Thread and all(
            getattr(row, name) == value for name, value in self.subject.items()
        ):
            yield "subject"
        if model is Delivery and str(self.user.pk) in _list_user_keys(row):
            yield "data"

    def _build(self, row: Any, thread_id: str, *, is_archived: bool) -> Iterator[PersonRow]:
        if columns := tuple(self._find_columns(row)):
            yield PersonRow(
                table=row._meta.label,
                columns=columns,
                thread_id=thread_id,
                is_archived=is_archived,
                row={name: getattr(row, name) for name in _list_shown(type(row))},
            )


def _list_models() -> list[type[Model]]:
    """Lists the models of the package and of what is installed of its contrib."""
    return [
        model
        for app in apps.get_app_configs()
        if app.name.partition(".")[0] == __name__.partition(".")[0]
        for model in app.get_models()
        if not model._meta.proxy
    ]


def _list_keys(model: type[Model]) -> list[str]:
    """Lists the foreign keys of a model that lead to users."""
    users = get_user_model()
    return [field.name for field in model._meta.concrete_fields if field.related_model is users]


def _list_user_keys(delivery: Delivery) -> list[str]:
    """Lists the keys of the users that a message is about, or for."""
    data = delivery.data
    return [*(data.get(name, "") for name in ("to", "by", "user")), *data.get("users", "").split()]


def _list_shown(model: type[Model]) -> tuple[str, ...]:
    fields = model._meta.concrete_fields
    every = tuple(field.attname for field in fields if not isinstance(field, BinaryField))
    return _SHOWN.get(model, every)
