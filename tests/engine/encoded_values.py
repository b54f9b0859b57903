"""Values and their stored bytes.

``python -m tests.engine.encoded_values`` writes encoded_values.json with the encoder of the current
tree. It was run once, in the tree of commit d2b81ab, before the encoder was optimized.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pydantic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from hitl_django.engine.bridges import find_langchain
from hitl_django.engine.serde import Codec, digest, register_model
from hitl_django.engine.types import Command, Interrupt, MissingResume, Send
from tests.engine.test_serde import EXACT

FILE = Path(__file__).with_suffix(".json")
LONGEST = 8000  # Maximum number of characters of encoded bytes in the file.


@dataclass
class Price:
    amount: Decimal
    notes: list[str] = field(default_factory=list)


class Corner(NamedTuple):
    x: int
    y: float


class Kind(Enum):
    ROUND = "round"
    SQUARE = ("square", 4)


class Parcel(pydantic.BaseModel):
    id: int
    price: Price | None = None
    parts: list[Any] = []


def register_classes() -> None:
    find_langchain()
    for cls in (Price, Corner, Kind, Parcel):
        register_model(cls, f"encoded.{cls.__name__}")


def _nested(depth: int) -> Any:
    value: Any = {"leaf": [0.5, 70_001, None, "x"]}
    for at in range(depth):
        value = {"level": at, "in": [value]}
    return value


def _grid(at: int) -> dict[str, Any]:
    cells = [at / 3, at * 70_001, f"word {at}", None, at % 2 == 0]
    return {"id": at, "rows": [[cells * 5 for _ in range(5)] for _ in range(5)]}


_EDGES = [
    sign * (1 << bits) + off
    for bits in (0, 5, 7, 8, 15, 16, 31, 32, 62, 63, 64, 100)
    for off in (-1, 0, 1)
    for sign in (1, -1)
]

#: Values of EXACT by position, and values that are longer or instances of classes.
VALUES: dict[str, Any] = {f"exact {at}": value for at, value in enumerate(EXACT)} | {
    "numbers at the edges": _EDGES,
    "floats": [at * 1.7 - 3 for at in range(300)] + [1e-300, 1e300, 2.0**53, float("inf")],
    "a list of 16": list(range(16)),
    "a list of 65,536": [at % 128 for at in range(65_536)],
    "lists of each short length": [[at] * at for at in range(40)],
    "a dict of 16": {f"key {at}": at for at in range(16)},
    "a dict of 70,000": {f"k{at}": None for at in range(70_000)},
    "texts of each length": ["x" * at for at in (0, 1, 31, 32, 255, 256, 65_535, 65_536)],
    "texts": [f"příliš žluťoučký kůň {at} \U0001f40e" for at in range(50)],
    "bytes of each length": [b"\xc4" * at for at in (0, 1, 255, 256, 65_535, 65_536)],
    "bytes that look like heads": bytes(range(256)),
    "a bytearray among others": [bytearray(b"\xc4\xc5"), b"\xc4\xc5", {"in": bytearray(300)}],
    "many records": [
        {"id": at, "name": f"name {at}", "price": at * 1.1, "tags": ["a", "b"]} for at in range(200)
    ],
    "nested 100 levels": _nested(50),
    "grids": [_grid(at) for at in range(8)],
    "a megabyte": {"text": "word " * 220_000, "numbers": [at * 70_001 for at in range(2000)]},
    "sets": [{at, f"{at}", (at,)} for at in range(20)],
    "tuples in tuples": (1, (2, (3, (4, (5, (6, "deep")))))),
    "mappings in mappings": {1: {2: {3: {4: {5: "deep"}}}}},
    "a dataclass": Price(Decimal("1.20"), ["a", "b"]),
    "a named tuple": [Corner(1, 2.5), Corner(-1, 0.0)],
    "enums": [Kind.ROUND, Kind.SQUARE],
    "a model": Parcel(id=7, price=Price(Decimal(3)), parts=[Corner(1, 2.0), {"a": (1,)}]),
    "messages": [
        SystemMessage("Be kind.", id="0"),
        HumanMessage("Tell me.", id="1"),
        AIMessage(
            "Let me look.", id="2", tool_calls=[{"name": "search", "args": {"q": 1}, "id": "c"}]
        ),
        ToolMessage("Found.", id="3", tool_call_id="c"),
    ],
    "what the engine stores": [
        Send("node", {"items": (1, 2)}),
        Command(update={"a": 1}, goto="x", resume={"id": [True]}),
        Interrupt({"question": "Really?", "amount": Decimal("9.99")}, "b" * 32),
        MissingResume(),
    ],
}


def main() -> None:
    """Write the file."""
    register_classes()
    codec = Codec()
    stored = {}
    for name, value in VALUES.items():
        data = codec.encode(value)
        packed = base64.b64encode(zlib.compress(data, 9)).decode()
        # For long values, the digest is sufficient to compare the bytes.
        stored[name] = {"digest": digest(data), "zlib": packed if len(packed) < LONGEST else None}
    FILE.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
