"""Batches of writes: statements of one transaction, in as few round trips as possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import OperationalError, connections, transaction

from . import raw_cursor, retry
from .bulk_insert import MOST_PARAMETERS, BulkInsert, Rows
from .prepared_query import PreparedSelect, PreparedUpdate

Row = tuple[Any, ...]
#: What is raised where an UPDATE has no row.
Refusal = type[Exception] | Exception


class Prefetch:
    """The rows of a query that is sent along with a batch, where that saves a round trip."""

    __slots__ = ("_rows", "statement", "values")

    def __init__(self, statement: PreparedSelect, values: dict[str, Any]) -> None:
        self.statement, self.values = statement, values
        self._rows: list[Any] | None = None

    def keep(self, rows: list[Row]) -> None:
        """Sets the rows."""
        self._rows = self.statement.name_columns(rows)

    def take(self) -> list[Any] | None:
        """Returns the rows, once; None where nothing was sent along."""
        rows, self._rows = self._rows, None
        return rows


class WriteBatch:
    """The writes of one transaction: guards, and what is written if they all match a row.

    On PostgreSQL all of it is one statement, a transaction by itself: the UPDATEs that have to
    match a row are its first common table expressions, and whatever else it writes selects from
    them. On SQLite, where a statement is a function call, they follow one another.

    What comes before an UPDATE without a row is undone only with the transaction that it is in.

    Where the database undoes all of it because of another transaction, all of it is written anew;
    so what follows within the transaction has to be the same when it is called again.
    """

    _tries = 0  # how often the database has undone it

    def __init__(self, using: str) -> None:
        self.using = using
        self._guards: list[
            tuple[PreparedSelect | PreparedUpdate, dict[str, Any], Refusal | None]
        ] = []
        self._inserted: list[tuple[BulkInsert, Rows]] = []
        self._before: list[Callable[[], object]] = []
        self._after: list[Callable[[], object]] = []
        self._prefetches: list[Prefetch] = []

    def guard(
        self,
        statement: PreparedUpdate,
        values: dict[str, Any],
        error: Refusal | None = None,
    ) -> None:
        """Adds an UPDATE that has to match a row: else nothing is written, and ``error`` is raised.

        Such an UPDATE waits for whoever has locked the row, and sees what they left there. What
        else the statement reads it may have read before, so nothing that is written here may
        depend on rows other than these.
        """
        self._guards.append((statement, values, error))

    def lock(
        self, statement: PreparedSelect, values: dict[str, Any], error: type[Exception]
    ) -> None:
        """Adds a SELECT that locks a row, before anything else; otherwise like ``guard``."""
        self._guards.insert(0, (statement, values, error))

    def insert(self, statement: BulkInsert, rows: Rows) -> None:
        """Adds rows, if there are any, to those that the same statement inserts."""
        if not rows:
            return
        for at, (known, others) in enumerate(self._inserted):
            if known is statement:
                self._inserted[at] = statement, [*others, *rows]
                return
        self._inserted.append((statement, rows))

    def prefetch(self, statement: PreparedSelect, values: dict[str, Any]) -> Prefetch:
        """Sends a query along, which sees what the batch has written, and what it waited for."""
        self._prefetches.append(Prefetch(statement, values))
        return self._prefetches[-1]

    def before_commit(self, function: Callable[[], object]) -> None:
        """Adds a function that is called in the same transaction, when all of this is written."""
        self._before.append(function)

    def after_write(self, function: Callable[[], object]) -> None:
        """Adds a function that is called at the end, in the transaction or after it."""
        self._after.append(function)

    def commit(self, *, durable: bool = False, savepoint: bool = True) -> list[Row]:
        """Runs the batch as one transaction, or as a part of the caller's; returns as ``run``."""
        connection = connections[self.using]
        alone = not connection.in_atomic_block and connection.get_autocommit()
        try:
            if alone and not self._before:
                if self._is_one(connection):
                    return self.run()
                if connection.vendor == "sqlite" and not raw_cursor.is_watched(connection):
                    return self._commit_alone(connection)
            with transaction.atomic(self.using, savepoint=savepoint, durable=durable):
                return self.run()
        except OperationalError as error:
            if not (alone and retry.may_retry(error, self._tries)):
                raise
        self._tries += 1
        return self.commit(durable=durable, savepoint=savepoint)

    def _commit_alone(self, connection: Any) -> list[Row]:
        """Writes it all between a BEGIN and a COMMIT of its own, which costs less than atomic()."""
        begin = f"BEGIN {connection.transaction_mode or 'DEFERRED'}"
        with raw_cursor.open_cursor(connection) as cursor:
            try:
                cursor.execute(begin, ())
                found = self._run_in_turn(connection, cursor)
                self._refuse_missing(found)
                cursor.execute("COMMIT", ())
            except BaseException:
                # Also where a signal came between two statements, or the COMMIT failed.
                if connection.connection.in_transaction:
                    cursor.execute("ROLLBACK", ())
                raise
        self._call(found)
        return found

    def run(self) -> list[Row]:
        """Runs the statements; returns what the guards return, up to the first without a row.

        The caller has opened a transaction, unless the batch is one statement.
        """
        connection = connections[self.using]
        with raw_cursor.open_cursor(connection) as cursor:
            if self._is_one(connection):
                found = self._run_as_one(connection, cursor)
            else:
                found = self._run_in_turn(connection, cursor)
        self._refuse_missing(found)
        self._call(found)
        return found

    def _refuse_missing(self, found: list[Row]) -> None:
        if len(found) < len(self._guards):
            error = self._guards[len(found)][2]
            if error is not None:
                raise error

    def _call(self, found: list[Row]) -> None:
        if len(found) == len(self._guards):
            for function in (*self._before, *self._after):
                function()

    def _is_one(self, connection: Any) -> bool:
        if connection.vendor != "postgresql":
            return False
        return sum(len(s.names) * len(rows) for s, rows in self._inserted) <= MOST_PARAMETERS

    def _run_in_turn(self, connection: Any, cursor: Any) -> list[Row]:
        found: list[Row] = []
        for statement, values, _ in self._guards:
            text, parameters = statement.ready(connection, values)
            if isinstance(statement, PreparedSelect):
                cursor.execute(text, parameters)
                rows = cursor.fetchall()
            elif statement.returning:
                cursor.execute(f"{text} RETURNING {statement.columns(connection)}", parameters)
                rows = cursor.fetchall()
            else:
                cursor.execute(text, parameters)
                rows = [(1,)] * cursor.rowcount
            if not rows:
                return found
            found.append(rows[0][1:])
        for insert, given in self._inserted:
            for text, parameters in insert.statements(connection, given):
                cursor.execute(text, parameters)
        return found

    def _run_as_one(self, connection: Any, cursor: Any) -> list[Row]:
        names, held = [], ""
        expressions: list[str] = []
        parameters: list[Any] = []
        for at, (statement, values, _) in enumerate(self._guards):
            text, more = statement.ready(connection, values)
            if isinstance(statement, PreparedUpdate):
                text += f"{held} RETURNING {statement.columns(connection)}"
            expressions.append(f"held{at} AS ({text})")
            parameters += more
            names.append(f"held{at}")
            held += f" AND EXISTS (SELECT FROM held{at})"
        for at, (insert, rows) in enumerate(self._inserted):
            if names:
                text, more = insert.guarded(connection, rows, names)
            else:
                [(text, more)] = insert.statements(connection, rows)
            expressions.append(f"written{at} AS ({text})")
            parameters += more
        if not expressions:
            return []
        last = f"SELECT * FROM {' LEFT JOIN '.join(names)}" + " ON TRUE" * (len(names) - 1)
        text = f"WITH {', '.join(expressions)} {last if names else 'SELECT'}"
        is_fast = isinstance(cursor, raw_cursor.RawCursor) and cursor.is_pipelined
        if names and self._prefetches and is_fast:
            sent = [each.statement.ready(connection, each.values) for each in self._prefetches]
            rows, *others = cursor.execute_together([(text, parameters), *sent])
            for reading, found in zip(self._prefetches, others, strict=True):
                reading.keep(found)
            return self._split(rows)
        cursor.execute(text, parameters)
        return self._split(cursor.fetchall()) if names else []

    def _split(self, rows: list[Row]) -> list[Row]:
        """Takes the one row apart into those of the required UPDATEs that have one."""
        found: list[Row] = []
        row = rows[0] if rows else ()
        for statement, _, _ in self._guards:
            width = 1 + len(statement.returning)
            if not row or row[0] is None:
                break
            found.append(row[1:width])
            row = row[width:]
        return found
