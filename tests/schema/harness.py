"""Trials of a migration: applied while old code writes, killed and repeated, reversed.

Each trial uses a copy of a database with the preceding migrations and some rows. The trials are
deterministic: the old code writes before each statement of the migration over a separate
connection, and a kill ends the session at a known statement.
"""

from __future__ import annotations

import itertools
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import DEFAULT_DB_ALIAS, DatabaseError, OperationalError, connections, transaction
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from . import rows

#: Connection that runs the migration, and connection of the code before the migration.
MIGRATING, WRITING = "migrating", "writing"
#: Maximum time that a connection waits for the other's lock. Both belong to one OS thread, so the
#: wait can't succeed.
LOCK_TIMEOUT = "20ms"

Key = tuple[str, str]

#: Beginnings of statements that change nothing, so that no trial is needed around them.
HARMLESS = ("BEGIN", "PRAGMA", "SELECT")

#: The table of applied migrations.
RECORD = "django_migrations"


class Killed(BaseException):
    """The migrating process has been killed."""


class Databases:
    """The databases of one test.

    Each is a copy of another, and all are dropped at the end.
    """

    def __init__(self, folder: Path) -> None:
        self._default = connections[DEFAULT_DB_ALIAS]
        self._folder, self._made = folder, list[str]()
        self._numbers = itertools.count()
        own = {"timeout": 0}
        if self._default.vendor == "postgresql":
            own = {"options": f"-c lock_timeout={LOCK_TIMEOUT}"}
        for alias in (MIGRATING, WRITING):
            settings = dict(self._default.settings_dict)
            settings["OPTIONS"] = {**settings["OPTIONS"], **own}
            connections.settings[alias] = settings

    def make(self, template: str = "") -> str:
        """Create an empty database or a copy, and return its name."""
        number = next(self._numbers)
        if self._default.vendor == "sqlite":
            name = str(self._folder / f"{number}.sqlite3")
            if template:
                # Don't copy only the file, because the newest pages may be in its write-ahead log.
                source, target = sqlite3.connect(template), sqlite3.connect(name)
                with closing(source), closing(target):
                    source.backup(target)
            return name
        name = f"{self._default.settings_dict['NAME']}_{os.getpid()}_{number}"
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template or "template0"}"')
        self._made.append(name)
        return name

    def open(self, name: str) -> None:
        self.close()
        for alias in (MIGRATING, WRITING):
            connections[alias].settings_dict["NAME"] = name

    def close(self) -> None:
        for alias in (MIGRATING, WRITING):
            connections[alias].close()

    def drop(self) -> None:
        self.close()
        for alias in (MIGRATING, WRITING):
            del connections[alias], connections.settings[alias]
        for name in self._made:
            self._run(f'DROP DATABASE "{name}" WITH (FORCE)')

    def _run(self, statement: str) -> None:
        with self._default._nodb_cursor() as cursor:
            cursor.execute(statement)


@dataclass
class Statement:
    """A statement that changes something, and the number of its transaction."""

    sql: str
    transaction: int


@dataclass
class Observer:
    """Acts before and after the statements of the migrating connection."""

    before: Callable[[int], None] = lambda number: None
    after: Callable[[int], None] = lambda number: None
    statements: list[Statement] = field(default_factory=list)
    transactions: int = 0
    is_dead: bool = False
    outermost: Any = None

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if self.is_dead:
            raise Killed
        if sql.lstrip().startswith(HARMLESS):
            return execute(sql, params, many, context)
        number = len(self.statements)
        connection = context["connection"]
        self.before(number)
        outermost = next(iter(connection.atomic_blocks), None)
        if outermost is None or outermost is not self.outermost:
            self.transactions += 1
        self.outermost = outermost
        self.statements.append(Statement(sql, self.transactions))
        result = execute(sql, params, many, context)
        self.after(number)
        return result

    def die(self) -> None:
        self.is_dead = True
        raise Killed

    @contextmanager
    def at_work(self) -> Iterator[None]:
        connection = connections[MIGRATING]
        connection.ensure_connection()
        try:
            with connection.execute_wrapper(self):
                yield
        finally:
            # The schema editor couldn't leave its own transaction.
            connection.in_atomic_block = False
            connection.close()


@dataclass
class Writer:
    """The code before the migration, which stores and changes rows, and remembers them."""

    models: list[Any]
    stored: dict[tuple[Any, Any], tuple[Any, Any]] = field(default_factory=dict)
    refused: dict[str, dict[str, None]] = field(default_factory=dict)

    @property
    def refusals(self) -> list[str]:
        return [
            f"the old code can't store {', '.join(names)}: {reason}"
            for reason, names in self.refused.items()
        ]

    def write(self) -> None:
        """Store a row of each model and change another row, unless the migration has the lock."""
        for model in self.models:
            try:
                with transaction.atomic(using=WRITING):
                    self._write(model)
            except OperationalError as error:
                if not _is_locked(error):
                    self._refuse(model, error)
                elif connections[WRITING].vendor == "sqlite":
                    return  # The whole file is locked.
            except DatabaseError as error:
                self._refuse(model, error)

    def _write(self, model: Any) -> None:
        new = rows.insert(model, WRITING)
        done: dict[Any, Any] = {(model, new.pk): (None, None)}
        column = next(filter(_is_plain, model._meta.concrete_fields), None)
        old = next((pk for stored, pk in self.stored if stored is model), None)
        if column is not None and old is not None:
            value = rows.sample(column)
            model.objects.using(WRITING).filter(pk=old).update(**{column.name: value})
            done[model, old] = (column.name, value)
        transaction.on_commit(lambda: self.stored.update(done), using=WRITING)

    def _refuse(self, model: Any, error: Exception) -> None:
        self.refused.setdefault(_first_line(error), {})[model.__name__] = None

    def find_lost(self, alias: str) -> list[str]:
        """Return a sentence for each model with a missing row or change."""
        lost: dict[str, int] = {}
        for (model, pk), (name, value) in self.stored.items():
            found = model.objects.using(alias).filter(pk=pk)
            if name is not None:
                found = found.filter(**{name: value})
            try:
                is_there = found.exists()
            except DatabaseError:
                is_there = False
            if not is_there:
                lost[model.__name__] = lost.get(model.__name__, 0) + 1
        return [f"{count} writes of {name} are lost" for name, count in sorted(lost.items())]


class Trial:
    """A migration, and a database with all preceding migrations."""

    def __init__(self, databases: Databases, before: str, migration: Migration) -> None:
        """Prepare a trial.

        ``before`` names a database with the migrations on which the migration depends.
        """
        self.databases, self.migration = databases, migration
        self.label = migration.app_label
        self.base = databases.make(before)
        databases.open(self.base)
        self.executor = MigrationExecutor(connections[MIGRATING])
        self.old = self.executor.loader.project_state(list_parents(migration))
        self.new = migration.mutate_state(self.old, preserve=True)
        self.tables = _changed(migration.operations, rows.tables(self.old.apps, self.label))
        self.seeds: dict[Any, Any] = {}
        writer = self.writer()
        writer.write()
        self.seeds = writer.stored
        self.old_schema = read_schema(MIGRATING, self.label)
        databases.close()

    def writer(self) -> Writer:
        return Writer(self.tables, dict(self.seeds))

    def find_faults(self, every_statement: bool = False) -> Iterator[str]:
        """Yield a sentence for each problem of the migration."""
        operations = self.migration.operations
        if not self.migration.atomic and len(operations) > 1:
            yield f"not atomic, with {len(operations)} operations instead of one"
        observer, faults, self.new_schema, self.applied = self._apply_beside_writer()
        yield from faults
        if observer is None:
            return
        yield from self._find_faults_of_kills(observer.statements, False, every_statement)
        if connections[DEFAULT_DB_ALIAS].vendor == "postgresql":
            yield from self._find_faults_of_locks(observer.statements)
        yield from self._find_faults_of_reverse(every_statement)

    def _apply_beside_writer(self) -> tuple[Observer | None, list[str], Any, str]:
        name = self._copy()
        writer = self.writer()
        observer = Observer(before=lambda number: writer.write())
        if faults := self._run(observer):
            # Without the writer, so that the other trials have a result for comparison.
            name = self._copy()
            observer = Observer()
            if failed := self._run(observer):
                return None, [f"applied alone: {fault}" for fault in failed], None, name
        else:
            writer.write()
            writer.write()
            faults = writer.find_lost(MIGRATING)
        is_sqlite = connections[MIGRATING].vendor == "sqlite"
        if is_sqlite and _count_writing_transactions(observer.statements) > 1:
            faults.append("changes the schema in more than one transaction")
        faults = [f"applied with a writer: {fault}" for fault in [*faults, *writer.refusals]]
        schema = read_schema(MIGRATING, self.label)
        self.databases.close()
        return observer, faults, schema, name

    def _find_faults_of_kills(
        self, statements: list[Statement], backwards: bool, every_statement: bool
    ) -> Iterator[str]:
        for number, after in _ends(statements, every_statement):
            if self.migration.atomic and _is_record_alone(statements, number):
                # Django records a reversed migration, and one with deferred statements, after the
                # transaction. A migration can't change this.
                continue
            self._copy(self.applied if backwards else self.base)
            observer = Observer()
            setattr(observer, "after" if after else "before", _at(number, observer.die))
            self._run(observer, backwards)
            writer = self.writer()
            writer.write()
            where = f"{'after' if after else 'before'} {_shorten(statements[number].sql)!r}"
            step = "reversed" if backwards else "applied"
            faults = [*self._run_again(backwards), *writer.find_lost(MIGRATING), *writer.refusals]
            yield from (f"killed {where}, {step} again: {fault}" for fault in faults)

    def _find_faults_of_locks(self, statements: list[Statement]) -> Iterator[str]:
        """Keep another transaction open from the first statement of each transaction."""
        for number, after in _ends(statements, False):
            if after:
                continue
            self._copy()
            writer, stack = self.writer(), transaction.atomic(using=WRITING)

            def write_and_wait(stack: Any = stack, writer: Writer = writer) -> None:
                stack.__enter__()
                writer.write()

            self._run(Observer(before=_at(number, write_and_wait)))
            stack.__exit__(None, None, None)
            where = _shorten(statements[number].sql)
            faults = [*self._run_again(False), *writer.find_lost(MIGRATING)]
            for fault in faults:
                yield f"beside a transaction at {where!r}, applied again: {fault}"

    def _find_faults_of_reverse(self, every_statement: bool) -> Iterator[str]:
        self._copy(self.applied)
        self.applied = self.databases.make(self.applied)
        self.databases.open(self.applied)
        for model, given in rows.new_kinds(self.label, self.old.apps, self.new.apps):
            try:
                with transaction.atomic(using=WRITING):
                    rows.insert(model, WRITING, **given)
            except DatabaseError as error:
                shown = f"{model.__name__} with {_shorten(str(given))}"
                yield f"no row of the new kind, {shown}: {_first_line(error)}"
        self._copy(self.applied)
        writer, observer = self.writer(), Observer()
        if faults := self._run(observer, backwards=True):
            yield from (f"reversed: {fault}" for fault in faults)
            if read_schema(MIGRATING, self.label) != self.new_schema:
                yield "reversed: half of it is done, and can't be done or undone"
            return
        faults = _differences(self.old_schema, read_schema(MIGRATING, self.label))
        writer.write()
        yield from (f"reversed: {fault}" for fault in [*faults, *writer.refusals])
        yield from self._find_faults_of_kills(observer.statements, True, every_statement)

    def _copy(self, template: str = "") -> str:
        self.databases.close()
        name = self.databases.make(template or self.base)
        self.databases.open(name)
        return name

    def _run(self, observer: Observer, backwards: bool = False) -> list[str]:
        """Run the migration, and return the errors."""
        run = self.executor.unapply_migration if backwards else self.executor.apply_migration
        try:
            with observer.at_work():
                run(self.old.clone(), self.migration)
        except Killed:
            return []
        except Exception as error:
            return [f"{type(error).__name__}: {_first_line(error)}"]
        return []

    def _run_again(self, backwards: bool) -> list[str]:
        applied = self.executor.recorder.applied_migrations()
        is_applied = (self.label, self.migration.name) in applied
        if is_applied == backwards and (faults := self._run(Observer(), backwards)):
            return faults
        wanted = self.old_schema if backwards else self.new_schema
        return _differences(wanted, read_schema(MIGRATING, self.label))


def list_parents(migration: Migration) -> list[Key]:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    found = [loader.check_key(key, migration.app_label) for key in migration.dependencies]
    return sorted(key for key in found if key is not None)


def _changed(operations: list[Any], models: list[Any]) -> list[Any]:
    names = [getattr(one, "model_name", getattr(one, "name", None)) for one in operations]
    if not all(names):
        return models
    lower = {name.lower() for name in names if name}
    return [model for model in models if model._meta.model_name in lower]


def read_schema(alias: str, label: str) -> dict[str, dict[str, Any]]:
    """Return the columns, constraints and indexes of each table of an app."""
    connection = connections[alias]
    found: dict[str, dict[str, Any]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            _SCHEMA[connection.vendor], [f"%{label}%"] * _SCHEMA[connection.vendor].count("LIKE")
        )
        for table, name, text in cursor.fetchall():
            found.setdefault(table, {})[name] = text
            if name == table:  # SQLite stores the constraints of a table only as text.
                found[table][name] = sorted(re.findall(r"(?:CONSTRAINT|FOREIGN KEY) \S+", text))
    return found


_SCHEMA = {
    "sqlite": """
        SELECT tbl_name, name, sql FROM sqlite_master WHERE tbl_name LIKE %s
        UNION ALL
        SELECT m.name, 'column ' || c.name, c.type || c."notnull" || coalesce(c.dflt_value, '')
        FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.name LIKE %s
    """,
    "postgresql": """
        SELECT t.relname, 'column ' || attname,
            concat(format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, t.oid))
        FROM pg_attribute JOIN pg_class t ON t.oid = attrelid
            LEFT JOIN pg_attrdef ON adrelid = t.oid AND adnum = attnum
        WHERE t.relname LIKE %s AND t.relkind IN ('r', 'p') AND attnum > 0 AND NOT attisdropped
        UNION ALL
        SELECT t.relname, conname, pg_get_constraintdef(c.oid)
        FROM pg_constraint c JOIN pg_class t ON t.oid = conrelid WHERE t.relname LIKE %s
        UNION ALL
        SELECT t.relname, i.relname,
            pg_get_indexdef(i.oid) || CASE WHEN indisvalid THEN '' ELSE ' INVALID' END
        FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class t ON t.oid = indrelid
        WHERE t.relname LIKE %s
    """,
}


def _differences(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    tables = sorted(wanted.keys() | found.keys())
    different = [table for table in tables if wanted.get(table) != found.get(table)]
    names = [
        f"{table}.{name}"
        for table in different
        for name in sorted({*wanted.get(table, {}), *found.get(table, {})})
        if wanted.get(table, {}).get(name) != found.get(table, {}).get(name)
    ]
    return [f"the schema differs in {', '.join(names)}"] if names else []


def _count_writing_transactions(statements: list[Statement]) -> int:
    return len({one.transaction for one in statements if RECORD not in one.sql})


def _is_record_alone(statements: list[Statement], number: int) -> bool:
    beside = [one for one in statements if one.transaction == statements[number].transaction]
    return all(RECORD in one.sql for one in beside)


def _ends(statements: list[Statement], every: bool) -> Iterator[tuple[int, bool]]:
    """Yield the statements at which a kill makes a difference: the first and the last of a
    transaction.

    A kill at another statement of a transaction has the same result, which ``every`` verifies.
    """
    for number, statement in enumerate(statements):
        around = statements[max(number - 1, 0) : number + 2]
        is_first = number == 0 or around[0].transaction != statement.transaction
        if every or is_first:
            yield number, False
        if every or around[-1].transaction != statement.transaction or around[-1] is statement:
            yield number, True


def _at(number: int, act: Callable[[], None]) -> Callable[[int], None]:
    return lambda reached: act() if reached == number else None


def _is_plain(column: Any) -> bool:
    is_text = column.get_internal_type() in ("CharField", "TextField")
    return is_text and not (column.choices or column.primary_key or column.unique)


def _is_locked(error: Exception) -> bool:
    return "database is locked" in str(error) or getattr(error.__cause__, "sqlstate", "") == "55P03"


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}…"
