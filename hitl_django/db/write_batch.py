"""Batches of writes in one transaction, with as few round trips as possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import OperationalError, connections, models, transaction

from . import raw_cursor, retry
from .bulk_insert import MAX_PARAMETERS, BulkInsert, NewKey, Rows
from .prepared_query import PreparedSelect, PreparedUpdate

Row = tuple[Any, ...]
#: The error to raise if an UPDATE matches no row.
Refusal = type[Exception] | Exception
#: The maximum number of rows in a statement whose text is cached. With more rows, there would be
#: too many different texts.
FEW = 20


class Guard(NamedTuple):
    """A statement in a batch, with its values. The statement must match a row.

    If no row matches, the batch is written again with the statement ``otherwise`` in place of this
    statement. Without ``otherwise``, ``error`` is raised. Without both, the batch inserts nothing,
    and returns only the rows of the earlier guards. If a row matches, ``receive`` is called with
    the row after the batch is written.
    """

    statement: PreparedSelect | PreparedUpdate
    values: dict[str, Any]
    error: Refusal | None = None
    receive: Callable[[Row], object] | None = None
    otherwise: PreparedUpdate | None = None


class _NoRowError(Exception):
    """Internal error that rolls back a batch before another attempt with another guard."""


class Prefetch:
    """A query that runs after a batch, in the same round trip.

    ``rows`` are the rows that the query has found, or None if the query didn't run. The query
    doesn't run if it can't be sent in the same round trip. The caller must then run it separately.
    """

    __slots__ = ("rows", "statement", "values")

    def __init__(self, statement: PreparedSelect, values: dict[str, Any]) -> None:
        self.statement, self.values = statement, values
        self.rows: list[Any] | None = None

    def keep(self, rows: list[Row]) -> None:
        """Store the rows that the query has returned."""
        self.rows = self.statement.name_columns(rows)


class WriteBatch:
    """The writes of one transaction: guards, and rows to insert if all guards match a row.

    A guard is a conditional statement that must match a row. On PostgreSQL, the batch is one
    statement: the guards are its first common table expressions, and the inserts select from the
    guards. On SQLite, guards and inserts are separate statements, because SQLite has no round trips
    to save. Exception: if the only guard is a SELECT, it becomes the condition of an INSERT of one
    row, if there is one.

    If a guard matches no row, the transaction must be rolled back, because earlier statements have
    already been executed. After a database conflict, the whole batch is written again. Functions
    that the batch calls must therefore be repeatable.
    """

    _tries = 0  # The number of retries made.

    def __init__(self, using: str) -> None:
        self.using = using
        self._first: tuple[BulkInsert, models.Model, NewKey] | None = None
        self._guards: list[Guard] = []
        self._inserted: list[tuple[BulkInsert, Rows]] = []
        self._before: list[Callable[[], object]] = []
        self._after: list[Callable[[], object]] = []
        self._prefetches: list[Prefetch] = []
        self._channel = ""

    def guard(
        self,
        statement: PreparedUpdate,
        values: dict[str, Any],
        error: Refusal | None = None,
        receive: Callable[[Row], object] | None = None,
    ) -> None:
        """Add an UPDATE that must match a row. If no row matches, the batch inserts nothing.

        In this case, ``error`` is raised. Without ``error``, the batch instead returns the rows of
        the earlier guards (see ``run``). If a row matches, ``receive`` is called after the batch is
        written, with the columns that the UPDATE returns.

        If the row is locked by another transaction, the UPDATE waits and sees the row's new values.
        Other rows in the statement may have been read before the wait, so the batch must not depend
        on these other rows.
        """
        self._guards.append(Guard(statement, values, error, receive))

    def lock(
        self,
        statement: PreparedSelect,
        values: dict[str, Any],
        error: type[Exception],
        otherwise: PreparedUpdate | None = None,
    ) -> None:
        """Add a SELECT that locks a row before the other statements.

        If the SELECT finds no row, the batch fails with ``error``. If ``otherwise`` is given, the
        batch is instead rolled back and written again with this UPDATE in place of the SELECT.
        """
        self._guards.insert(0, Guard(statement, values, error, otherwise=otherwise))

    def lock_ahead(
        self, statement: PreparedSelect, values: dict[str, Any], error: type[Exception]
    ) -> None:
        """Add a SELECT that locks a row before the guards run. One of the guards updates this row.

        Rows must be locked in the same order everywhere, and the guards may be in another order. If
        the row doesn't exist, ``error`` is raised. On SQLite, nothing happens, because the
        transaction itself is the lock, and the guard fails if the row doesn't exist.
        """
        if connections[self.using].features.has_select_for_update:
            self.lock(statement, values, error)

    def insert_first(self, statement: BulkInsert, row: models.Model) -> None:
        """Add the row to which the other rows of the batch refer.

        The row's values are read when the batch is written. Until then, ``row.pk`` is a
        placeholder. The batch has no guards (conditions on existing rows), because no other process
        knows the row.
        """
        row.pk = key = NewKey()
        self._first = statement, row, key

    def insert(self, statement: BulkInsert, rows: Rows) -> None:
        """Add rows to insert with a statement. Rows added earlier for the statement remain."""
        if not rows:
            return
        for at, (known, others) in enumerate(self._inserted):
            if known is statement:
                self._inserted[at] = statement, [*others, *rows]
                return
        self._inserted.append((statement, rows))

    def prefetch(self, statement: PreparedSelect, values: dict[str, Any]) -> Prefetch:
        """Add a query that runs after the batch is written and sees its changes.

        See ``Prefetch``.
        """
        self._prefetches.append(Prefetch(statement, values))
        return self._prefetches[-1]

    def notify(self, channel: str) -> None:
        """After the commit, notify the sessions that listen to the channel.

        On SQLite, nothing happens.
        """
        self._channel = channel

    def before_commit(self, function: Callable[[], object]) -> None:
        """Add a function to call in the same transaction, after the batch is written."""
        self._before.append(function)

    def after_write(self, function: Callable[[], object]) -> None:
        """Add a function to call after the batch is written.

        At this time, the transaction may be open or already committed.
        """
        self._after.append(function)

    def commit(self, *, durable: bool = False, savepoint: bool = True) -> list[Row]:
        """Write the batch in a transaction, or as a part of the caller's transaction.

        Return the rows of the guards, as described at ``run``.

        Raises:
            RuntimeError: ``durable`` is true and the batch would be part of another transaction.
        """
        connection = connections[self.using]
        is_outermost = not connection.in_atomic_block
        alone = is_outermost and _is_autocommitting(connection)
        if durable and is_outermost and not alone:
            raise RuntimeError(
                f"Autocommit is off on connection {self.using!r}, so the worker's writes "
                "would be lost. A node that turns it off must commit and turn it on "
                "again."
            )
        try:
            if alone and not self._before:
                if self._is_one(connection):
                    return self._run(connection, is_one=True)
                if connection.vendor == "sqlite" and not raw_cursor.is_watched(connection):
                    return self._commit_alone(connection)
            with transaction.atomic(self.using, savepoint=savepoint, durable=durable):
                return self.run()
        except OperationalError as error:
            if not (alone and retry.may_retry(error, self._tries)):
                raise
            self._tries += 1
        except _NoRowError:
            self._guards = [
                guard._replace(statement=guard.otherwise or guard.statement, otherwise=None)
                for guard in self._guards
            ]
        return self.commit(durable=durable, savepoint=savepoint)

    def _commit_alone(self, connection: Any) -> list[Row]:
        """Write the batch between BEGIN and COMMIT, without Django's atomic(), which is slower."""
        begin = f"BEGIN {connection.transaction_mode or 'DEFERRED'}"
        with raw_cursor.open_cursor(connection, is_unwatched=True) as cursor:
            try:
                cursor.execute(begin, ())
                found = self._run_in_turn(connection, cursor)
                self._refuse_missing(found)
                cursor.execute("COMMIT", ())
            except BaseException:
                # The connection may also be in a transaction after a signal between two statements,
                # or if the COMMIT failed.
                if connection.connection.in_transaction:
                    cursor.execute("ROLLBACK", ())
                raise
        self._call(found)
        return found

    def run(self) -> list[Row]:
        """Run the statements of the batch.

        Return the rows of the guards, up to the first guard without a row. The caller must have
        opened a transaction, unless the batch is one statement.
        """
        connection = connections[self.using]
        return self._run(connection, is_one=self._is_one(connection))

    def _run(self, connection: Any, *, is_one: bool) -> list[Row]:
        with raw_cursor.open_cursor(connection) as cursor:
            if not is_one:
                found = self._run_in_turn(connection, cursor)
            elif connection.vendor == "postgresql":
                found = self._run_as_one(connection, cursor)
            else:
                found = self._run_in_turn(connection, cursor)
        self._refuse_missing(found)
        self._call(found)
        return found

    def _refuse_missing(self, found: list[Row]) -> None:
        if len(found) < len(self._guards):
            missed = self._guards[len(found)]
            if missed.otherwise is not None:
                raise _NoRowError
            if missed.error is not None:
                raise missed.error

    def _call(self, found: list[Row]) -> None:
        if len(found) == len(self._guards):
            for function in (*self._before, *self._after):
                function()
            for guard, row in zip(self._guards, found, strict=True):
                if guard.receive is not None:
                    guard.receive(row)

    def _is_one(self, connection: Any) -> bool:
        """Return whether the batch is only one statement, which needs no explicit transaction."""
        if connection.vendor == "postgresql":
            return sum(len(s.names) * len(rows) for s, rows in self._inserted) <= MAX_PARAMETERS
        if connection.vendor != "sqlite" or self._first or self._prefetches:
            return False
        if len(self._inserted) > 1 or any(len(rows) > 1 for _, rows in self._inserted):
            return False
        statements = len(self._guards) + len(self._inserted)
        return statements <= 1 or self._find_conditional(connection) is not None

    def _find_conditional(self, connection: Any) -> int | None:
        """Return the index of the INSERT whose condition is the guard, or None if there is none.

        The number of inserted rows shows whether the guard matched.
        """
        if connection.vendor != "sqlite" or len(self._guards) != 1:
            return None
        if isinstance(self._guards[0].statement, PreparedSelect):
            for at, (insert, rows) in enumerate(self._inserted):
                if len(rows) == 1 and insert.writes_each:
                    return at
        return None

    def _run_in_turn(self, connection: Any, cursor: Any) -> list[Row]:
        key = None
        if self._first is not None:
            first, row, key = self._first
            begun = first.parameters(connection, [first.values_of(row)])
            cursor.execute(first.keyed(connection), begun)
            self._set_key(cursor.fetchall())
        left = self._inserted
        if (at := self._find_conditional(connection)) is None:
            found = self._run_guards(connection, cursor)
        else:
            found = self._run_conditional(connection, cursor, *left[at])
            left = [*left[:at], *left[at + 1 :]]
        if len(found) < len(self._guards):
            return found
        for insert, given in left:
            for text, parameters in insert.statements(connection, given, key):
                cursor.execute(text, parameters)
        for each in self._prefetches:
            cursor.execute(*each.statement.ready(connection, each.values))
            each.keep(cursor.fetchall())
        if self._channel and connection.vendor == "postgresql":
            cursor.execute("SELECT pg_notify(%s, '')", [self._channel])
        return found

    def _run_guards(self, connection: Any, cursor: Any) -> list[Row]:
        found: list[Row] = []
        for guard in self._guards:
            statement = guard.statement
            text, parameters = statement.ready(connection, guard.values)
            if isinstance(statement, PreparedUpdate) and statement.returning:
                text = f"{text} RETURNING {statement.columns(connection)}"
            cursor.execute(text, parameters)
            is_read = statement.returning or isinstance(statement, PreparedSelect)
            rows = cursor.fetchall() if is_read else [(1,)] * cursor.rowcount
            if not rows:
                break
            found.append(rows[0][1:])
        return found

    def _run_conditional(
        self, connection: Any, cursor: Any, insert: BulkInsert, rows: Rows
    ) -> list[Row]:
        [guard] = self._guards
        condition, known = guard.statement.ready(connection, guard.values)
        text = insert.provided(connection, condition)
        cursor.execute(text, [*insert.parameters(connection, rows), *known])
        return [()] * cursor.rowcount

    def _set_key(self, rows: list[Row]) -> None:
        assert self._first is not None
        _, row, key = self._first
        row.pk = key.value = rows[0][0]

    def _run_as_one(self, connection: Any, cursor: Any) -> list[Row]:
        text, parameters = self._compose(connection)
        if not text:
            return []
        if self._guards and self._prefetches and raw_cursor.can_pipeline(connection):
            sent = [each.statement.ready(connection, each.values) for each in self._prefetches]
            rows, *others = raw_cursor.execute_together(
                connection, cursor, [(text, parameters), *sent]
            )
            for reading, found in zip(self._prefetches, others, strict=True):
                reading.keep(found)
            return self._split(rows)
        cursor.execute(text, parameters)
        if self._first is not None:
            self._set_key(cursor.fetchall())
        return self._split(cursor.fetchall()) if self._guards else []

    def _compose(self, connection: Any) -> tuple[str, list[Any]]:
        """Return the SQL of the single statement and its parameters.

        Without writes, the SQL is empty.
        """
        parameters: list[Any] = []
        first, key = None, None
        if self._first is not None:
            first, row, key = self._first
            parameters += first.parameters(connection, [first.values_of(row)])
        for guard in self._guards:
            parameters += guard.statement.ready(connection, guard.values)[1]
        for insert, rows in self._inserted:
            parameters += insert.parameters(connection, rows, key)
        parts = tuple(
            [
                (insert, len(rows), () if key is None else key.find_in(rows[0]))
                for insert, rows in self._inserted
            ]
        )
        compose = _compose_cached if sum(count for _, count, _ in parts) <= FEW else _compose
        guards = tuple([guard.statement for guard in self._guards])
        return compose(connection.alias, first, guards, parts, self._channel), parameters

    def _split(self, rows: list[Row]) -> list[Row]:
        """Split the result row of the single statement into one row for each guard that matched."""
        found: list[Row] = []
        row = rows[0] if rows else ()
        for guard in self._guards:
            width = 1 + len(guard.statement.returning)
            if not row or row[0] is None:
                break
            found.append(row[1:width])
            row = row[width:]
        return found


def _is_autocommitting(connection: Any) -> bool:
    # connection.get_autocommit() first ensures a connection, which usually exists.
    is_open = connection.connection is not None
    return bool(connection.autocommit if is_open else connection.get_autocommit())


def _compose(
    using: str,
    first: BulkInsert | None,
    guards: tuple[PreparedSelect | PreparedUpdate, ...],
    parts: tuple[tuple[BulkInsert, int, tuple[int, ...]], ...],
    channel: str,
) -> str:
    """Return the SQL of a batch as a single statement, which can be reused with other values.

    ``first`` inserts the row to which the other inserted rows refer. ``parts`` are the other
    INSERTs, each with the number of its rows and the indexes at which the rows contain the primary
    key of the first row. ``channel`` is the channel to notify, or empty.
    """
    connection = connections[using]
    names, held, expressions = [], "", []
    if first is not None:
        expressions.append(f"made AS ({first.keyed(connection)})")
        names.append("made")
    for at, statement in enumerate(guards):
        text = statement.text(connection)
        if isinstance(statement, PreparedUpdate):
            text += f"{held} RETURNING {statement.columns(connection)}"
        expressions.append(f"held{at} AS ({text})")
        names.append(f"held{at}")
        held += f" AND EXISTS (SELECT FROM held{at})"
    for at, (insert, count, keys) in enumerate(parts):
        expressions.append(f"written{at} AS ({insert.guarded(connection, count, names, keys)})")
    columns = ["*"] if names else []
    if channel:
        columns.append(f"pg_notify('{channel}', '')")
    if not expressions:
        return f"SELECT {columns[0]}" if columns else ""
    joined = " LEFT JOIN ".join(names) + " ON TRUE" * (len(names) - 1)
    source = f" FROM {joined}" if names else ""
    return f"WITH {', '.join(expressions)} SELECT {', '.join(columns)}{source}"


#: The function is cached, because composing the text takes as long as the rest of a batch.
_compose_cached = lru_cache(maxsize=256)(_compose)
