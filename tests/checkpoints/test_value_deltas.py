"""Growing lists and dicts: stored as additions and read completely."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest
from django.db import connection, transaction
from django.db.models import Sum
from django.db.models.functions import Length
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from hitl_django.checkpoints import DjangoSaver, ThreadKey, maintenance, value_deltas
from hitl_django.engine.constants import END, START
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.serde import Codec
from hitl_django.engine.state.messages import MessagesState
from hitl_django.models import ChannelBlob, Checkpoint, Run, Thread

from .test_conformance import checkpoint, place

real = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_deltas, "MIN_BYTES", 20)
    monkeypatch.setattr(value_deltas, "SEAL_INTERVAL", 4)


class Log(TypedDict, total=False):
    log: Annotated[list[Any], operator.add]
    n: int


def counting(schema: Any, update: Any, steps: int) -> Any:
    graph = StateGraph(schema).add_node("a", update).add_edge(START, "a")
    return graph.add_conditional_edges("a", lambda state: "a" if state["n"] < steps else END)


def logging(steps: int) -> Any:
    def update(state: Any) -> Any:
        return {"log": [f"message {state['n']:05}"], "n": state["n"] + 1}

    return counting(Log, update, steps)


def put_log(saver: Any, config: Any, log: list[Any], **metadata: Any) -> Any:
    version = saver.get_next_version(len(log) << 32, None)
    stored = checkpoint({"log": log}, {"log": version})
    return saver.put(config, stored, {"source": "loop", "step": 0, **metadata}, {"log": version})


def grown(saver: Any, steps: int, config: Any = None, log: Any = (), **metadata: Any) -> list[Any]:
    configs, log = [config or place()], [*log]
    for number in range(steps):
        log.append(f"item {number} of many")
        configs.append(put_log(saver, configs[-1], log, **metadata))
    return configs[1:]


def logs(saver: Any, configs: list[Any]) -> list[Any]:
    return [saver.get_tuple(config).checkpoint["channel_values"]["log"] for config in configs]


def parts() -> int:
    return sum(
        value_deltas.is_delta(bytes(row))
        for row in ChannelBlob.objects.values_list("data", flat=True)
    )


# The rows themselves, without a database.

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
items = st.one_of(st.integers(), texts, st.lists(st.integers(), max_size=3))
changes = st.one_of(
    st.tuples(st.just("add"), st.lists(items, max_size=20)),
    st.tuples(st.just("cut"), st.integers(0, 5)),
    st.tuples(st.just("change"), items),
    st.tuples(st.just("back"), st.integers(0, 8)),
)


@pytest.mark.promise("P14")
@given(st.lists(changes, max_size=40), st.booleans())
def test_every_version_of_changing_list_is_restored_byte_for_byte_from_deltas(
    steps: list[Any], is_dict: bool
) -> None:
    codec, rows, history = Codec(), {}, []
    value, tip = ["x" * 30], None

    def shaped(value: list[Any]) -> Any:
        return {f"key {at}": item for at, item in enumerate(value)} if is_dict else value

    for version, (kind, by) in enumerate(steps, 1):
        if kind == "add":
            value = value + by
        elif kind == "cut":
            value = value[: len(value) - by]
        elif kind == "change" and value:
            value = [by, *value[1:]]
        elif kind == "back" and history:
            # A fork: the value and the tip of an earlier version.
            value, tip = history[-1 - by % len(history)]
        data = codec.encode(shaped(value))
        rows["log", version], tip = value_deltas.encode_version(tip, version, data)
        history.append((value, tip))
    for version, (value, tip) in enumerate(history, 1):
        data, found = value_deltas.restore_value("log", version, rows)
        assert data == codec.encode(shaped(value))
        assert found == tip


def series(count: int) -> tuple[dict[Any, Any], list[Any]]:
    codec, rows, tip, value = Codec(), {}, None, ["x" * 30]
    for version in range(1, count + 1):
        value = [*value, f"item {version}"]
        rows["log", version], tip = value_deltas.encode_version(tip, version, codec.encode(value))
    return rows, value


@pytest.mark.promise("P14")
def test_modified_byte_in_delta_rows_raises_corrupt_payload_error_or_restores_equal_value() -> None:
    rows, value = series(6)
    sound = Codec().encode(value)
    refused = 0
    for key, (data, stored) in rows.items():
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 0x55
            try:
                found = value_deltas.restore_value(
                    "log", 6, {**rows, key: (bytes(damaged), stored)}
                )[0]
            except CorruptPayloadError:
                refused += 1
            else:
                assert found == sound
    assert refused > 80


@pytest.mark.promise("P14")
def test_missing_or_unknown_delta_row_raises_corrupt_payload_error() -> None:
    rows, _ = series(6)
    for version, *_ in value_deltas._trace("log", 6, rows):
        less = {key: row for key, row in rows.items() if key[1] != version}
        with pytest.raises(CorruptPayloadError):
            value_deltas.restore_value("log", 6, less)
    data, stored = rows["log", 6]
    assert value_deltas.is_delta(data)
    for damaged in (data[:1] + b"\x02" + data[2:], data[:10]):
        with pytest.raises(CorruptPayloadError):
            value_deltas.restore_value("log", 6, {**rows, ("log", 6): (damaged, stored)})


@pytest.mark.slow
def test_delta_rows_of_growing_list_store_each_item_at_most_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(value_deltas, "SEAL_INTERVAL", 64)
    for count in (64, 640, 6400):
        rows, value = series(count)
        heads = sum(
            part.size for data, _ in rows.values() if (part := value_deltas.read_delta(data))
        )
        stored = sum(len(data) for data, _ in rows.values()) - heads
        assert stored < 2 * len(Codec().encode(value))
        assert heads / count < 30 + count / 64 / 8


def test_long_list_is_restored_from_at_most_64_rows_plus_one_per_64_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(value_deltas, "SEAL_INTERVAL", 64)
    rows, value = series(2000)
    for version in (1, 2, 64, 65, 66, 129, 1999, 2000):
        needed = value_deltas._trace("log", version, rows)
        assert len(needed) <= 64 + version // 64
        less = {("log", one): rows["log", one] for one, *_ in needed}
        length = len(value) - 2000 + version
        assert value_deltas.restore_value("log", version, less)[0] == Codec().encode(value[:length])


# With the saver.


@real
@pytest.mark.promise("P14")
def test_message_thread_has_equal_history_in_django_saver_and_memory_saver() -> None:
    def update(state: Any) -> Any:
        n = state["n"]
        spoken = [{"role": "ai", "content": f"message {n}", "id": str(n)}]
        # Some steps correct an earlier item, so that the list isn't only extended.
        if n % 7 == 6:
            spoken.append({"role": "ai", "content": "corrected", "id": str(n - 3)})
        return {"messages": spoken, "n": n + 1}

    class Talk(MessagesState):
        n: int

    found = []
    for saver in (InMemorySaver(), DjangoSaver()):
        graph = counting(Talk, update, 30).compile(checkpointer=saver)
        for _ in range(2):
            graph.invoke({"messages": [], "n": 0}, place())
        found.append([one.values for one in graph.get_state_history(place())])
    assert found[0] == found[1]
    assert parts() > 30


@real
def test_stored_size_per_step_does_not_grow_with_length_of_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(value_deltas, "SEAL_INTERVAL", 16)
    saver, sizes = DjangoSaver(), {}
    for steps in (40, 160):
        name = f"of {steps}"
        logging(steps).compile(checkpointer=saver).invoke({"log": [], "n": 0}, place(name))
        blobs = ChannelBlob.objects.filter(thread__thread_id=name, channel="log")
        sizes[steps] = blobs.aggregate(size=Sum(Length("data")))["size"] / steps
    assert sizes[160] < 1.5 * sizes[40]


@real
def test_growing_list_continued_by_new_saver_is_restored_completely() -> None:
    for steps in range(3, 20):
        logging(steps).compile(checkpointer=DjangoSaver()).invoke({"n": steps - 1}, place())
    values = logging(0).compile(checkpointer=DjangoSaver()).get_state(place()).values
    assert values["log"] == [f"message {n:05}" for n in range(2, 19)]
    assert parts() > 10


@real
def test_two_branches_of_growing_list_continued_by_different_savers_are_restored() -> None:
    saver = DjangoSaver()
    configs = grown(saver, 6)
    left = grown(saver, 4, configs[3], logs(saver, configs)[3])
    right = grown(DjangoSaver(), 4, configs[3], logs(saver, configs)[3])
    trunk = [f"item {n} of many" for n in range(4)]
    branch = [f"item {n} of many" for n in range(4)]
    assert logs(saver, [left[-1], right[-1]]) == [trunk + branch] * 2
    assert logs(DjangoSaver(), configs)[-1] == [f"item {n} of many" for n in range(6)]


@real
def test_get_tuple_of_long_list_takes_four_queries_and_a_page_of_saver_list_takes_five() -> None:
    said = []
    for steps in (20, 200):
        saver = DjangoSaver()
        grown(saver, steps, place(f"of {steps}"))
        with CaptureQueriesContext(connection) as queries:
            saver.get_tuple(place(f"of {steps}"))
        said.append(len(queries))
        with CaptureQueriesContext(connection) as queries:
            page = list(saver.list(place(f"of {steps}"), limit=10))
        said.append(len(queries))
        lengths = [len(one.checkpoint["channel_values"]["log"]) for one in page]
        assert lengths == list(range(steps, steps - 10, -1))
    assert said == [4, 5, 4, 5]


@real
def test_prune_leaves_delta_rows_needed_by_newest_list() -> None:
    saver = DjangoSaver()
    grown(saver, 40)
    rows = ChannelBlob.objects.count()
    saver.prune(["t"])
    assert Checkpoint.objects.count() == 1
    assert 1 < ChannelBlob.objects.count() < rows
    for reader in (saver, DjangoSaver()):
        [log] = logs(reader, [place()])
        assert log == [f"item {n} of many" for n in range(40)]
    put_log(saver, saver.get_tuple(place()).config, [*log, "one more"])
    assert logs(DjangoSaver(), [place()]) == [[*log, "one more"]]


@real
def test_delete_for_runs_leaves_delta_rows_continued_by_later_runs() -> None:
    saver = DjangoSaver()
    first = grown(saver, 10, run_id="one")
    later = grown(saver, 3, first[-1], logs(saver, first)[-1], run_id="two")
    before = logs(saver, later)
    saver.delete_for_runs(["one"])
    assert logs(DjangoSaver(), later) == before
    saver.delete_for_runs(["two"])
    assert not ChannelBlob.objects.exists()


@real
def test_copied_thread_with_deltas_is_readable_after_source_is_deleted() -> None:
    saver = DjangoSaver()
    grown(saver, 12)
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert len(logs(saver, [place("copy")])[0]) == 12


@real
def test_saver_stores_no_delta_of_a_list_that_was_rolled_back() -> None:
    saver = DjangoSaver()
    configs = grown(saver, 5)
    log = logs(saver, configs)[-1]
    with transaction.atomic():
        lost = put_log(saver, configs[-1], [*log, "never stored"])
        saver.get_tuple(lost)
        transaction.set_rollback(True)
    kept = put_log(saver, configs[-1], [*log, "never stored", "stored"])
    assert logs(DjangoSaver(), [kept]) == [[*log, "never stored", "stored"]]


@real
def test_saver_in_a_service_transaction_stores_a_delta_of_the_stored_list() -> None:
    log = logs(DjangoSaver(), grown(DjangoSaver(), 1) + grown(DjangoSaver(), 5))[-1]
    with transaction.atomic():
        saver = DjangoSaver(ThreadKey(Thread.objects.get().pk, "t"))
        put_log(saver, saver.get_tuple(place()).config, [*log, "the next turn"])
    assert logs(DjangoSaver(), [place()]) == [[*log, "the next turn"]]
    assert value_deltas.is_delta(bytes(ChannelBlob.objects.order_by("-pk")[0].data))


@real
@pytest.mark.parametrize("row_stays", [True, False], ids=["with runs", "without"])
def test_saver_stores_no_delta_of_a_list_that_another_saver_deleted(row_stays: bool) -> None:
    saver = DjangoSaver()
    log = logs(saver, grown(saver, 5))[-1]
    if row_stays:
        Run.objects.create(thread=Thread.objects.get(), graph="x", state=Run.State.SUCCEEDED)
    DjangoSaver().delete_thread("t")
    if row_stays:
        saver.get_tuple(place())  # as at the start of every run
    put_log(saver, place(), [*log, "anew"])
    assert logs(DjangoSaver(), [place()]) == [[*log, "anew"]]


@real
@pytest.mark.parametrize("act", ["prune_to_latest", "delete_runs"])
def test_saver_stores_no_delta_based_on_rows_read_while_they_are_being_deleted(
    act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    saver = DjangoSaver()
    line = grown(saver, 8, run_id="one")
    log = logs(saver, line)[-1]
    grown(saver, 4, line[3], log[:4], run_id="one")  # the newest is on another branch
    act_on = getattr(maintenance, act)

    def meanwhile(*args: Any) -> None:
        saver.get_tuple(line[-1])  # as another OS thread does
        act_on(*args)

    monkeypatch.setattr(maintenance, act, meanwhile)
    if act == "delete_runs":
        saver.delete_for_runs(["one"])
    else:
        saver.prune(["t"])
    put_log(saver, place(), [*log, "anew"])
    assert logs(DjangoSaver(), [place()]) == [[*log, "anew"]]


@real
@pytest.mark.promise("P14")
def test_damaged_or_deleted_delta_row_in_database_raises_corrupt_payload_error() -> None:
    grown(DjangoSaver(), 8)
    row = ChannelBlob.objects.order_by("-version")[2]
    assert value_deltas.is_delta(bytes(row.data))
    ChannelBlob.objects.filter(pk=row.pk).update(data=bytes(row.data)[:-1] + b"?")
    with pytest.raises(CorruptPayloadError):
        DjangoSaver().get_tuple(place())
    row.delete()
    with pytest.raises(CorruptPayloadError):
        DjangoSaver().get_tuple(place())
