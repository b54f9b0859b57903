"""Turns what a node returned into the writes of its task."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from ..constants import ROOT
from ..errors import InvalidUpdateError, ParentCommand
from ..state.schema import get_hints, list_updates
from ..types import Command, ErrorCode, Send
from .nodes import Write, build_goto_writes

#: Characters of what a node returned that an error repeats.
_LONGEST = 500
_PLAIN = (str, bytes, int, float, bool)


class StateWriter:
    """Turns what a node returned into writes: updates, jumps, and the node's own edges."""

    __slots__ = ("_takes_dicts", "keys", "static")

    def __init__(self, keys: frozenset[str], static: list[Write]) -> None:
        self.keys, self.static = keys, static
        #: Whether a dict is an update of several keys, and not the value of the only one.
        self._takes_dicts = ROOT not in keys

    def __call__(self, output: Any) -> list[Write]:
        writes: list[Write] = []
        if type(output) is dict and self._takes_dicts:
            keys = self.keys
            for item in output.items():
                if item[0] in keys:
                    writes.append(item)
        elif output is not None:
            writes = self._of(output)
        writes += self.static
        return writes

    def _of(self, output: Any) -> list[Write]:
        if isinstance(output, Command):
            if output.graph == Command.PARENT:
                raise ParentCommand(output)
            return [*self._updates(output.update), *build_goto_writes(_targets(output))]
        if isinstance(output, (list, tuple)) and any(isinstance(o, Command) for o in output):
            return [write for part in output for write in self._of(part)]
        return self._updates(output)

    def _updates(self, update: Any) -> list[Write]:
        if update is None:
            return []
        if ROOT in self.keys:
            return [(ROOT, update)]
        if _is_pairs(update):
            return [item for item in update if item[0] in self.keys]
        if isinstance(update, Mapping) or get_hints(type(update)):
            return list_updates(update, self.keys)
        raise InvalidUpdateError(
            f"Expected dict, got {_shown(update)}",
            code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
        )


def _shown(update: Any) -> str:
    """Returns what a node returned in a few words."""
    if inspect.iscoroutine(update):
        update.close()  # nobody will await it, which Python would complain about
        return f"{update}: a node that returns an awaitable has to be an `async def`"
    # Another object's own words may ask a database, or raise.
    text = str(update) if _is_plain(update) else f"a {type(update).__qualname__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _is_plain(update: Any) -> bool:
    if type(update) in (list, tuple):
        return all(type(item) in _PLAIN for item in update)
    return type(update) in _PLAIN


def _is_pairs(update: Any) -> bool:
    return isinstance(update, (list, tuple)) and all(
        isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) for item in update
    )


def _targets(command: Command[Any]) -> Sequence[Any]:
    goto = command.goto
    targets = goto if isinstance(goto, (list, tuple)) else [goto]
    for target in targets:
        if not isinstance(target, (str, Send)):
            raise InvalidUpdateError(
                f"A Command's goto is a node's name, a Send, or a list of them; got "
                f"{_shown(target)}"
            )
    return targets
