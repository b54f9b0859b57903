"""Replacement of a user by a pseudonym in all stored rows.

The audit log can still be verified. Each thread, archived or not, is changed in its own transaction
with its row locked. An interrupted call can be repeated, because rows that it has already
changed no longer refer to the user.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from django.db import transaction
from django.db.models import Model, QuerySet

from hitl_django import audit, leases
from hitl_django.audit import Redaction
from hitl_django.db.retry import retry_on_conflict
from hitl_django.errors import NoSuchThread
from hitl_django.extensions import Archive, iterate_archives, list_models
from hitl_django.models import AuditEntry, Comment, Decision, Thread
from hitl_django.models.functions import Now
from hitl_django.models.thread_tables import list_thread_tables

from .people import (
    NAMES,
    Person,
    find_guests,
    get_user_keys,
    list_keys,
    list_labels,
    refuse_unless_superuser,
)
from .reviews.mentions import split_at_mentions

#: Maximum number of rows that one query reads.
PAGE = 500
#: Columns that don't change. The related object is removed when the thread is erased, and messages
#: are deleted after some time.
KEPT = ("subject", "data")
#: Further columns to read, because they identify the rows that a row belongs to or also contain
#: names.
OTHERS: Mapping[type[Model], tuple[str, ...]] = {
    Decision: ("interrupt", "via"),
    Comment: ("text",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PseudonymizedUser:
    """A pseudonym, with the numbers of changed and deleted rows by table."""

    pseudonym: str
    rows: Mapping[str, int]


def pseudonymize_user(user: Any, *, by: Any = None, via: str = "code") -> PseudonymizedUser:
    """Replace a user by a pseudonym in all rows and archives.

    Foreign keys to the user become NULL. Rows that have no purpose without the user, such as saved
    filters, are deleted. Texts don't change, except that comments mention the pseudonym instead of
    the name. The audit log can still be verified, and new entries describe the changes. All tables
    are read completely. If the call is interrupted, it must be repeated. Rows that the user changes
    during the call may still contain the user's name.

    Raises:
        NotAllowedError: if ``by`` is neither a superuser nor None.
    """
    refuse_unless_superuser(by, "Only superusers can forget a person.")
    return _Pseudonymization(user, by, via).perform()


class _Pseudonymization:
    def __init__(self, user: Any, by: Any, via: str) -> None:
        self.person = Person(user)
        self.using = self.person.using
        self.pseudonym = audit.make_pseudonym(user)
        self.rows = Counter[str]()
        self.entry_fields: dict[str, Any] = {"by": by, "via": via}
        if by is not None and by.pk == user.pk:
            self.entry_fields = {"by": None, "via": via, "guest": self.pseudonym}

    def perform(self) -> PseudonymizedUser:
        if self.person.names - {audit.label_user(self.person.user)}:
            # Former names are found in rows with the user's key. These rows must not change until
            # the names without a key have been replaced.
            self._change_threads(keyed=False)
            self._change_archives(keyed=False)
        self._change_threads()
        self._change_archives()
        # A thread may have been restored from an archive during the first pass.
        self._change_threads()
        self.rows.update(self._change_other_tables())
        return PseudonymizedUser(pseudonym=self.pseudonym, rows=dict(self.rows))

    def _change_threads(self, *, keyed: bool = True) -> None:
        for model, lookup in list_thread_tables().items():
            selected = self.person.select(model, keyed=keyed)
            if model is Thread or selected is None:
                continue
            rows = self.person.rows(model).filter(selected)
            for page in _read_pages(rows if model is AuditEntry else rows.only("pk")):
                found = page
                if model is AuditEntry:
                    found = [row for row in page if self.person.find_places(row, keyed=keyed)]
                # Look up the threads of one page at a time.
                keys = self.person.rows(model).filter(pk__in=[row.pk for row in found])
                for pk in sorted({*keys.values_list(lookup, flat=True)}):
                    self.rows.update(self._change_thread(pk, keyed=keyed))

    @retry_on_conflict
    def _change_thread(self, pk: int, *, keyed: bool) -> Counter[str]:
        counts = Counter[str]()
        with transaction.atomic(using=self.using):
            try:
                thread = leases.lock_thread(pk=pk)
            except NoSuchThread:
                return counts  # The row was deleted, or it was archived and changed in the archive.
            for model, lookup in list_thread_tables().items():
                selected = self.person.select(model, keyed=keyed)
                if model in (Thread, AuditEntry) or selected is None:
                    continue
                rows = self.person.rows(model).filter(selected, **{lookup: pk})
                counts[model._meta.label] += self._update(rows, keyed=keyed)
            counts[AuditEntry._meta.label] += self._update_audit_log(thread, keyed=keyed)
        return counts

    def _update(self, rows: QuerySet[Any], *, keyed: bool = True) -> int:
        """Replace the user in these rows of one table. Return the number of changed rows.

        Without ``keyed``, rows that refer to the user only by a foreign key don't change.
        """
        count = 0
        model = rows.model
        for page in _read_pages(rows.only(*_list_columns(model))):
            for row in page:
                if changes := self._find_changes(row, keyed=keyed):
                    # Zero rows: someone has claimed the interrupt since it was read, because a
                    # claim doesn't lock the thread.
                    as_read = {
                        name: getattr(row, name)
                        for label, key in list_labels(model).items()
                        for name in (label, f"{key}_id")
                        if label in changes
                    }
                    changed = self.person.rows(model).filter(pk=row.pk, **as_read)
                    count += changed.update(**changes)
        return count

    def _update_audit_log(self, thread: Thread, *, keyed: bool) -> int:
        """Redact a thread's audit log, and return the number of redacted entries.

        The entries are read in pages. For each page with redactions, an entry that lists the
        redactions is appended. Without ``keyed``, entries that refer to the user only by a foreign
        key don't change.
        """
        redaction = Redaction(self.pseudonym)
        entries = self.person.rows(AuditEntry).filter(thread=thread.pk).order_by("seq")
        count = last = 0
        while page := list(entries.filter(seq__gt=last)[:PAGE]):
            last = page[-1].seq
            for entry in page:
                if places := self.person.find_places(entry, keyed=keyed):
                    redaction.redact(entry, places)
                    count += 1
                    names = ("actor_id", "actor_label", "detail")
                    changes = {name: getattr(entry, name) for name in names}
                    entries.filter(pk=entry.pk).update(**changes)
            if (detail := redaction.take_detail()) is not None:
                subject = thread.thread_id
                audit.append_alone(
                    thread, audit.FORGET_PERSON, subject=subject, detail=detail, **self.entry_fields
                )
        return count

    def _change_archives(self, *, keyed: bool = True) -> None:
        for model, archive in iterate_archives():
            for page in _read_pages(self.person.rows(model).only("pk")):
                for pk in [row.pk for row in page]:
                    threads = self.person.rows(model).filter(pk=pk).annotate(now=Now())
                    self.rows.update(self._change_archived(archive, threads, keyed=keyed))

    @retry_on_conflict
    def _change_archived(
        self, archive: Archive, threads: QuerySet[Any], *, keyed: bool
    ) -> Counter[str]:
        rows = threads.order_by()
        found = rows.first()
        # Check before locking, because most archived threads need no changes.
        if found is None or not self._change_rows(archive, found, keyed=keyed)[0].total():
            return Counter()
        with transaction.atomic(using=self.using):
            found = rows.select_for_update(of=("self",)).first()
            if found is None:
                return Counter()  # The thread was restored and has been changed in its own tables.
            counts, changed = self._change_rows(archive, found, keyed=keyed)
            rows.update(**archive.write(changed))
        return counts

    def _change_rows(
        self, archive: Archive, archived: Any, *, keyed: bool
    ) -> tuple[Counter[str], Mapping[type[Model], Sequence[Model]]]:
        """Replace the user in the rows of an archived thread.

        Returns the numbers of changed rows by table, and all rows of the thread. The caller must
        store the rows. Without ``keyed``, rows that refer to the user only by a foreign key don't
        change.
        """
        stored, counts = archive.read(archived), Counter[str]()
        self.person.add_guests(chain.from_iterable(stored.values()))
        for model, each in stored.items():
            for row in each if model not in (Thread, AuditEntry) else ():
                changes = self._find_changes(row, keyed=keyed)
                counts[model._meta.label] += bool(changes)
                for name, value in changes.items():
                    setattr(row, name, value)
        thread: Any = stored[Thread][0]
        thread.now = archived.now
        redaction = Redaction(self.pseudonym)
        entries: Any = sorted(stored[AuditEntry], key=lambda entry: entry.seq)
        for entry in entries:
            if places := self.person.find_places(entry, keyed=keyed):
                redaction.redact(entry, places)
                counts[AuditEntry._meta.label] += 1
        if (detail := redaction.take_detail()) is not None:
            made = audit.make_entry(
                thread,
                audit.FORGET_PERSON,
                subject=thread.thread_id,
                detail=detail,
                **self.entry_fields,
            )
            entries.append(made)
        return counts, {**stored, AuditEntry: entries}

    @retry_on_conflict
    def _change_other_tables(self) -> Counter[str]:
        counts = Counter[str]()
        with transaction.atomic(using=self.using):
            tables = list_thread_tables()
            for model in list_models():
                if model in tables:
                    continue
                rows, name = self.person.rows(model), model._meta.label
                labels = list_labels(model)
                if labels:
                    selected = self.person.select(model)
                    counts[name] += self._update(rows.filter(selected))
                for key in {*list_keys(model)} - {*labels.values()}:
                    # As if the account were deleted: rows that only the user uses have no purpose
                    # any more.
                    counts[name] += rows.filter(**{key: self.person.user.pk}).delete()[0]
        return counts

    def _find_changes(self, row: Any, *, keyed: bool = True) -> dict[str, Any]:
        labels = {key: label for label, key in list_labels(type(row)).items()}
        guests = find_guests(type(row))
        changes: dict[str, Any] = {}
        for column in self.person.find_columns(row):
            if column in get_user_keys(type(row)):
                continue
            if column in labels:
                if keyed:
                    changes |= {f"{column}_id": None, labels[column]: self.pseudonym}
            elif column == "mentions":
                changes |= self._find_changes_of_text(row)
            else:
                is_email = guests is not None and column == guests.email
                changes[column] = "" if is_email else self.pseudonym
        return changes

    def _find_changes_of_text(self, comment: Comment) -> dict[str, Any]:
        names = self.person.names
        parts = split_at_mentions(comment.text, names)
        text = "".join(f"@{self.pseudonym}" if is_theirs else part for part, is_theirs in parts)
        mentions = comment.mentions or []
        replaced = [self.pseudonym if name in names else name for name in mentions]
        return {"text": text, "mentions": replaced}


def _list_columns(model: type[Model]) -> list[str]:
    """List the columns of a model that the pseudonymization reads or changes."""
    guests = find_guests(model)
    return [
        "pk",
        *list_keys(model),
        *list_labels(model),
        *NAMES.get(model, ()),
        *OTHERS.get(model, ()),
        *(() if guests is None else ("interrupt", guests.name, guests.email)),
    ]


def _read_pages(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Yield pages of rows in the order of the primary key, with one query per page."""
    last: Any = None
    ordered = rows.order_by("pk")
    while page := list((ordered if last is None else ordered.filter(pk__gt=last))[:PAGE]):
        yield page
        last = page[-1].pk
