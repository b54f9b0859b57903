"""Floor of durable runs: the rows of their super-steps, written by the driver alone.

On PostgreSQL, the statements of a super-step are sent in a pipeline with one round trip, as in this
package.
"""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import nullcontext
from typing import Any

from tools.benchmarks import stores

from .engines import OURS
from .replaying import BEGIN, marked
from .stores import SQLITE
from .workloads import Once

Step = list[tuple[str, list[Any]]]  # The statements of a super-step with their parameters.

THREAD = object()  # Placeholder for the thread's key in parameters.
_FILLED_IN = ("id", "created_at")

_threads = itertools.count()


def super_steps(kind: str, run: Once, n: int) -> Once:
    """Write the rows of a run with ``n`` super-steps, using one transaction per super-step."""
    run()
    steps = [[(marked(text, kind), values) for text, values in step] for step in _steps()]
    begin, commit = marked(BEGIN[kind], kind), marked("COMMIT", kind)
    execute, pipeline = _connect(kind)

    def once() -> int:
        thread = _new_thread()
        for step in steps:
            with pipeline():
                execute(begin, [])
                for text, values in step:
                    execute(text, [thread if value is THREAD else value for value in values])
                execute(commit, [])
        return n

    return once


def _connect(kind: str) -> Any:
    """Return a function that executes one statement, and a function that executes several."""
    database = stores.url(OURS, kind)
    if kind != SQLITE:
        import psycopg

        server = psycopg.connect(database, autocommit=True, prepare_threshold=0)
        return psycopg.RawCursor(server).execute, server.pipeline
    connection = sqlite3.connect(database.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA foreign_keys=ON")
    return connection.execute, nullcontext


def _new_thread() -> int:
    from hitl_django.models import Thread

    return Thread.objects.create(thread_id=f"floor {next(_threads)} {id(_threads)}").pk


def _steps() -> list[Step]:
    """Return the rows that the super-steps of the newest thread stored, in order."""
    from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite, Thread

    thread = Thread.objects.latest("pk")
    blobs: dict[int, list[Any]] = {}
    for blob in ChannelBlob.objects.filter(thread=thread):
        blobs.setdefault(blob.version >> 32, []).append(blob)
    steps: list[Step] = []
    checkpoints = Checkpoint.objects.filter(thread=thread).order_by("checkpoint_id")
    for at, checkpoint in enumerate(checkpoints, 1):
        writes = PendingWrite.objects.filter(thread=thread, checkpoint_id=checkpoint.parent_id)
        found = [list(writes), blobs.get(at, []), [checkpoint]]
        steps.append([_insert(rows) for rows in found if rows])
    return steps


def _insert(rows: list[Any]) -> tuple[str, list[Any]]:
    fields = [field for field in rows[0]._meta.concrete_fields if field.name not in _FILLED_IN]
    names = ", ".join(field.column for field in fields)
    row = "(" + ", ".join(["%s"] * len(fields)) + ")"
    values = [
        THREAD if field.name == "thread" else _plain(getattr(row, field.attname))
        for row in rows
        for field in fields
    ]
    into = f"INSERT INTO {rows[0]._meta.db_table} ({names})"
    return f"{into} VALUES {', '.join([row] * len(rows))}", values


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value
