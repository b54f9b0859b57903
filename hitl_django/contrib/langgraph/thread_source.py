"""Threads in databases of LangGraph's savers, read with these savers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from langgraph.checkpoint.base import BaseCheckpointSaver as TheirSaver
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Interrupt as TheirInterrupt
from langgraph.types import Overwrite as TheirOverwrite

from hitl_django.engine.channels import MISSING, BaseChannel, DeltaChannel
from hitl_django.engine.constants import TASKS
from hitl_django.engine.errors import CorruptPayloadError, HitlError, UnknownTagError
from hitl_django.engine.savers.checkpoint import CheckpointTuple, Version, make_version
from hitl_django.engine.savers.pruning import DELTA_COUNTERS
from hitl_django.engine.types import Overwrite

from .closed_serializer import ClosedSerializer
from .conversions import convert_checkpoint, convert_to_ours, drop_snapshot_counters

#: Function that executes a statement with ``{}`` placeholders and returns its rows.
Fetch = Callable[..., Sequence[Sequence[Any]]]
#: First checkpoint version that stores Sends in a channel.
_SENDS_IN_CHANNEL = 4
_MAX_COUNT = 2**31


class SourceError(HitlError, OSError):
    """The database to import from can't be reached, or isn't a database of LangGraph's savers."""


class StoredCheckpoint(NamedTuple):
    """A reference to a checkpoint in a source database and to its parent."""

    ns: str
    checkpoint_id: str
    parent_id: str | None


class ThreadSource:
    """A database of a LangGraph saver. Its contents are converted to the engine's classes.

    Reads within a ``snapshot`` are consistent. If the database can't be reached, the database
    driver raises the exception ``failure``. Any other exception means that the contents can't be
    read.
    """

    def __init__(
        self,
        saver: TheirSaver[Any],
        fetch: Fetch,
        end_snapshot: Callable[[], None],
        failure: type[Exception],
        writes_table: str,
    ) -> None:
        self._saver, self._fetch, self._end_snapshot = saver, fetch, end_snapshot
        self._failure, self._writes_table = failure, writes_table

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Let all reads inside the block see the same state of the database."""
        try:
            yield
        finally:
            self._end_snapshot()

    def list_threads(self) -> list[str]:
        """Return the ids of all threads, sorted."""
        rows = self._fetch("SELECT DISTINCT thread_id FROM checkpoints ORDER BY thread_id")
        return [thread_id for (thread_id,) in rows]

    def list_checkpoints(self, thread_id: str) -> list[StoredCheckpoint]:
        """Return references to a thread's checkpoints. Parents come before their children."""
        rows = self._fetch(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints "
            "WHERE thread_id = {} ORDER BY checkpoint_id",
            thread_id,
        )
        return [StoredCheckpoint(*row) for row in rows]

    def read_metadata(self, thread_id: str, ns: str, checkpoint_id: str) -> Mapping[str, Any]:
        """Return the metadata of a checkpoint, without reading the checkpoint's values."""
        [[found]] = self._fetch(
            "SELECT metadata FROM checkpoints "
            "WHERE thread_id = {} AND checkpoint_ns = {} AND checkpoint_id = {}",
            thread_id,
            ns,
            checkpoint_id,
        )
        try:
            metadata = json.loads(found or "{}") if isinstance(found, str | bytes | None) else found
        except ValueError as error:
            raise CorruptPayloadError(
                f"The metadata of checkpoint {checkpoint_id} can't be read: {error}"
            ) from error
        return metadata if isinstance(metadata, dict) else {}

    def read_paths(self, thread_id: str) -> Mapping[str, str]:
        """Return the paths of a thread's tasks, by task id."""
        table = self._writes_table
        rows = self._fetch(
            f"SELECT DISTINCT task_id, task_path FROM {table} WHERE thread_id = {{}}",
            thread_id,
        )
        return {str(task_id): str(path) for task_id, path in rows}

    def read(
        self, thread_id: str, ns: str, checkpoint_id: str, channels: Mapping[str, BaseChannel]
    ) -> CheckpointTuple:
        """Read a checkpoint with its pending writes.

        ``channels`` are the channels of the registered graph. These channels compute the values of
        DeltaChannels from LangGraph's stored deltas.

        Raises:
            UnknownTagError: a value has a class that isn't registered.
            CorruptPayloadError: the contents can't be read for another reason.
        """
        try:
            found = self._read_theirs(thread_id, ns, checkpoint_id, channels)
            return CheckpointTuple(
                found.config,
                _convert_checkpoint(found.checkpoint),
                drop_snapshot_counters(found.metadata, found.checkpoint["channel_values"]),
                found.parent_config,
                [
                    (task, name, _convert_write(name, value))
                    for task, name, value in found.pending_writes or ()
                ],
            )
        except self._failure:
            raise
        except UnknownTagError as error:
            raise UnknownTagError(
                f"The checkpoint {checkpoint_id} holds {error}. Only classes that are registered "
                "here are read, and nothing is imported or called for any other."
            ) from error
        except Exception as error:
            raise CorruptPayloadError(
                f"Can't read checkpoint {checkpoint_id}: {type(error).__name__}: {error}"
            ) from error

    def _read_theirs(
        self, thread_id: str, ns: str, checkpoint_id: str, channels: Mapping[str, BaseChannel]
    ) -> Any:
        found = self._find(thread_id, ns, checkpoint_id)
        if found is None:
            raise LookupError("it no longer exists")
        checkpoint: Any = found.checkpoint
        datetime.fromisoformat(checkpoint["ts"])  # Rejects an invalid value, with a reason.
        self._complete_values(found, channels)
        # Older versions store Sends next to the channels, and in the writes that led to the
        # checkpoint.
        sends = checkpoint.pop("pending_sends", None)
        if checkpoint["v"] < _SENDS_IN_CHANNEL and not sends and found.parent_config is not None:
            sends = self._find_sends(thread_id, ns, found.parent_config)
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        if sends and TASKS not in values:
            values[TASKS], versions[TASKS] = sends, max(versions.values())
        return found

    def _complete_values(self, found: Any, channels: Mapping[str, BaseChannel]) -> None:
        """Add the values of DeltaChannels to the checkpoint ``found``.

        LangGraph stores these values as deltas. ``channels`` compute the values from the deltas.
        """
        values, versions = found.checkpoint["channel_values"], found.checkpoint["channel_versions"]
        counters = found.metadata.get(DELTA_COUNTERS) or {}
        missing = [name for name in counters if name in versions and name not in values]
        if strangers := [name for name in missing if type(channels.get(name)) is not DeltaChannel]:
            raise ValueError(
                f"its DeltaChannel {', '.join(strangers)} is stored in pieces, and the graph here "
                "has no such channel"
            )
        pieces = self._saver.get_delta_channel_history(config=found.config, channels=missing)
        for name in missing:
            values[name] = _join_pieces(channels[name], pieces[name])

    def _find_sends(self, thread_id: str, ns: str, parent_config: Any) -> Sequence[Any]:
        parent = self._find(thread_id, ns, parent_config["configurable"]["checkpoint_id"])
        writes = () if parent is None else parent.pending_writes or ()
        return [sent for _, name, sent in writes if name == TASKS]

    def _find(self, thread_id: str, ns: str, checkpoint_id: str) -> Any:
        return self._saver.get_tuple(
            {
                "configurable": {
                    "thread_id": thread_id,
                    "checkpoint_ns": ns,
                    "checkpoint_id": checkpoint_id,
                }
            }
        )


@contextmanager
def open_sqlite(path: Path) -> Iterator[ThreadSource]:
    """Open a copy of the file of a SqliteSaver.

    Raises:
        SourceError: the file doesn't belong to a SqliteSaver.
    """
    make_saver = _load_saver("sqlite").SqliteSaver
    with (
        _describing(sqlite3.Error, str(path)),
        closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as original,
        # A temporary database that no other process can see.
        closing(sqlite3.connect("")) as connection,
    ):
        # The saver migrates databases of older releases, but the original must not be changed.
        original.backup(connection)

        def fetch(statement: str, *values: Any) -> Sequence[Sequence[Any]]:
            return connection.execute(statement.replace("{}", "?"), values).fetchall()

        fetch("SELECT 1 FROM checkpoints LIMIT 1")
        saver = make_saver(connection, serde=ClosedSerializer())
        saver.setup()
        yield ThreadSource(saver, fetch, connection.rollback, sqlite3.Error, "writes")


@contextmanager
def open_postgres(url: str) -> Iterator[ThreadSource]:
    """Open the database of a PostgresSaver for reading.

    Raises:
        SourceError: the database doesn't belong to a PostgresSaver.
    """
    make_saver = _load_saver("postgres").PostgresSaver
    psycopg = import_module("psycopg")
    with (
        _describing(psycopg.Error, "The database"),
        psycopg.connect(url, row_factory=psycopg.rows.dict_row, prepare_threshold=0) as connection,
    ):
        _show_task_paths(connection)
        connection.read_only = True
        # With this isolation level, the reads of a thread are consistent.
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

        def fetch(statement: str, *values: Any) -> Sequence[Sequence[Any]]:
            with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
                return cursor.execute(statement.replace("{}", "%s").encode(), values).fetchall()

        fetch("SELECT 1 FROM checkpoints LIMIT 1")
        connection.rollback()
        saver = make_saver(connection, serde=ClosedSerializer())
        yield ThreadSource(saver, fetch, connection.rollback, psycopg.Error, "checkpoint_writes")


def _show_task_paths(connection: Any) -> None:
    """Create a temporary view with which the current saver can read an older database schema.

    Without this view, the saver would migrate the database. An import must not do this.
    """
    found = connection.execute(
        "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('checkpoint_writes') "
        "AND attname IN ('task_id', 'task_path')"
    ).fetchall()
    if len(found) == 1:
        # PostgreSQL prefers a temporary view to a table of the same name.
        connection.execute(
            "CREATE TEMPORARY VIEW checkpoint_writes AS "
            "SELECT *, '' AS task_path FROM checkpoint_writes"
        )
    connection.commit()


def _load_saver(kind: str) -> Any:
    """Import and return the module of a LangGraph saver.

    ``kind`` is ``sqlite`` or ``postgres``. Each saver is a separate distribution.
    """
    try:
        return import_module(f"langgraph.checkpoint.{kind}")
    except ImportError as error:
        raise SourceError(f"Install langgraph-checkpoint-{kind} to read it: {error}.") from error


@contextmanager
def _describing(failure: type[Exception], name: str) -> Iterator[None]:
    """Convert exceptions that a database driver raises in the block to SourceError.

    ``failure`` is the base class of the driver's exceptions. ``name`` is the name of the database.
    """
    try:
        yield
    except failure as error:
        reason = " ".join(str(error).split())
        raise SourceError(
            f"Can't read {name} as a LangGraph checkpoint database: {reason}."
        ) from error


def _join_pieces(channel: BaseChannel, pieces: Any) -> Any:
    """Compute the value of a DeltaChannel from ``pieces``: a snapshot and the later writes."""
    held = pieces.get("seed", MISSING)
    value = held.value if type(held) is _DeltaSnapshot else held
    for _, _, written in pieces["writes"]:
        # Apply the writes one by one, because each super-step may have replaced the value.
        replaces = isinstance(written, TheirOverwrite)
        value = channel.fold(value, [Overwrite(written.value) if replaces else written])
    return channel.initial() if value is MISSING else value


def _convert_checkpoint(checkpoint: Any) -> Any:
    seen = checkpoint["versions_seen"].items()
    return {
        **convert_checkpoint(checkpoint, convert_to_ours),
        "channel_versions": _convert_versions(checkpoint["channel_versions"]),
        "versions_seen": {node: _convert_versions(versions) for node, versions in seen},
    }


def _convert_write(name: str, value: Any) -> Any:
    # Old releases stored a single interrupt without a list around it.
    given = (value,) if isinstance(value, TheirInterrupt) else value
    return convert_to_ours(name, given)


def _convert_versions(versions: Mapping[str, Any]) -> dict[str, Version]:
    return {name: _convert_version(version) for name, version in versions.items()}


def _convert_version(version: Any) -> Version:
    """Convert a channel version of LangGraph to a counter and a part that distinguishes branches.

    LangGraph's versions are strings that contain both, for example "00000003.0.8257". Versions in
    old databases are numbers, which don't distinguish branches.
    """
    count, _, branch = version.partition(".") if isinstance(version, str) else ("", "", "")
    if not count.isdigit() or int(count) >= _MAX_COUNT or not branch:
        raise ValueError(f"unsupported version {version!r}")
    return make_version(int(count), crc32(branch.encode()))
