"""Export of all rows that contain data about a user.

A row can refer to a user in three ways: by a foreign key, by a copy of the username next to a
foreign key, or by usernames or primary keys in another column. States and payloads are your
project's data and not exported. To find the states and payloads about a person, use the related
objects of threads.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import chain
from operator import or_
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db.models import BinaryField, F, Model, Q, QuerySet

from hitl_django import audit
from hitl_django.db.alias import write_alias
from hitl_django.errors import NotAllowedError
from hitl_django.extensions import (
    Guests,
    find_table,
    iterate_archives,
    iterate_tables,
    list_models,
)
from hitl_django.models import (
    AuditEntry,
    Comment,
    Decision,
    Interrupt,
    Run,
    Thread,
)
from hitl_django.models.thread_tables import list_thread_tables
from hitl_django.permissions import check_user

#: Columns with the name that a user had when the row was stored, each with the name of its foreign
#: key.
LABELS: Mapping[type[Model], Mapping[str, str]] = {
    Run: {"started_by_label": "started_by"},
    Interrupt: {"assignee_label": "assignee", "claimed_by_label": "claimed_by"},
    Decision: {"by_label": "by"},
    Comment: {"by_label": "by"},
    AuditEntry: {"actor_label": "actor"},
}

#: Columns with names or keys of users and no foreign key, each with a function that reads them.
NAMES: Mapping[type[Model], Mapping[str, Callable[[Any], list[str]]]] = {
    Decision: {"claimed_by_label": lambda row: [row.claimed_by_label]},
    Comment: {"mentions": lambda row: row.mentions or []},
    AuditEntry: {"detail": audit.list_names},
}

#: Exported columns of models that also contain other data. Other models are exported with all
#: columns.
_SHOWN: Mapping[type[Model], tuple[str, ...]] = {
    Thread: ("thread_id", "graph", "metadata", "created_at"),
    Run: ("id", "graph", "key", "state", "started_by_label", "created_at", "finished_at"),
    Interrupt: (
        "id",
        "graph",
        "title",
        "status",
        "assignee_label",
        "claimed_by_label",
        "claimed_until",
        "created_at",
        "closed_at",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonRow:
    """A row that refers to a user.

    Attributes:
        table: the label of the model.
        columns: the columns that refer to the user.
        thread_id: the id of the thread that the row belongs to, or an empty string.
        is_archived: whether the row is in an archive.
        row: the exported columns with their values.
    """

    table: str
    columns: tuple[str, ...]
    thread_id: str
    is_archived: bool
    row: Mapping[str, Any]


def export_person(user: Any, *, by: Any = None) -> Iterator[PersonRow]:
    """Yield each row that refers to a user, table by table, followed by archived rows.

    All archives are read completely.

    Raises:
        NotAllowedError: before the first row, if ``by`` is neither a superuser nor None.
    """
    refuse_unless_superuser(by, "Only superusers can export a person's data.")
    return Person(user).read_rows()


def refuse_unless_superuser(by: Any, message: str) -> None:
    """Raise NotAllowedError with this message if ``by`` is neither a superuser nor None."""
    if by is None:
        return
    check_user(by)
    if not (by.is_active and by.is_superuser):
        raise NotAllowedError(message)


class Person:
    """A user with all names and invitations by which stored rows may refer to the user."""

    def __init__(self, user: Any) -> None:
        check_user(user)
        self.user, self.using = user, write_alias()
        self.users = get_user_model()
        self.subject = {
            "subject_type_id": ContentType.objects.get_for_model(self.users).pk,
            "subject_id": str(user.pk),
        }
        self.names = self._find_names()
        self.email = self._find_email()
        #: Ids of the rows that name the user as a guest, and the user's identities as a guest. An
        #: identity is a source, an interrupt and a name.
        self.invitations: set[str] = set()
        self.guests: set[tuple[str, str, str]] = set()
        if self.email:
            for table in _list_guest_tables():
                own = Q(**{f"{table.guests.email}__iexact": self.email})
                self.add_guests(self.rows(table.model).filter(own).iterator())

    def read_rows(self) -> Iterator[PersonRow]:
        tables = list_thread_tables()
        for model in list_models():
            selected = self.select(model)
            if selected is None:
                continue
            rows = self.rows(model).filter(selected).order_by("pk")
            if model in tables:
                lookup = tables[model]
                path = "thread_id" if lookup == "pk" else f"{lookup}__thread_id"
                rows = rows.annotate(in_thread=F(path))
            for row in rows.iterator():
                yield from self._build(row, getattr(row, "in_thread", ""), is_archived=False)
        for archived, found in self._read_archived():
            self.add_guests(chain.from_iterable(found.values()))
            for rows_of_one in found.values():
                for row in rows_of_one:
                    yield from self._build(row, archived.thread_id, is_archived=True)

    def add_guests(self, rows: Iterable[Any]) -> None:
        """Add the invitations in ``rows`` that were sent to this person's email address."""
        for row in rows:
            guests = find_guests(type(row))
            if guests is not None and self._is_own(row, guests):
                self.invitations.add(str(row.pk))
                self.guests.add((guests.via, str(row.interrupt_id), getattr(row, guests.name)))

    def _find_names(self) -> set[str]:
        """Return the user's current and former names, without names of other users.

        All rows and archives are read. A name that another user also has or had doesn't identify
        the user, so it is omitted.
        """
        found = {audit.label_user(self.user)}
        archived = self._read_archived_names()
        found.update(name for name, key in archived if key == self.user.pk)
        for model, labels in _iterate_labels():
            for label, key in labels.items():
                rows = self.rows(model).filter(**{key: self.user.pk})
                found.update(rows.order_by().values_list(label, flat=True).distinct())
        found.discard("")
        others = self.users._default_manager.using(self.using).exclude(pk=self.user.pk)
        same = others.filter(**{f"{self.users.USERNAME_FIELD}__in": found})
        taken = {audit.label_user(other) for other in same}
        taken.update(name for name, key in archived if key != self.user.pk)
        for model, labels in _iterate_labels():
            for label, key in labels.items():
                rows = self.rows(model).filter(**{f"{label}__in": found})
                theirs = rows.exclude(**{f"{key}__isnull": True}).exclude(**{key: self.user.pk})
                taken.update(theirs.order_by().values_list(label, flat=True).distinct())
        return found - taken

    def _read_archived_names(self) -> set[tuple[str, Any]]:
        """Return pairs of a user's name and primary key, as stored in archived rows."""
        return {
            (getattr(row, label), getattr(row, f"{key}_id"))
            for _, found in self._read_archived()
            for model, rows in found.items()
            for label, key in list_labels(model).items()
            for row in rows
            if getattr(row, f"{key}_id") is not None
        }

    def _read_archived(self) -> Iterator[tuple[Any, Mapping[type[Model], Iterable[Any]]]]:
        for model, archive in iterate_archives():
            for archived in self.rows(model).order_by("pk").iterator():
                yield archived, archive.read(archived)

    def _find_email(self) -> str:
        """Return the user's email address.

        The result is empty if another user has the same address.
        """
        name = self.users.get_email_field_name()
        email = str(getattr(self.user, name, "") or "")
        others = self.users._default_manager.using(self.using).exclude(pk=self.user.pk)
        return "" if not email or others.filter(**{f"{name}__iexact": email}).exists() else email

    def _is_own(self, row: Any, guests: Guests) -> bool:
        email: str = getattr(row, guests.email)
        return bool(self.email) and email.casefold() == self.email.casefold()

    def rows(self, model: type[Model]) -> QuerySet[Any]:
        return model._base_manager.using(self.using)

    def select(self, model: type[Model], *, keyed: bool = True) -> Q | None:
        """Return a condition for the rows of a model that may refer to the user.

        Returns None if no row of the model can refer to the user. Without ``keyed``, rows that
        refer to the user only by a foreign key are omitted.
        """
        found = [Q(**{key: self.user.pk}) for key in list_keys(model) if keyed]
        for label, key in list_labels(model).items():
            found.append(Q(**{f"{label}__in": self.names, f"{key}__isnull": True}))
        interrupts = {interrupt for _, interrupt, _ in self.guests}
        if model is Decision:
            found.append(Q(via__in={via for via, _, _ in self.guests}, interrupt__in=interrupts))
        guests = find_guests(model)
        if guests is not None and self.email:
            found.append(Q(**{f"{guests.email}__iexact": self.email}))
        if model is AuditEntry:
            # Read all of these entries, because an encrypted column can't be searched for a name.
            found += [Q(subject__in=interrupts), Q(verb__in=list(audit.NAMES))]
            return reduce(or_, found)
        for column in NAMES.get(model, {}):
            for name in self.names:
                # Search for the name as JSON, and as plain text for columns that don't contain
                # JSON.
                escaped = json.dumps(name, ensure_ascii=False)[1:-1]
                found += [Q(**{f"{column}__contains": text}) for text in {name, escaped}]
        if model is Thread:
            found.append(Q(**self.subject))
        for column in get_user_keys(model):
            found.append(Q(**{f"{column}__contains": str(self.user.pk)}))
        return reduce(or_, found) if found else None

    def find_columns(self, row: Any) -> Iterator[str]:
        """Yield the columns of a row that refer to the user."""
        model = type(row)
        for key in list_keys(model):
            if getattr(row, f"{key}_id") == self.user.pk:
                yield key
        for label, key in list_labels(model).items():
            if getattr(row, f"{key}_id") is None and getattr(row, label) in self.names:
                yield label
        for column, read in NAMES.get(model, {}).items():
            if model is not AuditEntry and not self.names.isdisjoint(read(row)):
                yield column
        if model is AuditEntry:
            yield from self._find_columns_of_entry(row)
        if model is Decision and self._is_guest(row.via, row.interrupt_id, row.by_label):
            yield "by_label"
        guests = find_guests(model)
        if guests is not None and self._is_own(row, guests):
            yield from (guests.name, guests.email)
        if model is Thread and all(
            getattr(row, name) == value for name, value in self.subject.items()
        ):
            yield "subject"
        for column, list_of_row in get_user_keys(model).items():
            if str(self.user.pk) in list_of_row(row):
                yield column

    def find_places(self, entry: AuditEntry, *, keyed: bool = True) -> list[str]:
        """List the parts of an audit log entry that refer to the user.

        Without ``keyed``, parts that refer to the user only by a foreign key are omitted.
        """
        detail, places = entry.detail, list[str]()
        account = entry.actor_id is None and entry.actor_label in self.names
        if entry.actor_id is None or keyed:
            key = str(self.user.pk)
            account = account or key in (str(entry.actor_id), detail.get(audit.ACTOR_ID))
        if account or self._is_guest(entry.via, entry.subject, entry.actor_label):
            places.append(audit.ACTOR)
            places += [audit.ACTOR_ID] if detail.get(audit.ACTOR_ID) is not None else []
        named = audit.list_user_places(entry.verb)
        places += [place for place in named if detail.get(place) in self.names]
        if detail.get(audit.INVITATION) in self.invitations and detail.get(audit.GUEST):
            places.append(audit.GUEST)
        return places

    def _is_guest(self, via: str, interrupt: Any, name: str) -> bool:
        return (via, str(interrupt), name) in self.guests

    def _find_columns_of_entry(self, entry: AuditEntry) -> Iterator[str]:
        places = {*self.find_places(entry)}
        is_found = entry.actor_id is not None or entry.actor_label in self.names
        if audit.ACTOR in places and not is_found:
            yield "actor_label"
        if places - {audit.ACTOR, audit.ACTOR_ID}:
            yield "detail"

    def _build(self, row: Any, thread_id: str, *, is_archived: bool) -> Iterator[PersonRow]:
        if columns := tuple(self.find_columns(row)):
            yield PersonRow(
                table=row._meta.label,
                columns=columns,
                thread_id=thread_id,
                is_archived=is_archived,
                row=_show(row),
            )


def _show(row: Any) -> dict[str, Any]:
    shown = {name: getattr(row, name) for name in _list_shown(type(row))}
    if isinstance(row, AuditEntry):
        shown["detail"] = audit.get_shown_detail(row)
    return shown


def list_labels(model: type[Model]) -> Mapping[str, str]:
    """Return the columns of a model that contain usernames.

    The value for each column is the name of the foreign key that refers to the same user.
    """
    if (found := LABELS.get(model)) is not None:
        return found
    table = find_table(model)
    return {} if table is None else table.user_labels


def _iterate_labels() -> Iterator[tuple[type[Model], Mapping[str, str]]]:
    yield from LABELS.items()
    yield from ((table.model, table.user_labels) for table in iterate_tables())


def find_guests(model: type[Model]) -> Guests | None:
    """Return the columns of a model that name a person without an account, or None."""
    table = find_table(model)
    return None if table is None else table.guests


def _list_guest_tables() -> list[Any]:
    return [table for table in iterate_tables() if table.guests is not None]


def list_keys(model: type[Model]) -> list[str]:
    """List the foreign keys of a model that refer to the user model."""
    users = get_user_model()
    return [field.name for field in model._meta.concrete_fields if field.related_model is users]


def get_user_keys(model: type[Model]) -> Mapping[str, Callable[[Any], Iterable[str]]]:
    """Return the text columns of a model that contain primary keys of users.

    The value for each column is the function that reads the keys.
    """
    table = find_table(model)
    return {} if table is None else table.user_keys


def _list_shown(model: type[Model]) -> tuple[str, ...]:
    fields = model._meta.concrete_fields
    every = tuple(field.attname for field in fields if not isinstance(field, BinaryField))
    table = find_table(model)
    return _SHOWN.get(model) or (table and tuple(table.exported)) or every
