"""Serializers of request bodies and queries."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from rest_framework import serializers

from hitl_django.api.serializers.fields import (
    ContextField,
    JSONObjectField,
    JSONValueField,
    OffsetDateTimeField,
    Query,
    RowLimitField,
    StrictBooleanField,
    StrictCharField,
    StrictChoiceField,
    StrictFloatField,
    StrictIntegerField,
    StrictSerializer,
    StrictUUIDField,
)
from hitl_django.engine.errors import PayloadLimitError
from hitl_django.engine.store.ttl import MAX_MINUTES
from hitl_django.engine.types import DURABILITIES
from hitl_django.json_text.strict_json import check_extent
from hitl_django.models.events import MODES

from .derived_modes import DERIVED_MODES
from .not_supported import NotSupported

#: Stream modes whose parts are stored events, with the kinds of these events.
STORED_MODES = {"messages-tuple" if mode == "messages" else mode: mode for mode in MODES}
#: Supported stream modes, with the kinds of events that they need.
STREAM_MODES: dict[str, tuple[str, ...]] = {
    **{mode: (kind,) for mode, kind in STORED_MODES.items()},
    **{mode: derived.kinds for mode, derived in DERIVED_MODES.items()},
}
#: Fields by which assistants can be sorted.
ASSISTANT_ORDERS = ("assistant_id", "graph_id", "name", "created_at", "updated_at")
#: Fields by which threads can be sorted.
THREAD_ORDERS = ("created_at", "thread_id", "status", "updated_at", "state_updated_at")
#: Columns of schedules by which crons can be sorted, by the names of the clients.
CRON_ORDERS = {
    "cron_id": "pk",
    "assistant_id": "graph",
    "thread_id": "thread_id",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "next_run_date": "next_at",
    "end_time": "ends_at",
}
MAX_ROWS = 200


class AgentBody(StrictSerializer):
    """Request body in which the value null is treated like a missing field.

    A field in ``not_supported`` is accepted only if its value is empty.
    """

    not_supported: ClassVar[tuple[str, ...]] = ()

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, dict):
            return super().to_internal_value(data)  # Raises the error about the type.
        given = {name: value for name, value in data.items() if value is not None}
        for name in self.not_supported:
            if not _is_empty(given.pop(name, None)):
                raise NotSupported(f"`{name}` is not supported by this server.")
        return super().to_internal_value(given)


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    return value is None or value == []


class StreamModeField(serializers.Field):
    """One stream mode, or a list of stream modes."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": f"Must be one or more of: {', '.join(STREAM_MODES)}."
    }

    def to_internal_value(self, data: Any) -> list[str]:
        modes = [data] if isinstance(data, str) else data
        if not isinstance(modes, list) or not all(
            isinstance(mode, str) and mode in STREAM_MODES for mode in modes
        ):
            self.fail("invalid")
        return list(modes)


class FilterField(JSONObjectField):
    """A filter by metadata or by the value of an item: a JSON object of limited size."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "too_large": "Must have at most {values} values, {levels} levels and {size} bytes."
    }
    values, levels, size = 50, 5, 4096

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        found = super().to_internal_value(data)
        text = json.dumps(found, ensure_ascii=False)
        try:
            check_extent(text, depth=self.levels, items=self.values, what="The filter")
        except PayloadLimitError:
            is_small = False
        else:
            is_small = len(text.encode()) <= self.size
        if not is_small:
            self.fail("too_large", values=self.values, levels=self.levels, size=self.size)
        return found


class MultitaskStrategyField(StrictChoiceField):
    """The rule for a new run if the thread already has an active run."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid_choice": "Must be enqueue, interrupt or reject. To return to an earlier state, "
        "cancel the run and start a run with `checkpoint`."
    }

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(choices=["enqueue", "interrupt", "reject"], **kwargs)


class NodeNamesField(serializers.Field):
    """A list of node names, or ``"*"`` for all nodes."""

    default_error_messages: ClassVar[dict[str, Any]] = {
        "invalid": 'Must be "*" or a list of node names.'
    }

    def to_internal_value(self, data: Any) -> Any:
        is_list = isinstance(data, list) and all(isinstance(name, str) for name in data)
        if data != "*" and not is_list:
            self.fail("invalid")
        return data


class CheckpointBody(StrictSerializer):
    """A checkpoint in the format that the states of threads use."""

    thread_id = StrictCharField(max_length=255, required=False, allow_null=True)
    checkpoint_ns = StrictCharField(required=False, allow_blank=True, allow_null=True)
    checkpoint_id = StrictCharField(max_length=36, required=False, allow_null=True)
    checkpoint_map = JSONValueField(required=False)


class CommandBody(StrictSerializer):
    """A Command with which a run resumes, instead of new input."""

    resume = JSONValueField(required=False)
    update = JSONValueField(required=False)  # type: ignore[assignment]  # a field, not the method
    goto = JSONValueField(required=False)


class ConfigBody(AgentBody):
    """The config of a run. Its metadata is added to the metadata of the run."""

    not_supported: ClassVar[tuple[str, ...]] = ("callbacks", "run_name", "max_concurrency")

    configurable = JSONObjectField(required=False)
    metadata = JSONObjectField(required=False)
    recursion_limit = StrictIntegerField(least=1, required=False)
    tags = serializers.ListField(child=StrictCharField(), required=False, max_length=100)


class RunBody(AgentBody):
    """Request body for starting or resuming a run."""

    not_supported = (
        "webhook",
        "after_seconds",
        "langsmith_tracer",
        "feedback_keys",
        "checkpoint_during",
    )

    assistant_id = StrictCharField(max_length=255)
    input = JSONValueField(required=False)
    command = CommandBody(required=False)
    checkpoint = CheckpointBody(required=False)
    checkpoint_id = StrictCharField(max_length=36, required=False)
    metadata = JSONObjectField(required=False)
    config = ConfigBody(required=False)
    context: Any = ContextField()
    interrupt_before = NodeNamesField(required=False)
    interrupt_after = NodeNamesField(required=False)
    durability = StrictChoiceField(choices=DURABILITIES, required=False)
    stream_mode = StreamModeField(required=False)
    stream_subgraphs = StrictBooleanField(required=False)
    stream_resumable = StrictBooleanField(required=False)  # Always true, whatever the client sends.
    multitask_strategy = MultitaskStrategyField(required=False)
    if_not_exists = StrictChoiceField(choices=["create", "reject"], required=False)
    on_completion = StrictChoiceField(choices=["keep"], required=False)
    on_disconnect = StrictChoiceField(choices=["cancel", "continue"], required=False)
    strict_resume = StrictBooleanField(required=False)  # Always true, whatever the client sends.
    raise_error = StrictBooleanField(required=False)  # For the client: how to report a failed run.


class BatchItemBody(RunBody):
    """One item of a batch of runs.

    JavaScript clients send the assistant's id twice: as ``assistant_id`` and as ``assistantId``.
    """

    assistantId = StrictCharField(max_length=255, required=False)


class CronConfigBody(ConfigBody):
    """The config of the runs of a cron."""

    not_supported = (*ConfigBody.not_supported, "tags", "recursion_limit")


class CronChangeBody(AgentBody):
    """Request body for changing a cron. If ``end_time`` is null, the cron's end is removed."""

    not_supported = (
        "webhook",
        "interrupt_before",
        "interrupt_after",
        "checkpoint_during",
        "durability",
        "stream_mode",
        "stream_subgraphs",
    )

    schedule = StrictCharField(max_length=255, required=False)
    timezone = StrictCharField(max_length=255, required=False)
    end_time = OffsetDateTimeField(required=False, allow_null=True)
    input = JSONValueField(required=False)
    metadata = JSONObjectField(required=False)
    config = CronConfigBody(required=False)
    context: Any = ContextField()
    enabled = StrictBooleanField(required=False)
    on_run_completed = StrictChoiceField(choices=["keep"], required=False)
    stream_resumable = StrictBooleanField(required=False)  # Always true, whatever the client sends.

    def to_internal_value(self, data: Any) -> Any:
        found = super().to_internal_value(data)
        if "end_time" in data and data["end_time"] is None:
            found["end_time"] = None
        return found


class CronBody(CronChangeBody):
    """Request body for creating a cron."""

    assistant_id = StrictCharField(max_length=255)
    schedule = StrictCharField(max_length=255)
    multitask_strategy = StrictChoiceField(choices=["enqueue", "reject"], required=False)


class CronCountBody(AgentBody):
    """Request body that filters the crons to count."""

    assistant_id = StrictCharField(max_length=255, required=False)
    thread_id = StrictCharField(max_length=255, required=False)
    metadata = FilterField(required=False)


class CronSearchBody(CronCountBody):
    """Request body of a search for crons."""

    enabled = StrictBooleanField(required=False)
    limit = RowLimitField(required=False)
    offset = StrictIntegerField(required=False)
    sort_by = StrictChoiceField(choices=[*CRON_ORDERS], required=False)
    sort_order = StrictChoiceField(choices=["asc", "desc"], required=False)
    select = serializers.ListField(child=StrictCharField(), required=False, max_length=20)


class AssistantChangeBody(AgentBody):
    """Request body for adding a version to an assistant."""

    graph_id = StrictCharField(max_length=200, required=False, source="graph")
    config = ConfigBody(required=False)
    context: Any = JSONObjectField(required=False)
    metadata = JSONObjectField(required=False)
    name = StrictCharField(max_length=255, required=False)
    description = StrictCharField(required=False, allow_blank=True)


class AssistantBody(AssistantChangeBody):
    """Request body for creating an assistant."""

    graph_id = StrictCharField(max_length=200, source="graph")
    assistant_id = StrictUUIDField(required=False)
    if_exists = StrictChoiceField(choices=["raise", "do_nothing"], required=False)


class AssistantDeletionQuery(Query):
    """Query parameter for also deleting an assistant's threads. The value true isn't supported."""

    delete_threads = StrictBooleanField(required=False)


class VersionBody(AgentBody):
    """Request body with the number of a version."""

    version = StrictIntegerField(least=1)


class VersionsBody(AgentBody):
    """Request body that filters the versions of an assistant."""

    metadata = FilterField(required=False)
    limit = RowLimitField(required=False)
    offset = StrictIntegerField(required=False)


class AssistantSearchBody(AgentBody):
    """Request body of a search for assistants."""

    metadata = FilterField(required=False)
    graph_id = StrictCharField(max_length=200, required=False)
    name = StrictCharField(max_length=200, required=False)
    limit = RowLimitField(required=False)
    offset = StrictIntegerField(required=False)
    sort_by = StrictChoiceField(choices=ASSISTANT_ORDERS, required=False)
    sort_order = StrictChoiceField(choices=["asc", "desc"], required=False)
    select = serializers.ListField(child=StrictCharField(), required=False, max_length=20)


class AssistantCountBody(AgentBody):
    """Request body that filters the assistants to count."""

    metadata = FilterField(required=False)
    graph_id = StrictCharField(max_length=200, required=False)
    name = StrictCharField(max_length=200, required=False)


class DrawingQuery(Query):
    """Query parameter with the number of subgraph levels in a drawing."""

    xray = StrictCharField(max_length=5, required=False)


class SubgraphsQuery(Query):
    """Query parameter with the number of subgraph levels to return."""

    recurse = StrictBooleanField(required=False)


class ThreadBody(AgentBody):
    """Request body for creating a thread."""

    not_supported = ("supersteps", "ttl")

    thread_id = StrictCharField(max_length=255, required=False)
    metadata = JSONObjectField(required=False)
    if_exists = StrictChoiceField(choices=["raise", "do_nothing"], required=False)


class ThreadChangeBody(AgentBody):
    """Request body for adding metadata to a thread."""

    not_supported = ("ttl",)

    metadata = JSONObjectField(required=False)


class ThreadCountBody(AgentBody):
    """Request body that filters the threads to count."""

    not_supported: ClassVar[tuple[str, ...]] = ("values",)

    metadata = FilterField(required=False)
    status = StrictChoiceField(choices=["idle", "busy", "interrupted", "error"], required=False)


class ThreadSearchBody(ThreadCountBody):
    """Request body of a search for threads."""

    not_supported = ("values", "extract")

    ids = serializers.ListField(
        child=StrictCharField(max_length=255), required=False, max_length=MAX_ROWS
    )
    limit = RowLimitField(required=False)
    offset = StrictIntegerField(required=False)
    sort_by = StrictChoiceField(choices=THREAD_ORDERS, required=False)
    sort_order = StrictChoiceField(choices=["asc", "desc"], required=False)
    select = serializers.ListField(child=StrictCharField(), required=False, max_length=20)


class AgentStateQuery(Query):
    """Query parameter that determines whether a state includes subgraphs."""

    subgraphs = StrictBooleanField(required=False)
    select = StrictCharField(required=False, allow_blank=True)


class StateAtBody(AgentBody):
    """Request body with the checkpoint of the requested state."""

    checkpoint = CheckpointBody()
    subgraphs = StrictBooleanField(required=False)
    select = serializers.ListField(child=StrictCharField(), required=False, max_length=50)


class StateChangeBody(AgentBody):
    """Request body for updating a state."""

    values = JSONValueField(required=False)
    as_node = StrictCharField(max_length=255, required=False)
    checkpoint = CheckpointBody(required=False)
    checkpoint_id = StrictCharField(max_length=36, required=False)


class StateLimitField(StrictIntegerField):
    """The maximum number of states in a response, up to 1,000 as in LangGraph's server.

    A response may contain fewer states, because the number of states that are read is limited too.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(least=1, most=1000, **kwargs)


class HistoryQuery(Query):
    """Query parameters that select states of a history."""

    limit = StateLimitField(required=False)
    before = StrictCharField(max_length=36, required=False)
    select = StrictCharField(required=False, allow_blank=True)


class HistoryBody(AgentBody):
    """Request body that selects states of a history."""

    limit = StateLimitField(required=False)
    before = JSONValueField(required=False)
    metadata = FilterField(required=False)
    checkpoint = CheckpointBody(required=False)
    select = serializers.ListField(child=StrictCharField(), required=False, max_length=50)


class RunsQuery(Query):
    """Query parameters that filter the runs of a thread."""

    limit = RowLimitField(required=False)
    offset = StrictIntegerField(required=False)
    status = StrictChoiceField(
        choices=["pending", "running", "error", "success", "timeout", "interrupted"],
        required=False,
    )
    select = StrictCharField(required=False, allow_blank=True)


class CancelQuery(Query):
    """Query parameters for cancelling a run."""

    wait = StrictChoiceField(choices=["0", "1", "false", "true"], required=False)
    action = StrictChoiceField(choices=["interrupt"], required=False)


class JoinQuery(Query):
    """Query parameters that select a run's events."""

    stream_mode = StrictCharField(max_length=200, required=False, allow_blank=True)
    #: Whether events of subgraphs are sent. They are by default.
    stream_subgraphs = StrictChoiceField(choices=["false", "true"], required=False)
    cancel_on_disconnect = StrictChoiceField(choices=["0", "1", "false", "true"], required=False)


class ItemBody(AgentBody):
    """Request body for putting an item into the store."""

    namespace = serializers.ListField(child=StrictCharField(), max_length=100)
    key = StrictCharField(max_length=2000)
    value = JSONObjectField()
    index = JSONValueField(required=False)
    ttl = StrictFloatField(required=False, least=0, most=MAX_MINUTES)


class ItemKeyBody(AgentBody):
    """Request body with the key of an item to delete."""

    namespace = serializers.ListField(child=StrictCharField(), max_length=100)
    key = StrictCharField(max_length=2000)


class ItemQuery(Query):
    """Query parameters with the key of an item to read.

    The namespace consists of labels separated by dots.
    """

    namespace = StrictCharField(max_length=2000)
    key = StrictCharField(max_length=2000)
    refresh_ttl = StrictBooleanField(required=False)


class ItemSearchBody(AgentBody):
    """Request body of a search for items."""

    namespace_prefix = serializers.ListField(child=StrictCharField(), max_length=100)
    filter = FilterField(required=False)
    query = StrictCharField(required=False)
    limit = RowLimitField(required=False)
    offset = StrictIntegerField(required=False)
    refresh_ttl = StrictBooleanField(required=False)


class NamespacesBody(AgentBody):
    """Request body that filters namespaces."""

    prefix = serializers.ListField(child=StrictCharField(), required=False, max_length=100)
    suffix = serializers.ListField(child=StrictCharField(), required=False, max_length=100)
    max_depth = StrictIntegerField(least=1, most=100, required=False)
    limit = RowLimitField(required=False)
    offset = StrictIntegerField(required=False)
