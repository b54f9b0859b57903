"""Conversation next to a request: the newest messages of the request's thread.

Messages come from language models and other untrusted sources. The template escapes all text, and
invisible characters are replaced by their code points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from hitl_django.dialects import DIALECTS, RequestedAction
from hitl_django.forms.json_input import escape_hidden, to_json
from hitl_django.graph_registry import registry
from hitl_django.json_text.sanitize import shorten
from hitl_django.models import Interrupt
from hitl_django.services.runs.conversation import read_messages

from .initials import get_initials

#: Maximum numbers of characters shown of a text, of a tool call, and of one of its arguments.
MAX_TEXT, CALL_LENGTH, ARGUMENT_LENGTH = 1_000, 100, 40
#: Maximum number of tool calls shown of one message.
MAX_CALLS = 20


@dataclass(frozen=True, slots=True)
class DisplayedText:
    """A shortened text, and the number of omitted characters."""

    text: str
    cut: int = 0

    @classmethod
    def make(cls, text: str) -> DisplayedText:
        shown = text[:MAX_TEXT].rstrip()
        return cls(escape_hidden(shown), len(text.rstrip()) - len(shown))


@dataclass(frozen=True, slots=True)
class DisplayedCall:
    """A tool call on one line, with its result.

    If the line omits arguments, ``arguments`` is the text of all arguments. If the request is about
    this call, ``is_waiting`` is true. The line then contains only the tool's name, because the
    request shows the arguments.
    """

    line: str
    arguments: DisplayedText | None = None
    result: DisplayedText | None = None
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """A message of a user or an agent, with the message's tool calls and their results."""

    is_user: bool
    speaker: str
    initials: str
    text: DisplayedText | None
    calls: Sequence[DisplayedCall] = ()


@dataclass(frozen=True, slots=True)
class Conversation:
    """The newest messages of a thread, oldest first.

    ``count`` is the number of all messages. ``earlier`` is the number of older messages, which are
    omitted. ``thread`` is the thread's primary key, for the link to the page of the thread.
    """

    turns: Sequence[Turn]
    count: int
    earlier: int
    thread: int


def read_conversation(user: Any, interrupt: Interrupt) -> Conversation | None:
    """Return the conversation that led to an interrupt.

    The result is None if the thread has no messages, or if the user can't view the state of the
    thread. The caller must have loaded the interrupt's ``thread`` and ``run``.
    """
    found = read_messages(interrupt, by=user)
    if found is None:
        return None
    turns = list(_TurnBuilder(interrupt, found.messages).build())
    if not turns:
        return None
    count = found.earlier + len(found.messages)
    return Conversation(turns, count, found.earlier, interrupt.thread_id)


class _TurnBuilder:
    """Builder of the displayed messages of a conversation.

    Each tool call gets its result. The tool call that needs the user's decision is marked.
    """

    def __init__(self, interrupt: Interrupt, messages: Sequence[dict[str, Any]]) -> None:
        self.messages = messages
        self.agent = escape_hidden(str(registry.get_title(interrupt.graph)))
        self.results = {
            one["tool_call_id"]: one["content"] for one in messages if one["role"] == "tool"
        }
        self.waiting = _list_waiting_actions(interrupt)
        self.shown: set[str] = set()

    def build(self) -> Sequence[Turn]:
        turns = []
        for message in self.messages:
            role = message["role"]
            # Instructions to the model are no part of the conversation.
            if role == "system" or (role == "tool" and message["tool_call_id"] in self.shown):
                continue
            turn = self._make_result(message) if role == "tool" else self._make_turn(message)
            if turn.text is not None or turn.calls:
                turns.append(turn)
        return turns

    def _make_turn(self, message: Mapping[str, Any]) -> Turn:
        is_user, name = message["role"] == "user", escape_hidden(message["name"])
        text = message["content"]
        return Turn(
            is_user,
            name or (_("User") if is_user else self.agent),
            get_initials(name) if is_user else "",
            DisplayedText.make(text) if text.strip() else None,
            [self._make_call(call) for call in message["tool_calls"][:MAX_CALLS]],
        )

    def _make_result(self, message: Mapping[str, Any]) -> Turn:
        """Return a message for a tool result whose call is not among the displayed messages."""
        result = DisplayedText.make(message["content"])
        line = escape_hidden(shorten(message["name"] or _("Result"), CALL_LENGTH))
        return Turn(False, self.agent, "", None, [DisplayedCall(line, None, result)])

    def _make_call(self, call: Mapping[str, Any]) -> DisplayedCall:
        result = self.results.get(call["id"])
        if result is None and self._is_waiting(call):
            name = escape_hidden(shorten(call["name"], CALL_LENGTH))
            return DisplayedCall(name, is_waiting=True)
        line, is_whole = _format_call(call["name"], call["args"])
        if result is not None:
            self.shown.add(call["id"])
        arguments = None if is_whole else DisplayedText.make(to_json(call["args"], indent=2))
        return DisplayedCall(
            line, arguments, None if result is None else DisplayedText.make(result)
        )

    def _is_waiting(self, call: Mapping[str, Any]) -> bool:
        """Return whether the interrupt requests this tool call.

        Pass only tool calls without a result.
        """
        return any(
            call["id"] == action.call_id if action.call_id else call["name"] == action.name
            for action in self.waiting
        )


def _list_waiting_actions(interrupt: Interrupt) -> Sequence[RequestedAction]:
    """Return the actions that a pending interrupt requests, or none for a closed interrupt."""
    if interrupt.status != Interrupt.Status.PENDING or interrupt.payload is None:
        return ()
    return DIALECTS[interrupt.dialect].actions(interrupt.payload)


def _format_call(name: str, args: Any) -> tuple[str, bool]:
    """Return a tool call on one line, and whether the line contains all arguments."""
    if not isinstance(args, dict):
        return escape_hidden(shorten(name, CALL_LENGTH)), not args
    pairs = [(key, to_json(value)) for key, value in args.items()]
    parts = ", ".join(f"{key}={shorten(text, ARGUMENT_LENGTH)}" for key, text in pairs)
    line = f"{name}({parts})"
    is_whole = len(line) <= CALL_LENGTH and all(len(text) <= ARGUMENT_LENGTH for _, text in pairs)
    return escape_hidden(line if is_whole else shorten(line, CALL_LENGTH)), is_whole
