"""Three objects of each kind: unrestricted, of a restricted graph, and of hidden threads.

Every user-provided text is a canary: a unique text that names its origin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypedDict
from uuid import uuid4

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import override_settings
from django.utils import timezone

from hitl_django import END, START, StateGraph, interrupt, services, testing
from hitl_django.contrib.archive import moves
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.langgraph_api.models import Assistant
from hitl_django.contrib.langgraph_api.stored_assistants import create_assistant
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.notifications import slack_channel
from hitl_django.contrib.notifications.models import SlackChannel
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import ReviewPolicy
from hitl_django.models import (
    ChannelBlob,
    Checkpoint,
    Decision,
    Interrupt,
    PendingWrite,
    Run,
    Thread,
)

from .people import KEEPERS, MINTERS, SHUT

GRAPHS = {"open": "ledger", "vault": "vault", "shut": "ledger"}
POLICY = {"POLICY": "tests.permissions.people.Blindfold"}


class State(TypedDict, total=False):
    area: str
    secret: str
    #: Text that makes an input long enough to be stored in a separate row.
    padding: str
    answer: Any


def canary(area: str, kind: str) -> str:
    return f"zq{area}{kind}qz"


def ask(state: State) -> State:
    area = state["area"]
    payload = {
        "title": f"Pay {canary(area, 'title')}?",
        "text": canary(area, "payload"),
        "why": canary(area, "why"),
    }
    return {"answer": interrupt(payload)}


def fail(state: State) -> State:
    raise ValueError(canary(state["area"], "error"))


@contextmanager
def graphs() -> Iterator[None]:
    """Register graphs that interrupt and fail.

    Two of the interrupting graphs are restricted.
    """

    def asking() -> Any:
        return StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END)

    def failing() -> Any:
        return StateGraph(State).add_node("fail", fail).add_edge(START, "fail")

    registry.register("ledger")(asking)
    registry.register("vault", review=ReviewPolicy(groups=[KEEPERS]))(asking)
    registry.register("mint", review=ReviewPolicy(groups=[MINTERS]))(asking)
    registry.register("broken")(failing)
    try:
        yield
    finally:
        for name in ("ledger", "vault", "mint", "broken"):
            registry.unregister(name)


@dataclass
class Things:
    """All objects of one area."""

    area: str
    interrupt: Interrupt
    #: An interrupt without a claim.
    free: Interrupt
    decided: Interrupt
    #: An interrupt that was just decided, so that its run waits for an undo.
    undoable: Interrupt
    erased: Interrupt
    failed: Run
    link: ReviewLink
    decision: Decision
    look: SpotCheck
    checkpoint: Checkpoint
    channelblob: ChannelBlob
    pendingwrite: PendingWrite
    archived: ArchivedThread
    #: Texts that nobody may see.
    secrets: list[str] = field(default_factory=list)

    @property
    def run(self) -> Run:
        return self.interrupt.run

    @property
    def thread(self) -> Thread:
        return self.interrupt.thread


@dataclass
class Hooks:
    """A webhook with a delivery, a schedule, an assistant, and a Slack channel."""

    webhook: WebhookEndpoint
    delivery: Delivery
    schedule: Schedule
    assistant: Assistant
    slack: SlackChannel
    secrets: list[str]


def user(area: str, kind: str) -> Any:
    return get_user_model().objects.create_superuser(canary(area, kind))


def fill(area: str) -> Things:
    """Create the objects of an area.

    The graphs must be registered.
    """
    with testing.inline() as advance:
        pending = asked(area, "interrupt", advance)
        free = asked(area, "free", advance)
        decided = asked(area, "decided", advance)
        decision = services.decide(
            decided.pk,
            "edit",
            {"title": "Pay?", "text": canary(area, "value")},
            reason=canary(area, "reason"),
            key=canary(area, "decisionkey"),
            by=user(area, "decider"),
        )
        advance()
        undoable = asked(area, "undoable", advance)
        with override_settings(HITL={**settings.HITL, "UNDO_SECONDS": 3600}):
            services.decide(undoable.pk, "approve", by=user(area, "undoer"))
        erased = asked(area, "erased", advance)
        services.decide(erased.pk, "approve")
        advance()
        failed = started(area, "failed", advance, graph="broken")
    services.comment(pending.pk, canary(area, "remark"), by=user(area, "commenter"))
    services.assign(
        pending.pk,
        to=user(area, "assignee"),
        group=Group.objects.create(name=canary(area, "group")),
        by=user(area, "assigner"),
    )
    services.claim(pending.pk, by=user(area, "holder"), take_over=True)
    link = create_review_link(
        pending.pk, name=canary(area, "guest"), email=f"{canary(area, 'email')}@x.example"
    )
    services.erase_thread(erased.thread.thread_id)
    row = ReviewLink.objects.get(pk=link.id)
    archived_id = f"{SHUT if area == 'shut' else ''}archived-{area}"
    services.cancel(services.start(GRAPHS[area], {"area": area}, thread_id=archived_id).id)
    ended = Thread.objects.filter(thread_id=archived_id)
    moves.create_partitions_for(ended)
    (archived,) = moves.archive_threads(ended)
    checkpoints = Checkpoint.objects.filter(thread=pending.thread)
    blobs = ChannelBlob.objects.filter(thread=pending.thread)
    writes = PendingWrite.objects.filter(thread__in=[pending.thread_id, failed.thread_id])
    return Things(
        area=area,
        interrupt=Interrupt.objects.select_related("run", "thread").get(pk=pending.pk),
        free=free,
        decided=Interrupt.objects.select_related("run", "thread").get(pk=decided.pk),
        undoable=undoable,
        erased=Interrupt.objects.select_related("run", "thread").get(pk=erased.pk),
        failed=failed,
        link=row,
        decision=Decision.objects.get(pk=decision.id),
        look=SpotCheck.objects.create(interrupt=decided, decision_id=decision.id),
        checkpoint=checkpoints.latest("checkpoint_id"),
        channelblob=blobs.order_by("pk")[0],
        pendingwrite=writes.order_by("pk")[0],
        archived=ArchivedThread.objects.get(pk=archived),
        secrets=[link.url.rstrip("/").rpartition("/")[2], row.secret_digest],
    )


def started(area: str, what: str, advance: Callable[[], int], graph: str = "") -> Run:
    run = services.start(
        graph or GRAPHS[area],
        {"area": area, "secret": canary(area, "state"), "padding": "x" * 50},
        key=canary(area, f"key{what}"),
        thread_id=f"{SHUT if area == 'shut' else ''}{canary(area, f'thread{what}')}",
        metadata={"note": canary(area, "metadata")},
        by=get_user_model().objects.get_or_create(
            username=canary(area, "starter"), is_superuser=True
        )[0],
        events="updates",
    )
    advance()
    return Run.objects.select_related("thread").get(pk=run.id)


def asked(area: str, what: str, advance: Callable[[], int]) -> Interrupt:
    run = started(area, what, advance)
    return Interrupt.objects.select_related("thread", "run").get(run=run)


def hook() -> Hooks:
    """Create a webhook with a finished delivery, a schedule, an assistant and a Slack channel."""
    made = webhook_services.create_webhook(
        f"https://{canary('hook', 'url')}.example/", description=canary("hook", "description")
    )
    sent = webhook_services.send_test_event(made.id)
    Delivery.objects.filter(pk=sent.id).update(
        state=Delivery.State.DEAD, fault=canary("hook", "fault"), finished_at=timezone.now()
    )
    scheduled = create_schedule(
        "ledger",
        "0 7 * * *",
        {"area": canary("schedule", "input")},
        description=canary("schedule", "description"),
    )
    slack, address = SlackChannel(), f"https://{canary('slack', 'host')}.example/T0/hush"
    slack_channel.save_channel(
        slack,
        address=address,
        description=canary("slack", "description"),
        graphs=["no graph"],
        group="",
        is_active=True,
        by=None,
    )
    return Hooks(
        WebhookEndpoint.objects.get(pk=made.id),
        Delivery.objects.get(pk=sent.id),
        Schedule.objects.get(pk=scheduled.id),
        create_assistant(get_user_model()(is_superuser=True), {"graph": "ledger"}),
        slack,
        [made.secret, "T0/hush"],
    )


def give_turn(item: Interrupt, person: Any, turn: str) -> None:
    """Assign an interrupt to a user, or claim it for the user."""
    until = timezone.now() + timedelta(hours=1)
    changes = {
        "assigned": {"assignee": person, "assignee_label": str(person), "claimed_until": None},
        "holding": {"claimed_by": person, "claimed_by_label": str(person), "claimed_until": until},
    }
    Interrupt.objects.filter(pk=item.pk).update(**changes[turn])


def nowhere() -> str:
    return str(uuid4())
