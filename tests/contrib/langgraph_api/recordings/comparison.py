"""Comparison of a recorded response with a response to the same request."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from .exchanges import read_body, remove_deployment

_PLACE = re.compile(r"\{id-[\d.]+\}")
_KINDS = {
    type(None): "null", bool: "boolean", int: "number", float: "number", str: "string",
    list: "list", dict: "object",
}  # fmt: skip


class Comparison:
    """Differences between recorded and actual responses, with the actual ids of a replay.

    A difference is a text such as ``.tasks.#.name: missing here``, with ``#`` for list items.
    """

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def fill_in(self, value: Any) -> Any:
        """Replace placeholders by actual ids. Ids that the client created get a new id."""
        if isinstance(value, str):
            return _PLACE.sub(lambda found: self.ids.setdefault(found[0], str(uuid4())), value)
        if isinstance(value, dict):
            return {name: self.fill_in(each) for name, each in value.items()}
        return [self.fill_in(each) for each in value] if isinstance(value, list) else value

    def compare(self, recorded: dict[str, Any], response: Any) -> Iterator[str]:
        """Yield the differences between a recorded response and a response of a test client.

        The bodies of two errors are not compared.
        """
        content = response.getvalue().decode()
        expected, status = recorded["status"], response.status_code
        if status != expected:
            yield f"status: {expected}, here {status}"
        if max(status, expected) >= 400:
            return
        for name, value in recorded["headers"].items():
            if name in response.headers:
                self._bind(value, response.headers[name])
            else:
                yield f"header {name}: missing here"
        kind = response.headers.get("Content-Type", "")
        found = remove_deployment(read_body(kind, content))
        is_stream = kind.startswith("text/event-stream")
        compare = self._compare_streams if is_stream else self._compare
        yield from compare(recorded["body"], found)

    def _compare_streams(self, expected: list[Any], found: list[Any]) -> Iterator[str]:
        """Compare the names of all events, and the data of events with the same name in order."""
        names = [[_generalize(name) for name, _ in events] for events in (expected, found)]
        if names[1][-1:] == ["end"]:
            names[1].pop()
            yield "events.end: only here"
        if names[0] != names[1]:
            yield f"events: {' '.join(names[0])}, here {' '.join(names[1])}"
        sent: dict[str, list[Any]] = defaultdict(list)
        for name, data in found:
            sent[_generalize(name)].append((name, data))
        for name, data in expected:
            if sent[_generalize(name)]:
                actual, other = sent[_generalize(name)].pop(0)
                self._bind(name, actual)
                yield from self._compare(data, other, name.partition("|")[0])

    def _compare(self, expected: Any, found: Any, path: str = "") -> Iterator[str]:
        kinds = _KINDS[type(expected)], _KINDS[type(found)]
        if kinds[0] != kinds[1]:
            yield f"{path}: {kinds[0]}, here {kinds[1]}"
        elif isinstance(expected, dict):
            yield from self._compare_objects(expected, found, path)
        elif isinstance(expected, list):
            if len(expected) != len(found):
                yield f"{path}: {len(expected)} items, here {len(found)}"
            for one, other in zip(expected, found, strict=False):
                yield from self._compare(one, other, f"{path}.#")
        elif isinstance(expected, str):
            self._bind(expected, found)

    def _compare_objects(
        self, expected: dict[str, Any], found: dict[str, Any], path: str
    ) -> Iterator[str]:
        if expected and all(map(_PLACE.search, expected)):  # The names of the members are ids.
            yield from self._compare([*expected.values()], [*found.values()], path)
            return
        for name in sorted(expected.keys() - found.keys()):
            yield f"{path}.{name}: missing here"
        for name in sorted(found.keys() - expected.keys()):
            yield f"{path}.{name}: only here"
        for name in sorted(expected.keys() & found.keys()):
            yield from self._compare(expected[name], found[name], f"{path}.{name}")

    def _bind(self, expected: str, found: str) -> None:
        """Learn the actual ids from a text with placeholders."""
        places, parts = _PLACE.findall(expected), _PLACE.split(expected)
        actual = re.match("(.+?)".join(map(re.escape, parts)) + "$", found, re.DOTALL)
        if places and actual is not None:
            for place, each in zip(places, actual.groups(), strict=True):
                self.ids.setdefault(place, each)


def _generalize(name: str) -> str:
    """Return the name of an event without the ids of tasks."""
    return re.sub(r":[^|]+", "", name)
