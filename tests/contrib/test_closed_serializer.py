"""Class names in LangGraph's stored bytes: only known classes are created."""

from __future__ import annotations

import json
import pickle
import re
from collections import deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy
import ormsgpack
import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy
from pydantic import BaseModel, SecretStr

from hitl_django.contrib.langgraph.closed_serializer import MAX_NESTED, ClosedSerializer
from hitl_django.engine.errors import UnknownTagError
from hitl_django.engine.serde import add_code_of

pytestmark = pytest.mark.any_database


class Color(Enum):
    """A class of a graph's package."""

    RED = "red"


class Point(NamedTuple):
    """A class of a graph's package."""

    x: int
    y: int = 0


@dataclass
class Order:
    """A class of a graph's package."""

    number: int
    due: date


class Line(BaseModel):
    """A class of a graph's package."""

    count: int
    price: Decimal


class Offer(BaseModel):
    """A class of a graph's package, which has another one inside."""

    lines: list[Line]


@pytest.fixture(autouse=True)
def graph_code() -> None:
    add_code_of(Color)


def pack(code: int, *parts: Any) -> tuple[str, bytes]:
    """Return an extension of LangGraph's msgpack."""
    return "msgpack", ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(parts)))


def to_json(value: Any) -> tuple[str, bytes]:
    return "json", json.dumps(value).encode()


def constructor(layout: int, *path: str, **given: Any) -> tuple[str, bytes]:
    """Return a constructor of LangGraph's or LangChain's JSON."""
    return to_json({"lc": layout, "type": "constructor", "id": path, **given})


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"bytes",
        bytearray(b"bytes"),
        {1: "key", "list": [1.5, True, None]},
        [date(2026, 1, 2), time(3, 4, tzinfo=UTC), timedelta(days=1, seconds=2)],
        [datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, 3)],
        [timezone(timedelta(hours=1), "one"), ZoneInfo("Europe/Berlin")],
        [UUID(int=7), Decimal("1.50"), {1, 2}, frozenset({3}), deque([1, 2])],
        [IPv4Address("127.0.0.1"), IPv6Network("::/64"), Path("/a/b")],
        re.compile("a.b", re.IGNORECASE),
        [Color.RED, Point(1, 2), Order(1, date(2026, 1, 2))],
        Offer(lines=[Line(count=1, price=Decimal("1.50"))]),
        SecretStr("word"),
        [
            HumanMessage("hi", id="1"),
            AIMessage("ho", tool_calls=[]),
            ToolMessage("x", tool_call_id="1"),
        ],
        Document(page_content="text", metadata={"a": 1}),
        [
            Send("node", {"a": HumanMessage("hi")}),
            Send("node", 1, timeout=TimeoutPolicy(run_timeout=2)),
        ],
        [Interrupt("what?", id="1"), Overwrite([1]), Command(update={"a": 1}, goto=["node"])],
        _DeltaSnapshot([HumanMessage("hi")]),
    ],
    ids=str,
)
def test_allowlist_serializer_reads_values_stored_by_langgraph_unchanged(value: Any) -> None:
    assert ClosedSerializer().loads_typed(JsonPlusSerializer().dumps_typed(value)) == value


def test_allowlist_serializer_reads_numpy_array_stored_by_langgraph_unchanged() -> None:
    array = numpy.array([[1.5, 2.5], [3.5, 4.5]])
    stored = JsonPlusSerializer().dumps_typed({"array": array})
    assert (ClosedSerializer().loads_typed(stored)["array"] == array).all()


@pytest.mark.parametrize(
    ("stored", "value"),
    [
        (constructor(2, "datetime", "datetime", method="fromisoformat", args=["2026-01-02"]),
         datetime(2026, 1, 2)),
        (constructor(2, "builtins", "bytes", method="fromhex", args=["6869"]), b"hi"),
        (constructor(2, "builtins", "set", args=[[1, 2]]), {1, 2}),
        (constructor(2, "re", "compile", args=["a", 32]), re.compile("a")),
        (constructor(2, __name__, "Line", method=[None, "model_construct"],
                     kwargs={"count": 1, "price": 2}), Line(count=1, price=Decimal(2))),
        (constructor(2, __name__, "Order", kwargs={"number": 1, "due": None}), Order(1, None)),  # type: ignore[arg-type]
        (constructor(2, "langgraph", "types", "Send", kwargs={"node": "n", "arg": 1}),
         Send("n", 1)),
        (constructor(1, "langchain", "schema", "messages", "HumanMessage",
                     kwargs={"content": "hi", "type": "human"}), HumanMessage("hi")),
        (constructor(1, "langchain_core", "messages", "ai", "AIMessage", kwargs={"content": "hi"}),
         AIMessage("hi")),
        (to_json(HumanMessage("hi").to_json()), HumanMessage("hi")),
        (to_json({"lc": 1, "kwargs": {}}), {"lc": 1, "kwargs": {}}),
    ],
    ids=lambda value: None,
)  # fmt: skip
def test_allowlist_serializer_reads_values_stored_by_earlier_langgraph_releases(
    stored: Any, value: Any
) -> None:
    assert ClosedSerializer().loads_typed(stored) == value


def test_allowlist_serializer_reads_stored_pydantic_model_without_validation() -> None:
    stored = pack(5, __name__, "Line", {"count": "many"}, "model_validate_json")
    assert ClosedSerializer().loads_typed(stored).count == "many"


def list_hostile(path: Path) -> dict[str, tuple[str, bytes]]:
    """Return objects in each form of LangGraph's serializers. Loading one may write a file."""
    touch, command = f"touch {path}", {"command": f"touch {path}"}
    return {
        "one argument": pack(0, "os", "system", touch),
        "arguments": pack(1, "os", "system", [touch]),
        "keywords": pack(2, "os", "system", command),
        "method": pack(3, "pathlib", "Path", str(path), "touch"),
        "pydantic 1": pack(4, "os", "system", command),
        "pydantic 2": pack(5, "os", "system", command, "model_validate_json"),
        "unknown extension": pack(9, "os", "system", command),
        "no names": pack(1, ["os"], {"system": 1}, [touch]),
        "lc 2": constructor(2, "os", "system", args=[touch]),
        "lc 2 with keywords": constructor(2, "os", "system", kwargs=command),
        "lc 2 with a method": constructor(2, "pathlib", "Path", args=[str(path)], method="touch"),
        "lc 2 without a name": constructor(2),
        "lc 1": constructor(1, "os", "system", kwargs=command),
        "lc 1 of langchain": constructor(
            1, "langchain", "prompts", "prompt", "PromptTemplate", kwargs={"template": "x"}
        ),
        "lc 1 secret": to_json({"lc": 1, "type": "secret", "id": ["PATH"]}),
        "lc 1 not implemented": to_json({"lc": 1, "type": "not_implemented", "id": ["os", "fork"]}),
        "pickle": ("pickle", pickle.dumps(Touch(path))),
        "encrypted": ("msgpack+aes", b""),
    }


def put_inside(stored: tuple[str, bytes]) -> tuple[str, bytes]:
    """Return a value that contains another value at a deeper level."""
    kind, data = stored
    if kind == "json":
        return to_json({"a": [json.loads(data)]})
    found = ormsgpack.unpackb(data, ext_hook=ormsgpack.Ext)
    held = ormsgpack.Ext(1, ormsgpack.packb(["builtins", "set", [[found]]]))
    return kind, ormsgpack.packb({"a": [held]})


class Touch:
    """Object whose pickle writes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.promise("P14")
@pytest.mark.parametrize("form", list_hostile(Path()))
def test_allowlist_serializer_raises_unknown_tag_error_for_unknown_class_without_calling_it(
    form: str, tmp_path: Path
) -> None:
    path = tmp_path / "called"
    stored = list_hostile(path)[form]
    deeper = [put_inside(stored)] if stored[0] in ("msgpack", "json") else []
    for each in (stored, *deeper):
        with pytest.raises(UnknownTagError):
            ClosedSerializer().loads_typed(each)
    assert not path.exists()


def test_allowlist_serializer_with_too_deeply_nested_objects_raises_unknown_tag_error() -> None:
    data = ormsgpack.packb(1)
    for _ in range(MAX_NESTED + 1):
        data = ormsgpack.packb(ormsgpack.Ext(7, data))
    with pytest.raises(UnknownTagError, match="nested deeper"):
        ClosedSerializer().loads_typed(("msgpack", data))
