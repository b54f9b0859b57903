"""Messages that the state of a thread contains at the time of an interrupt.

Messages are LangChain's message objects, or dicts of ``role`` and ``content``. The messages are
returned as dicts with the same keys, without values that a schema or the graph's registration
declares secret.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from hitl_django.answers import read_options
from hitl_django.checkpoints import DjangoSaver
from hitl_django.db.alias import write_alias
from hitl_django.engine.constants import NS_END, NS_SEP
from hitl_django.engine.graph.subgraphs import iterate_subgraphs
from hitl_django.errors import HitlError
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.json_text.secret_values import mask_secrets
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.permissions import get_policy, select_visible
from hitl_django.run_events.redaction import redact_value

from .state import find_graph_of_run

logger = logging.getLogger("hitl_django")

#: The channel that contains the messages, as in LangGraph's MessagesState.
CHANNEL = "messages"
#: Number of messages read, and the maximum number of bytes of each.
NEWEST, MAX_BYTES = 20, 20_000

#: Roles by the names that LangChain and the APIs of models use.
ROLES = {
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "assistant": "assistant",
    "developer": "system",
    "function": "tool",
    "human": "user",
    "HumanMessageChunk": "user",
    "system": "system",
    "SystemMessageChunk": "system",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "user": "user",
}

_Place = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class ThreadMessages:
    """The newest messages of a thread, and the number of earlier messages.

    A message has the keys ``role`` (user, assistant, tool or system), ``content``, ``name``,
    ``tool_calls`` (each with ``id``, ``name`` and ``args``) and ``tool_call_id``.
    """

    messages: list[dict[str, Any]]
    earlier: int


def read_messages(interrupt: Interrupt, *, by: Any = None) -> ThreadMessages | None:
    """Return the messages that the state of the thread contains at the time of an interrupt.

    If the graph's review policy has a function for the conversation, the function's messages are
    returned instead. The result is None if the user can view neither the thread's state nor the
    run's result, if the policy hides the conversation, or if there are no messages to show.
    """
    chosen = registry.get_review_policy(interrupt.graph).conversation
    if chosen is False or not _may_view(by, interrupt):
        return None
    found = _read_newest(interrupt)
    if chosen is True:
        return found if found is not None and found.messages else None
    messages = [] if found is None else found.messages
    try:
        chosen_messages = [*(chosen(messages, interrupt) or ())]
        replaced = [
            _convert_message(redact_value(one, MAX_BYTES)[0]) for one in chosen_messages[-NEWEST:]
        ]
    except Exception as error:  # A function of the project may raise any error.
        # Show nothing, because the function may remove messages that nobody may see. Log only the
        # error's type, because its text may quote a message.
        logger.warning("the conversation can't be shown: %s", type(error).__name__)
        return None
    earlier = found.earlier if found is not None and messages else 0
    return ThreadMessages(replaced, earlier) if replaced else None


def _may_view(by: Any, interrupt: Interrupt) -> bool:
    if by is None:
        return True
    policy, using = get_policy(), write_alias()
    return (
        policy.may_view_state(by, interrupt.thread)
        and _is_visible(Thread.objects.using(using), interrupt.thread_id, by)
    ) or (
        policy.may_view_result(by, interrupt.run)
        and _is_visible(Run.objects.using(using), interrupt.run_id, by)
    )


def _is_visible(rows: Any, key: Any, by: Any) -> bool:
    """Return whether the user may see the row with the primary key ``key`` among ``rows``.

    No query is made if the user may see all rows of the table, or none.
    """
    seen = select_visible(rows.all(), by)
    if seen.query.is_empty():
        return False
    return not seen.query.where or bool(seen.filter(pk=key).exists())


def _read_newest(interrupt: Interrupt) -> ThreadMessages | None:
    with suppress(HitlError):  # For example, the graph isn't registered, or a row is damaged.
        registered = find_graph_of_run(interrupt.run)
        if CHANNEL in registered.redact:
            return None
        values = _read_channel(interrupt, registered)
        if values is not None:
            return _convert_messages(values, interrupt, registered)
    return None


def _read_channel(interrupt: Interrupt, registered: RegisteredGraph) -> Sequence[Any] | None:
    """Return the messages of the innermost graph that has both messages and a checkpoint.

    Return None if there is no such graph.
    """
    saver = DjangoSaver()
    for ns, checkpoint_id in _list_places(interrupt, registered):
        place: dict[str, Any] = {"thread_id": interrupt.thread.thread_id, "checkpoint_ns": ns}
        # The checkpoint of a pending interrupt is the newest, which is read with fewer queries.
        found = saver.get_tuple({"configurable": place})
        if found is not None and checkpoint_id not in (None, found.checkpoint["id"]):
            place["checkpoint_id"] = checkpoint_id
            found = saver.get_tuple({"configurable": place})
        if found is not None:
            values = found.checkpoint["channel_values"].get(CHANNEL)
            return values if isinstance(values, list | tuple) else None
    return None


def _list_places(interrupt: Interrupt, registered: RegisteredGraph) -> Iterator[_Place]:
    """Yield the namespaces that may contain messages, innermost first, each with a checkpoint id.

    The checkpoint id is None for the newest checkpoint of the namespace. If the node of the
    interrupt calls a LangGraph graph with messages, the namespace of this graph comes first. The
    namespace of the interrupt and those of the calling graphs follow. A namespace is omitted if its
    graph is known to have no messages.
    """
    ns = interrupt.checkpoint_ns
    graph = _find_subgraph(registered.graph, ns)
    node = getattr(graph, "nodes", {}).get(interrupt.node)
    called = getattr(getattr(node, "action", None), "source", None)
    if CHANNEL in (getattr(called, "channels", None) or ()):
        below = f"{interrupt.node}{NS_END}{interrupt.task_id}"
        yield f"{ns}{NS_SEP}{below}" if ns else below, None
    checkpoint_id: str | None = interrupt.checkpoint_id
    while True:
        if graph is None or CHANNEL in graph.channels:
            yield ns, checkpoint_id
        if not ns:
            return
        ns, checkpoint_id = ns.rpartition(NS_SEP)[0], None
        graph = _find_subgraph(registered.graph, ns)


def _find_subgraph(graph: Any, ns: str) -> Any:
    """Return the graph that runs in the namespace ``ns`` of the root graph ``graph``.

    Return None if the engine can't find this graph.
    """
    return next((one for _, one in iterate_subgraphs(graph, ns, True)), None) if ns else graph


def _convert_messages(
    values: Sequence[Any], interrupt: Interrupt, registered: RegisteredGraph
) -> ThreadMessages:
    shown = [redact_value(one, MAX_BYTES, registered.redact)[0] for one in values[-NEWEST:]]
    masked = registered.mask({CHANNEL: shown})[CHANNEL]
    messages = [*map(_convert_message, masked)] if isinstance(masked, list) else []
    schemas = _list_schemas(interrupt)
    for call in (call for message in messages for call in message["tool_calls"]):
        # Arguments in a JSON text have not been redacted yet.
        args = redact_value(call["args"], MAX_BYTES, registered.redact)[0]
        call["args"] = mask_secrets(schemas.get(call["name"]), args)
    return ThreadMessages(messages, len(values) - len(shown))


def _list_schemas(interrupt: Interrupt) -> dict[str, Any]:
    """Return the schema of the arguments of each requested action, by the name of the action."""
    if interrupt.payload is None:
        return {}
    options = read_options(interrupt)
    actions = options.rules.actions(interrupt.payload)
    own = options.rules.arguments_schema(options) if len(actions) == 1 else None
    return {action.name: action.schema or own for action in actions}


def _convert_message(message: Any) -> dict[str, Any]:
    """Convert a message object or dict to a dict with the keys described at ThreadMessages."""
    if not isinstance(message, Mapping):
        return _make_message("user", message if isinstance(message, str) else "")
    role = message.get("role") or message.get("type")
    calls = message.get("tool_calls")
    name, answered = message.get("name"), message.get("tool_call_id")
    return _make_message(
        ROLES.get(role, "assistant") if isinstance(role, str) else "assistant",
        _join_content(message.get("content")),
        name if isinstance(name, str) else "",
        [_convert_call(call) for call in calls if isinstance(call, Mapping)]
        if isinstance(calls, list)
        else [],
        answered if isinstance(answered, str) else "",
    )


def _make_message(
    role: str,
    content: str,
    name: str = "",
    tool_calls: list[dict[str, Any]] | None = None,
    tool_call_id: str = "",
) -> dict[str, Any]:
    return {
        "role": role,
        "content": content,
        "name": name,
        "tool_calls": tool_calls or [],
        "tool_call_id": tool_call_id,
    }


def _convert_call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a tool call to a dict with ``id``, ``name`` and ``args``.

    The tool call has LangChain's format, or the format of OpenAI's API, in which the arguments are
    a JSON text.
    """
    function = call.get("function")
    source = function if isinstance(function, Mapping) else call
    args = source.get("args", source.get("arguments"))
    if isinstance(args, str):
        with suppress(ValueError):
            args = json.loads(args)
    return {
        "id": str(call.get("id") or ""),
        "name": str(source.get("name") or ""),
        "args": args,
    }


def _join_content(content: Any) -> str:
    """Return the text of a message. A block such as an image is replaced by its type."""
    if isinstance(content, str):
        return content
    parts = []
    for block in content if isinstance(content, list) else ():
        kind = block.get("type") if isinstance(block, Mapping) else None
        text = block.get("text") if isinstance(block, Mapping) else block
        if isinstance(text, str):
            parts.append(text)
        elif isinstance(kind, str) and not kind.endswith(("tool_use", "tool_call", "tool_result")):
            parts.append(f"[{kind.replace('_', ' ')}]")
    return "\n".join(part for part in parts if part)
