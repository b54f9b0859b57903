"""Versions of wide states: stored as changes and read completely."""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from django.db import connection, transaction
from django.db.models import F, Sum
from django.db.models.functions import Length
from django.test.utils import CaptureQueriesContext
from hypothesis import given
from hypothesis import strategies as st

from hitl_django.checkpoints import DjangoSaver, ThreadKey, version_deltas
from hitl_django.checkpoints.codec import codec
from hitl_django.checkpoints.value_deltas import ValueTip
from hitl_django.checkpoints.write_cache import WriteCache
from hitl_django.engine.constants import END, START
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.graph.state_graph import StateGraph
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.serde import digest
from hitl_django.models import ChannelBlob, Checkpoint, Thread

from .test_conformance import checkpoint, place

real = pytest.mark.django_db(transaction=True)
WIDTH = 120
KEYS = [f"key{at}" for at in range(WIDTH)]
Wide: Any = TypedDict("Wide", {**dict.fromkeys(KEYS, str), "n": int}, total=False)  # type: ignore[misc]


def turning(steps: int, every: int = WIDTH) -> Any:
    """Return a graph that changes one key of many in each step."""

    def update(state: Any) -> Any:
        return {f"key{state['n'] % every}": f"changed in {state['n']}", "n": state["n"] + 1}

    graph = StateGraph(Wide).add_node("a", update).add_edge(START, "a")
    return graph.add_conditional_edges("a", lambda state: "a" if state["n"] < steps else END)


def wide() -> dict[str, Any]:
    return {**dict.fromkeys(KEYS, "at first"), "n": 0}


def put_wide(saver: Any, config: Any, changed: dict[str, int], **metadata: Any) -> Any:
    names = {**dict.fromkeys(KEYS, 1), **changed}
    stored = checkpoint(dict(names), names)
    stored["versions_seen"] = {"node": dict(changed)}
    return saver.put(config, stored, {"source": "loop", "step": 0, **metadata}, names)


def chain(saver: Any, steps: int, config: Any = None, first: int = 2, **metadata: Any) -> list[Any]:
    configs, changed = [config or place()], {}
    for version in range(first, first + steps):
        changed[f"key{version % WIDTH}"] = version
        configs.append(put_wide(saver, configs[-1], changed, **metadata))
    return configs[1:]


def found(configs: list[Any], saver: Any = None) -> list[Any]:
    return [(saver or DjangoSaver()).get_tuple(config).checkpoint for config in configs]


def bases() -> Any:
    return ChannelBlob.objects.filter(channel__startswith=version_deltas.PREFIX).order_by("version")


# Stored rows, without a database.

names = st.sampled_from([f"name{at}" for at in range(90)])
maps = st.dictionaries(names, st.integers(0, 2**63 - 1), max_size=8)
steps = st.tuples(maps, st.sets(names, max_size=8), st.dictionaries(names, maps, max_size=3))


@pytest.mark.promise("P14")
@given(st.lists(steps, max_size=30))
def test_channel_versions_of_every_checkpoint_are_restored_from_base_and_differences(
    changes: list[Any],
) -> None:
    now, seen = {f"name{at}": at for at in range(80)}, {"node": {"name1": 1}}
    stored, rows, base, saved = [], {}, None, []
    for number, (changed, gone, read) in enumerate(changes):
        now = {name: one for name, one in {**now, **changed}.items() if name not in gone}
        seen = {name: one for name, one in {**seen, **read}.items() if name not in gone}
        head = {"v": 4, "id": str(number), "channel_versions": now, "versions_seen": seen}
        saved.append(head)
        record, base, row = version_deltas.encode_head(head, base)
        if row is not None:
            rows[base.key] = row
        stored.append(codec.encode_record(record))
    for head, data in zip(saved, stored, strict=True):
        record = codec.decode(data)
        key = version_deltas.base_key(record)
        assert key is not None
        opened = version_deltas.decode_base(key, rows[key], digest(rows[key]))
        assert version_deltas.restore_head(record, {key: opened}) == head


@pytest.mark.parametrize("width", [100, 300, 1000])
def test_stored_size_of_channel_versions_grows_with_square_root_of_their_number(width: int) -> None:
    now, base, size = dict.fromkeys(map(str, range(width)), 1), None, 0
    for number in range(2, 500):
        now = {**now, str(number % width): number << 32}
        head = {"channel_versions": now, "versions_seen": {"node": {"a": number}}}
        record, base, row = version_deltas.encode_head(head, base)
        size += len(codec.encode_record(record)) + len(row or b"")
    assert size / 500 < 2.5 * (2 * width) ** 0.5 * len(codec.encode({"999": 1 << 40}))


# With the saver.


@real
@pytest.mark.promise("P14")
def test_thread_with_many_channels_has_equal_history_in_django_saver_and_memory_saver() -> None:
    histories = []
    for saver in (InMemorySaver(), DjangoSaver()):
        graph = turning(60).compile(checkpointer=saver)
        graph.invoke(wide(), place())
        graph.update_state(place(), {"key3": "by hand"})
        graph.invoke({"n": 50}, place())
        histories.append([one.values for one in graph.get_state_history(place())])
    assert histories[0] == histories[1]
    assert 2 < bases().count() < 20


@real
@pytest.mark.promise("P14")
def test_channel_versions_restored_from_differences_equal_versions_of_memory_saver() -> None:
    kept, written = InMemorySaver(), DjangoSaver()
    for saver in (kept, written):
        config = place()
        for version in range(2, 40):
            config = put_wide(saver, config, {"key1": version, f"more{version}": version})
    both = [[one.checkpoint for one in saver.list(place())] for saver in (kept, DjangoSaver())]
    for ours, theirs in zip(*both, strict=True):
        for name in ("channel_versions", "versions_seen", "channel_values", "v"):
            assert ours[name] == theirs[name]


@real
def test_stored_size_of_super_step_depends_only_on_its_changes_even_with_many_channels() -> None:
    def stored(name: str) -> int:
        heads = Checkpoint.objects.filter(thread__thread_id=name)
        rows = ChannelBlob.objects.filter(thread__thread_id=name)
        size = heads.aggregate(size=Sum(Length("data") + Length("metadata")))["size"]
        return size + rows.aggregate(size=Sum(Length("data")))["size"]

    for every, most in ((1, 600), (WIDTH, 900)):
        for steps in (50, 250):
            graph = turning(steps, every).compile(checkpointer=DjangoSaver())
            graph.invoke(wide(), place(f"{every} {steps}"))
        assert (stored(f"{every} 250") - stored(f"{every} 50")) / 200 < most


@real
def test_get_tuple_and_list_of_thread_with_many_channels_take_constant_queries_for_any_length() -> (
    None
):
    saver, counted = DjangoSaver(), []
    for steps in (20, 200):
        chain(saver, steps, place(f"of {steps}"))
        for read in (
            lambda: saver.get_tuple(place(f"of {steps}")),  # noqa: B023
            lambda: list(saver.list(place(f"of {steps}"), limit=20)),  # noqa: B023
        ):
            with CaptureQueriesContext(connection) as queries:
                read()
            counted.append(len(queries))
    assert counted == [3, 4, 3, 4]
    saver.put(place("narrow"), checkpoint({"a": [1]}, {"a": 1}), {}, {"a": 1})
    with CaptureQueriesContext(connection) as queries:
        saver.get_tuple(place("narrow"))
    assert len(queries) == 2
    assert not bases().filter(thread__thread_id="narrow").exists()


@real
def test_new_saver_uses_the_stored_base_of_channel_versions_and_stores_no_second_base() -> None:
    first = chain(DjangoSaver(), 3)
    saver = DjangoSaver()
    saver.get_tuple(first[-1])
    put_wide(saver, first[-1], {"key9": 9})
    assert bases().count() == 1
    assert found([place()])[0]["channel_versions"]["key9"] == 9


@real
def test_repeated_put_of_first_checkpoint_leaves_later_checkpoints_unchanged() -> None:
    saver = DjangoSaver()
    configs = chain(saver, 4)
    before = found(configs[1:])
    again = saver.get_tuple(configs[0])
    other = {**again.checkpoint, "channel_versions": dict.fromkeys(KEYS, 7)}
    saver.put(place(), other, again.metadata, {})
    assert found(configs[1:]) == before
    assert found(configs[:1])[0]["channel_versions"] == dict.fromkeys(KEYS, 7)


@real
def test_mutating_checkpoint_after_put_does_not_change_stored_base_of_channel_versions() -> None:
    saver, names = DjangoSaver(), dict.fromkeys(KEYS, 1)
    given = checkpoint({}, names)
    config = saver.put(place(), given, {}, {})
    given["channel_versions"]["key1"] = given["versions_seen"]["node"]["key1"] = 5
    later = saver.put(config, {**given, "id": given["id"][:-1] + "z"}, {}, {})
    assert found([later])[0]["versions_seen"]["node"]["key1"] == 5
    assert found([later])[0]["channel_versions"]["key1"] == 5
    assert found([config])[0]["channel_versions"]["key1"] == 1


@real
@pytest.mark.parametrize("same", [True, False], ids=["same saver", "another"])
def test_prune_leaves_only_the_base_of_channel_versions_of_the_newest_checkpoint(
    same: bool,
) -> None:
    saver = DjangoSaver()
    configs = chain(saver, 60)
    before, count = found(configs[-1:]), bases().count()
    saver.get_tuple(configs[0])
    saver.prune(["t"])
    assert (Checkpoint.objects.count(), bases().count()) == (1, 1)
    assert count > 1
    assert found([place()]) == before
    [after] = chain(saver if same else DjangoSaver(), 1, configs[-1], 62)
    assert found([after])[0]["channel_versions"]["key62"] == 62


@real
@pytest.mark.parametrize("gone", ["one", "two"])
def test_delete_for_runs_leaves_bases_of_channel_versions_of_other_runs(gone: str) -> None:
    saver = DjangoSaver()
    first = chain(saver, 20, run_id="one")
    later = chain(saver, 20, first[-1], 22, run_id="two")
    kept = later if gone == "one" else first
    before = found(kept)
    saver.delete_for_runs([gone])
    assert found(kept) == before
    [after] = chain(saver, 1, kept[-1], 50)
    assert found([after])[0]["channel_versions"]["key50"] == 50
    saver.delete_for_runs(["one", "two"])
    assert bases().count() == 1


@real
def test_copy_of_thread_with_many_channels_is_readable_after_source_is_deleted() -> None:
    saver = DjangoSaver()
    configs = chain(saver, 30)
    before = found(configs)
    saver.copy_thread("t", "copy")
    saver.delete_thread("t")
    assert not bases().filter(thread__thread_id="t").exists()
    copied = [place("copy", checkpoint=one["id"]) for one in before]
    assert found(copied) == before


@real
def test_saver_does_not_use_base_of_channel_versions_that_was_rolled_back() -> None:
    saver = DjangoSaver()
    with transaction.atomic():
        put_wide(saver, place(), {})
        transaction.set_rollback(True)
    put_wide(saver, place(), {"key1": 2})
    assert found([place()])[0]["channel_versions"]["key1"] == 2


@real
def test_saver_in_a_service_transaction_stores_channel_versions_relative_to_the_stored_base() -> (
    None
):
    [config] = chain(DjangoSaver(), 1)
    with transaction.atomic():
        saver = DjangoSaver(ThreadKey(Thread.objects.get().pk, "t"))
        saver.get_tuple(config)
        put_wide(saver, config, {"key7": 7})
    assert found([place()])[0]["channel_versions"]["key7"] == 7
    assert bases().count() == 1


def cut(row: ChannelBlob) -> None:
    ChannelBlob.objects.filter(pk=row.pk).update(data=bytes(row.data)[:-1] + b"?")


def exchange(row: ChannelBlob) -> None:
    data = codec.encode([dict.fromkeys(KEYS, 9), {}])
    ChannelBlob.objects.filter(pk=row.pk).update(data=data, digest=digest(data))


def move(row: ChannelBlob) -> None:
    ChannelBlob.objects.filter(pk=row.pk).update(version=F("version") + 1)


@real
@pytest.mark.promise("P14")
@pytest.mark.parametrize("damage", [cut, exchange, move, ChannelBlob.delete])
def test_damaged_or_missing_base_of_channel_versions_raises_corrupt_payload_error(
    damage: Any,
) -> None:
    chain(DjangoSaver(), 3)
    damage(bases().get())
    for read in (
        lambda: DjangoSaver().get_tuple(place()),
        lambda: list(DjangoSaver().list(place())),
        lambda: DjangoSaver().prune(["t"]),
    ):
        with pytest.raises(CorruptPayloadError):
            read()
    assert Checkpoint.objects.count() == 3


def test_write_cache_of_saver_is_emptied_when_its_limit_is_reached() -> None:
    cache = WriteCache(6, wide=3)
    tip, base = (
        ValueTip(1, False, 10, b"", (1,), 10, 0),
        version_deltas.VersionBase(("x", 1), {}, {}),
    )
    for number in range(20):
        cache.add(str(number), "", {"log": tip}, base if number % 2 else None)
        assert len(cache._namespaces) <= 6
        assert sum(one.base is not None for one in cache._namespaces.values()) <= 3
    assert cache.get("19", "").tips == {"log": tip}
    assert cache.get("19", "").base == base
    for _ in range(10):
        cache.replace("19", "", cache.get("19", ""))
    assert len(cache._namespaces) > 1
    cache.forget_thread("19")
    assert cache.get("19", "").base is None
