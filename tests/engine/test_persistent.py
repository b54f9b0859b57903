"""A dict in a file, and the codec for savers that store a type next to the bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hitl_django import Command
from hitl_django.engine.errors import CorruptPayloadError, UnserializableError
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.savers.persistent_dict import PersistentDict
from hitl_django.engine.serde import JsonPlusSerializer

from .graphs import CONFIG, asks, line, saved


def test_persistent_dict_loads_values_synced_to_its_file(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with PersistentDict(dict, filename=path) as kept:
        kept.load()
        kept["a"][(1, "x")] = {"set": {1, 2}}
    again = PersistentDict(dict, filename=path)
    again.load()
    assert again == {"a": {(1, "x"): {"set": {1, 2}}}}
    assert again["new"] == {}
    assert list(tmp_path.iterdir()) == [path]


def test_persistent_dict_sync_of_unstorable_value_leaves_its_file_unchanged(tmp_path: Path) -> None:
    kept = PersistentDict(filename=tmp_path / "kept")
    kept["a"] = 1
    kept.sync()
    kept["a"] = object()
    with pytest.raises(UnserializableError):
        kept.sync()
    kept.load()
    assert kept == {"a": 1}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, "null"),
        (b"a", "bytes"),
        (bytearray(b"a"), "bytearray"),
        ({"a": (1, {2})}, "msgpack"),
        ("text", "msgpack"),
    ],
)
def test_json_plus_serializer_restores_value_with_its_type(value: Any, kind: str) -> None:
    serde = JsonPlusSerializer()
    stored = serde.dumps_typed(value)
    assert stored[0] == kind
    found = serde.loads_typed(stored)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize("kind", ["pickle", "json", "yaml"])
def test_json_plus_serializer_rejects_pickle_json_and_yaml_formats(kind: str) -> None:
    with pytest.raises(CorruptPayloadError, match=kind):
        JsonPlusSerializer().loads_typed((kind, b"\x80\x04."))


def test_memory_saver_with_json_plus_serializer_restores_tuple_response() -> None:
    graph = saved(line(a=asks("q")), InMemorySaver(serde=JsonPlusSerializer()))
    graph.invoke({"x": 1}, CONFIG)
    assert graph.invoke(Command(resume=("a", 1)), CONFIG)["log"] == [("a", 1)]
