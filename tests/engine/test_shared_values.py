"""Values that occur more than once in a commit: encoded once, with the same bytes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl_django.engine.constants import TASKS
from hitl_django.engine.errors import PayloadLimitError, UnserializableError
from hitl_django.engine.savers.checkpoint import AddedEntries, Commit, TaskWrites
from hitl_django.engine.savers.shared_values import SharedValues
from hitl_django.engine.serde import Codec, find_extent
from hitl_django.engine.types import Send

from .test_serde_properties import values

NAMES = ["a", "b", "č" * 20, TASKS]

repeated = st.builds(
    lambda item, others: [item] * 16 + others, values, st.lists(values, max_size=4)
)
written = st.one_of(
    repeated,
    values,
    st.lists(values, min_size=16, max_size=20),
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), values, min_size=16),
    st.builds(Send, st.just("n"), values),
)


def commit_of(writes: list[tuple[str, Any]], **options: Any) -> Commit:
    """Return a commit of one task with the values that the task wrote."""
    held = {name: value for name, value in writes if name != TASKS}
    held[TASKS] = [value for name, value in writes if name == TASKS]
    checkpoint: Any = {"id": "1", "channel_values": held}
    versions = dict.fromkeys(held, 1)
    tasks = [TaskWrites("t", "", writes)]
    return Commit({}, tasks, checkpoint=checkpoint, new_versions=versions, **options)


@pytest.mark.promise("P14")
@given(st.lists(st.tuples(st.sampled_from(NAMES), written), max_size=5))
def test_shared_values_encode_writes_and_channels_to_same_bytes_as_codec(
    writes: list[tuple[str, Any]],
) -> None:
    codec, commit = Codec(), commit_of(writes)
    shared = SharedValues(codec, commit)
    pairs = [[name, value] for name, value in writes]
    assert b"".join(shared.encode_writes(pairs)) == codec.encode(pairs)
    assert commit.checkpoint is not None
    for value in commit.checkpoint["channel_values"].values():
        assert shared.encode(value) == codec.encode(value)
        if value and (repeated := shared.encode_repeated(value)) is not None:
            pieces, extent = repeated
            assert extent.head + b"".join(pieces) == codec.encode(value)
            assert extent[:3] == find_extent(codec.encode(value))[:3]


def test_shared_values_encode_channel_value_and_its_write_only_once() -> None:
    value = ["text"] * 100
    shared = SharedValues(Codec(), commit_of([("x", 1), ("a", value), ("y", 2)]))
    parts = shared.encode_writes([["x", 1], ["a", value], ["y", 2]])
    assert any(part is shared.encode(value) for part in parts)


def test_shared_values_encode_items_added_to_a_channel_by_a_write_only_once() -> None:
    added, whole = [{"x": 1}, "text"], Codec().encode(["before"] * 100)
    commit = commit_of([("a", added)], added={"a": AddedEntries(1, added)})
    shared = SharedValues(Codec(), commit)
    parts = shared.encode_writes([["a", added]])
    encoded = shared.encode_added(find_extent(whole), AddedEntries(1, added), 102)
    assert encoded is not None
    assert any(part is encoded[0] for part in parts)
    # All but the last, how many containers there are at most.
    assert encoded[1][:3] == find_extent(Codec().encode(["before"] * 100 + added))[:3]


def test_shared_values_whose_writes_together_exceed_max_bytes_raise_payload_limit_error() -> None:
    codec = Codec(max_bytes=4000)
    writes: list[tuple[str, Any]] = [("a", ["x" * 100] * 20), ("b", ["y" * 100] * 20)]
    shared = SharedValues(codec, commit_of(writes))
    assert len(shared.encode(writes[0][1])) < 4000
    with pytest.raises(PayloadLimitError, match="the limit is 4000"):
        shared.encode_writes([[name, value] for name, value in writes])


def test_shared_values_with_unstorable_write_raise_unserializable_error_naming_its_path() -> None:
    added = ["fine", {"deep": object()}]
    commit = commit_of([("a", added)], added={"a": AddedEntries(1, added)})
    shared = SharedValues(Codec(), commit)
    with pytest.raises(UnserializableError, match=r"^Can't store \$\[0\]\[1\]\[1\]\.deep: "):
        shared.encode_writes([["a", added]])


def test_shared_values_encode_repeated_item_of_several_lists_only_once() -> None:
    item = {"x": list(range(1000))}
    shared = SharedValues(Codec(), commit_of([]))
    first, second = (shared.encode_repeated([item] * length) for length in (20, 30))
    assert first is not None
    assert second is not None
    assert {*map(id, first[0])} == {*map(id, second[0])} == {id(first[0][0])}


def test_shared_values_encode_list_of_repeated_items_beyond_a_limit_as_a_whole() -> None:
    shared = SharedValues(Codec(max_bytes=4000), commit_of([]))
    assert shared.encode_repeated([["x" * 100]] * 20) is not None
    assert shared.encode_repeated([["x" * 100]] * 40) is None
    with pytest.raises(PayloadLimitError, match="the limit is 4000"):
        shared.encode([["x" * 100]] * 40)


def test_shared_values_with_unstorable_repeated_item_raise_unserializable_error() -> None:
    shared = SharedValues(Codec(), commit_of([]))
    with pytest.raises(UnserializableError, match=r"^Can't store \$\[0\]\.deep: "):
        shared.encode([{"deep": object()}] * 20)
