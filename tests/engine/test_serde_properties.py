"""The codec's guarantees for generated values and generated damage."""

from __future__ import annotations

import sys
from collections import deque
from datetime import UTC, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hitl_django.engine.errors import (
    CorruptPayloadError,
    PayloadLimitError,
    UnknownTagError,
    UnserializableError,
)
from hitl_django.engine.serde import Codec
from hitl_django.engine.serde.encoded_size import count_possible_containers, measure
from hitl_django.engine.serde.extension_codes import LOAD_BRANCH, LOAD_LEAF
from hitl_django.engine.types import Command, Interrupt, Overwrite, Send
from tests.engine.test_serde import EXACT, IMITATIONS, same

#: The number of examples of the profile. Codec tests generate several times as many values.
EXAMPLES = settings().max_examples

codec = Codec()

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
zones = st.sampled_from(
    [
        None,
        UTC,
        timezone(timedelta(hours=-3, seconds=5)),
        timezone(timedelta(hours=1), "CET"),
        ZoneInfo("Asia/Kolkata"),
        ZoneInfo("America/New_York"),
    ]
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**80), 2**80),
    st.floats(),
    text,
    st.binary(max_size=40),
)
hashable_leaves = st.one_of(
    scalars,
    st.complex_numbers(allow_nan=False),
    st.decimals(allow_nan=False),
    st.uuids(),
    st.dates(),
    st.timedeltas(),
    st.datetimes(timezones=zones),
    st.times(),
)
hashables = st.recursive(
    hashable_leaves,
    lambda inner: st.one_of(
        st.tuples(inner), st.tuples(inner, inner), st.frozensets(inner, max_size=3)
    ),
    max_leaves=4,
)
tag_like_keys = st.sampled_from(["lc", "type", "id", "__type__", "tag", "code", "data", "$ext"])
bytearrays = st.binary(max_size=10).map(bytearray)


def containers(inner: Any) -> Any:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(text, inner, max_size=4),
        st.dictionaries(tag_like_keys, inner, max_size=4),
        st.dictionaries(hashables, inner, max_size=3),
        st.sets(hashables, max_size=3),
        st.lists(inner, max_size=3).map(deque),
        st.builds(Send, text, inner),
        st.builds(Overwrite, inner),
        st.builds(Interrupt, inner, text),
        st.builds(lambda update, goto: Command(update=update, goto=goto), inner, text),
    )


values = st.recursive(st.one_of(hashable_leaves, bytearrays), containers, max_leaves=12)


@pytest.mark.promise("P14")
@settings(max_examples=4 * EXAMPLES)
@given(values)
def test_codec_restores_any_generated_storable_value_unchanged(value: Any) -> None:
    stored = codec.encode(value)
    again = codec.decode(stored)
    assert same_deep(again, value)
    assert codec.encode(again) == stored


@pytest.mark.promise("P14")
@settings(max_examples=4 * EXAMPLES)
@given(st.lists(values, max_size=3))
def test_fast_encoder_returns_same_bytes_as_slow_encoder_for_any_generated_value(
    value: Any,
) -> None:
    assert codec.encode(value) == codec._encode_slowly(value)


def same_deep(left: Any, right: Any) -> bool:
    """Compare engine values recursively, so that NaN equals NaN."""
    for cls, parts in (
        (Send, ("node", "arg", "timeout")),
        (Overwrite, ("value",)),
        (Interrupt, ("value", "id", "response_schema")),
        (Command, ("graph", "update", "resume", "goto")),
    ):
        if type(left) is type(right) is cls:
            return all(same_deep(getattr(left, p), getattr(right, p)) for p in parts)
    if type(left) is type(right) and isinstance(left, list | tuple | deque):
        return len(left) == len(right) and all(map(same_deep, left, right))
    if type(left) is type(right) is dict:
        return same_deep(list(left.items()), list(right.items()))
    if type(left) is type(right) and isinstance(left, set | frozenset):
        return codec.encode(left) == codec.encode(right)
    return same(left, right)


@pytest.mark.promise("P14")
@settings(max_examples=2 * EXAMPLES)
@given(st.recursive(st.one_of(st.text(max_size=5), st.integers()), containers, max_leaves=6))
def test_codec_restores_any_text_or_rejects_it_for_surrogates(value: Any) -> None:
    try:
        stored = codec.encode(value)
    except UnserializableError as refusal:
        if "surrogate" not in str(refusal):
            raise
        return
    assert same_deep(codec.decode(stored), value)


@settings(max_examples=2 * EXAMPLES)
@given(values)
def test_measured_depth_and_container_count_equal_the_lowest_accepted_limits(value: Any) -> None:
    stored = codec.encode(value)
    depth, containers = measure(stored)
    assert containers <= count_possible_containers(stored)
    limits = {"max_depth": max(depth, 1), "max_containers": max(containers, 1)}
    assert Codec(**limits).decode(stored) is not Ellipsis
    if containers > 1:
        with pytest.raises(PayloadLimitError):
            Codec(max_containers=containers - 1).decode(stored)
    if depth > 1:
        with pytest.raises(PayloadLimitError):
            Codec(max_depth=depth - 1).encode(value)


def decodes_or_refuses(stored: bytes) -> None:
    try:
        codec.decode(stored)
    except (CorruptPayloadError, UnknownTagError, PayloadLimitError):
        pass


@pytest.mark.promise("P14")
def test_codec_decodes_or_rejects_flipped_bits_and_truncated_bytes_without_importing_modules() -> (
    None
):
    codec.decode(codec.encode(EXACT[38:]))  # load lazy imports first
    before = set(sys.modules)
    payloads = [codec.encode(value) for value in [*EXACT, *IMITATIONS]]
    for stored in payloads:
        for at in range(len(stored)):
            for flip in (0x01, 0x80, 0xFF, 0x10):
                decodes_or_refuses(stored[:at] + bytes([stored[at] ^ flip]) + stored[at + 1 :])
            decodes_or_refuses(stored[:at])
    assert set(sys.modules) == before


@settings(max_examples=3 * EXAMPLES)
@given(values, st.data())
def test_codec_decodes_or_rejects_randomly_damaged_bytes(value: Any, data: st.DataObject) -> None:
    stored = bytearray(codec.encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(stored) - 1))
        stored[at] = data.draw(st.integers(0, 255))
    decodes_or_refuses(bytes(stored))


@settings(max_examples=5 * EXAMPLES)
@given(st.binary(max_size=64))
def test_codec_decodes_or_rejects_random_bytes(stored: bytes) -> None:
    decodes_or_refuses(stored)


@settings(max_examples=5 * EXAMPLES)
@given(st.sampled_from(sorted({*LOAD_LEAF, *LOAD_BRANCH, 32})), st.binary(max_size=24))
def test_codec_decodes_or_rejects_random_extension_body(code: int, body: bytes) -> None:
    decodes_or_refuses(bytes([0xC7, len(body), code]) + body)
