"""Query plans of runs and their maintenance: no full scans of large tables.

A plan depends on the planner's statistics. Each statement is therefore planned with the statistics
of an empty and of a full database, for specific values and for any values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import connection, transaction
from django.db.models.functions import Now

from hitl_django import services
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.archive.services import archived_thread, restore_thread
from hitl_django.graph_registry import compatibility, registry
from hitl_django.models import Decision, Interrupt, Run, Thread
from hitl_django.models.thread_tables import THREAD_TABLES
from hitl_django.services.reviews import queue_filters
from hitl_django.worker import retention, runner, sweeper
from tools.benchmarks import filled_rows

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.database("postgresql"),
    pytest.mark.long,
]

THREADS, TIMES = 3000, 1000
LARGE = {model._meta.db_table for model in THREAD_TABLES}
#: The ORM inlines values into its statements, so the server plans each statement separately. The
#: statements of every run are prepared, and the server may reuse a plan for other values.
MODES = ("force_custom_plan", "force_generic_plan")
READING = {"Seq Scan", "Parallel Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan"}
PLANNED = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH")


@pytest.fixture(params=["empty", "full"])
def database(request: pytest.FixtureRequest, settings: Any) -> Iterator[str]:
    """Yield a full database, with the planner's statistics from the empty or the full database."""
    settings.HITL = {**settings.HITL, "EVENT_RETENTION_DAYS": 30}
    filled_rows.register()
    truncate_tables()
    if request.param == "empty":
        filled_rows.finish(filled_rows.begin())
        analyze()
    filled_rows.copy_threads(THREADS, discussed=True)
    assert archive_ended(filled_rows.DAYS / 2, 300) == 300  # of two or three months
    if request.param == "full":
        analyze()
    multiply_rows()
    yield request.param
    registry.unregister(filled_rows.GRAPH)
    truncate_tables()


def truncate_tables() -> None:
    """Remove the pages of deleted rows and the expected numbers of rows, which change the plans."""
    tables = connection.introspection.django_table_names(only_existing=True)
    own = ", ".join(table for table in tables if table.startswith("hitl_"))
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {own} CASCADE")


def analyze() -> None:
    with connection.cursor() as cursor:
        for model in (*THREAD_TABLES, ArchivedThread):
            cursor.execute(f"ANALYZE {model._meta.db_table}")


def multiply_rows() -> None:
    """Make the planner expect TIMES as many rows in each table and index."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE pg_class SET relpages = greatest(relpages, 1), "
            "reltuples = %s * CASE WHEN reltuples > 0 THEN reltuples ELSE 1 END "
            "WHERE relname ~ '^hitl_' AND relkind IN ('r', 'i')",
            [TIMES],
        )


def take_a_run() -> None:
    run = filled_rows.begin()
    filled_rows.finish(run)
    given = {"customer": "Lena R.", "cents": 1}
    services.start(filled_rows.GRAPH, given, key="mine")
    services.start(filled_rows.GRAPH, given, thread_id="talk")
    later = services.start(filled_rows.GRAPH, given, thread_id=run.thread_id)
    runner.advance(str(later.id))
    services.cancel(later.id)
    services.start(filled_rows.GRAPH, given)
    runner.advance_due()


def take_next() -> None:
    """Claim the next interrupt as a user with two groups."""
    user, _ = User.objects.get_or_create(username="rita")
    user.user_permissions.set(
        Permission.objects.filter(codename__in=["view_interrupt", "decide_interrupt"])
    )
    user.groups.set(Group.objects.get_or_create(name=name)[0] for name in ("Crew", "Desk"))
    assert services.claim_next(by=user) is not None
    assert services.claim_next(by=user, graph=filled_rows.GRAPH) is not None


def sweep() -> None:
    interrupt = Interrupt.objects.filter(status="pending")[0]
    Interrupt.objects.filter(pk=interrupt.pk).update(due_at=Now(), expires_at=Now())
    started = filled_rows.begin()
    Run.objects.filter(pk=started.id).update(last_message_at=Now() - timedelta(hours=1))
    sweeper.sweep()
    sweeper.find_missed_since()


def forget_shapes() -> None:
    filled_rows.age_a_shape()
    compatibility.clear_structures()
    assert compatibility.remove_unused_structures() == 1


def delete() -> None:
    assert retention.delete_ended(filled_rows.DAYS / 2, 5) == 5


def delete_by_graph() -> None:
    # The rows of the graph with the longest retention aren't read.
    terms = {filled_rows.GRAPH: filled_rows.DAYS / 2, "*": 3650}
    assert (filled_rows.DAYS / 2, filled_rows.GRAPH) in list(
        retention.list_retention_periods(terms)
    )
    assert retention.delete_ended(filled_rows.DAYS / 2, 5, filled_rows.GRAPH) == 5


def prune() -> None:
    assert next(retention.prune_ended(filled_rows.DAYS / 2)) > 5


def archive_and_restore() -> None:
    assert archive_ended(filled_rows.DAYS / 2, 5) == 5
    first = filled_rows.FIRST_KEY + 1
    longest_ended = ArchivedThread.objects.filter(pk__in=range(first, first + 310)).order_by()
    archived = longest_ended[0].thread_id
    archived_thread(archived)
    restore_thread(archived)


@pytest.mark.parametrize(
    "act",
    [
        take_a_run,
        take_next,
        sweep,
        forget_shapes,
        delete,
        delete_by_graph,
        prune,
        archive_and_restore,
    ],
)
def test_queries_of_worker_sweep_and_retention_find_every_row_by_index(
    act: Callable[[], None], database: str
) -> None:
    for sql, params in note_statements(act).items():
        for mode in MODES if act in (take_a_run, take_next) else MODES[:1]:
            refuse_full_scans(sql, params, mode)


def test_postgresql_plans_made_before_table_statistics_exist_find_every_row_by_index() -> None:
    # The server keeps these plans until it has statistics, which it collects every minute.
    filled_rows.register()
    try:
        statements = note_statements(take_a_run)
        with connection.cursor() as cursor:
            tables = ", ".join(sorted(LARGE))
            cursor.execute(f"TRUNCATE {tables} CASCADE")
            cursor.execute("DELETE FROM pg_statistic WHERE starelid::regclass::text LIKE 'hitl_%'")
        for sql, params in statements.items():
            refuse_full_scans(sql, params, "force_generic_plan")
    finally:
        registry.unregister(filled_rows.GRAPH)


def note_statements(act: Callable[[], None]) -> dict[str, Any]:
    """Return the statements of a function with their parameters."""
    act()  # execute code that runs only once per process
    Thread.objects.filter(thread_id="talk").delete()
    Run.objects.filter(key="mine").update(key=None)
    seen: dict[str, Any] = {}

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip("(").startswith(PLANNED) and not many:
            seen.setdefault(sql, params)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        act()
    assert len(seen) > 2
    return seen


def refuse_full_scans(sql: str, params: Any, mode: str) -> None:
    faults = [fault for node in plan(sql, params, mode) if (fault := find_fault(node))]
    assert not faults, f"{mode}: {faults}\n{sql}"


def plan(sql: str, params: Any, mode: str) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a prepared statement's plan."""
    numbered, values = sql, list(params or ())
    for number in range(1, len(values) + 1):
        numbered = numbered.replace("%s", f"${number}", 1)
    numbered = numbered.replace("%%", "%")
    with transaction.atomic(), connection.cursor() as cursor:
        literal = psycopg.ClientCursor(connection.connection)
        given = ", ".join(literal.mogrify("%s", [value]) for value in values)
        types = ", ".join(map(find_type, values))
        cursor.execute(f"SET LOCAL plan_cache_mode = {mode}")
        cursor.execute(f"PREPARE planned{f'({types})' if types else ''} AS {numbered}")
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE planned{f'({given})' if given else ''}")
        ((found,),) = cursor.fetchall()
        cursor.execute("DEALLOCATE planned")
    yield from walk(found[0]["Plan"])


@pytest.mark.parametrize("database", ["full"], indirect=True)
@pytest.mark.parametrize("text", ["zebra", "ebr inside", "x"])
def test_queue_search_of_pending_interrupts_uses_trigram_index(text: str, database: str) -> None:
    found = queue_filters.Search.build(queue_filters.list_pending(None), text)
    sql, params = found.few.values("pk")[:100].query.sql_with_params()
    nodes = list(plan(sql, params, MODES[0]))
    assert "hitl_interrupt_grams" in {node.get("Index Name") for node in nodes}, nodes


@pytest.mark.parametrize("database", ["full"], indirect=True)
@pytest.mark.parametrize("model", [Interrupt, Decision, Run, Thread])
def test_admin_search_in_history_lists_reads_only_the_newest_rows(
    model: Any, database: str, rf: Any, admin_user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_filters, "SCANNED", 100)
    request = rf.get("/", {"q": "zebra"})
    request.user = admin_user
    searching: dict[str, Any] = {}

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "zebra" in str(params).lower():
            searching[sql] = params
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        admin.site.get_model_admin(model).get_changelist_instance(request)
    assert searching
    for sql, params in searching.items():
        faults = [fault for node in plan(sql, params, MODES[0]) if (fault := find_fault(node))]
        assert not faults, f"{faults}\n{sql}"


def find_type(value: Any) -> str:
    """Return the type with which a value is sent."""
    if isinstance(value, list):
        return "unknown"
    adapters = psycopg.adapt.Transformer(connection.connection)
    known = connection.connection.adapters.types.get(
        adapters.get_dumper(value, psycopg.adapt.PyFormat.AUTO).oid
    )
    return known.regtype if known is not None else "unknown"


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for each in node.get("Plans", ()):
        yield from walk(each)


def find_fault(node: dict[str, Any]) -> str:
    """Return a fault if a node reads a whole table or index, or an empty string."""
    if node["Node Type"] not in READING:
        return ""
    if node["Node Type"].endswith("Seq Scan"):
        table = node["Relation Name"]
        return f"reads all of {table}" if table in LARGE else ""
    index = node["Index Name"]
    is_narrow = "Index Cond" in node or index in indexes_of_what_waits()
    return "" if is_narrow else f"reads all of {index}"


def indexes_of_what_waits() -> set[str]:
    found = [*Interrupt._meta.indexes, *Run._meta.constraints, *Run._meta.indexes]
    partial = {each.name for each in found if getattr(each, "condition", None)}
    return partial - {"hitl_run_told", "hitl_run_starter", "hitl_interrupt_assignee"}
