"""Write batches: stored completely or not at all."""

from __future__ import annotations

import uuid
from contextlib import nullcontext
from typing import Any

import pytest
from django.db import IntegrityError, connection, models, transaction
from django.db.models import Q

from hitl_django.db.bulk_insert import BulkInsert, insertable_columns
from hitl_django.db.prepared_query import Parameter, PreparedSelect, PreparedUpdate
from hitl_django.db.write_batch import WriteBatch
from hitl_django.models import Run, Thread
from tools.benchmarks.counts import counting

pytestmark = pytest.mark.django_db(transaction=True)

RENAME = PreparedUpdate(
    Thread,
    Q(thread_id=Parameter("name", models.TextField())),
    lambda: {"graph": Parameter("graph", models.TextField())},
)
FIND = PreparedSelect(
    lambda: Thread.objects.filter(thread_id=Parameter("name", models.TextField())).values_list(
        "pk"
    ),
    lock=True,
)
THREAD = BulkInsert(Thread, insertable_columns(Thread), fresh=True)
RUN = BulkInsert(Run, insertable_columns(Run), fresh=True)
OTHERS = BulkInsert(Thread, insertable_columns(Thread))


class Missing(Exception):
    """Error about a missing row."""


def batch(*names: str) -> WriteBatch:
    made = WriteBatch("default")
    for name in names:
        made.guard(RENAME, {"name": name, "graph": "new"}, Missing)
    return made


@pytest.fixture
def threads() -> list[str]:
    names = [str(uuid.uuid4()) for _ in range(2)]
    for name in names:
        Thread.objects.create(thread_id=name, graph="old")
    return names


def graphs() -> list[str]:
    return list(Thread.objects.order_by("pk").values_list("graph", flat=True))


def test_write_batch_whose_guards_all_match_writes_all_rows(threads: list[str]) -> None:
    assert batch(*threads).commit() == [(), ()]
    assert graphs() == ["new", "new"]


@pytest.mark.database("sqlite")
def test_write_batch_with_failed_second_guard_writes_no_rows(threads: list[str]) -> None:
    with pytest.raises(Missing):
        batch(threads[0], "nobody").commit()
    assert graphs() == ["old", "old"]
    assert not connection.connection.in_transaction


def test_write_batch_in_transaction_with_failed_second_guard_writes_no_rows(
    threads: list[str],
) -> None:
    with pytest.raises(Missing), transaction.atomic():
        batch(threads[0], "nobody").run()
    assert graphs() == ["old", "old"]


def test_write_batch_skips_statements_and_callbacks_after_a_failed_guard(
    threads: list[str],
) -> None:
    done: list[str] = []
    made = WriteBatch("default")
    for name in ("nobody", threads[0]):
        made.guard(RENAME, {"name": name, "graph": "new"})
    made.before_commit(lambda: done.append("within"))
    made.after_write(lambda: done.append("behind"))
    assert made.commit() == []
    assert (graphs(), done) == (["old", "old"], [])


def test_write_batch_calls_before_commit_in_the_transaction_and_after_write_after_it(
    threads: list[str],
) -> None:
    seen: list[Any] = []
    made = batch(*threads)
    made.before_commit(lambda: seen.append(("within", connection.in_atomic_block, graphs())))
    made.after_write(lambda: seen.append(("behind", graphs())))
    made.commit()
    assert seen == [("within", True, ["new", "new"]), ("behind", ["new", "new"])]


@pytest.mark.database("sqlite")
def test_write_batch_stopped_by_keyboard_interrupt_before_commit_is_rolled_back(
    threads: list[str],
) -> None:
    made = batch(*threads)

    def fail() -> None:
        raise KeyboardInterrupt

    made.before_commit(fail)
    with pytest.raises(KeyboardInterrupt):
        made.commit()
    assert graphs() == ["old", "old"]
    assert not connection.connection.in_transaction


# A row with dependent rows.


def begun(name: str, runs: int) -> tuple[WriteBatch, Thread]:
    """Return the statements that insert a thread and its run. At most one run is active."""
    made, thread = WriteBatch("default"), Thread(thread_id=name)
    made.insert_first(THREAD, thread)
    for _ in range(runs):
        made.insert(RUN, [RUN.values_of(Run(thread_id=thread.pk, graph=name, state="failed"))])
    thread.graph = "named since"
    return made, thread


@pytest.mark.parametrize("is_inner", [False, True], ids=["alone", "in a transaction"])
def test_write_batch_inserts_child_rows_with_key_of_parent_inserted_in_the_batch(
    is_inner: bool,
) -> None:
    for name in ("a", "b"):
        made, thread = begun(name, 2)
        with transaction.atomic() if is_inner else nullcontext(), counting() as counts:
            made.commit()
        stored = Thread.objects.get(thread_id=name)
        assert (thread.pk, stored.graph) == (stored.pk, "named since")
        assert [run.graph for run in stored.runs.all()] == [name, name]
        control = 2 if connection.vendor == "sqlite" else 1
        assert counts.statements == control


def test_write_batch_inserting_existing_row_raises_integrity_error_and_writes_no_rows() -> None:
    Thread.objects.create(thread_id="a")
    made, _ = begun("a", 1)
    with pytest.raises(IntegrityError):
        made.commit()
    assert (Thread.objects.count(), Run.objects.count()) == (1, 0)
    assert not connection.in_atomic_block


# One statement.


@pytest.mark.parametrize("is_inner", [False, True], ids=["alone", "in a transaction"])
def test_write_batch_insert_conditional_on_lock_takes_one_statement(is_inner: bool) -> None:
    Thread.objects.create(thread_id="found")
    for name, expected in (("found", ["found", "new"]), ("nobody", ["found", "new"])):
        made = WriteBatch("default")
        made.lock(FIND, {"name": name}, Missing)
        made.insert(THREAD, [THREAD.values_of(Thread(thread_id="new" if name == "found" else ""))])
        met = pytest.raises(Missing) if name == "nobody" else nullcontext()
        with counting() as counts, transaction.atomic() if is_inner else nullcontext(), met:
            assert made.commit() == [()]
        assert counts.statements == 1
        assert [*Thread.objects.order_by("pk").values_list("thread_id", flat=True)] == expected


@pytest.mark.parametrize("name", ["found", "nobody"])
def test_write_batch_with_several_inserts_needs_no_statement_for_its_lock(name: str) -> None:
    Thread.objects.create(thread_id="found")
    made = WriteBatch("default")
    made.lock(FIND, {"name": name}, Missing)
    made.insert(OTHERS, [OTHERS.values_of(Thread(thread_id=each)) for each in ("found", "b")])
    made.insert(THREAD, [THREAD.values_of(Thread(thread_id="c"))])
    with counting() as counts, nullcontext() if name == "found" else pytest.raises(Missing):
        made.commit()
    found = {*Thread.objects.values_list("thread_id", flat=True)}
    assert found == ({"found", "b", "c"} if name == "found" else {"found"})
    assert counts.statements == (2 if connection.vendor == "sqlite" and name == "found" else 1)


def test_write_batch_with_optional_insert_and_failed_guard_writes_no_rows() -> None:
    Thread.objects.create(thread_id="found")
    made = WriteBatch("default")
    made.lock(FIND, {"name": "found"}, Missing)
    made.insert(OTHERS, [OTHERS.values_of(Thread(thread_id="found", graph="another"))])
    assert made.commit() == [()]
    assert graphs() == [""]
    made = WriteBatch("default")
    made.lock(FIND, {"name": "nobody"}, Missing)
    made.insert(OTHERS, [OTHERS.values_of(Thread(thread_id="new"))])
    with pytest.raises(Missing):
        made.commit()
    assert Thread.objects.count() == 1


def test_durable_write_batch_inside_transaction_raises_runtime_error(threads: list[str]) -> None:
    transaction.set_autocommit(False)
    try:
        with pytest.raises(RuntimeError, match="Autocommit is off"):
            batch(*threads).commit(durable=True)
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        batch(*threads).commit(durable=True)
    assert graphs() == ["old", "old"]
