"""Stream modes derived from stored events of a run: ``events``, ``debug`` and ``messages``.

A *part* is one server-sent event of a stream. Parts depend on all earlier events of the run. If a
client's stream doesn't begin with the run's first event, pass the earlier events to ``convert``
first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar
from uuid import uuid5

from hitl_django.models import Run
from hitl_django.models.events import SUBGRAPHS
from hitl_django.services import EventInfo

from .documents import find_assistant_id

#: Name and data of a server-sent event.
Part = tuple[str, Any]
#: Members of content blocks whose values are fragments of a text.
_TEXTS = ("text", "thinking", "reasoning")


class DerivedMode(ABC):
    """Converter that derives the parts of one stream from a run's stored events.

    Each subclass implements one stream mode.
    """

    #: Kinds of stored events that the mode needs.
    kinds: ClassVar[tuple[str, ...]]

    def __init__(self, run: Run) -> None:
        self.run = run

    @abstractmethod
    def convert(self, event: EventInfo, data: Any) -> Iterator[Part]:
        """Yield the parts of an event with the given data."""

    def finish(self, read_values: Callable[[], Any]) -> Iterator[Part]:
        """Yield the parts at the end of the stream.

        ``read_values`` reads the final values of the thread.
        """
        yield from ()


class DebugMode(DerivedMode):
    """Stream mode ``debug``: tasks and checkpoints, each with its super-step and time."""

    kinds = ("tasks", "checkpoints")

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._steps: dict[tuple[str, ...], int] = {}

    def convert(self, event: EventInfo, data: Any) -> Iterator[Part]:
        if not isinstance(data, dict) or event.kind not in self.kinds:
            return
        step = self._steps.get(event.namespace, 0)
        if event.kind == "tasks":
            kind = "task" if "input" in data else "task_result"
        else:
            kind, step = "checkpoint", data.get("metadata", {}).get("step", step - 1)
            self._steps[event.namespace] = step + 1
        timestamp = event.created_at.isoformat()
        document = {"step": step, "timestamp": timestamp, "type": kind, "payload": data}
        yield "|".join(["debug", *event.namespace]), document


class MessagesMode(DerivedMode):
    """Stream mode ``messages`` in the older format: messages of models.

    Each part contains the complete message up to now, merged from its chunks.
    """

    kinds = ("messages",)

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._messages: dict[Any, dict[str, Any]] = {}

    def convert(self, event: EventInfo, data: Any) -> Iterator[Part]:
        if event.kind != "messages" or not _is_message(data):
            return
        message, metadata = data
        key = message.get("id")
        if key not in self._messages:
            yield "messages/metadata", {key: {"metadata": metadata}}
        if _is_chunk(message):
            self._messages[key] = _merge_chunk(self._messages.get(key), message)
            yield "messages/partial", [_build_whole(self._messages[key])]
        else:
            self._messages[key] = message
            yield "messages/complete", [message]


class EventsMode(DerivedMode):
    """Stream mode ``events``: the events of LangChain's ``astream_events``.

    The events are those of the run, its tasks and its models. Tasks of subgraphs are included. The
    data of an event lacks values that no stored event has: the input of the run, and the input of a
    model.
    """

    kinds = ("tasks", "messages", SUBGRAPHS)

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self._base = {
            "run_id": str(run.pk),
            "thread_id": run.thread.thread_id,
            "graph_id": run.graph,
            "assistant_id": find_assistant_id(run),
        }
        #: Paths of the tasks whose start was sent.
        self._started: set[tuple[str, ...]] = set()
        #: Unfinished messages with their metadata, by namespace of the task and message id.
        self._open: dict[tuple[str, Any], tuple[dict[str, Any], dict[str, Any]]] = {}

    def convert(self, event: EventInfo, data: Any) -> Iterator[Part]:
        if event.kind == Run.State.QUEUED:
            self._started.clear()
            yield self._build_run_part("on_chain_start", {})
        elif event.kind == "tasks" and isinstance(data, dict):
            yield from self._convert_task(event, data)
        elif event.kind == "messages" and _is_message(data) and _is_chunk(data[0]):
            yield from self._convert_chunk(*data)

    def finish(self, read_values: Callable[[], Any]) -> Iterator[Part]:
        yield self._build_run_part("on_chain_end", {"output": read_values()})

    def _build_run_part(self, name: str, data: dict[str, Any]) -> Part:
        return self._build(name, data, self.run.graph, str(self.run.pk), self._base, ())

    def _convert_task(self, event: EventInfo, data: dict[str, Any]) -> Iterator[Part]:
        path = (*event.namespace, f"{data.get('name')}:{data.get('id')}")
        # A resumed run stores no start of the tasks whose subgraphs it resumes.
        for length in range(1, len(path)):
            yield from self._start_task(path[:length], {})
        if "input" in data:
            yield from self._start_task(path, {"input": data["input"]}, data.get("triggers"))
            return
        yield from self._start_task(path, {})
        yield from self._end_messages("|".join(path))
        if data.get("error") is None and not data.get("interrupts"):
            yield self._build_task_part("on_chain_stream", path, {"chunk": data.get("result")})
            yield self._build_task_part("on_chain_end", path, {"output": data.get("result")})

    def _start_task(
        self, path: tuple[str, ...], data: dict[str, Any], triggers: Any = ()
    ) -> Iterator[Part]:
        # A node that calls a subgraph repeatedly adds a number to the path.
        if path not in self._started and ":" in path[-1]:
            self._started.add(path)
            yield self._build_task_part("on_chain_start", path, data, langgraph_triggers=triggers)

    def _build_task_part(
        self, event: str, path: tuple[str, ...], data: dict[str, Any], **about: Any
    ) -> Part:
        node, _, task_id = path[-1].partition(":")
        place = {"langgraph_node": node, "langgraph_checkpoint_ns": "|".join(path)}
        return self._build(event, data, node, task_id, {**self._base, **place, **about}, path[:-1])

    def _convert_chunk(self, chunk: dict[str, Any], metadata: dict[str, Any]) -> Iterator[Part]:
        place = str(metadata.get("langgraph_checkpoint_ns", ""))
        key = place, chunk.get("id")
        before, _ = self._open.get(key, (None, metadata))
        if before is None:
            yield self._build_model_part("on_chat_model_start", {}, chunk, metadata)
        self._open[key] = _merge_chunk(before, chunk), metadata
        yield self._build_model_part("on_chat_model_stream", {"chunk": chunk}, chunk, metadata)
        if chunk.get("chunk_position") == "last":
            yield self._end_message(key)

    def _end_messages(self, place: str) -> Iterator[Part]:
        for key in [key for key in self._open if key[0] == place]:
            yield self._end_message(key)

    def _end_message(self, key: tuple[str, Any]) -> Part:
        message, metadata = self._open.pop(key)
        data = {"output": _build_whole(message)}
        return self._build_model_part("on_chat_model_end", data, message, metadata)

    def _build_model_part(
        self, name: str, data: dict[str, Any], message: dict[str, Any], metadata: dict[str, Any]
    ) -> Part:
        model = metadata.get("ls_model_name") or metadata.get("ls_provider") or "model"
        place = str(metadata.get("langgraph_checkpoint_ns", ""))
        made = str(uuid5(self.run.pk, f"{place} {message.get('id')}"))
        above = tuple(place.split("|")) if place else ()
        return self._build(name, data, str(model), made, {**self._base, **metadata}, above)

    def _build(
        self,
        event: str,
        data: dict[str, Any],
        name: str,
        run_id: str,
        metadata: dict[str, Any],
        above: tuple[str, ...],
    ) -> Part:
        """Return an event as a part. ``above`` is the path of the tasks that caused the event."""
        is_run = run_id == str(self.run.pk)
        parents = [] if is_run else [str(self.run.pk), *(at.partition(":")[2] for at in above)]
        return "events", {
            "event": event,
            "data": data,
            "name": name,
            "tags": [],
            "run_id": run_id,
            "metadata": metadata,
            "parent_ids": parents,
        }


DERIVED_MODES: dict[str, type[DerivedMode]] = {
    "events": EventsMode,
    "debug": DebugMode,
    "messages": MessagesMode,
}


def _is_message(data: Any) -> bool:
    """Return whether the data is a message with metadata, and was not truncated."""
    return isinstance(data, list) and len(data) == 2 and all(isinstance(one, dict) for one in data)


def _is_chunk(message: dict[str, Any]) -> bool:
    return str(message.get("type")).endswith("Chunk")


def _build_whole(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message that was merged from chunks, in the format of a complete message."""
    kind = str(message["type"]).removesuffix("MessageChunk").lower()
    parts = ("tool_call_chunks", "chunk_position")
    return {name: value for name, value in message.items() if name not in parts} | {"type": kind}


def _merge_chunk(message: dict[str, Any] | None, chunk: dict[str, Any]) -> dict[str, Any]:
    if message is None:
        message = {**chunk, "content": "", "tool_calls": []}
    merged = {**message, **{name: value for name, value in chunk.items() if value}}
    merged["content"] = _join(message["content"], chunk.get("content"))
    calls = [call for call in chunk.get("tool_calls") or () if call.get("id")]
    merged["tool_calls"] = [*message["tool_calls"], *calls]
    return merged


def _join(before: Any, added: Any) -> Any:
    """Return the content of a message followed by the content of its next chunk."""
    if not added:
        return before
    if not before:
        return added
    if isinstance(before, str) and isinstance(added, str):
        return before + added
    blocks = _list_blocks(before)
    for block in _list_blocks(added):
        index = block.get("index") if isinstance(block, dict) else None
        earlier = [at for at, one in enumerate(blocks) if index is not None and _has(one, index)]
        if earlier:
            old = blocks[earlier[0]]
            texts = {name: old.get(name, "") + block[name] for name in _TEXTS if name in block}
            blocks[earlier[0]] = {**old, **block, **texts}
        else:
            blocks.append(block)
    return blocks


def _list_blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _has(block: Any, index: Any) -> bool:
    return isinstance(block, dict) and block.get("index") == index
