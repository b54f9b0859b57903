"""Pseudonyms: they take the place of a user in all that is stored, and the record stays provable.

A thread is changed in one transaction, under the lock of its row, and so is one of the archive. Who
is stopped in between begins again: what was done is not found any more.
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
from hitl_django.errors import NoSuchThread, NotAllowedError
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
)
from .reviews.mentions import split_at_mentions

#: Rows that one query reads.
PAGE = 500
#: Columns that a person is not taken out of: what a thread is about is erased with the thread, and
#: messages go by themselves.
KEPT = ("subject", "data")
#: Columns that tell of whom others are, or have their names as well.
OTHERS: Mapping[type[Model], tuple[str, ...]] = {
    Decision: ("interrupt", "via"),
    Comment: ("text",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PseudonymizedUser:
    """A person's pseudonym, and how many rows were changed or deleted, by table."""

    pseudonym: str
    rows: Mapping[str, int]


def pseudonymize_user(user: Any, *, by: Any = None, via: str = "code") -> PseudonymizedUser:
    """Put a pseudonym in place of a user, in every row in which they stand and in the archive.

    Foreign keys to the user become NULL, and rows that are the user's alone go. Words stay, but for
    the name in comments that mention them. Each record still holds, and says that it was changed.
    All tables are read from end to end. It can be repeated, and has to be if it was stopped; what
    the user does meanwhile may stay. NotAllowedError for who is no superuser; None may.
    """
    if by is not None and not (by.is_active and by.is_superuser):
        raise NotAllowedError("Only superusers can forget a person.")
    return _Forgetting(user, by, via).perform()


class _Forgetting:
    """A pseudonym that takes the place of a person."""

    def __init__(self, user: Any, by: Any, via: str) -> None:
        self.person = Person(user)
        self.using = self.person.using
        self.pseudonym = audit.make_pseudonym(user)
        self.rows = Counter[str]()
        self.told: dict[str, Any] = {"by": by, "via": via}
        if by is not None and by.pk == user.pk:
            self.told = {"by": None, "via": via, "guest": self.pseudonym}

    def perform(self) -> PseudonymizedUser:
        if self.person.names - {audit.label_user(self.person.user)}:
            # Former names are known by rows with the user's key: as long as one of them is
            # somewhere by itself, these have to stay.
            self._forget_in_threads(keyed=False)
            self._forget_in_archives(keyed=False)
        self._forget_in_threads()
        self._forget_in_archives()
        # A thread may have come back from the archive behind the first look.
        self._forget_in_threads()
        self.rows.update(self._forget_outside())
        return PseudonymizedUser(pseudonym=self.pseudonym, rows=dict(self.rows))

    def _forget_in_threads(self, *, keyed: bool = True) -> None:
        for model, lookup in list_thread_tables().items():
            selected = self.person.select(model, keyed=keyed)
            if model is Thread or selected is None:
                continue
            rows = self.person.rows(model).filter(selected)
            for page in _read_pages(rows if model is AuditEntry else rows.only("pk")):
                found = page
                if model is AuditEntry:
                    found = [row for row in page if self.person.find_places(row, keyed=keyed)]
                # Which thread a row is of is asked for a page at a time.
                keys = self.person.rows(model).filter(pk__in=[row.pk for row in found])
                for pk in sorted({*keys.values_list(lookup, flat=True)}):
                    self.rows.update(self._forget_in_thread(pk, keyed=keyed))

    @retry_on_conflict
    def _forget_in_thread(self, pk: int, *, keyed: bool) -> Counter[str]:
        counts = Counter[str]()
        with transaction.atomic(using=self.using):
            try:
                thread = leases.lock_thread(pk=pk)
            except NoSuchThread:
                return counts  # deleted, or archived, where it is found
            for model, lookup in list_thread_tables().items():
                selected = self.person.select(model, keyed=keyed)
                if model in (Thread, AuditEntry) or selected is None:
                    continue
                rows = self.person.rows(model).filter(selected, **{lookup: pk})
                counts[model._meta.label] += self._update(rows, keyed=keyed)
            counts[AuditEntry._meta.label] += self._update_record(thread, keyed=keyed)
        return counts

    def _update(self, rows: QuerySet[Any], *, keyed: bool = True) -> int:
        """Update these rows of one table; returns how many of them it had to."""
        count = 0
        model = rows.model
        for page in _read_pages(rows.only(*_list_columns(model))):
            for row in page:
                if changes := self._find_changes(row, keyed=keyed):
                    # Zero rows: somebody has claimed the question, which takes no thread's lock.
                    as_read = {
                        name: getattr(row, name)
                        for label, key in list_labels(model).items()
                        for name in (label, f"{key}_id")
                        if label in changes
                    }
                    changed = self.person.rows(model).filter(pk=row.pk, **as_read)
                    count += changed.update(**changes)
        return count

    def _update_record(self, thread: Thread, *, keyed: bool) -> int:
        """Redact a thread's entries, and appends one that says which for each page of them."""
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
                    thread, audit.FORGET_PERSON, subject=subject, detail=detail, **self.told
                )
        return count

    def _forget_in_archives(self, *, keyed: bool = True) -> None:
        for model, archive in iterate_archives():
            for page in _read_pages(self.person.rows(model).only("pk")):
                for pk in [row.pk for row in page]:
                    threads = self.person.rows(model).filter(pk=pk).annotate(now=Now())
                    self.rows.update(self._forget_in_archived(archive, threads, keyed=keyed))

    @retry_on_conflict
    def _forget_in_archived(
        self, archive: Archive, threads: QuerySet[Any], *, keyed: bool
    ) -> Counter[str]:
        rows = threads.order_by()
        found = rows.first()
        # Looked at before it is locked: in most there is nothing to do.
        if found is None or not self._change_rows(archive, found, keyed=keyed)[0].total():
            return Counter()
        with transaction.atomic(using=self.using):
            found = rows.select_for_update(of=("self",)).first()
            if found is None:
                return Counter()  # brought back, where it is found
            counts, changed = self._change_rows(archive, found, keyed=keyed)
            rows.update(**archive.write(changed))
        return counts

    def _change_rows(
        self, archive: Archive, archived: Any, *, keyed: bool
    ) -> tuple[Counter[str], Mapping[type[Model], Sequence[Model]]]:
        """Return how many rows of an archived thread change, by table, and all its rows then."""
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
                thread, audit.FORGET_PERSON, subject=thread.thread_id, detail=detail, **self.told
            )
            entries.append(made)
        return counts, {**stored, AuditEntry: entries}

    @retry_on_conflict
    def _forget_outside(self) -> Counter[str]:
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
                    # As when the account is deleted: what is the user's alone has no use.
                    counts[name] += rows.filter(**{key: self.person.user.pk}).delete()[0]
        return counts

    def _find_changes(self, row: Any, *, keyed: bool = True) -> dict[str, Any]:
        """Return what a row has where the person stands in it, by the names of its columns."""
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
        told = [self.pseudonym if name in names else name for name in mentions]
        return {"text": text, "mentions": told}


def _list_columns(model: type[Model]) -> list[str]:
    """List the columns that are read to find a person, and others that change with them."""
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
    """Yield rows a page at a time, along their key: nothing is open while they are changed."""
    last: Any = None
    ordered = rows.order_by("pk")
    while page := list((ordered if last is None else ordered.filter(pk__gt=last))[:PAGE]):
        yield page
        last = page[-1].pk
