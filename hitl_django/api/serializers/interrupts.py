"""What goes in and out, field by field; nothing is shown or taken because a model has it."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from rest_framework import serializers
from rest_framework.request import Request

from hitl_django.answers.limits import REASON_LENGTH
from hitl_django.decision_types import DECISION_TYPES
from hitl_django.engine.drawing import draw_mermaid
from hitl_django.graph_registry.registry import Broken
from hitl_django.models import Decision, Run
from hitl_django.models.events import KINDS
from hitl_django.permissions import get_policy, may_start

from .fields import (
    AnyJSON,
    Body,
    Choice,
    Computed,
    Id,
    JSONObject,
    Moment,
    Query,
    Text,
    WholeNumber,
)
from .question_fields import QuestionColumnsSerializer

#: Decisions in one request.
MOST = 100


class Link(serializers.Field):
    """The absolute address of what ``source`` names, at the view of that name."""

    def __init__(self, view: str, *, source: str) -> None:
        super().__init__(source=source, read_only=True)
        self.view = view

    def to_representation(self, value: Any) -> str:
        return absolute(self.context["request"], self.view, value)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "format": "uri"}


class Problem(JSONObject):
    """A problem document within an answer."""

    def json_schema(self) -> dict[str, Any]:
        members = {"status": {"type": "integer"}, "code": {"type": "string"}}
        return {"type": "object", "properties": members, "additionalProperties": True}


def absolute(request: Request, view: str, *args: Any) -> str:
    """Return the address of one of our views, with the scheme and host of the request."""
    return str(request.build_absolute_uri(reverse(f"hitl_django:{view}", args=args)))


class GraphSerializer(serializers.Serializer):
    """A registered graph."""

    name = serializers.CharField()
    url = Link("graph", source="name")
    version = serializers.CharField()
    fingerprint = serializers.CharField(allow_null=True)
    title = serializers.CharField()
    input_schema = JSONObject(
        source="graph.input_json_schema",
        allow_null=True,
        help_text="JSON Schema of what a run is started with.",
    )
    output_schema = JSONObject(
        source="graph.output_json_schema",
        allow_null=True,
        help_text="JSON Schema of what a run comes to.",
    )
    may_start = Computed(
        serializers.BooleanField(help_text="Whether you may start a run of it over this API.")
    )
    fault = Computed(
        serializers.CharField(
            allow_null=True,
            help_text="Why it can't be built, and so nothing be done with it; details for "
            "operators. Null: it can.",
        )
    )

    def get_may_start(self, graph: Any) -> bool:
        return may_start(self.context["request"].user, graph.name, "api")

    def get_fault(self, graph: Any) -> str | None:
        if not isinstance(graph, Broken):
            return None
        told = get_policy().may_view_workers(self.context["request"].user)
        return graph.reason if told else "It can't be built."


class GraphDetailSerializer(GraphSerializer):
    """A graph with what it looks like."""

    mermaid = Computed(serializers.CharField(help_text="Its nodes and edges, for Mermaid."))
    diagram = Link("graph-diagram", source="name")

    def get_mermaid(self, registered: Any) -> str:
        return draw_mermaid(registered.graph)


class DiagramQuery(Query):
    """Whose graph is drawn."""

    thread = Text(
        max_length=255,
        required=False,
        help_text="A thread of the graph: what it visited, where it waits and what comes next.",
    )


class SubjectBody(Body):
    """One of the product's own objects, as threads/ shows it."""

    type = Text(max_length=200, help_text="Its model, as app_label.model.")
    id = Text(max_length=255, help_text="Its key.")


class StartBody(Body):
    """What a run is started with."""

    graph = Text(max_length=200, help_text="A name from graphs/.")
    input = AnyJSON(help_text="What the graph's input_schema describes; not null.")
    key = Text(
        max_length=255,
        required=False,
        help_text="The same key and input give the run that they started before.",
    )
    thread_id = Text(
        max_length=255, required=False, help_text="Continues this thread, or names a new one."
    )
    subject = SubjectBody(
        required=False, help_text="What it is about: something that you may see (422)."
    )
    metadata = JSONObject(required=False, help_text="Kept with a new thread, for you.")
    on_pending = Choice(
        choices=["refuse", "discard"],
        required=False,
        help_text="Whether a thread whose questions are open is refused (409), or loses them: for "
        "who may cancel its run (403).",
    )
    events = serializers.ListField(
        child=Choice(choices=KINDS),
        required=False,
        max_length=len(KINDS),
        help_text="What its events tell, where that isn't what the graph says; empty: nothing.",
    )


class CancelBody(Body):
    """Why a run is cancelled."""

    reason = Text(max_length=REASON_LENGTH, allow_blank=True, required=False)


class EmptyBody(Body):
    """Nothing: the address says it all."""


class RunInfoSerializer(serializers.Serializer):
    """A run as a write leaves it."""

    id = Id()
    url = Link("run", source="id")
    graph = serializers.CharField()
    thread_id = serializers.CharField()
    state = Choice(choices=Run.State.values)
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
    """What a person decides: a decision of some type, or what it comes to for the graph."""

    either = (("type", "value"), ("resume",))

    type = Choice(
        choices=list(DECISION_TYPES),
        required=False,
        help_text="One of the question's allowed_decisions.",
    )
    value = AnyJSON(
        required=False, help_text="The answer, where the decision takes one; see response_schema."
    )
    resume = AnyJSON(
        required=False,
        help_text="What the graph receives, as one of the allowed_decisions would have it.",
    )
    reason = Text(max_length=REASON_LENGTH, allow_blank=True, required=False)


class BulkItem(DecisionBody):
    """One decision of several, with the question it is for."""

    interrupt = Id()
    etag = Text(
        max_length=200,
        required=False,
        help_text="The question's ETag: it is decided only while it is still that (412).",
    )


class BulkBody(Body):
    """Several decisions, each on a question of its own."""

    decisions = serializers.ListField(child=BulkItem(), min_length=1, max_length=MOST)


class DecisionSerializer(serializers.Serializer):
    """A decision: who, when, through what, and what was answered."""

    id = Id()
    interrupt = Id(source="interrupt_id")
    version = serializers.IntegerField(help_text="The version of the question that it decided.")
    type = Choice(choices=Decision.Type.values)
    value = AnyJSON(help_text="What the graph received.")
    reason = serializers.CharField()
    refusal = serializers.CharField(help_text="Why the graph couldn't use the value, if so.")
    by = serializers.CharField(source="by_label")
    via = serializers.CharField(help_text="Through what: api, admin, code, command …")
    complete = Computed(
        serializers.BooleanField(help_text="False for a vote: others have to agree yet.")
    )
    approvals = serializers.IntegerField(help_text="How many had approved, this one included.")
    quorum = serializers.IntegerField(help_text="How many have to.")
    patch = AnyJSON(help_text="What an edit changed, as a JSON Patch (RFC 6902); null: no edit.")
    created_at = Moment()

    def get_complete(self, decision: Any) -> bool:
        return decision.effective is True if isinstance(decision, Decision) else decision.complete


class BulkResultSerializer(serializers.Serializer):
    """What became of one decision of several."""

    interrupt = Id()
    status = serializers.IntegerField(help_text="What it would have been answered with alone.")
    repeated = serializers.BooleanField(help_text="Whether it had been carried out before.")
    decision = DecisionSerializer(allow_null=True)
    problem = Problem(allow_null=True, help_text="Why it was not taken: a problem of that status.")


class BulkResultsSerializer(serializers.Serializer):
    """What became of each decision, in the order they were sent."""

    results = BulkResultSerializer(many=True)


class ValidationSerializer(serializers.Serializer):
    """What a decision would do."""

    valid = serializers.BooleanField()
    resume = AnyJSON(help_text="What the graph would receive.")


class InterruptSerializer(QuestionColumnsSerializer):
    """A question, without its payload: lists never load one.

    What is not declared here are columns that ``QUESTION_COLUMNS`` shows in lists.
    """

    shown_in = frozenset({"list"})

    id = Id()
    url = Link("interrupt", source="id")
    run = Id(source="run_id")
    thread_id = serializers.CharField(source="thread.thread_id")
    dialect = serializers.CharField(help_text="The shape in which it is asked and answered.")
    allowed_decisions = serializers.ListField(child=serializers.CharField())
    assignee = serializers.CharField(source="assignee_label", help_text="Whose turn it is.")
    group = serializers.CharField(source="group_label")
    holder = Computed(serializers.CharField(help_text="Who has claimed it; empty: nobody."))
    held_until = Computed(Moment(allow_null=True))
    snoozed_until = Computed(Moment(allow_null=True))
    overdue = serializers.BooleanField(source="is_overdue")

    def get_holder(self, interrupt: Any) -> str:
        return str(interrupt.claimed_label) if interrupt.is_held else ""

    def get_held_until(self, interrupt: Any) -> str | None:
        # A claim whose time is past counts as none, and nothing clears it.
        until = interrupt.claimed_until
        return Moment().to_representation(until) if interrupt.is_held else None

    def get_snoozed_until(self, interrupt: Any) -> str | None:
        until = interrupt.snoozed_until
        return Moment().to_representation(until) if interrupt.is_snoozed else None


class InterruptDetailSerializer(InterruptSerializer):
    """A question with everything that is needed to answer it, and the answer it got."""

    shown_in = frozenset({"list", "detail"})

    digest = serializers.CharField(source="payload_digest")
    response_schema = JSONObject(allow_null=True)
    editable = AnyJSON(help_text="Members and JSON pointers that an edit may change; null is all.")
    quorum = serializers.IntegerField(help_text="How many people have to approve.")
    approvals = serializers.IntegerField(help_text="How many have, of this version.")
    proposal = AnyJSON(help_text="What somebody made of it, for the others to approve.")
    decision = DecisionSerializer(
        source="closing", allow_null=True, help_text="The one that closed it."
    )
    refused = DecisionSerializer(
        allow_null=True, help_text="The last one, whose answer the graph could not use."
    )


class EventsQuery(Query):
    """From where on, how many, and how long to wait for the first of them."""

    after = WholeNumber(
        most=10**9 - 1, required=False, help_text="The number of the last event that you have; 0."
    )
    limit = WholeNumber(least=1, most=1000, required=False, help_text="How many at once; 100.")
    wait = WholeNumber(
        most=3600,
        required=False,
        help_text="Seconds to wait where there is none yet; no longer than EVENT_WAIT_SECONDS.",
    )


class EventSerializer(serializers.Serializer):
    """One thing that became of a run."""

    seq = serializers.IntegerField(help_text="Numbered from 1, without gaps.")
    kind = serializers.CharField(help_text="A state of the run, or a stream mode of the engine.")
    namespace = serializers.ListField(
        child=serializers.CharField(),
        help_text="The way to the graph further down that it is about; empty: the run's own.",
    )
    created_at = Moment()
    data = AnyJSON()  # type: ignore[assignment]  # a member, not the attribute
    truncated = serializers.BooleanField(help_text="There was more than is kept of it.")
    withheld = serializers.BooleanField(help_text="Its data is for who may see state.")


class EventPageSerializer(serializers.Serializer):
    """Events of a run, in order."""

    results = EventSerializer(many=True, source="events")
    last = serializers.IntegerField(help_text="The number to give as `after` next.")
    state = Choice(choices=Run.State.values)
    ended = serializers.BooleanField(help_text="The run has ended, and that was its last event.")


class RunDetailSerializer(RunSerializer):
    """A run with what it asks, and what may be seen of how it ended."""

    #: Members that are not there for everybody.
    sometimes = frozenset({"error", "result"})

    interrupts = InterruptSerializer(many=True, help_text="The open questions.")
    error = serializers.CharField(help_text="For operators.")
    result = AnyJSON(
        help_text="The state it ended with, for who may see state, until a later run changes it."
    )
