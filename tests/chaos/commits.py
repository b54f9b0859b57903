"""Operations of several transactions, killed before and after each commit and repeated.

Everything runs in one process. A kill discards the connection's uncommitted changes, and no later
code reaches the database. Each trial starts with a copy of the same rows.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any
from unittest.mock import patch
from uuid import UUID

from django.apps import apps
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.db import connection, models, transaction

from hitl_django import audit
from hitl_django.contrib.archive import document
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.webhooks import outbox
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.extensions import list_models
from hitl_django.graph_registry import compatibility
from hitl_django.models import ChannelBlob, Thread, WorkerHeartbeat
from tests.reading import values_of
from tests.schema.harness import Killed

from . import invariants

#: Keywords of statements after which a commit stores something.
WRITING = re.compile(r"\b(INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|TRUNCATE)\b")
#: Columns with random values, and columns that count attempts, because a kill takes an attempt.
IGNORED: dict[type[models.Model], tuple[str, ...]] = {
    ChannelBlob: ("version",),
    Delivery: ("attempts",),
    WebhookEndpoint: ("epoch", "lease_until"),  # An expired claim is equivalent to no claim.
}
#: Pattern of random and time-dependent texts: ids, times, and digests of these.
ACCIDENTAL = re.compile(
    r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d[\d:.]*(\+\d\d:\d\d|Z)?"
    r"|[0-9a-f]{64}"
)


class Kill:
    """End of the process before or after its n-th commit.

    0 means no kill.
    """

    def __init__(
        self, nth: int = 0, *, after: bool = False, observe: Callable[[], object] = lambda: None
    ) -> None:
        self.nth, self.after, self.observe = nth, after, observe
        self.commits, self.is_dead = 0, False

    @contextmanager
    def armed(self) -> Iterator[None]:
        commit = connection.commit
        connection.ensure_connection()
        with (
            connection.execute_wrapper(self._execute),
            patch.object(connection, "commit", lambda: self._pass(commit)),
        ):
            yield

    def _execute(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if connection.in_atomic_block or not WRITING.search(sql):
            self._refuse_dead()
            return execute(sql, params, many, context)
        return self._pass(lambda: execute(sql, params, many, context))

    def _pass(self, commit: Callable[[], Any]) -> Any:
        self._refuse_dead()
        self.observe()
        self.commits += 1
        if self.commits == self.nth and not self.after:
            self._die()
        result = commit()
        if self.commits == self.nth:
            self._die()
        return result

    def _refuse_dead(self) -> None:
        if self.is_dead:
            raise Killed

    def _die(self) -> None:
        self.is_dead = True
        connection.run_on_commit = []
        connection.connection.rollback()
        raise Killed


class Copy:
    """A copy of all rows, which can be restored."""

    def __init__(self) -> None:
        if connection.vendor == "sqlite":
            connection.ensure_connection()
            self._file = sqlite3.connect(":memory:")
            connection.connection.backup(self._file)
            return
        self._tables = _list_all_tables()
        self._rows = dict[str, bytes]()
        with connection.cursor() as cursor:
            for name in _list_tables():
                with cursor.copy(f"COPY (SELECT * FROM {name}) TO STDOUT") as rows:
                    self._rows[name] = b"".join(bytes(part) for part in rows)

    def put_back(self) -> None:
        if connection.vendor == "sqlite":
            self._file.backup(connection.connection)
            return
        with transaction.atomic(), connection.cursor() as cursor:
            for name in self._rows:
                cursor.execute(f"DELETE FROM {name}")
            for name in _list_all_tables() - self._tables:
                # The table is a partition.
                cursor.execute(f"DROP TABLE {connection.ops.quote_name(name)}")
            for name, rows in self._rows.items():
                with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    copy.write(rows)


def _list_all_tables() -> set[str]:
    return {*connection.introspection.table_names(include_views=True)}  # Includes partitions.


def _list_tables() -> list[str]:
    kept = (ContentType, Permission)
    return [
        connection.ops.quote_name(model._meta.db_table)
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed and not model._meta.proxy and model not in kept
    ]


class Content:
    """All rows, without ids and times that the copied rows don't contain."""

    def __init__(self) -> None:
        self._known = {
            model: set(model._base_manager.values_list("pk", flat=True))
            for model in apps.get_models(include_auto_created=True)
        }
        self._texts = set[str]()
        for row in _read_rows():
            self._texts.update(_find_accidental(row))

    def read(self) -> dict[str, Counter[str]]:
        """Return the number of occurrences of each row by table, and the state of each thread."""
        found: dict[str, Counter[str]] = {}
        for row in _read_rows():
            about = {name: self._plain(value) for name, value in _columns(row, self._known)}
            found.setdefault(type(row).__name__, Counter())[repr(about)] += 1
        states = Counter[str]()
        for thread in Thread.objects.exclude(graph=""):
            states[f"{self._plain(thread.thread_id)} {self._plain(values_of(thread))}"] += 1
        return {**found, "state": states}

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return sorted((key, self._plain(each)) for key, each in value.items())
        if isinstance(value, list | tuple):
            return [self._plain(each) for each in value]
        if isinstance(value, UUID | datetime):
            value = _write(value)
        if isinstance(value, str):
            return ACCIDENTAL.sub(self._hide, value)
        return value

    def _hide(self, found: re.Match[str]) -> str:
        return found.group() if found.group() in self._texts else "new"


def _read_rows() -> Iterator[models.Model]:
    for model in list_models():
        if model is not WorkerHeartbeat:
            yield from model._base_manager.order_by("pk")
    for archived in ArchivedThread.objects.order_by("pk"):
        for rows in document.read_document(archived).values():
            yield from rows


def _columns(
    row: models.Model, known: dict[type[models.Model], set[Any]]
) -> Iterator[tuple[str, Any]]:
    for field in row._meta.concrete_fields:
        value, target = getattr(row, field.attname), field.related_model or type(row)
        if isinstance(field, models.BinaryField) or field.name in IGNORED.get(type(row), ()):
            continue  # Bytes are compared as decoded state.
        if field.primary_key or field.is_relation:
            value = value if value is None or value in known[target] else "new"
        yield field.name, value


def _find_accidental(row: models.Model) -> Iterator[str]:
    for field in row._meta.concrete_fields:
        if not isinstance(field, models.BinaryField):
            value = getattr(row, field.attname)
            text = _write(value) if isinstance(value, UUID | datetime) else repr(value)
            yield from (found.group() for found in ACCIDENTAL.finditer(text))


def _write(value: UUID | datetime) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def forget_process() -> None:
    outbox.clear_listeners()
    compatibility.clear_structures()


def assert_same_after_kills(
    perform: Callable[[], object],
    *,
    wait: Callable[[], object] = lambda: None,
    effects: Callable[[], Iterable[str]] | None = None,
) -> None:
    """Assert that an operation has the same result after a kill at any commit and a repetition.

    ``wait`` lets the time pass after which a claim has expired. ``effects`` returns the ids of all
    external effects since the last call. Each must occur again, and at most one of them twice.
    """
    copy, content = Copy(), Content()
    sent, counts, list_effects = list[str](), [0], effects or list

    def count_effects() -> None:
        sent.extend(list_effects())
        counts.append(len(sent))

    forget_process()
    whole = Kill(observe=count_effects)
    with whole.armed():
        perform()
    count_effects()
    expected = content.read()
    accepted = invariants.faults()  # An invariant may refer to rows that the operation deletes.
    assert len(sent) == len({*sent})
    forget_process()
    perform()
    _compare(content.read(), expected, "performed twice")
    assert list(list_effects()) == []
    assert whole.commits > 1

    # The rows before a commit are those after the preceding commit. Only external effects between
    # the two commits make a difference.
    kills = [Kill(nth, after=True) for nth in range(1, whole.commits + 1)]
    kills += [Kill(nth) for nth in range(1, whole.commits + 1) if counts[nth] > counts[nth - 1]]
    for kill in kills:
        copy.put_back()
        forget_process()
        with suppress(Killed), kill.armed():
            perform()
        assert kill.is_dead
        where = f"killed {'after' if kill.after else 'before'} commit {kill.nth}"
        assert {*invariants.faults()} <= {*accepted}, where
        forget_process()
        wait()
        perform()
        _compare(content.read(), expected, where)
        left = Counter(list_effects())
        assert left >= Counter(sent), where
        assert left.total() <= len(sent) + 1, where
        assert invariants.faults() == accepted, where
        assert list(audit.find_faults()) == [], where


def _compare(found: dict[str, Counter[str]], expected: dict[str, Counter[str]], where: str) -> None:
    for table in expected | found:
        here, there = (rows.get(table, Counter()) for rows in (found, expected))
        assert here == there, f"{table}, {where}: {[*here - there]}, not {[*there - here]}"
