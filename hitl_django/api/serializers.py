"""What goes in and out, field by field; nothing is shown or taken because a model has it."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request

from .. import answers
from ..models import Decision, Interrupt
from .fields import AnyJSON, Body, Choice, JSONObject, Moment, Text


class Link(serializers.Field):
    """The absolute address of what ``source`` names, at the view of that name."""

    def __init__(self, view: str, *, source: str) -> None:
        super().__init__(source=source, read_only=True)
        self.view = view

    def to_representation(self, value: Any) -> str:
        return absolute(self.context["request"], self.view, value)


def absolute(request: Request, view: str, *args: Any) -> str:
    """Return the address of one of our views, with the scheme and host of the request."""
    return str(request.build_absolute_uri(reverse(f"hitl_django:{view}", args=args)))


class GraphSerializer(serializers.Serializer):
    """A registered graph."""

    name = serializers.CharField()
    url = Link("graph", source="name")
    version = serializers.CharField()
    fingerprint = serializers.CharField()
    title = serializers.CharField()
    input_schema = serializers.SerializerMethodField()

    def get_input_schema(self, registered: Any) -> dict[str, Any]:
        return dict(registered.graph.input_json_schema())


class StartBody(Body):
    """What a run is started with."""

    graph = Text(max_length=200)
    input = AnyJSON()
    key = Text(max_length=255, required=False)
    thread_id = Text(max_length=255, required=False)
    metadata = JSONObject(required=False)
    on_pending = Choice(choices=["refuse", "discard"], required=False)


class CancelBody(Body):
    """Why a run is cancelled."""

    reason = Text(max_length=10_000, allow_blank=True, required=False)


class EmptyBody(Body):
    """Nothing: the address says it all."""


class RunInfoSerializer(serializers.Serializer):
    """A run as a write leaves it."""

    id = serializers.CharField()
    url = Link("run", source="id")
    graph = serializers.CharField()
    thread_id = serializers.CharField()
    state = serializers.CharField()
    step = serializers.IntegerField()


class RunSerializer(RunInfoSerializer):
    """A run, without what the graph computed."""

    thread_id = serializers.CharField(source="thread.thread_id")
    graph_version = serializers.CharField()
    key = serializers.CharField(allow_null=True)
    started_by = serializers.CharField(source="started_by_label")
    created_at = Moment()
    queued_at = Moment()
    finished_at = Moment(allow_null=True)


class WorkerHealthSerializer(serializers.Serializer):
    """How the workers are."""

    alive = serializers.BooleanField(source="is_alive")
    workers = serializers.IntegerField()
    driving = serializers.IntegerField()
    last_seen = Moment(allow_null=True)
    overdue = serializers.IntegerField()
    due_since = Moment(allow_null=True)


class DecisionBody(Body):
    """What a person decides."""

    type = Choice(choices=[answers.APPROVE, answers.EDIT, answers.REJECT, answers.RESPOND])
    value = AnyJSON(required=False)
    reason = Text(max_length=10_000, allow_blank=True, required=False)


class DecisionSerializer(serializers.Serializer):
    """A decision: who, when, through what, and what was answered."""

    id = serializers.CharField()
    interrupt = serializers.CharField(source="interrupt_id")
    version = serializers.IntegerField()
    type = serializers.CharField()
    value = AnyJSON()
    reason = serializers.CharField()
    refusal = serializers.CharField()
    by = serializers.CharField(source="by_label")
    via = serializers.CharField()
    created_at = Moment()


class InterruptSerializer(serializers.Serializer):
    """A question, without its payload: lists never load one."""

    id = serializers.CharField()
    url = Link("interrupt", source="id")
    title = serializers.CharField()
    status = serializers.CharField()
    kind = serializers.CharField()
    graph = serializers.CharField()
    node = serializers.CharField()
    run = serializers.CharField(source="run_id")
    thread_id = serializers.CharField(source="thread.thread_id")
    version = serializers.IntegerField()
    created_at = Moment()
    closed_at = Moment(allow_null=True)
    changed_at = Moment(allow_null=True)
    expires_at = Moment(allow_null=True)


class InterruptDetailSerializer(InterruptSerializer):
    """A question with everything that is needed to answer it, and the answer it got."""

    payload = AnyJSON()
    digest = serializers.CharField(source="payload_digest")
    response_schema = JSONObject(allow_null=True)
    allowed_decisions = serializers.SerializerMethodField()
    decision = serializers.SerializerMethodField()
    refused = serializers.SerializerMethodField()

    def get_allowed_decisions(self, interrupt: Interrupt) -> list[str]:
        schema: Any = interrupt.response_schema
        return list(answers.allowed_decisions(interrupt.payload, schema, interrupt.kind))

    def get_decision(self, interrupt: Interrupt) -> dict[str, Any] | None:
        return _shown(interrupt.closing())

    def get_refused(self, interrupt: Interrupt) -> dict[str, Any] | None:
        return _shown(interrupt.refused())


def _shown(decision: Decision | None) -> dict[str, Any] | None:
    return None if decision is None else dict(DecisionSerializer(decision).data)
