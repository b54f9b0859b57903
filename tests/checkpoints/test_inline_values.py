"""Values in a checkpoint's own row: scalars, and the writes that led to it."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from hitl_django.checkpoints import DjangoSaver
from hitl_django.checkpoints.codec import codec
from hitl_django.checkpoints.inline_values import MAX_SCALARS, MAX_TEXT
from hitl_django.checkpoints.inline_writes import MAX_BYTES
from hitl_django.engine.constants import START
from hitl_django.engine.errors import CorruptPayloadError
from hitl_django.engine.savers.checkpoint import Commit, TaskWrites
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.serde import digest
from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite

from .test_conformance import checkpoint, place

pytestmark = pytest.mark.django_db(transaction=True)

SCALARS = [None, True, 0, -1, 2**63, 0.5, float("inf"), "", "note", "ä" * MAX_TEXT]


def state(size: int, seed: int = 0) -> dict[str, Any]:
    return {f"key{at}": SCALARS[(at + seed) % len(SCALARS)] for at in range(size)}


class Chain:
    """A thread with a sequence of states, which different savers may store."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.versions: dict[str, int] = {}
        self.configs: list[Any] = [place()]

    def go(self, saver: Any, values: dict[str, Any], *, on: int = -1) -> Any:
        number = len(self.configs)
        changed = {
            name
            for name in values.keys() | self.values.keys()
            if name not in values or name not in self.values or values[name] != self.values[name]
        }
        self.versions = {**self.versions, **dict.fromkeys(changed, number)}
        self.values = values
        stored = checkpoint(dict(values), dict(self.versions))
        commit = Commit(
            self.configs[on],
            [TaskWrites(f"task {number}", "path", [("key0", number)])] if number > 1 else [],
            stored,
            {"source": "loop", "step": number},
            dict.fromkeys(changed, number),
        )
        saver.commit(commit)
        self.configs.append(place(checkpoint=stored["id"]))
        return self.configs[-1]


@pytest.mark.promise("P14")
@pytest.mark.parametrize("size", [3, 200], ids=["few values", "a wide state"])
def test_checkpoint_with_deleted_value_row_raises_corrupt_payload_error(size: int) -> None:
    chain, values = Chain(), {**state(size), "list": [1], "other": [2]}
    chain.go(DjangoSaver(), values)
    emptied = {name: value for name, value in values.items() if name != "other"}
    config = chain.go(DjangoSaver(), emptied)
    found = DjangoSaver().get_tuple(config)
    assert found is not None
    assert found.checkpoint["channel_values"] == emptied
    assert "other" in found.checkpoint["channel_versions"]
    assert "apart" not in found.checkpoint

    ChannelBlob.objects.filter(channel="list").delete()
    with pytest.raises(CorruptPayloadError, match=r"is missing values: expected [0-9]+ separately"):
        DjangoSaver().get_tuple(config)
    with pytest.raises(CorruptPayloadError, match="is missing values"):
        list(DjangoSaver().list(config))


@pytest.mark.promise("P14")
@pytest.mark.parametrize("apart", [None, "x", 2, -1, [], 1.5])
def test_checkpoint_with_forged_number_of_value_rows_raises_corrupt_payload_error(
    apart: Any,
) -> None:
    config = Chain().go(DjangoSaver(), {"list": [1]})
    row = Checkpoint.objects.get()
    record = {**codec.decode(bytes(row.data)), "apart": apart}
    payloads = (codec.encode(record), bytes(row.metadata), bytes(row.scalars), bytes(row.writes))
    Checkpoint.objects.update(data=payloads[0], digest=digest(b"".join(payloads)))
    with pytest.raises(CorruptPayloadError, match="is missing values"):
        DjangoSaver().get_tuple(config)


@pytest.mark.promise("P14")
@pytest.mark.parametrize("known", [False, True], ids=["a new saver each time", "the same saver"])
def test_checkpoint_scalars_are_restored_after_state_gets_more_and_fewer_keys(known: bool) -> None:
    sizes = [
        3,
        MAX_SCALARS,
        MAX_SCALARS + 1,
        3,
        MAX_SCALARS + 5,
        MAX_SCALARS + 5,
        4 * MAX_SCALARS + 1,
        4 * MAX_SCALARS + 2,
        2,
        4 * MAX_SCALARS + 3,
        MAX_SCALARS,
    ]
    chance, chain, saver = Random(7), Chain(), DjangoSaver()
    for size in sizes:
        values = {**state(size), "key0": chance.random(), "list": [size]}
        chain.go(saver if known else DjangoSaver(), values)
    found = [DjangoSaver().get_tuple(config).checkpoint for config in chain.configs[1:]]
    assert [len(one["channel_values"]) for one in found] == [size + 1 for size in sizes]
    oracle, again = InMemorySaver(), Chain()
    chance = Random(7)
    for size in sizes:
        again.go(oracle, {**state(size), "key0": chance.random(), "list": [size]})
    for one, config in zip(found, again.configs[1:], strict=True):
        assert one["channel_values"] == oracle.get_tuple(config).checkpoint["channel_values"]


def test_step_of_small_state_is_stored_in_one_checkpoint_row() -> None:
    saver, chain = DjangoSaver(), Chain()
    for number in range(5):
        chain.go(saver, {"count": number, "note": "x"})
    assert Checkpoint.objects.count() == 5
    assert not ChannelBlob.objects.exists()
    assert not PendingWrite.objects.exists()


def test_step_of_state_with_many_keys_stores_one_value_row_per_changed_scalar() -> None:
    saver, chain = DjangoSaver(), Chain()
    for number in range(5):
        chain.go(saver, {**state(MAX_SCALARS + 4), "key0": number})
    assert ChannelBlob.objects.count() == MAX_SCALARS + 4 + 4


@pytest.mark.parametrize("value", ["ä" * (MAX_TEXT + 1), 2**64, [1], {"a": 1}, b"x"])
def test_channel_value_too_large_for_checkpoint_row_is_stored_in_a_separate_row(value: Any) -> None:
    Chain().go(DjangoSaver(), {"a": value})
    assert ChannelBlob.objects.get().channel == "a"
    assert DjangoSaver().get_tuple(place()).checkpoint["channel_values"] == {"a": value}


SHORT = {"count": 1, "note": "x", "flag": None, "share": 0.5}


@pytest.mark.parametrize("value", [{}, SHORT])
def test_short_graph_input_is_stored_in_its_checkpoint_row(value: Any) -> None:
    Chain().go(DjangoSaver(), {START: value})
    assert not ChannelBlob.objects.exists()
    assert DjangoSaver().get_tuple(place()).checkpoint["channel_values"] == {START: value}


@pytest.mark.parametrize(
    "value",
    [
        {**SHORT, "fifth": 1},
        {"note": "ä" * (MAX_TEXT + 1)},
        {"ä" * (MAX_TEXT + 1): 1},
        {"list": []},
        ["x"],
    ],
)
def test_long_graph_input_is_stored_in_a_separate_row(value: Any) -> None:
    Chain().go(DjangoSaver(), {START: value})
    assert ChannelBlob.objects.get().channel == START
    assert DjangoSaver().get_tuple(place()).checkpoint["channel_values"] == {START: value}


@pytest.mark.promise("P14")
@pytest.mark.parametrize("known", [False, True], ids=["a new saver each time", "the same saver"])
def test_short_graph_input_is_restored_after_state_gets_more_and_fewer_keys(known: bool) -> None:
    chain, saver = Chain(), DjangoSaver()
    for size in (2, MAX_SCALARS + 4, 2):
        chain.go(saver if known else DjangoSaver(), {START: SHORT, **state(size)})
    found = [DjangoSaver().get_tuple(config).checkpoint for config in chain.configs[1:]]
    assert [one["channel_values"][START] for one in found] == [SHORT] * 3


# Writes.


def written(found: Any) -> list[Any]:
    return [(task, value) for task, _, value in found.pending_writes]


def test_writes_stored_in_child_checkpoint_are_returned_with_the_parent_checkpoint() -> None:
    saver, chain = DjangoSaver(), Chain()
    for number in range(5):
        chain.go(saver, {"key0": number})
    expected = [[(f"task {number}", number)] for number in (2, 3, 4, 5)] + [[]]
    assert [written(saver.get_tuple(config)) for config in chain.configs[1:]] == expected
    listed = [*saver.list(place())]
    assert [written(one) for one in reversed(listed)] == expected
    behind = [*saver.list(place(), before=chain.configs[4], limit=2)]
    assert [written(one) for one in behind] == [expected[2], expected[1]]
    odd = [*saver.list(place(), filter={"step": 3})]
    assert [written(one) for one in odd] == [expected[2]]


def test_writes_stored_in_child_checkpoint_are_returned_with_the_parent_checkpoint_after_fork() -> (
    None
):
    saver, chain = DjangoSaver(), Chain()
    for number in range(3):
        chain.go(saver, {"key0": number})
    chain.go(saver, {"key0": 10}, on=1)  # a branch from the first
    chain.go(saver, {"key0": 11}, on=3)  # and the older branch continues
    chain.go(saver, {"key0": 12}, on=4)
    # The first checkpoint has two children. The writes of the older child are returned.
    expected = [
        [("task 2", 2)], [("task 3", 3)], [("task 5", 5)], [("task 6", 6)], [], [],
    ]  # fmt: skip
    assert [written(saver.get_tuple(config)) for config in chain.configs[1:]] == expected
    assert [written(one) for one in saver.list(place())][::-1] == expected


def test_first_page_of_saver_list_takes_two_queries_and_each_later_page_takes_three() -> None:
    saver, chain = DjangoSaver(), Chain()
    for number in range(20):
        chain.go(saver, {"key0": number})
    with CaptureQueriesContext(connection) as queries:
        assert len([*saver.list(place(), limit=10)]) == 10
    assert len(queries) == 2
    with CaptureQueriesContext(connection) as queries:
        assert len([*saver.list(place(), before=chain.configs[15], limit=10)]) == 10
    assert len(queries) == 3


def test_large_writes_are_stored_outside_the_child_checkpoint() -> None:
    saver, chain = DjangoSaver(), Chain()
    chain.go(saver, {"key0": 0})
    stored = checkpoint({"key0": 1}, {"key0": 2})
    writes = [TaskWrites("task", "path", [("key0", "x" * MAX_BYTES)])]
    saver.commit(Commit(chain.configs[-1], writes, stored, {"source": "loop", "step": 1}, {}))
    assert PendingWrite.objects.count() == 1
    assert not Checkpoint.objects.order_by("-checkpoint_id")[0].writes
    assert written(saver.get_tuple(chain.configs[-1])) == [("task", "x" * MAX_BYTES)]


def test_write_stored_before_the_child_checkpoint_is_returned_once() -> None:
    saver, chain = DjangoSaver(), Chain()
    first = chain.go(saver, {"key0": 0})
    saver.put_writes(first, [("key0", "as first written")], "task 2", "path")
    chain.go(saver, {"key0": 1})
    assert written(saver.get_tuple(first)) == [("task 2", "as first written")]
