"""Behaviour specific to DjangoSaver: fencing, digests and the number of queries."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, TypedDict
from unittest.mock import patch

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from hitl_django import END, START, StateGraph
from hitl_django.checkpoints import DjangoSaver, ThreadKey
from hitl_django.checkpoints import queries as saver_statements
from hitl_django.checkpoints.codec import codec
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.constants import KEYED, RESUME
from hitl_django.engine.errors import CorruptPayloadError, UnserializableError
from hitl_django.engine.savers.checkpoint import Commit, Outcome, TaskWrites
from hitl_django.engine.serde import Codec, digest
from hitl_django.errors import LeaseLostError
from hitl_django.leases import queries as lease_queries
from hitl_django.leases import thread_rows
from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite, Thread

from .test_conformance import TASK, checkpoint, place, put

pytestmark = pytest.mark.django_db


class Turnstile:
    """Fence that can be closed, and that counts its calls."""

    def __init__(self, *, shut: bool = False) -> None:
        self.shut, self.calls = shut, []

    def guard(self, batch: WriteBatch, outcome: Outcome | None) -> None:
        self.calls.append(("guard", outcome is not None))
        ours = {"thread": Thread.objects.get(thread_id="t").pk, "epoch": 2 if self.shut else 3}
        batch.guard(lease_queries.RELEASE, ours, LeaseLostError)

    def flag(self, batch: WriteBatch, interrupts: Any) -> None:
        raise AssertionError(interrupts)

    def settle(self, batch: WriteBatch, outcome: Outcome, step: int | None) -> None:
        self.calls.append(("settle", outcome.status, step))


def bound(fence: Turnstile) -> DjangoSaver:
    thread = Thread.objects.create(thread_id="t", epoch=3)
    return DjangoSaver(ThreadKey(thread.pk, "t", 3), fence)


def a_commit(outcome: Outcome | None = None, ns: str = "", thread: str = "t") -> Commit:
    stored = checkpoint({"a": 1}, {"a": 1})
    writes = [TaskWrites(TASK, "", [("a", 1)])]
    where = place(thread, ns, "0" * 36)
    return Commit(where, writes, stored, {"source": "loop", "step": 0}, {"a": 1}, outcome)


@pytest.mark.promise("P10")
@pytest.mark.django_db(transaction=True)
def test_django_saver_commit_without_valid_lease_raises_lease_lost_error_and_stores_no_rows() -> (
    None
):
    saver = bound(Turnstile(shut=True))
    for outcome in (None, Outcome("finished")):
        with pytest.raises(LeaseLostError):
            saver.commit(a_commit(outcome))
    assert not Checkpoint.objects.exists()
    assert not ChannelBlob.objects.exists()
    assert not PendingWrite.objects.exists()


def test_django_saver_checks_lease_at_each_commit_and_stores_run_outcome_at_the_last_commit() -> (
    None
):
    fence = Turnstile()
    saver = bound(fence)
    saver.commit(a_commit())
    saver.commit(a_commit(Outcome("finished")))
    assert fence.calls == [("guard", False), ("guard", True), ("settle", "finished", 0)]
    assert set(Checkpoint.objects.values_list("epoch", flat=True)) == {3}


def test_django_saver_stores_run_outcome_only_for_commit_of_root_graph() -> None:
    fence = Turnstile()
    bound(fence).commit(a_commit(Outcome("interrupted"), ns="child:1"))
    assert fence.calls == [("guard", False)]


def test_django_saver_commit_to_another_thread_does_not_check_the_lease() -> None:
    fence = Turnstile(shut=True)
    bound(fence).commit(a_commit(Outcome("finished"), thread="other"))
    assert fence.calls == []
    assert Checkpoint.objects.get().thread.thread_id == "other"


@pytest.mark.promise("P4")
def test_django_saver_commit_preserves_response_stored_concurrently_by_another_saver() -> None:
    saver = bound(Turnstile())
    config = put(saver, place(), {"a": 1}, 1)
    DjangoSaver().put_writes(config, [(RESUME, ["first", "given meanwhile"])], TASK)
    saver.commit(Commit(config, [TaskWrites(TASK, "", [(RESUME, ["first"])])]))
    DjangoSaver().put_writes(config, [(KEYED, {"a": 1, "b": "given meanwhile"})], TASK)
    saver.commit(Commit(config, [TaskWrites(TASK, "", [(KEYED, {"a": 1})])]))
    assert saver.get_tuple(config).pending_writes == [
        (TASK, KEYED, {"a": 1, "b": "given meanwhile"}),
        (TASK, RESUME, ["first", "given meanwhile"]),
    ]


@pytest.mark.promise("P14")
def test_django_saver_commit_of_unstorable_value_raises_unserializable_error_without_rows() -> None:
    commit = a_commit()
    commit.checkpoint["channel_values"]["a"] = {"deep": [object()]}
    with pytest.raises(UnserializableError) as caught:
        DjangoSaver().commit(commit)
    assert caught.value.path == "$.a.deep[0]"
    assert not PendingWrite.objects.exists()
    assert not Thread.objects.exists()


@pytest.mark.promise("P14")
@pytest.mark.parametrize(
    ("model", "column"),
    [
        (Checkpoint, "data"),
        (Checkpoint, "metadata"),
        (Checkpoint, "scalars"),
        (Checkpoint, "writes"),
        (ChannelBlob, "data"),
        (PendingWrite, "data"),
    ],
)
def test_django_saver_reading_damaged_row_raises_corrupt_payload_error(
    model: Any, column: str
) -> None:
    saver = DjangoSaver()
    first = put(saver, place(), {"a": ["value"], "b": 1}, 1)
    stored = checkpoint({"a": ["value"], "b": 1}, {"a": 1, "b": 1})
    saver.commit(Commit(first, [TaskWrites(TASK, "", [("b", 1)])], stored, {}, {}))
    config = place(checkpoint=stored["id"])
    saver.put_writes(config, [("a", "value")], TASK)
    row = model.objects.order_by("-pk")[0]
    damaged = bytearray(getattr(row, column))
    damaged[-1] ^= 1
    model.objects.filter(pk=row.pk).update(**{column: bytes(damaged)})
    with pytest.raises(CorruptPayloadError):
        saver.get_tuple(config)


@pytest.mark.parametrize("steps", [1, 40])
def test_django_saver_get_tuple_takes_two_queries_for_any_number_of_checkpoints(steps: int) -> None:
    saver = DjangoSaver()
    config = place()
    for number in range(steps):
        values = {"log": list(range(number)), f"side{number % 3}": number}
        config = put(saver, config, values, number + 1)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        saver.get_tuple(place())
    assert len(queries) == 2


def test_django_saver_get_tuple_of_small_state_takes_one_query() -> None:
    saver = DjangoSaver()
    put(saver, place(), {"count": 1, "note": "short"}, 1)
    with CaptureQueriesContext(connection) as queries:
        saver.get_tuple(place())
    assert len(queries) == 1


def test_django_saver_reads_checkpoint_row_stored_without_completeness_flag() -> None:
    # Earlier versions stored rows without the flag.
    saver = DjangoSaver()
    put(saver, place(), {"count": 1, "note": "short"}, 1)
    row = Checkpoint.objects.get()
    assert codec.decode(row.scalars) == [{"count": 1, "note": "short"}]
    row.scalars = codec.encode({"count": 1, "note": "short"})
    parts = (row.data, row.metadata, row.scalars, row.writes)
    row.digest = digest(b"".join(bytes(part) for part in parts))
    row.save()
    found = saver.get_tuple(place())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"count": 1, "note": "short"}


def test_django_saver_get_tuple_does_not_read_outdated_channel_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saver = DjangoSaver()
    config, versions = place(), {}
    for number in range(1, 31):
        # Every step changes the log. One channel never changes again, so each of its old versions
        # is still the newest.
        versions = {**versions, "log": number, f"side{number}": number}
        values = {"log": "x" * 1000, **{name: 1 for name in versions if name != "log"}}
        config = saver.put(
            config,
            checkpoint(values, versions),
            {"source": "loop", "step": number},
            {"log": number, f"side{number}": number},
        )
    read: list[int] = []
    monkeypatch.setattr(
        "hitl_django.checkpoints.checkpoint_reader.verify",
        lambda data, stored, what: read.append(len(bytes(data))) or bytes(data),
    )
    assert saver.get_tuple(place()).checkpoint["channel_values"] == values
    assert sum(read) < 5_000


def test_django_saver_list_page_takes_three_queries() -> None:
    saver = DjangoSaver()
    config = place()
    for number in range(20):
        config = put(saver, config, {"a": [number]}, number + 1)
    with CaptureQueriesContext(connection) as queries:
        assert len(list(saver.list(place(), limit=20))) == 20
    assert len(queries) == 3


def test_django_saver_query_for_newest_checkpoint_reads_index_without_sorting() -> None:
    text, values = saver_statements.NEWEST.ready(connection, {"thread_id": "t", "ns": ""})
    with connection.cursor() as cursor:
        explain = "EXPLAIN QUERY PLAN "
        if connection.vendor == "postgresql":
            # With few rows, the planner sorts regardless of indexes. These settings make it use the
            # indexes.
            cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off")
            explain = "EXPLAIN "
        cursor.execute(explain + text, values)
        plan = str(cursor.fetchall())
    assert "hitl_checkpoint_id" in plan or "thread_id=? AND ns=?" in plan
    assert "Sort" not in plan
    assert "TEMP B-TREE" not in plan


@pytest.mark.django_db(transaction=True)
def test_django_saver_commit_takes_one_statement_on_postgresql_and_two_on_sqlite() -> None:
    saver = bound(Turnstile())
    with CaptureQueriesContext(connection) as queries:
        saver.commit(a_commit())
    said = [query["sql"].split()[0] for query in queries][1:]  # the fence is checked first
    if connection.vendor == "postgresql":
        assert said == ["WITH"]
    else:
        assert said == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("shut", [False, True])
def test_django_saver_commit_of_4000_writes_is_stored_completely_or_rolled_back(shut: bool) -> None:
    saver = bound(Turnstile(shut=shut))
    tasks = [TaskWrites(f"task {at:05}", "", [("a", at)]) for at in range(4000)]
    commit = a_commit()
    commit.writes = tasks
    if shut:
        with pytest.raises(LeaseLostError):
            saver.commit(commit)
    else:
        saver.commit(commit)
    stored = 0 if shut else len(tasks)
    assert (PendingWrite.objects.count(), Checkpoint.objects.count()) == (stored, 1 - shut)


@pytest.mark.django_db(transaction=True)
def test_leased_django_saver_commit_inside_transaction_raises_runtime_error() -> None:
    saver = bound(Turnstile())
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        saver.commit(a_commit())


def test_saver_delete_thread_leaves_the_thread_row_if_the_thread_has_runs() -> None:
    from hitl_django.models import Run

    saver = DjangoSaver()
    put(saver, place(), {"a": 1}, 1)
    thread = Thread.objects.get()
    Run.objects.create(thread=thread, graph="approval")
    saver.delete_thread("t")
    assert not Checkpoint.objects.exists()
    assert Thread.objects.filter(pk=thread.pk).exists()


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.django_db(transaction=True)
def test_django_saver_commit_uses_thread_row_created_concurrently(within: bool) -> None:
    theirs = Thread.objects.create(thread_id="t")
    saver, unbound = DjangoSaver(), a_commit()
    row = thread_rows.ThreadRow(theirs.pk, 0, "", None)
    looked = patch.object(thread_rows, "find_thread", side_effect=[None, row])
    with looked, transaction.atomic() if within else nullcontext():
        saver.commit(unbound)
    assert Thread.objects.get() == theirs
    assert Checkpoint.objects.get().thread == theirs


@pytest.mark.django_db(transaction=True)
def test_django_saver_put_creates_thread_again_after_another_saver_deleted_it() -> None:
    saver = DjangoSaver()
    put(saver, place(), {"a": 1}, 1)
    DjangoSaver().delete_thread("t")
    put(saver, place(), {"a": 2}, 1)
    found = saver.get_tuple(place())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": 2}


@pytest.mark.django_db(transaction=True)
def test_django_saver_put_in_transaction_creates_thread_deleted_in_that_transaction() -> None:
    saver = DjangoSaver()
    put(saver, place(), {"a": 1}, 1)
    with transaction.atomic():
        DjangoSaver().delete_thread("t")
        put(saver, place(), {"a": 2}, 1)
    found = DjangoSaver().get_tuple(place())
    assert found is not None
    assert found.checkpoint["channel_values"] == {"a": 2}


@pytest.mark.django_db(transaction=True)
def test_leased_django_saver_does_not_retry_commit_after_integrity_error() -> None:
    saver = bound(Turnstile())
    with (
        patch.object(WriteBatch, "commit", side_effect=IntegrityError) as tried,
        pytest.raises(IntegrityError),
    ):
        saver.commit(a_commit())
    assert tried.call_count == 1


@pytest.mark.django_db(transaction=True)
def test_django_saver_put_after_rollback_does_not_reuse_rolled_back_thread_key() -> None:
    saver = DjangoSaver()
    with transaction.atomic():
        put(saver, place(), {"a": 1}, 1)
        transaction.set_rollback(True)
    Thread.objects.create(thread_id="another, perhaps under the same key")
    put(saver, place(), {"a": 2}, 1)
    assert Checkpoint.objects.get().thread.thread_id == "t"


def test_django_saver_list_page_does_not_build_its_query_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    saver, config = DjangoSaver(), place()
    for number in range(6):
        config = put(saver, config, {"a": number}, number + 1)

    def page(**which: Any) -> list[Any]:
        return [one.checkpoint["channel_values"]["a"] for one in saver.list(place(), **which)]

    first = page(limit=2), page(limit=2, before=config)

    def made_anew() -> Any:
        raise AssertionError("the query was made anew")

    monkeypatch.setattr(saver_statements, "checkpoints", made_anew)
    assert (page(limit=2), page(limit=2, before=config)) == first == ([5, 4], [4, 3])


class Counted(TypedDict):
    n: int


def test_django_saver_list_page_decodes_only_the_returned_checkpoints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded = []
    decode = Codec.decode

    def counted(codec: Codec, data: Any) -> Any:
        decoded.append(data)
        return decode(codec, data)

    monkeypatch.setattr(Codec, "decode", counted)
    taken, filtered = [], []
    for steps in (20, 100):
        graph = StateGraph(Counted).add_node("a", lambda state: {"n": state["n"] + 1})
        graph.add_edge(START, "a")
        graph.add_conditional_edges("a", lambda state, n=steps: "a" if state["n"] < n else END)
        saver = DjangoSaver()
        app = graph.compile(checkpointer=saver)
        config: Any = {"configurable": {"thread_id": f"of {steps}"}, "recursion_limit": 1000}
        app.invoke({"n": 0}, config)
        decoded.clear()
        page = list(saver.list(config, limit=3))
        assert [one.checkpoint["channel_values"]["n"] for one in page] == [
            steps, steps - 1, steps - 2,
        ]  # fmt: skip
        taken.append(len(decoded))
        decoded.clear()
        assert [one.metadata["step"] for one in saver.list(config, filter={"step": 2})] == [2]
        filtered.append(len(decoded) - steps)  # the metadata of each checkpoint, for the filter
    assert taken[0] == taken[1] < 25
    assert filtered[0] == filtered[1] < 10
