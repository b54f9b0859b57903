"""Serializers of runs, and the bodies that start and cancel runs."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from hitl_django.answers.limits import REASON_LENGTH
from hitl_django.models import Run
from hitl_django.models.events import KINDS

from .fields import (
    ContextField,
    HyperlinkField,
    JSONObjectField,
    JSONValueField,
    OffsetDateTimeField,
    ProblemField,
    StrictCharField,
    StrictChoiceField,
    StrictSerializer,
    StrictUUIDField,
)
from .interrupts import InterruptSerializer

#: Maximum number of runs that one request may start.
MAX_BATCH_STARTS = 100


class SubjectBody(StrictSerializer):
    """A reference to a related object, in the same format as in `threads/`."""

    type = StrictCharField(max_length=200, help_text="Model, as app_label.model.")
    id = StrictCharField(max_length=255, help_text="Primary key.")


class StartBody(StrictSerializer):
    """The graph, the input and the options of a run."""

    graph = StrictCharField(max_length=200, help_text="Graph name from graphs/.")
    input = JSONValueField(help_text="Input matching the graph's input_schema; not null.")
    key = StrictCharField(
        max_length=255,
        required=False,
        help_text="Idempotency key. The same key and request return the existing run; the same "
        "key with another input, context, configurable, subject or thread is refused (422).",
    )
    thread_id = StrictCharField(
        max_length=255,
        required=False,
        help_text="Thread id: continues an existing thread or names a new one.",
    )
    subject = SubjectBody(
        required=False, help_text="Related object. You need permission to view it (422)."
    )
    metadata = JSONObjectField(required=False, help_text="Metadata stored with a new thread.")
    context: Any = ContextField(
        help_text="An object that matches the graph's context_schema, given to each node."
    )
    configurable = JSONObjectField(
        required=False, help_text="Keys that the nodes find in their config's configurable."
    )
    on_pending = StrictChoiceField(
        choices=["refuse", "discard", "wait"],
        required=False,
        help_text="What to do if the thread has an unfinished run: refuse (409), discard "
        "its pending interrupts (requires permission to cancel the run, 403), "
        "or wait until it has ended.",
    )
    events = serializers.ListField(
        child=StrictChoiceField(choices=KINDS),
        required=False,
        max_length=len(KINDS),
        help_text="Stream modes to record as events, overriding the graph's; empty for none.",
    )


class BatchBody(StrictSerializer):
    """Request body with several runs to start."""

    runs = serializers.ListField(child=StartBody(), min_length=1, max_length=MAX_BATCH_STARTS)


class CancelBody(StrictSerializer):
    """The reason for cancelling a run."""

    reason = StrictCharField(max_length=REASON_LENGTH, allow_blank=True, required=False)


class RunInfoSerializer(serializers.Serializer):
    """A run after it was started or changed."""

    id = StrictUUIDField()
    url = HyperlinkField("run", source="id")
    graph = serializers.CharField()
    thread_id = serializers.CharField()
    state = StrictChoiceField(choices=Run.State.values)
    step = serializers.IntegerField()


class RunSerializer(RunInfoSerializer):
    """A run in the format of lists, without its result."""

    thread_id = serializers.CharField(source="thread.thread_id")
    graph_version = serializers.CharField()
    key = serializers.CharField(allow_null=True)
    metadata = JSONObjectField(source="thread.metadata", help_text="Thread metadata.")
    started_by = serializers.CharField(source="started_by_label")
    created_at = OffsetDateTimeField()
    queued_at = OffsetDateTimeField()
    resumes_at = OffsetDateTimeField(
        allow_null=True,
        help_text="When the run resumes; until then the decision can be undone.",
    )
    finished_at = OffsetDateTimeField(allow_null=True)


class RunDetailSerializer(RunSerializer):
    """A run with its pending interrupts and, with permission, its error and result."""

    #: Members that a response contains only with the user's permission.
    sometimes = frozenset({"error", "result"})

    interrupts = InterruptSerializer(many=True, help_text="The run's pending interrupts.")
    error = serializers.CharField(help_text="Visible to operators only.")
    result = JSONValueField(
        help_text="Final state; visible to users who can view thread state and to the "
        "user who started the run."
    )


class StartedRunSerializer(RunDetailSerializer):
    """A run that was just started. With `wait`, all details of the run are included."""

    sometimes = frozenset(RunDetailSerializer().fields) - frozenset(RunInfoSerializer().fields)


class BatchResultSerializer(serializers.Serializer):
    """The result of starting one of several runs."""

    status = serializers.IntegerField(
        help_text="The HTTP status this start would have returned on its own."
    )
    repeated = serializers.BooleanField(help_text="Whether the run had already been started.")
    run = RunInfoSerializer(allow_null=True)
    problem = ProblemField(allow_null=True, help_text="The problem, if the run was not started.")


class BatchResultsSerializer(serializers.Serializer):
    """The results of starting several runs, in the order of the request."""

    results = BatchResultSerializer(many=True)
