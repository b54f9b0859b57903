"""The codec: exact values, or an error with the part that can't be stored."""

from __future__ import annotations

import math
import re
import sys
import threading
from collections import ChainMap, Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from fractions import Fraction
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import ormsgpack
import pydantic
import pytest

from hitl_django.engine.errors import (
    CorruptPayloadError,
    PayloadLimitError,
    UnknownTagError,
    UnserializableError,
)
from hitl_django.engine.serde import (
    MAX_DEPTH,
    Codec,
    TypeCodec,
    digest,
    graph_classes,
    head_length,
    register_model,
)
from hitl_django.engine.serde import codec as codec_module
from hitl_django.engine.serde.extension_codes import SEND
from hitl_django.engine.serde.registered_types import REGISTERED, TypeTable
from hitl_django.engine.types import Command, Interrupt, Overwrite, Send, TimeoutPolicy


class Color(Enum):
    RED = "red"
    BLUE = ("b", 2)


class Level(IntEnum):
    LOW = 1


class Mode(StrEnum):
    FAST = "fast"


class Text(str):
    __slots__ = ()


class Whole(int):
    pass


class Marked(str):
    """A text with something of its own."""

    mark = ""


class Slotted(dict[str, int]):
    __slots__ = ("mark",)


class Listed(list[Any]):
    pass


class Moment(datetime):
    pass


class Longer(datetime):
    """A time that is finer than its base."""

    def __eq__(self, other: object) -> bool:
        return type(other) is Longer

    __hash__ = None  # type: ignore[assignment]


Pair = namedtuple("Pair", "left right")  # noqa: PYI024 (the untyped kind)


class Point(NamedTuple):
    x: int
    y: int = 7


@dataclass
class Money:
    amount: Decimal
    currency: str = "EUR"
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Frozen:
    inner: Any


class Order(pydantic.BaseModel):
    id: int
    lines: list[Any] = []
    price: Money | None = None
    _seen: int = pydantic.PrivateAttr(default=0)


class Loose(pydantic.BaseModel, extra="allow"):
    name: str = "x"


@pytest.fixture(autouse=True)
def without_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_classes, "PACKAGES", set())
    monkeypatch.setattr(graph_classes, "MODULES", set())
    for table in ("by_class", "by_tag"):  # removes additions of a test
        monkeypatch.setattr(REGISTERED, table, dict(getattr(REGISTERED, table)))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(REGISTERED, "by_class", {})
    monkeypatch.setattr(REGISTERED, "by_tag", {})
    for cls in (Color, Level, Mode, Pair, Point, Money, Frozen, Order, Loose):
        register_model(cls)


codec = Codec()


def there_and_back(value: Any) -> Any:
    return codec.decode(codec.encode(value))


def same(left: Any, right: Any) -> bool:
    """Compare types as well, at every level, and NaN with NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return math.copysign(1, left) == math.copysign(1, right) and (
            left == right or (math.isnan(left) and math.isnan(right))
        )
    if isinstance(left, dict):
        return same(list(left.items()), list(right.items()))
    if isinstance(left, list | tuple | deque):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, set | frozenset):
        return same(sorted(left, key=repr), sorted(right, key=repr))
    return bool(left == right)


BERLIN = ZoneInfo("Europe/Berlin")

# Their bytes are in encoded_values.json, by position. New values are appended.
EXACT = [
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    2**64 - 1,
    2**64,
    -(2**63),
    -(2**63) - 1,
    2**200,
    -(2**200),
    0.1,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    "",
    "plain",
    "ünïcødé \U0001f600",
    b"",
    b"\x00\xc4\xff",
    bytearray(b"\x00ab"),
    [],
    [1, [2, [3]]],
    (),
    (1, (2, [3, (4,)])),
    set(),
    {1, "a", (2, 3)},
    frozenset({frozenset({1}), b"x"}),
    deque([1, 2]),
    deque([1], maxlen=3),
    {},
    {"b": 1, "a": 2},
    {1: "int", "1": "str", 1.5: "float", None: 0, b"1": "bytes", (1, 2): "tuple"},
    {True: 1, False: 2},
    {frozenset({1}): {2: {3: (4,)}}},
    datetime(2026, 11, 21, 5, 34, 26, 123456),
    datetime(1, 1, 1),
    datetime.max,
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30, seconds=1))),
    datetime(2026, 7, 1, 12, tzinfo=BERLIN),
    date(2026, 2, 28),
    date.min,
    time(23, 59, 59, 999999),
    time(1, 2, tzinfo=UTC),
    time(1, 2, tzinfo=BERLIN),
    timedelta(days=-1, microseconds=1),
    timedelta.max,
    timedelta.min,
    Decimal("1.20"),
    Decimal("-0"),
    Decimal("1E+400"),
    Decimal("Infinity"),
    UUID(int=0),
    UUID(int=2**128 - 1),
    1j,
    complex(-0.0, math.inf),
    Path("/a/b"),
    PurePosixPath("a/ü"),
    PureWindowsPath("c:/x"),
    ip_address("1.2.3.4"),
    ip_address("fe80::1%eth0"),
    ip_network("10.0.0.0/8"),
    ip_network("2001:db8::/32"),
    ip_interface("10.1.2.3/8"),
    ip_interface("::1/8"),
    re.compile("a.*b", re.IGNORECASE | re.DOTALL),
    re.compile(b"\\d"),
    Fraction(1, 3),
    Fraction(-(10**40), 7),
    BERLIN,
    UTC,
    timezone(timedelta(hours=-3), "ART"),
    OrderedDict(b=1, a=(2,)),
    Counter("aab"),
    defaultdict(list, a=[1]),
    defaultdict(None, {1: {2}}),
    pydantic.SecretStr("s"),
    pydantic.SecretBytes(b"s"),
    pydantic.AnyUrl("http://a.b/c?d=e"),
    pydantic.PostgresDsn("postgres://a@b:1,c:2/d"),
    Send("node", {"items": (1, 2)}),
    Command(update={"a": 1}, goto=[Send("x", 1), "y"], graph=Command.PARENT),
    Command(resume={"id": True}),
    Interrupt({"question": "Really?"}, "a" * 32, response_schema={"type": "boolean"}),
    Interrupt("plain"),
    Overwrite([1, 2]),
]


@pytest.mark.promise("P14")
@pytest.mark.parametrize(
    "value", EXACT, ids=[f"{type(value).__name__}-{at}" for at, value in enumerate(EXACT)]
)
def test_codec_restores_every_supported_value_with_equal_type(value: Any) -> None:
    assert same(there_and_back(value), value)
    assert same(there_and_back({"x": [value, (value,)]}), {"x": [value, (value,)]})


def test_codec_restores_integer_with_5000_digits() -> None:
    assert there_and_back([10**5000]) == [10**5000]


def test_codec_restores_decimal_nan_with_its_sign_and_payload() -> None:
    assert str(there_and_back(Decimal("-sNaN123"))) == "-sNaN123"


def test_codec_restores_send_with_its_timeout_policy() -> None:
    policy = TimeoutPolicy(idle_timeout=0.5, refresh_on="heartbeat")
    assert there_and_back(Send("n", 1, timeout=policy)).timeout == policy
    assert there_and_back(Send("n", 1, timeout=2.5)).timeout == TimeoutPolicy(run_timeout=2.5)


@pytest.mark.parametrize(("stored", "limit"), [(None, None), (2, 2.0), (0.25, 0.25)])
def test_codec_decodes_send_stored_in_older_timeout_format(
    stored: Any, limit: float | None
) -> None:
    old = ormsgpack.packb(ormsgpack.Ext(SEND, ormsgpack.packb(["n", {"x": 1}, stored])))
    loaded = Codec().decode(old)
    assert (loaded.node, loaded.arg) == ("n", {"x": 1})
    assert loaded.timeout == (limit and TimeoutPolicy(run_timeout=limit))


def test_codec_restores_dict_in_insertion_order() -> None:
    keys = ["z", "a", "m", "b"]
    assert list(there_and_back(dict.fromkeys(keys, 1))) == keys


def test_codec_encodes_equal_sets_to_equal_bytes() -> None:
    words = [f"word{n}" for n in range(50)]
    backwards = words[::-1]
    assert codec.encode(set(words)) == codec.encode(set(backwards))


def test_codec_restores_datetime_with_its_named_time_zone() -> None:
    before = datetime(2026, 10, 25, 1, 0, tzinfo=BERLIN)
    after = there_and_back(before)
    assert after.tzinfo.key == "Europe/Berlin"
    assert (after + timedelta(days=1)).utcoffset() == (before + timedelta(days=1)).utcoffset()


@pytest.mark.parametrize("zone", [None, BERLIN, UTC])
def test_codec_restores_fold_of_ambiguous_local_time(zone: Any) -> None:
    moment = datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=zone)
    assert there_and_back(moment).fold == 1
    assert there_and_back(moment.timetz()).fold == 1


def test_codec_restores_name_of_fixed_utc_offset() -> None:
    zone = timezone(timedelta(hours=-3), "ART")
    assert there_and_back(datetime(2026, 1, 1, tzinfo=zone)).tzname() == "ART"


# Dicts in the data that resemble encoded objects.

IMITATIONS = [
    {"__type__": "datetime", "value": "2026-01-01"},
    {"lc": 2, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
    {"$ext": 1, "data": "x"},
    [1, b"\x93\x01\x02\x03"],
    b"\xd6\x01\x93\x01\x02\x03",
    "\x01\x02\x03",
    [32, ["Money", {"amount": 1}]],
    {"__tag__": 32, "body": ["Money", {}]},
]


@pytest.mark.promise("P14")
@pytest.mark.parametrize("value", IMITATIONS, ids=repr)
def test_codec_restores_value_that_resembles_a_type_tag_unchanged(value: Any) -> None:
    assert same(there_and_back(value), value)
    assert same(there_and_back({"deep": [(value,)]}), {"deep": [(value,)]})


# Classes of a project.


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize(
    "value",
    [
        Color.RED,
        Color.BLUE,
        Level.LOW,
        Mode.FAST,
        Pair(1, (2,)),
        Point(1),
        Money(Decimal("1.10"), notes=["x"]),
        Frozen({"a": {1, 2}}),
        Order(id=1, lines=[(1, 2)], price=Money(Decimal(3))),
        Loose(name="n", more={"a": (1,)}),
        {Mode.FAST: 1, Level.LOW: 2},
        [Frozen(Frozen(Frozen(Frozen(Frozen(Frozen(1))))))],
    ],
    ids=lambda value: repr(value)[:40],
)
def test_codec_restores_instance_of_registered_class_unchanged(value: Any) -> None:
    assert same(there_and_back(value), value)


@pytest.mark.usefixtures("registered")
def test_codec_restores_pydantic_model_with_unvalidated_values_and_private_fields() -> None:
    order = Order.model_construct(id="not an int", lines=(1, 2), _fields_set={"id"})
    order._seen = 3
    again = there_and_back(order)
    assert again.id == "not an int"
    assert again.lines == (1, 2)
    assert again.model_fields_set == {"id"}
    assert again._seen == 3


@pytest.mark.usefixtures("registered")
def test_codec_decodes_record_stored_before_a_field_was_added_with_the_default_of_the_field() -> (
    None
):
    old = ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb(["Money", {"amount": 5}])))
    assert codec.decode(old) == Money(5, "EUR", [])  # type: ignore[arg-type]
    old = ormsgpack.packb(
        ormsgpack.Ext(32, ormsgpack.packb(["Order", [{"id": 5}, [], None, None]]))
    )
    assert codec.decode(old).lines == []


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("body", [["Money", {}], ["Order", [{}, [], None, None]], ["Point", {}]])
def test_codec_decoding_record_without_required_field_raises_corrupt_payload_error(
    body: Any,
) -> None:
    stored = ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb(body)))
    with pytest.raises(CorruptPayloadError):
        codec.decode(stored)


class Ratio(NamedTuple):
    """A type that only one codec of these tests knows."""

    over: int
    under: int


def test_codec_decoding_type_registered_only_in_another_codec_raises_unknown_tag_error() -> None:
    special = Codec(types=[TypeCodec("ratio", Ratio, list, lambda stored: Ratio(*stored))])
    stored = special.encode({"x": Ratio(1, 3)})
    assert special.decode(stored) == {"x": Ratio(1, 3)}
    with pytest.raises(UnknownTagError, match="'ratio'"):
        codec.decode(stored)
    with pytest.raises(UnserializableError, match=r"Can't store \$\.x: "):
        codec.encode({"x": Ratio(1, 3)})


def test_codec_with_custom_type_for_fraction_decodes_custom_and_builtin_form() -> None:
    special = Codec(types=[TypeCodec("fraction", Fraction, _parts, _fraction)])
    stored = special.encode([Fraction(1, 3)])
    assert b"fraction" in stored
    assert special.decode(stored) == [Fraction(1, 3)]
    assert special.decode(codec.encode([Fraction(1, 3)])) == [Fraction(1, 3)]


def _parts(value: Fraction) -> list[int]:
    return [*value.as_integer_ratio()]


def _fraction(stored: list[int]) -> Fraction:
    return Fraction(*stored)


def test_type_table_add_with_used_short_name_or_class_raises_value_error() -> None:
    table = TypeTable()
    entry = TypeCodec("f", Fraction, str, Fraction)
    table.add(entry)
    with pytest.raises(ValueError, match="'f' is already used by Fraction"):
        table.add(TypeCodec("f", Text, str, Text))
    with pytest.raises(ValueError, match="already registered as 'f'"):
        table.add(TypeCodec("g", Fraction, str, Fraction))


@pytest.mark.parametrize("tag", ["", "1st", "os system", "a/b", "x" * 65, "naïve"])
def test_type_table_add_with_invalid_short_name_raises_value_error(tag: str) -> None:
    with pytest.raises(ValueError, match="is not a valid short name"):
        TypeTable().add(TypeCodec(tag, Fraction, str, Fraction))


@pytest.mark.parametrize("cls", [str, dict, tuple, datetime, Send])
def test_type_table_add_of_natively_stored_type_raises_value_error(cls: type) -> None:
    with pytest.raises(ValueError, match="stored natively and can't be registered"):
        TypeTable().add(TypeCodec("x", cls, str, cls))


def test_register_model_with_unsupported_class_raises_type_error() -> None:
    with pytest.raises(TypeError, match="use register_type"):
        register_model(SimpleNamespace)


# Values that are stored as their base type.

PLAIN: list[tuple[Any, Any]] = [
    (Text("t"), "t"),
    (Marked("t"), "t"),
    ({Text("t"): [Text("é")]}, {"t": ["é"]}),
    (Whole(2**70), 2**70),
    ((Whole(1),), (1,)),
    (Level.LOW, 1),
    ({Mode.FAST: Mode.FAST}, {"fast": "fast"}),
    (Listed([Listed([b"\0"])]), [[b"\0"]]),
    (memoryview(b"ab"), b"ab"),
    (Moment(2026, 1, 1, fold=1, tzinfo=BERLIN), datetime(2026, 1, 1, fold=1, tzinfo=BERLIN)),
    ([ValueError("x")], ["ValueError('x')"]),
    (defaultdict(lambda: 1, a=2), defaultdict(None, a=2)),
]


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=[repr(plain) for _, plain in PLAIN])
def test_codec_restores_instance_of_builtin_subclass_as_builtin_type(
    value: Any, plain: Any
) -> None:
    assert same(there_and_back(value), plain)
    assert same(there_and_back([{"x": value, "nul": b"\0"}]), [{"x": plain, "nul": b"\0"}])


def test_codec_encodes_str_subclass_without_calling_its_str_method() -> None:
    class Loud(str):
        __slots__ = ()

        def __str__(self) -> str:
            return "loud"

    assert there_and_back(Loud("quiet")) == "quiet"


def test_codec_restores_ordered_dict_in_its_reordered_key_order() -> None:
    value = OrderedDict(a=1, b=2)
    value.move_to_end("a")
    assert list(there_and_back(value)) == ["b", "a"]


def test_codec_decodes_windows_path_as_pure_windows_path() -> None:
    stored = ormsgpack.packb([ormsgpack.Ext(32, ormsgpack.packb(["@WindowsPath", "c:\\x"]))])
    assert codec.decode(stored) == [PureWindowsPath("c:/x")]


# Classes named in the code of a graph.


def test_codec_restores_instances_of_module_level_class_of_node_module_without_registration() -> (
    None
):
    graph_classes.add_code_of(
        test_codec_restores_instances_of_module_level_class_of_node_module_without_registration
    )
    for value in (Color.BLUE, Level.LOW, Mode.FAST, Money(Decimal(1)), Order(id=1), Pair(1, 2)):
        assert same(there_and_back([value]), [value])
    assert b"tests.engine.test_serde.Money" in codec.encode(Money(Decimal(1)))


def test_codec_encoding_local_class_raises_unserializable_error_naming_register_model() -> None:
    @dataclass
    class Local:
        x: int

    graph_classes.add_code_of(
        test_codec_restores_instances_of_module_level_class_of_node_module_without_registration
    )
    with pytest.raises(UnserializableError, match=r"\$\.x: .*register_model\(Local\)") as refusal:
        codec.encode({"x": Local(1)})
    assert refusal.value.path == "$.x"


@pytest.mark.promise("P14")
@pytest.mark.parametrize(
    "tag",
    [
        "tests.engine.test_serde.Surprise",  # no kind that is stored
        "tests.engine.test_serde.codec",
        "tests.engine.test_serde.there_and_back",
        "tests.engine.test_serde.Money.__init__",
        "tests.engine.test_serde.missing.Money",
        "tests.engine.test_serde",
        "tests.engine.not_there.Money",
        "subprocess.Popen",
        "dataclasses.Field",
        "@os.system",
        "@",
    ],
)
def test_codec_decoding_unknown_class_name_raises_unknown_tag_error_and_imports_no_module(
    tag: str,
) -> None:
    graph_classes.add_code_of(
        test_codec_decoding_unknown_class_name_raises_unknown_tag_error_and_imports_no_module
    )
    before = set(sys.modules)
    with pytest.raises(UnknownTagError):
        codec.decode(ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb([tag, {}]))))
    assert set(sys.modules) == before


# Refusals.


class Surprise:
    def __repr__(self) -> str:
        raise RuntimeError("secret")


class Fault(Surprise, Exception):
    pass


def with_mark(value: Marked) -> Marked:
    value.mark = "own"
    return value


REFUSED: list[tuple[Any, str]] = [
    ({"state": {"user": Surprise()}}, "$.state.user"),
    ([1, {"a b": [object()]}], "$[1]['a b'][0]"),
    ({"x": with_mark(Marked("t"))}, "$.x"),
    ({with_mark(Marked("t")): 1}, "${key Marked}"),
    ({"d": Slotted(a=1)}, "$.d"),
    (ChainMap(), "$"),
    ({"at": [Longer(2026, 1, 1)]}, "$.at[0]"),
    ({"x": Listed([1, Surprise()])}, "$.x[1]"),
    (Fault(), "$"),
    ((Pair(1, 2),), "$[0]"),
    ([Point(1)], "$[0]"),
    ([Color.RED], "$[0]"),
    ([Money(Decimal(1))], "$[0]"),
    ([Order(id=1)], "$[0]"),
    ([print], "$[0]"),
    ([int], "$[0]"),
    ([range(3)], "$[0]"),
    ([(n for n in [1])], "$[0]"),
    (("\ud800",), "$[0]"),
    (Send("n", {"x": "\ud800"}), "$[1].x"),
    ("\ud800", "$"),
    ({"a": [1, "\udfff"]}, "$.a[1]"),
    ({"\ud800": 1}, "${key '\\ud800'}"),
    ({1: {2: "\ud800"}}, "$[1][2]"),
    ({"n": 0, "x": ["é" * 300, "\ud800"]}, "$.x[1]"),
]


@pytest.mark.promise("P14")
@pytest.mark.parametrize(("value", "path"), REFUSED, ids=[path for _, path in REFUSED])
def test_codec_encoding_unstorable_value_raises_unserializable_error_naming_its_path(
    value: Any, path: str
) -> None:
    with pytest.raises(UnserializableError) as refusal:
        codec.encode(value)
    assert refusal.value.path == path
    assert path in str(refusal.value)


def test_unserializable_error_message_suggests_registration_or_conversion() -> None:
    with pytest.raises(UnserializableError, match=r"register_model\(Money\)"):
        codec.encode({"price": Money(Decimal(1))})
    with pytest.raises(UnserializableError, match=r"Store str\(value\)"):
        codec.encode({"name": with_mark(Marked("x"))})


def test_exception_in_dump_function_of_type_raises_unserializable_error() -> None:
    def dump(value: Any) -> Any:
        raise LookupError("secret")

    special = Codec(types=[TypeCodec("fraction", Fraction, dump, Fraction)])
    with pytest.raises(
        UnserializableError, match=r"^Can't store \$\.a\[0\]: .*LookupError\.$"
    ) as refusal:
        special.encode({"a": [Fraction(1)]})
    assert isinstance(refusal.value.__cause__, LookupError)


def test_system_exit_in_dump_function_of_type_is_raised_unchanged() -> None:
    def dump(value: Any) -> Any:
        raise SystemExit(3)

    special = Codec(types=[TypeCodec("fraction", Fraction, dump, Fraction)])
    with pytest.raises(SystemExit):
        special.encode([Fraction(1)])
    assert special.encode([1]) == b"\x91\x01"


def test_system_exit_in_load_function_of_type_is_raised_unchanged() -> None:
    def load(value: Any) -> Any:
        raise SystemExit(3)

    special = Codec(types=[TypeCodec("fraction", Fraction, str, load)])
    stored = special.encode((Fraction(1),))
    with pytest.raises(SystemExit):
        special.decode(stored)
    assert special.decode(b"\x91\x01") == [1]


def test_codec_encoding_self_referencing_value_raises_unserializable_error() -> None:
    loop: list[Any] = []
    loop.append({"again": (loop,)})
    with pytest.raises(UnserializableError, match="contains itself"):
        codec.encode({"x": loop})
    knot: dict[str, Any] = {}
    knot["knot"] = knot
    with pytest.raises(UnserializableError, match=r"Can't store \$\.knot: it contains itself"):
        codec.encode(knot)


# Limits.


def nested(make: Any, depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = make(value)
    return value


MAKERS = {
    "list": lambda value: [value],
    "dict": lambda value: {"k": value},
    "int keys": lambda value: {1: value},
    "tuple": lambda value: (value,),
    "frozenset": lambda value: frozenset({value}),
    "send": lambda value: Send("n", value),
}


@pytest.mark.promise("P21")
@pytest.mark.parametrize(
    ("kind", "depth"),
    [
        *((kind, depth) for kind in MAKERS for depth in (256, 300)),
        # hash() itself recurses in a frozenset
        *((kind, 100_000) for kind in MAKERS if kind != "frozenset"),
    ],
)
def test_codec_encoding_value_nested_beyond_max_depth_raises_payload_limit_error(
    kind: str, depth: int
) -> None:
    value = nested(MAKERS[kind], depth)
    with pytest.raises(PayloadLimitError, match="deeper than 255"):
        codec.encode(value)
    while isinstance(value, list | tuple | dict | Send):  # freed one level at a time
        value = value.arg if isinstance(value, Send) else next(iter(_inside(value)))


def _inside(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


@pytest.mark.parametrize("kind", MAKERS)
def test_codec_restores_value_nested_to_exactly_max_depth(kind: str) -> None:
    levels = MAX_DEPTH if kind in ("list", "dict") else MAX_DEPTH // 2
    value = nested(MAKERS[kind], levels)
    assert there_and_back(value) == value


@pytest.mark.parametrize("depth", [31, 32, 33])
def test_codec_with_max_depth_32_accepts_depth_32_and_rejects_depth_33(depth: int) -> None:
    small = Codec(max_depth=32)
    value = nested(MAKERS["list"], depth - 1)
    stored = codec.encode({"pad": "x" * 40, "value": value})
    if depth <= 32:
        assert small.encode({"pad": "x" * 40, "value": value}) == stored
        assert small.decode(stored)["value"] == value
        return
    with pytest.raises(PayloadLimitError) as refusal:
        small.encode({"pad": "x" * 40, "value": value})
    assert (refusal.value.limit, refusal.value.found) == (32, 33)
    with pytest.raises(PayloadLimitError):
        small.decode(stored)


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_codec_with_max_bytes_1000_accepts_1000_bytes_and_rejects_1001(extra: int) -> None:
    small = Codec(max_bytes=1000)
    text = "x" * (997 + extra)
    stored = codec.encode(text)
    assert len(stored) == 1000 + extra
    if extra <= 0:
        assert small.decode(small.encode(text)) == text
        return
    with pytest.raises(PayloadLimitError):
        small.encode(text)
    with pytest.raises(PayloadLimitError):
        small.decode(stored)


@pytest.mark.parametrize("make", [list, dict, tuple], ids=["list", "dict", "tuple"])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_codec_with_max_containers_100_accepts_100_containers_and_rejects_101(
    make: Any, extra: int
) -> None:
    small = Codec(max_containers=100)
    each = 2 if make is tuple else 1  # an extension, and the list in it
    value = [make() for _ in range((99 + extra) // each)]
    if make is tuple:
        value += [[] for _ in range((99 + extra) % each)]
    stored = codec.encode(value)
    if extra <= 0:
        assert small.decode(small.encode(value)) == value
        return
    with pytest.raises(PayloadLimitError) as refusal:
        small.encode(value)
    assert (refusal.value.limit, refusal.value.found) == (100, 101)
    with pytest.raises(PayloadLimitError):
        small.decode(stored)


def test_codec_decoding_deeply_nested_extensions_raises_payload_limit_error_within_1_mb_stack() -> (
    None
):
    stored = b"\x01"
    for _ in range(200):
        for _ in range(250):
            stored = b"\x91" + stored
        stored = ormsgpack.packb(ormsgpack.Ext(1, stored))
    found: list[BaseException] = []

    def decode() -> None:
        try:
            codec.decode(stored)
        except PayloadLimitError as refusal:
            found.append(refusal)

    before = threading.stack_size(1024 * 1024)
    try:
        thread = threading.Thread(target=decode)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert len(found) == 1


# Stored bytes.


@pytest.mark.parametrize("code", [0, 8, 31, 33, 63, 73, 127])
def test_codec_decoding_unknown_extension_code_raises_unknown_tag_error(code: int) -> None:
    with pytest.raises(UnknownTagError, match=f"extension code in stored bytes: {code}"):
        codec.decode(ormsgpack.packb([ormsgpack.Ext(code, b"\x01")]))


def test_codec_decoding_unknown_short_name_raises_unknown_tag_error_and_imports_no_module() -> None:
    body = ormsgpack.packb(["this.module", {}])
    assert "this" not in sys.modules
    with pytest.raises(UnknownTagError, match=r"'this\.module'"):
        codec.decode(ormsgpack.packb(ormsgpack.Ext(32, body)))
    assert "this" not in sys.modules


DAMAGED = [
    b"",
    b"\xc1",
    b"\x91",
    b"\xa1\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xffabc",
    b"\x81\x01\x02",
    b"\x80\x04\x95.",  # the truncated start of a pickle
    ormsgpack.packb(ormsgpack.Ext(2, ormsgpack.packb([[]]))),  # a set of a list
    ormsgpack.packb(ormsgpack.Ext(4, ormsgpack.packb([1]))),  # a key without a value
    ormsgpack.packb(ormsgpack.Ext(4, ormsgpack.packb([{}, 1]))),
    ormsgpack.packb(ormsgpack.Ext(1, ormsgpack.packb(5))),
    ormsgpack.packb(ormsgpack.Ext(5, ormsgpack.packb(["x", 5]))),
    ormsgpack.packb(ormsgpack.Ext(6, ormsgpack.packb(["2026-01-01T00:00:00", 0, "../../etc"]))),
    ormsgpack.packb(ormsgpack.Ext(6, ormsgpack.packb(["2026-01-01T00:00:00", 7, None]))),
    ormsgpack.packb(ormsgpack.Ext(7, ormsgpack.packb(["25:00", 0, None]))),
    ormsgpack.packb(ormsgpack.Ext(16, ormsgpack.packb([1]))),
    ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb(None))),
    ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb([[], 1]))),
    ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb(["@Pattern", ["(", 0]]))),
    ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb(["@Fraction", [1, 0]]))),
    ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb(["@ZoneInfo", "../../etc"]))),
    ormsgpack.packb(ormsgpack.Ext(32, ormsgpack.packb(["@defaultdict", ["exec", {}]]))),
    ormsgpack.packb(ormsgpack.Ext(66, b"123")),
    ormsgpack.packb(ormsgpack.Ext(67, b"2026-13-01")),
    ormsgpack.packb(ormsgpack.Ext(70, b"")),
    ormsgpack.packb(ormsgpack.Ext(71, b"12x")),
    ormsgpack.packb(ormsgpack.Ext(72, b"12")),
]


@pytest.mark.promise("P14")
@pytest.mark.parametrize("stored", DAMAGED, ids=repr)
def test_codec_decoding_damaged_bytes_raises_corrupt_payload_error(stored: bytes) -> None:
    with pytest.raises(CorruptPayloadError):
        codec.decode(stored)


def test_encode_record_returns_same_bytes_and_raises_same_errors_as_encode() -> None:
    record = {"id": "1f", "versions": {f"channel{n}": n << 32 for n in range(20)}, "v": (4, 0)}
    assert codec.encode_record(record) == codec.encode(record)
    with pytest.raises(UnserializableError, match=r"Can't store \$\.x: "):
        codec.encode_record({"x": object()})
    with pytest.raises(PayloadLimitError):
        Codec(max_containers=2).encode_record(record)


class Buffered(NamedTuple):
    """Something whose sum with a number is one, and that holds bytes of another type."""

    held: bytearray

    def __radd__(self, other: Any) -> float:
        return float(other)


@pytest.mark.parametrize("last", [bytearray(b"\xc4"), Buffered(bytearray(b"\xc4"))], ids=repr)
def test_codec_restores_bytes_like_value_after_many_numbers_with_its_type(last: Any) -> None:
    numbers = Codec(types=[TypeCodec("buffered", Buffered, list, lambda held: Buffered(*held))])
    value = [[[*(at * 1.7 for at in range(500)), last]]]
    found = numbers.decode(numbers.encode(value))
    assert (found, repr(found[0][0][-1])) == (value, repr(last))


@pytest.mark.parametrize("size", [0, 1, 100, 1 << 40])
@pytest.mark.parametrize(
    "value", [[], [{"n": 1}, "a", None] * 40, {f"key {n}": [n] for n in range(99)}], ids=repr
)
def test_list_or_dict_encoded_in_batches_has_same_bytes_as_encoded_as_a_whole(
    value: list[Any] | dict[str, Any], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec_module, "AT_A_TIME", 50)
    data = codec.encode(value)
    assert b"".join(codec.encode_entries(value, size)) == data[head_length(data) :]


def test_codec_decodes_bytearray_and_memoryview() -> None:
    stored = codec.encode({"a": (1,)})
    assert codec.decode(bytearray(stored)) == codec.decode(memoryview(stored)) == {"a": (1,)}


@pytest.mark.parametrize("stored", ["text", None, 5])
def test_codec_decoding_text_none_or_number_raises_corrupt_payload_error(stored: Any) -> None:
    with pytest.raises(CorruptPayloadError):
        codec.decode(stored)


def test_codec_encodes_sample_value_to_bytes_with_the_recorded_digest() -> None:
    """A saved thread must stay readable permanently, so these bytes must not change."""
    value = {
        "t": (1, "a"),
        "s": {1},
        "d": {1: 2},
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "z": datetime(2026, 1, 1, tzinfo=BERLIN),
        "n": 2**64,
        "m": Decimal("1.0"),
        "i": Interrupt("q", "id"),
        "g": Send("n", 1),
    }
    assert digest(codec.encode(value)) == "03069e92968241b404b7916d05fe3a50"


def test_digest_has_32_hex_digits_and_differs_for_different_bytes() -> None:
    assert len(digest(b"abc")) == 32
    assert digest(b"abc") != digest(b"abd")
