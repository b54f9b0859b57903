"""Values after serialization and deserialization, compared with LangGraph's."""

from __future__ import annotations

import enum
import ipaddress
import re
import uuid
import warnings
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any, Generic, TypeVar
from zoneinfo import ZoneInfo

import pydantic
import pydantic.v1
import pytest
from dateutil import tz  # type: ignore[import-untyped]
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer as Theirs
from langgraph.store.base import Item, SearchItem

from hitl_django.engine.errors import UnserializableError
from hitl_django.engine.serde import Codec, JsonPlusSerializer, add_code_of
from hitl_django.engine.serde.registered_types import make_type_codec

T = TypeVar("T")


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Mapping(dict[str, Any]):
    pass


class Listed(list[Any]):
    pass


class Pairs(tuple[int, ...]):
    __slots__ = ()


class Real(float):
    pass


class Blob(bytes):
    pass


class Bag(set[int]):
    pass


class Money(Decimal):
    pass


class Marked(str):
    """A text with something of its own."""

    mark = "own"

    def __init__(self, _: str) -> None:
        self.mark = "set"


class Mode(enum.StrEnum):
    FAST = "fast"


class Old(str, enum.Enum):  # noqa: UP042 (as many still write it)
    FAST = "fast"


class Level(enum.IntEnum):
    LOW = 1


class Color(enum.Enum):
    RED = "red"


class Pair(enum.Enum):
    ONE = (1, 2)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


Point = namedtuple("Point", "x y")  # noqa: PYI024 (the untyped kind)


@dataclass
class Order:
    id: int


class Model(pydantic.BaseModel):
    id: int
    secret: pydantic.SecretStr = pydantic.SecretStr("s")


class Failed(Exception):
    pass


class OldModel(pydantic.v1.BaseModel):
    id: int


class Page(pydantic.BaseModel, Generic[T]):
    items: list[T]


class FixedZone(tzinfo):
    def utcoffset(self, _: Any) -> timedelta:
        return timedelta(hours=5, minutes=45)


class MonthlyZone(tzinfo):
    def utcoffset(self, moment: Any) -> timedelta | None:
        return moment and timedelta(hours=moment.month)


class NamedZone(ZoneInfo):
    pass


class Moment(datetime):
    pass


read_moment = pydantic.TypeAdapter(datetime).validate_python
read_time = pydantic.TypeAdapter(time).validate_python
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TEXT = AIMessage("hi").text

#: Values that both give back as they were, types included.
BOTH = [
    None, True, 1, -1, 1.5, "text", b"bytes", [1, [2]], {"a": {"b": 1}}, {1: 2}, {(1, 2): 3},
    {1, 2}, frozenset({1}), deque([1]),
    datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1), time(1, 2),
    timedelta(1, 2, 3), UTC, timezone(timedelta(hours=2), "X"), ZoneInfo("Europe/Berlin"),
    uuid.UUID(int=5), Decimal("1.10"), Path("/a/b"), re.compile("a.*b", re.IGNORECASE),
    re.compile(b"a"),
    *map(ipaddress.ip_address, ("1.2.3.4", "::1", "fe80::1%eth0")),
    *map(ipaddress.ip_network, ("10.0.0.0/8", "::/8")),
    *map(ipaddress.ip_interface, ("10.1.0.0/8", "::1/8")),
    HTTPStatus.OK, Mode.FAST, Old.FAST, Level.LOW, Color.RED,
    Rights.READ, Rights.READ | Rights.WRITE,
    Point(1, 2), Order(1), Model(id=1), pydantic.SecretStr("s"), pydantic.SecretBytes(b"s"),
    HumanMessage("x", id="1"), AIMessage("x", id="2"), RemoveMessage(id="1"),
    ToolMessage("x", tool_call_id="1"), Document("x", metadata={"a": 1}),
    OldModel(id=1), Page[int](items=[1]), pydantic.Secret[int](3),
    *(item(namespace=("a",), key="k", value={"v": 1}, created_at=NOON, updated_at=NOON)
      for item in (Item, SearchItem)),
]  # fmt: skip

#: Datetimes in another library's time zone, of which LangGraph keeps the UTC offset, as we do.
MOMENTS: list[datetime] = [
    read_moment("2026-07-01T10:00:00+02:00"),
    read_moment("2026-07-01T10:00:00Z"),
    datetime(2026, 7, 1, 10, tzinfo=tz.gettz("Europe/Berlin")),
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=tz.gettz("Europe/Berlin")),
    datetime(2026, 7, 1, 10, tzinfo=tz.tzutc()),
    datetime(2026, 7, 1, 10, tzinfo=tz.tzoffset("X", -3600)),
    datetime(2026, 7, 1, 10, tzinfo=FixedZone()),
]

#: Values that LangGraph gives back as something else, and we do, too: the value, and what it is.
PLAIN: list[tuple[Any, Any]] = [
    (Text("a"), "a"),
    (TEXT, "hi"),
    (Whole(1), 1),
    (Mapping(a=1), {"a": 1}),
    (Listed([1]), [1]),
    (memoryview(b"x"), b"x"),
    (Failed("x"), "Failed('x')"),
]

#: Values that only we give back as they were.
EXACT = [
    (1, (2,)), bytearray(b"x"), deque([1], maxlen=3), 2**70, 1 + 2j, Fraction(1, 3), Pair.ONE,
    datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    OrderedDict(a=1), Counter("aab"), defaultdict(list, a=[1]), PurePosixPath("a"),
    pydantic.AnyUrl("http://a.b/c"),
]  # fmt: skip

#: Values of which LangGraph keeps none, or the type: the value, and what we give back.
BASES: list[tuple[Any, Any]] = [
    (Pairs((1, 2)), (1, 2)),
    (Real(1.5), 1.5),
    (Blob(b"x"), b"x"),
    (Bag({1}), {1}),
    (Money("1.1"), Decimal("1.1")),
]

#: Values that are refused, because LangGraph gives something else back without a word.
REFUSED = [Marked("a"), "\ud800", print]


@pytest.fixture(autouse=True)
def beside_a_graph() -> Iterator[None]:
    """Make this module one that has a node, and lets LangGraph warn of what it revives."""
    add_code_of(beside_a_graph)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def revive(serde: Any, value: Any) -> Any:
    return serde.loads_typed(serde.dumps_typed({"x": [value]}))["x"][0]


def is_same(found: Any, value: Any) -> bool:
    return type(found) is type(value) and bool(found == value) and repr(found) == repr(value)


@pytest.mark.parametrize("value", BOTH, ids=repr)
def test_serialized_value_is_restored_unchanged_as_in_langgraph(value: Any) -> None:
    assert is_same(revive(Theirs(), value), value)
    assert is_same(revive(JsonPlusSerializer(), value), value)


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=[repr(plain) for _, plain in PLAIN])
def test_value_of_unsupported_type_is_restored_as_builtin_value_like_in_langgraph(
    value: Any, plain: Any
) -> None:
    assert is_same(revive(Theirs(), value), plain)
    assert is_same(revive(JsonPlusSerializer(), value), plain)


@pytest.mark.parametrize("value", EXACT, ids=repr)
def test_serialized_value_is_restored_unchanged_unlike_langgraph(value: Any) -> None:
    assert not is_same(try_theirs(value), value)
    assert is_same(revive(JsonPlusSerializer(), value), value)


@pytest.mark.parametrize(("value", "plain"), BASES, ids=[repr(plain) for _, plain in BASES])
def test_serialized_subclass_instance_is_restored_as_base_type_unlike_langgraph(
    value: Any, plain: Any
) -> None:
    assert not is_same(try_theirs(value), plain)
    assert is_same(revive(JsonPlusSerializer(), value), plain)


@pytest.mark.parametrize("value", REFUSED, ids=ascii)
def test_serialized_value_that_would_lose_data_raises_unserializable_error(value: Any) -> None:
    found = try_theirs(value)
    assert not (is_same(found, value) and vars_of(found) == vars_of(value))
    with pytest.raises(UnserializableError, match=r"^Can't store \$\.x\[0\]: "):
        revive(JsonPlusSerializer(), value)


def vars_of(value: Any) -> Any:
    return getattr(value, "__dict__", None)


def try_theirs(value: Any) -> Any:
    try:
        return revive(Theirs(), value)
    except TypeError:
        return None


@pytest.mark.parametrize("moment", MOMENTS, ids=str)
def test_serialized_datetime_in_third_party_time_zone_class_keeps_its_offset(
    moment: datetime,
) -> None:
    offset = moment.replace(tzinfo=timezone(moment.utcoffset() or timedelta()), fold=0)
    assert is_same(revive(Theirs(), moment), offset)
    assert is_same(revive(JsonPlusSerializer(), moment), offset)


@pytest.mark.parametrize(
    "at",
    [read_time("10:00+02:00"), time(10, tzinfo=tz.tzutc()), time(10, tzinfo=FixedZone())],
    ids=str,
)
def test_serialized_time_in_third_party_time_zone_class_keeps_its_offset_unlike_langgraph(
    at: time,
) -> None:
    offset = at.replace(tzinfo=timezone(at.utcoffset() or timedelta()))
    assert try_theirs(at) is None
    assert is_same(revive(JsonPlusSerializer(), at), offset)


def test_serialized_time_with_date_dependent_offset_raises_unserializable_error() -> None:
    at = time(10, tzinfo=MonthlyZone())
    assert try_theirs(at) is None
    with pytest.raises(
        UnserializableError, match=r"^Can't store \$\.x\[0\]: .* depends on the date"
    ):
        revive(JsonPlusSerializer(), at)


def test_serialized_subclasses_of_zone_info_and_datetime_are_restored_as_base_classes() -> None:
    zone = NamedZone("Europe/Berlin")
    assert is_same(revive(JsonPlusSerializer(), zone), ZoneInfo("Europe/Berlin"))
    moment = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zone)
    kept = moment.replace(tzinfo=ZoneInfo("Europe/Berlin"))
    assert is_same(revive(JsonPlusSerializer(), moment), kept)
    assert is_same(
        revive(JsonPlusSerializer(), Moment(2026, 7, 1, 10, tzinfo=tz.tzoffset("X", 3600))),
        datetime(2026, 7, 1, 10, tzinfo=timezone(timedelta(hours=1))),
    )


def test_serialized_pydantic_v1_model_keeps_fields_and_gets_new_defaults() -> None:
    class Newer(pydantic.v1.BaseModel):
        id: int
        note: str = "new"
        _private: int = pydantic.v1.PrivateAttr(1)

    table = Codec(types=[make_type_codec(OldModel, "old")])
    newer = Codec(types=[make_type_codec(Newer, "old")])
    found = newer.decode(table.encode(OldModel(id=1)))
    assert (found.id, found.note, found._private) == (1, "new", 1)
    assert found.__fields_set__ == {"id"}
    assert newer.decode(newer.encode(found)) == found


def test_serialized_numpy_arrays_are_restored_unchanged_and_object_arrays_rejected() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy need not be installed")
    dates = numpy.array(["2026-01-01"], dtype="M8[D]")  # which LangGraph can't store
    for value in (
        numpy.arange(6).reshape(2, 3),
        numpy.asfortranarray(numpy.arange(6.0).reshape(2, 3)),
        numpy.arange(12).reshape(3, 4)[:, ::2],
        numpy.array(5, dtype=">i2"),
        numpy.zeros((0, 3)),
        dates,
    ):
        found = revive(JsonPlusSerializer(), value)
        for one in (found,) if value is dates else (found, revive(Theirs(), value)):
            assert one.dtype == value.dtype
            assert numpy.array_equal(one, value)
        assert found.flags.writeable
        assert found.flags.f_contiguous == value.flags.f_contiguous
    with pytest.raises(UnserializableError, match="is an array of object"):
        revive(JsonPlusSerializer(), numpy.array([object()]))
    assert is_same(revive(JsonPlusSerializer(), numpy.float64(1.5)), 1.5)
