"""Catalogue of return values: stored as state, or rejected with a specific error."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime
import decimal
import enum
import io
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import END, Command
from hitl_django.engine.errors import InvalidUpdateError, PayloadLimitError, UnserializableError
from hitl_django.engine.types import Send

from .faults import PLACES, Trial, said_of
from .graphs import CONFIG, log_of

Make = Callable[[], Any]

in_each_place = pytest.mark.parametrize("place", PLACES)


class Whole(int): ...


class Text(str): ...


class Table(dict): ...


class Colour(enum.Enum):
    RED = 1


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __repr__


def containing_itself() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


def unawaited() -> Any:
    async def late() -> dict[str, Any]:
        return {"x": 2}

    with warnings.catch_warnings():
        return late()


def shown(value: Any) -> str:
    return "object" if type(value) is object else repr(value)


# Invalid updates.

NO_UPDATE: dict[str, tuple[Make, str]] = {
    "generator": (lambda: (part for part in [{"x": 2}]), "generator"),
    "number": (lambda: 5, "5"),
    "set": (lambda: {1}, "set"),
    "bytes": (lambda: b"x", "b'x'"),
    "text": (lambda: "text", "text"),
    "lambda": (lambda: lambda: 1, "function"),
    "file": (lambda: io.BytesIO(b"x"), "BytesIO"),
    "enum": (lambda: Colour.RED, "Colour"),
    "exception": (lambda: ValueError("returned"), "ValueError"),
    "send": (lambda: Send("after", {}), "Send"),
    "sends": (lambda: [Send("after", {})], "list"),
    "dicts": (lambda: [{"x": 2}], "list"),
    "command of no update": (lambda: Command(update=5), "5"),
}


@in_each_place
@pytest.mark.parametrize("name", NO_UPDATE)
def test_invalid_node_update_raises_error_naming_node_and_run_continues_after_fix(
    name: str, place: str
) -> None:
    make, words = NO_UPDATE[name]
    trial = Trial(lambda state: make(), place)
    error = trial.failure()
    assert isinstance(error, InvalidUpdateError)
    with pytest.raises(InvalidUpdateError, match=f"Expected dict, got .*{words}"):
        raise error
    assert "'bad'" in said_of(error)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@in_each_place
def test_node_returning_unawaited_coroutine_fails_with_error_suggesting_async_def(
    place: str,
) -> None:
    trial = Trial(lambda state: unawaited(), place)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = trial.failure()
    assert isinstance(error, InvalidUpdateError)
    assert "async def" in str(error)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@in_each_place
def test_node_returning_value_with_failing_repr_fails_with_error_naming_its_type(
    place: str,
) -> None:
    trial = Trial(lambda state: Unspeakable(), place)
    error = trial.failure()
    assert isinstance(error, InvalidUpdateError)
    assert "Unspeakable" in str(error)
    trial.assert_goes_on()


def test_node_returning_huge_string_fails_with_error_below_thousand_characters() -> None:
    error = Trial(lambda state: "x" * 50_000_000).failure()
    assert isinstance(error, InvalidUpdateError)
    assert len(str(error)) < 1_000


# Valid targets of a node.


@in_each_place
@pytest.mark.parametrize("goto", [None, 5, [None], ["after", 5], object()], ids=shown)
def test_command_with_goto_of_invalid_type_raises_invalid_update_error_naming_goto(
    goto: Any, place: str
) -> None:
    trial = Trial(lambda state: Command(goto=goto), place)
    error = trial.failure()
    assert isinstance(error, InvalidUpdateError)
    assert "goto" in str(error)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@in_each_place
@pytest.mark.parametrize("goto", ["nowhere", "__start__", Send("nowhere", 1)], ids=str)
def test_command_with_goto_to_unknown_node_raises_error_naming_node_and_target(
    goto: Any, place: str
) -> None:
    trial = Trial(lambda state: Command(goto=goto), place)
    said = str(trial.failure())
    assert "'bad'" in said
    assert repr(getattr(goto, "node", goto)) in said
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@in_each_place
def test_node_with_send_to_end_fails_and_run_continues_after_fix(place: str) -> None:
    trial = Trial(lambda state: Command(goto=Send(END, 1)), place)
    assert "END" in str(trial.failure())
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


# Values that can't be stored.


def _local_class() -> Any:
    @dataclasses.dataclass
    class Local:
        x: int

    return Local


UNSTORABLE: dict[str, tuple[Make, str]] = {
    "generator": (lambda: (part for part in [1]), "generator"),
    "file": (lambda: io.BytesIO(b"x"), "BytesIO"),
    "class": (lambda: Whole, "type"),
    "lambda": (lambda: lambda: 1, "function"),
    "lock": (threading.Lock, "lock"),
    "self": (containing_itself, "contains itself"),
    "local class": (lambda: _local_class()(1), "register_model(Local)"),
    "surrogate": (lambda: "\ud800", "surrogate"),
    "unspeakable": (Unspeakable, "Unspeakable"),
    "unspeakable key": (lambda: {Unspeakable(): 1}, "Unspeakable"),
}


@in_each_place
@pytest.mark.parametrize("name", UNSTORABLE)
def test_unserializable_error_names_node_path_and_type_of_unstorable_value(
    name: str, place: str
) -> None:
    make, words = UNSTORABLE[name]
    trial = Trial(lambda state: {"x": make()}, place)
    error = trial.failure()
    assert isinstance(error, UnserializableError)
    said = str(error)
    assert "'bad'" in said
    assert "$.x" in said
    assert words in said
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@in_each_place
def test_node_returning_coroutine_as_state_value_fails(place: str) -> None:
    made: list[Any] = []

    def node(state: Any) -> dict[str, Any]:
        made.append(unawaited())
        return {"x": made[-1]}

    trial = Trial(node, place)
    assert "coroutine" in str(trial.failure())
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()
    for each in made:
        each.close()


@in_each_place
def test_send_with_unstorable_argument_raises_error_naming_the_sending_node(place: str) -> None:
    trial = Trial(lambda state: Command(goto=Send("after", threading.Lock())), place)
    said = str(trial.failure())
    assert "'bad'" in said
    assert "lock" in said
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@in_each_place
def test_node_returning_oversized_value_raises_payload_limit_error_naming_the_node(
    place: str,
) -> None:
    trial = Trial(lambda state: {"x": "x" * 50_000_000}, place)
    error = trial.failure()
    assert isinstance(error, PayloadLimitError)
    assert "'bad'" in str(error)
    assert error.found > 50_000_000 > error.limit
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


# Unusual but valid updates.

ODD: dict[str, Make] = {
    "Decimal NaN": lambda: decimal.Decimal("NaN"),
    "Decimal signalling NaN": lambda: decimal.Decimal("sNaN"),
    "NaN": lambda: float("nan"),
    "naive datetime": lambda: datetime.datetime(2020, 1, 1, 2, 30),
    "keys": lambda: {1: "a", (1, 2): "b", None: "c", 1.5: "d"},
    "set": lambda: {1},
    "bytes": lambda: b"\x00\xff",
    "NUL": lambda: "a\0b",
    "nothing": lambda: None,
}


@in_each_place
@pytest.mark.parametrize("name", ODD)
def test_unusual_state_value_is_restored_with_equal_type_and_repr(name: str, place: str) -> None:
    trial = Trial(lambda state: {"x": ODD[name](), "log": ["odd"]}, place)
    assert trial.advance().status == "finished"
    found = trial.graph.get_state(CONFIG).values["x"]
    assert type(found) is type(ODD[name]())
    assert repr(found) == repr(ODD[name]())
    assert sorted(log_of(trial.graph)) == ["able", "after", "odd"]


#: Values that are stored as their base type: a factory, and the loaded value.
PLAIN: dict[str, tuple[Make, Any]] = {
    "int subclass": (lambda: Whole(1), 1),
    "str subclass": (lambda: Text("t"), "t"),
    "dict subclass": (lambda: Table(a=1), {"a": 1}),
    "exception": (lambda: ValueError("returned"), "ValueError('returned')"),
}


@in_each_place
@pytest.mark.parametrize("name", PLAIN)
def test_state_value_of_builtin_subclass_is_restored_as_its_base_type(
    name: str, place: str
) -> None:
    make, plain = PLAIN[name]
    trial = Trial(lambda state: {"x": make()}, place)
    assert trial.advance().status == "finished"
    found = trial.graph.get_state(CONFIG).values["x"]
    assert (type(found), found) == (type(plain), plain)


@in_each_place
def test_enum_defined_in_module_of_node_is_restored_as_equal_enum_member(place: str) -> None:
    trial = Trial(lambda state: {"x": [Colour.RED]}, place)
    assert trial.advance().status == "finished"
    assert trial.graph.get_state(CONFIG).values["x"] == [Colour.RED]


@in_each_place
def test_integer_of_50000_bits_is_restored_unchanged(place: str) -> None:
    trial = Trial(lambda state: {"x": 7**20_000}, place)
    assert trial.advance().status == "finished"
    assert trial.graph.get_state(CONFIG).values["x"] == 7**20_000


@in_each_place
@pytest.mark.parametrize("update", [None, {}, {"unknown": 1}, {1: 2}, {None: 1}], ids=shown)
def test_node_update_without_known_keys_leaves_state_unchanged(update: Any, place: str) -> None:
    trial = Trial(lambda state: update, place)
    assert trial.advance().status == "finished"
    assert trial.graph.get_state(CONFIG).values == {"x": 1, "log": ["able", "after"]}


@in_each_place
def test_node_mutating_its_input_does_not_change_graph_state(place: str) -> None:
    def node(state: Any) -> dict[str, Any]:
        state["x"] = 99
        state["more"] = 1
        return {"log": ["bad"]}

    trial = Trial(node, place)
    assert trial.advance().status == "finished"
    found = trial.graph.get_state(CONFIG).values
    assert found["x"] == 1
    assert sorted(found) == ["log", "x"]


@in_each_place
def test_unstorable_value_in_async_run_raises_unserializable_error_naming_the_node(
    place: str,
) -> None:
    trial = Trial(lambda state: {"x": threading.Lock()}, place)
    error = asyncio.run(trial.afailure())
    assert isinstance(error, UnserializableError)
    assert "Node 'bad' returned a value that can't be stored: Can't store $.x" in str(error)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()
