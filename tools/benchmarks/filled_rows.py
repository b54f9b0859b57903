"""Filling of a PostgreSQL database with threads, which are copies of rows of real runs.

Calls of a worker run one thread to its end, and one thread to its interrupt. All other threads are
copies of their rows with other keys and earlier times. Tables and columns that are added later are
therefore also filled.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, TypedDict

from django.db import connection, models
from django.db.models.functions import Now

from hitl_django import START, StateGraph, interrupt, services
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.links.services import create_review_link
from hitl_django.graph_registry import registry
from hitl_django.models import GraphShape, Interrupt, Run, Thread
from hitl_django.models.thread_tables import THREAD_TABLES
from hitl_django.worker import runner

GRAPH = "bench-filled"
#: Number of finished threads per waiting thread.
SHARE = 10
#: Number of finished threads to archive, for measuring their size in the archive.
ARCHIVED = 1000
#: Number of days over which the threads were started.
DAYS = 365
#: Keys of copied threads are greater than this number and ordered by the end of the thread.
FIRST_KEY = 1_000_000
#: Ids of copied rows begin with this number or a greater one, and sort before new ids.
FIRST = 0x10000000


class Refund(TypedDict, total=False):
    customer: str
    cents: int
    order: str
    country: str
    express: bool
    checked: bool
    outcome: str


def register() -> None:
    """Register a graph with three nodes. The second node interrupts."""

    def check(state: Refund) -> Refund:
        return {"checked": state["cents"] < 100_000}

    def ask(state: Refund) -> Refund:
        title = f"Refund {state['cents'] / 100:.2f} EUR to {state['customer']}?"
        note = "The parcel came back unopened. " * 5
        return {"outcome": str(interrupt({"title": title, "note": note}))}

    def close(state: Refund) -> Refund:
        return {"outcome": f"closed: {state['outcome']}"}

    graph = StateGraph(Refund).add_sequence([check, ask, close]).add_edge(START, "check")
    registry.register(GRAPH, version="1", events=["states"])(lambda: graph)


def begin() -> services.RunInfo:
    """Start a run whose input is stored in a separate row, like the inputs of all other runs."""
    given = {
        "customer": "Dana K.",
        "cents": 12_000,
        "order": "A-20017",
        "country": "CZ",
        "express": False,
    }
    return services.start(GRAPH, given)


def pause(run: services.RunInfo) -> Interrupt:
    """Execute a run until its interrupt."""
    runner.advance(str(run.id))
    return Interrupt.objects.get(run=run.id)


def finish(run: services.RunInfo, *, discussed: bool = False) -> None:
    """Execute a run until its interrupt and, after a response, until its end."""
    pending = pause(run)
    if discussed:
        services.comment(pending.pk, "It did come back.")
        create_review_link(pending.pk, name="Lena R.")
    services.decide(pending.pk, "respond", "yes", reason="It came back unopened.")
    if discussed:
        # Sampling is random, so create the row directly.
        SpotCheck.objects.create(interrupt=pending, decision=pending.decisions.get())
    runner.advance(str(run.id))
    assert Run.objects.get(pk=run.id).state == Run.State.SUCCEEDED


def fill(threads: int) -> None:
    """Create finished threads and a tenth as many waiting threads.

    The statistics of the planner are updated.
    """
    copy_threads(threads)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
    connection.close()


def copy_threads(threads: int, *, discussed: bool = False) -> None:
    """Create threads without updating the planner's statistics.

    With ``discussed``, the interrupts have comments.
    """
    finished, waiting = begin(), begin()
    finish(finished, discussed=discussed)
    pause(waiting)
    with connection.cursor() as cursor:
        # Disables the triggers that check foreign keys.
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("SET synchronous_commit = off")
    _copy_thread(finished, "finished", FIRST_KEY, threads)
    _copy_thread(waiting, "waiting", FIRST_KEY + threads, threads // SHARE)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval(pg_get_serial_sequence('hitl_django_thread', 'id'), max(id)) "
            "FROM hitl_django_thread"
        )
        cursor.execute("RESET session_replication_role")
        cursor.execute("RESET synchronous_commit")


def _copy_thread(run: services.RunInfo, tag: str, first: int, count: int) -> None:
    thread = Thread.objects.get(thread_id=run.thread_id)
    for model, to_thread in THREAD_TABLES.items():
        rows = model._default_manager.filter(**{to_thread: thread.pk})
        _copy_rows(model, list(rows.values_list("pk", flat=True)), tag, first, count)


def _copy_rows(
    model: type[models.Model], keys: list[Any], tag: str, first: int, count: int
) -> None:
    quote = connection.ops.quote_name
    columns, values = list[str](), list[str]()
    for field in model._meta.concrete_fields:
        if field.primary_key and model is not Thread and not isinstance(field, models.UUIDField):
            continue  # The sequence sets this column.
        columns.append(quote(str(field.column)))
        values.append(_value(model, field, tag, first, count))
    table, key = quote(model._meta.db_table), quote(str(model._meta.pk.column))
    with connection.cursor() as cursor:
        # Insert rows ordered by thread, so that indexes are filled as in production.
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(values)} "
            f"FROM generate_series(1, {count}) k, {table} made WHERE made.{key} = ANY(%s) "
            f"ORDER BY k, made.{key}",
            [keys],
        )


def _value(model: type[models.Model], field: Any, tag: str, first: int, count: int) -> str:
    """Return the SQL expression for a column of the k-th copy."""
    own = "made." + connection.ops.quote_name(field.column)
    target = field.related_model if field.is_relation else model if field.primary_key else None
    if target is Thread:
        return f"{first} + k"
    if target in THREAD_TABLES:
        return f"CASE WHEN {own} IS NOT NULL THEN {_uuid(own, tag)} END"
    if field.name == "thread_id":
        return f"{_uuid(own, tag)}::text"
    if (model, field.name) == (Run, "key"):
        return f"'{tag}-' || k"
    if isinstance(field, models.DateTimeField):
        return f"{own} - (1 + ({count} - k) * {DAYS} / {count}.0) * interval '1 day'"
    return own


def _uuid(own: str, tag: str) -> str:
    begin = f"to_hex({FIRST} + k)"
    return f"({begin} || substr(md5({own}::text || '{tag}' || k), 1, 24))::uuid"


def age_a_shape() -> None:
    """Create an old graph structure to which no run refers."""
    GraphShape.objects.get_or_create(fingerprint="unused", graph=GRAPH, shape={})
    GraphShape.objects.update(created_at=Now() - timedelta(days=2))


def age_threads(count: int) -> float:
    """Move the end of ``count`` threads into the past, and return their age in days."""
    days = 2 * DAYS
    for _ in range(count):
        finish(run := begin())
        Thread.objects.filter(thread_id=run.thread_id).update(
            ended_at=Now() - timedelta(days=days + 1)
        )
    return days


def measure_archived() -> list[float]:
    """Archive some of the finished threads, and return the size of one archived thread."""
    archive_ended(1, ARCHIVED)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT sum(pg_table_size(inhrelid)), sum(pg_indexes_size(inhrelid)) "
            "FROM pg_inherits WHERE inhparent = %s::regclass",
            [ArchivedThread._meta.db_table],
        )
        sizes = cursor.fetchone()
    count = ArchivedThread.objects.count()
    return [1.0, *(float(each or 0) / max(1, count) for each in sizes)]


def read_server_meters() -> dict[str, float]:
    """Return the number of WAL bytes that the server has written, and the CPU time of its backend.

    The CPU time is available only if the server runs on the same machine.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0'), pg_backend_pid()")
        written, process = cursor.fetchone()
    found = {"log written, bytes": float(written)}
    stat = Path(f"/proc/{process}/stat")
    if stat.exists() and "postgres" in (text := stat.read_text()):
        ticks = text.rpartition(")")[2].split()[11:13]
        found["processor of the server, ms"] = sum(map(int, ticks)) * 10.0
    return found


def measure_sizes() -> dict[str, list[float]]:
    """Return the rows and bytes of a finished thread in each table and its indexes.

    The sizes include the waiting threads, a tenth as many.
    """
    found = {}
    threads = max(1, Thread.objects.count())
    with connection.cursor() as cursor:
        for model in THREAD_TABLES:
            cursor.execute(
                "SELECT reltuples, pg_table_size(oid), pg_indexes_size(oid) FROM pg_class "
                "WHERE oid = %s::regclass",
                [model._meta.db_table],
            )
            found[model.__name__] = [each / threads for each in cursor.fetchone()]
    return found
