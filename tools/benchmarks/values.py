"""Cost of values: encoding a value, and storing a growing list of values.

Typical results of searches, tools and models are nested values of plain JSON.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from .engines import FLOOR
from .workloads import Once, Workload, chain, check, on_thread

#: Number of encodings per round.
ENCODED = 20


def make_nested(at: int, scale: int = 1) -> dict[str, Any]:
    """Return a list of nested values of about 3 KB, repeated ``scale`` times.

    Each consists of 5 lists of 5 lists of 25 integers, floats, words and None.
    """
    cells = [at / 3, at * 70_001, f"word {at}", None, at % 2 == 0]
    rows = [[[cells * 5 for _ in range(5)] for _ in range(5)] for _ in range(scale)]
    return {"id": at, "rows": rows[0] if scale == 1 else rows}


# Encoding of a single value.


def _numbers(n: int) -> Any:
    return [at * 70_001 if at % 2 else at * 1.7 for at in range(n)]


def _texts(n: int) -> Any:
    return {f"key {at}": f"příliš žluťoučký kůň {at}" for at in range(n)}


def _records(n: int) -> Any:
    return [
        {"id": at, "name": f"name {at}", "price": at * 1.1, "tags": ["a", "b"], "on": at % 2 == 0}
        for at in range(n)
    ]


def _nested(n: int) -> Any:
    return [make_nested(at) for at in range(7, n + 7)]


def _encoding(make: Callable[[int], Any]) -> Callable[[Any, int], Once]:
    def build(e: Any, n: int) -> Once:
        import ormsgpack

        from hitl_django.engine.serde import Codec, digest

        value = make(n)
        encode = ormsgpack.packb if e.engine == FLOOR else Codec().encode
        check(ormsgpack.unpackb(encode(value)), value)

        def once() -> int:
            for _ in range(ENCODED):
                digest(encode(value))
            return ENCODED * n

        return once

    return build


# A growing list of values.


class Nested(TypedDict):
    """A list that grows by one result of a search or a model in each step."""

    found: Annotated[list[dict[str, Any]], operator.add]
    turn: int


def growing(e: Any, n: int, saver: Any, scale: int = 1) -> Once:
    """Add a value to a list in each of n steps.

    Creating the value is not measured.
    """
    made = [make_nested(at, scale) for at in range(n + 1)]

    def step(state: Nested) -> dict[str, Any]:
        return {"found": [made[state["turn"] + 1]], "turn": state["turn"] + 1}

    app = chain(e, n, step, Nested).compile(checkpointer=saver)
    options = {"durability": "sync"} if saver else {}

    def once() -> int:
        start = {"found": [made[0]], "turn": 0}
        check(len(app.invoke(start, on_thread(n), **options)["found"]), n + 1)
        return n

    return once


class Boxed(TypedDict):
    """A dict in one channel that grows by one nested value in each step."""

    box: Annotated[dict[str, Any], operator.or_]
    turn: int


def boxed(e: Any, n: int, saver: Any) -> Once:
    """Add a value to a dict in each of n steps.

    Creating the value is not measured.
    """
    made = [make_nested(at) for at in range(n + 1)]

    def step(state: Boxed) -> dict[str, Any]:
        turn = state["turn"] + 1
        return {"box": {f"found {turn}": made[turn]}, "turn": turn}

    app = chain(e, n, step, Boxed).compile(checkpointer=saver)
    options = {"durability": "sync"} if saver else {}

    def once() -> int:
        start = {"box": {"found 0": made[0]}, "turn": 0}
        check(len(app.invoke(start, on_thread(n), **options)["box"]), n + 1)
        return n

    return once


def sized(e: Any, n: int, saver: Any) -> Once:
    """Add a value of n times 3 KB to a list in each of a few steps.

    The unit is the size of the value.
    """
    once = growing(e, STEPS, saver, n)

    def scaled() -> int:
        return once() * n

    return scaled


def _encoded_by_hand(n: int, scale: int) -> Once:
    """Encode the addition of each step and, at the end, the whole list with msgpack."""
    import ormsgpack

    made = [make_nested(at, scale) for at in range(n + 1)]

    def once() -> int:
        for value in made:
            ormsgpack.packb([value])
        ormsgpack.packb(made)
        return n

    return once


def _growing(scale: int = 1, *, is_saved: bool = True) -> Callable[[Any, int], Once]:
    def build(e: Any, n: int) -> Once:
        if e.engine == FLOOR:
            return _encoded_by_hand(n, scale)
        return growing(e, n, e.InMemorySaver() if is_saved else None, scale)

    return build


def _boxed(*, is_saved: bool) -> Callable[[Any, int], Once]:
    def build(e: Any, n: int) -> Once:
        if e.engine == FLOOR:
            return _encoded_by_hand(n, 1)
        return boxed(e, n, e.InMemorySaver() if is_saved else None)

    return build


def _sized(e: Any, n: int) -> Once:
    if e.engine != FLOOR:
        return sized(e, n, e.InMemorySaver())
    once = _encoded_by_hand(STEPS, n)
    return lambda: once() * n


#: Scale of values of half a megabyte, and their number. 20 of them are within the limit of 16 MB
#: for a value.
LARGE, FEW = 170, 20

#: Number of steps that each add one value, and the scales of the value (3 KB to 300 KB).
STEPS, SIZES = 10, (1, 10, 100)

WORKLOADS: dict[str, Workload] = {
    row.name: row
    for row in (
        *(
            Workload(
                f"encode-{name}", f"encode {title}, against msgpack and a digest", _encoding(make),
                size, unit, 2.5, growth=(10, 100, 1000, 10_000), against=FLOOR,
            )
            for name, title, make, size, unit in (
                ("numbers", "a list of numbers", _numbers, 1000, "number"),
                ("texts", "a dict of texts", _texts, 300, "text"),
                ("records", "a list of records", _records, 300, "record"),
            )
        ),
        Workload("encode-nested", "encode nested JSON, against msgpack and a digest",
                 _encoding(_nested), 1, "value", 2.5, growth=(1, 10, 100), against=FLOOR),
        Workload("nested", "a list of nested JSON that grows, no saver",
                 _growing(is_saved=False), 35, "super-step", 3, growth=(5, 15, 45)),
        Workload("nested-dict", "a dict of nested JSON that grows, no saver",
                 _boxed(is_saved=False), 35, "super-step", 3, growth=(5, 15, 45)),
        Workload("nested-memory", "a list of nested JSON that grows, in-memory saver",
                 _growing(), 35, "super-step", 8, growth=(5, 15, 45, 135), floor=True),
        Workload("nested-large", "the same with values of 500 KB, in-memory saver",
                 _growing(LARGE), FEW, "super-step", 8, growth=(5, 10, 20), floor=True),
        Workload("nested-dict-memory", "a dict of nested JSON that grows, in-memory saver",
                 _boxed(is_saved=True), 35, "super-step", 8, growth=(5, 15, 45), floor=True),
        Workload("sized-memory", "values of 30 KB, by their size, in-memory saver",
                 _sized, 10, "3 KB", 8, growth=SIZES, floor=True),
    )
}  # fmt: skip
