"""Conversion of a node's result to writes."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..constants import INTERRUPT, ROOT, START
from ..errors import InvalidUpdateError, ParentCommand
from ..state.schema import get_hints, list_updates
from ..types import Command, ErrorCode, Send
from .context import current
from .nodes import Write, build_goto_writes

logger = logging.getLogger("hitl_django")

#: Maximum characters of a node's result in an error message.
_LONGEST = 500
_PLAIN = (str, bytes, int, float, bool)


class StateWriter:
    """A callable object that converts a node's result to writes.

    The writes update the state and trigger the next nodes.
    """

    __slots__ = ("_dropped", "_drops", "_takes_dicts", "keys", "name", "static")

    def __init__(
        self, keys: frozenset[str], static: list[Write], name: str, *, drops: bool = False
    ) -> None:
        self.keys, self.static, self.name = keys, static, name
        #: Whether unknown keys are dropped without a warning, as for a subgraph whose state has
        #: more keys. Otherwise, each dropped key is logged once.
        self._drops = drops
        self._dropped: set[Any] = set()
        #: Whether a dict is an update of several keys instead of the value of the only key.
        self._takes_dicts = ROOT not in keys

    def __call__(self, output: Any) -> list[Write]:
        writes: list[Write] = []
        if type(output) is dict and self._takes_dicts:
            keys = self.keys
            for item in output.items():
                if item[0] in keys:
                    writes.append(item)
            if len(writes) != len(output) and not self._drops:
                self._note_unknown(output)
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
            writes = [item for item in update if item[0] in self.keys]
            if len(writes) != len(update) and not self._drops:
                self._note_unknown(name for name, _ in update)
            return writes
        if isinstance(update, Mapping) or get_hints(type(update)):
            writes = list_updates(update, self.keys)
            if isinstance(update, Mapping) and len(writes) != len(update) and not self._drops:
                self._note_unknown(update)
            return writes
        raise InvalidUpdateError(
            f"Expected dict, got {_describe_result(update)}",
            code=ErrorCode.INVALID_GRAPH_NODE_RETURN_VALUE,
        )

    def _note_unknown(self, names: Iterable[Any]) -> None:
        """Log a warning for each unknown key of a node's result, once per key.

        Raises:
            InvalidUpdateError: the result contains interrupts, or the config key
                ``on_unknown_key`` is ``"error"``.
        """
        context = current.get()
        is_below = context is not None and (context.run.within or context.task.name != START)
        if self.name == START and is_below:
            return  # A subgraph only takes the keys of its own schema from the node's state.
        unknown = [name for name in names if name not in self.keys]
        if INTERRUPT in unknown:
            raise InvalidUpdateError(
                f"Node '{self.name}' returned the interrupts of another graph under "
                f"'{INTERRUPT}', so no one would be asked. Add that graph as a node, or "
                "call it with this run's thread id."
            )
        known = ", ".join(sorted(self.keys))
        who = "The input" if self.name == START else f"Node '{self.name}'"
        configurable = {} if context is None else context.run.config.get("configurable", {})
        if configurable.get("on_unknown_key") == "error":
            raise InvalidUpdateError(
                f"{who} contains the unknown key {unknown[0]!r}. Keys: {known}."
            )
        for name in unknown:
            if name not in self._dropped:
                self._dropped.add(name)
                logger.warning(
                    "%s contains the unknown key %r; it is dropped. Keys: %s.",
                    who, name, known,
                )  # fmt: skip


def _describe_result(update: Any) -> str:
    if inspect.iscoroutine(update):
        update.close()  # This prevents Python's warning about a coroutine that was never awaited.
        return f"{update}: nodes that return an awaitable must be `async def`"
    # Calling str() on other objects may query a database or raise an error.
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
                "Command.goto must be a node name, a Send, or a list of these; got "
                f"{_describe_result(target)}"
            )
    return targets
