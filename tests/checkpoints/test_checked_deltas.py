"""Of a list that grows what was added is checked, and that refuses what a whole check refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hitl_django.checkpoints import codec as payloads
from hitl_django.checkpoints import commit_rows, list_deltas
from hitl_django.checkpoints.coordinates import CheckpointRef
from hitl_django.checkpoints.write_cache import CachedNamespace
from hitl_django.engine.errors import PayloadError
from hitl_django.engine.serde import Codec, encoded_size
from hitl_django.engine.serde import codec as coding


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few words are long enough to be stored by parts, and a few parts to be sealed."""
    monkeypatch.setattr(list_deltas, "MIN_BYTES", 20)
    monkeypatch.setattr(list_deltas, "SEAL_INTERVAL", 4)


def use(codec: Codec) -> Codec:
    payloads.codec = commit_rows.codec = codec
    return codec


@pytest.fixture(autouse=True)
def own_codec() -> Iterator[None]:
    codec = payloads.codec
    yield
    use(codec)


class Channel:
    """A channel's rows as a saver stores them, version by version."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, int], Any] = {}
        self.cached = CachedNamespace()
        self.version = 0

    def store(self, value: Any) -> None:
        batch = commit_rows.CommitRows(CheckpointRef("t", "", None), cached=self.cached)
        _, name, version, *row = batch._blob("log", self.version + 1, value)
        self.rows[name, version] = tuple(row)
        self.version = version
        self.cached.tips.update(batch.grown)

    def stored(self) -> bytes:
        return list_deltas.restore_list("log", self.version, self.rows)[0]


texts = st.text(max_size=8) | st.sampled_from(["\0", "a\0b", "\xc4", "č", "\ud800", "x" * 40])
leaves = st.one_of(
    st.none(), st.integers(), st.just(1 << 70), texts, st.floats(allow_nan=False),
    st.binary(max_size=4), st.binary(max_size=4).map(bytearray),
    st.binary(max_size=4).map(memoryview), st.just(Decimal(1)), st.just(object),
)  # fmt: skip
items = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(texts, inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
    ),
    max_leaves=8,
)
sound = st.integers(0, 99) | st.sampled_from(["\xc4", "word", b"\xc4\0", 0.5, (b"1", [2])])
changes = st.one_of(
    st.tuples(st.just("add"), st.lists(sound, max_size=6)),
    st.tuples(st.just("add"), st.lists(items, max_size=3)),
    st.tuples(st.just("cut"), st.integers(0, 5)),
    st.tuples(st.just("disguise"), st.none()),
    st.tuples(st.just("change"), items),
)
limits = st.fixed_dictionaries(
    {},
    optional={
        "max_bytes": st.integers(60, 400),
        "max_depth": st.integers(2, 8),
        "max_items": st.integers(10, 100),
    },
)


def changed(value: list[Any], kind: str, by: Any) -> list[Any]:
    if kind == "add":
        return value + by
    if kind == "cut":
        return value[: len(value) - by]
    if kind == "change":
        return [*value[:1], by, *value[2:]]
    # Bytes that are equal and no bytes any more.
    return [bytearray(item) if type(item) is bytes else item for item in value]


def outcome(function: Callable[[], Any]) -> tuple[Any, Any]:
    """Returns all that is said of a refusal, and what is returned where there is none."""
    try:
        return None, function()
    except PayloadError as refusal:
        return (type(refusal), str(refusal), vars(refusal)), None


@pytest.mark.promise("P14")
@given(limits, st.lists(changes, max_size=25))
def test_what_is_stored_and_what_is_refused_is_what_the_whole_check_says(
    limits: Any, steps: list[Any]
) -> None:
    use(Codec(**limits))
    channel, value = Channel(), ["x" * 10, "y" * 10]
    for kind, by in steps:
        tried = changed(value, kind, by)
        refused, whole = outcome(lambda tried=tried: payloads.pack_channel("log", tried)[0])
        assert outcome(lambda tried=tried: channel.store(tried))[0] == refused
        if not refused:
            assert channel.stored() == whole
            value = tried


@given(st.lists(sound | st.lists(sound, max_size=3), max_size=12), st.integers(0, 12))
def test_a_list_is_as_large_as_its_beginning_and_what_was_added(value: list[Any], at: int) -> None:
    codec, beginning = Codec(), value[:at]
    added = b"".join(codec.encode(item) for item in value[at:])
    size = encoded_size.measure(codec.encode(beginning))
    assert encoded_size.measure_added(size, len(value[at:]), added) == encoded_size.measure(
        codec.encode(value)
    )


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each check looks at: bytes that are measured, values that are walked through."""
    looked: list[int] = []

    def measure(data: bytes) -> encoded_size.EncodedSize:
        looked.append(len(data))
        return measured(data)

    def needs_rewrite(value: Any, dump: Any) -> bool:
        looked.append(len(value))
        return walked(value, dump)

    measured, walked = encoded_size.measure, coding.needs_rewrite
    for module in (encoded_size, coding):
        monkeypatch.setattr(module, "measure", measure)
    monkeypatch.setattr(coding, "needs_rewrite", needs_rewrite)
    return looked


@pytest.mark.parametrize(
    ("item", "codec"),
    [
        ("one more", Codec(max_bytes=1 << 20, max_items=100)),
        ("jeden další č \xc4\x84", Codec()),
        ([0.5, "word"], Codec()),
    ],
    ids=["past what goes unmeasured", "letters like heads of bytes", "numbers with zeros"],
)
def test_what_a_step_checks_does_not_grow_with_the_list(
    item: Any, codec: Codec, looked_at: list[int]
) -> None:
    codec.max_items = 1 << 20
    use(codec)
    channel, value, of_step = Channel(), [item] * 20, []
    for _ in range(400):
        value = [*value, item]
        looked_at.clear()
        channel.store(value)
        of_step.append(sum(looked_at))
    assert of_step[0] > 100
    assert 0 < max(of_step[1:]) < 60
    assert channel.stored() == codec.encode(value)


def test_bytes_are_looked_at_again_because_they_may_be_others_by_now(
    looked_at: list[int],
) -> None:
    channel, value = Channel(), [b"\xc4 something", "x" * 20]
    for _ in range(3):
        value = [*value, "one more"]
        channel.store(value)
    channel.store([bytearray(value[0]), *value[1:]])
    assert channel.stored() == Codec().encode([bytearray(value[0]), *value[1:]])
    assert channel.stored() != Codec().encode(value)


@pytest.mark.parametrize(
    ("codec", "last"),
    [
        (Codec(max_bytes=300), "x" * 300),
        (Codec(max_items=40), list(range(35))),
        (Codec(max_depth=5), [[[[[[]]]]]]),
    ],
    ids=["bytes", "items", "levels"],
)
def test_what_is_added_is_refused_at_the_limits_of_the_whole(codec: Codec, last: Any) -> None:
    use(codec)
    channel, value = Channel(), ["one", "č", "more word or two"]
    for _ in range(3):
        value = [*value, "č"]
        channel.store(value)
    assert channel.cached.tips["log"].checked is not None
    refused, _ = outcome(lambda: channel.store([*value, last]))
    assert refused == outcome(lambda: payloads.pack_channel("log", [*value, last]))[0]
    assert refused is not None
