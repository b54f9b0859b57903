"""Interrupts hidden from users: absent from emails, digests, Slack messages and webhooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from hitl_django import services
from hitl_django.contrib.notifications import scheduled_notifications, slack_channel
from hitl_django.contrib.notifications.models import NotificationCursor
from hitl_django.contrib.notifications.preferences import save_preferences
from hitl_django.contrib.webhooks import messages, outbox
from hitl_django.contrib.webhooks.channels import AttemptResult
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Interrupt
from hitl_django.permissions import ModelPermissionPolicy
from hitl_django.worker.sweeper import sweep
from tests import graphs

from .mail_server import MailServer

Ask = Callable[..., Interrupt]
Person = Callable[..., Any]
Send = Callable[[], None]

TITLE = "Refund 120 EUR?"


class LateShiftPolicy(ModelPermissionPolicy):
    """Policy that hides all interrupts from users outside the group Night."""

    def visible_interrupts(self, user: Any, interrupts: QuerySet[Interrupt]) -> QuerySet[Interrupt]:
        seen = super().visible_interrupts(user, interrupts)
        return seen if user.groups.filter(name="Night").exists() else seen.none()


@pytest.fixture(params=["reserved graph", "policy"])
def hidden(request: pytest.FixtureRequest, settings: Any, here: Any) -> Iterator[None]:
    """Show the interrupts of the graph only to members of the group Night."""
    if request.param == "policy":
        settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.{LateShiftPolicy.__name__}"}
        yield
        return
    with registry.hide_graphs():
        registry.register("reviewed", review=ReviewPolicy(groups=["Night"]))(graphs.reviewed)
        yield


def leave_night(user: Any) -> None:
    user.groups.remove(Group.objects.get(name="Night"))


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize(
    "topic", ["requested", "assigned", "mentioned", "due", "overdue", "escalated"]
)
def test_interrupt_email_is_sent_only_to_users_permitted_at_sending_time(
    mails: MailServer, person: Person, ask: Ask, send: Send, topic: str
) -> None:
    """One user stays in the group, one leaves before the email, one was never a member."""
    rita, vik = person("rita", "Night"), person("vik", "Night")
    person("olga", "Late")
    late = Group.objects.get(name="Late")
    rita.groups.add(late)
    vik.groups.add(late)
    if topic in ("requested", "due", "overdue"):
        terms = {"due": timedelta(hours=3)} if topic != "requested" else {}
        item = ask(group="Late", **terms)
    else:
        item = ask(group="Night" if topic == "escalated" else None)
    if topic in ("due", "overdue"):
        Delivery.objects.all().delete()
        ahead = timedelta(minutes=1 if topic == "due" else -1)
        Interrupt.objects.filter(pk=item.pk).update(
            due_at=Now() + ahead, created_at=Now() - timedelta(days=2)
        )
        sweep()
    elif topic == "assigned":
        services.assign(item.pk, to=vik, by=rita)
    elif topic == "mentioned":
        services.comment(item.pk, "@vik @olga @rita", by=None)
    elif topic == "escalated":
        Delivery.objects.all().delete()
        Interrupt.objects.filter(pk=item.pk).update(
            expires_at=Now() - timedelta(seconds=1),
            expiry={"seconds": 1, "then": "escalate", "answer": None, "group": "Late"},
        )
        sweep()
    leave_night(vik)
    send()
    expected = [] if topic == "assigned" else ["rita@shop.example"]
    assert Delivery.objects.exists()
    assert sorted(mail["To"] for mail in mails.all()) == expected


@pytest.mark.usefixtures("hidden")
def test_digest_email_lists_only_interrupts_visible_to_its_recipient(
    mails: MailServer, person: Person, ask: Ask, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_notifications, "_find_hour", lambda now: now)
    rita, vik, olga = person("rita", "Night"), person("vik", "Night"), person("olga", "Late")
    for one in (rita, vik, olga):
        save_preferences(one, dict.fromkeys(["requested", "assigned", "mentioned"], "daily"))
        one.groups.add(Group.objects.get(name="Late"))
    item = ask(group="Late")
    services.comment(item.pk, "@rita @vik @olga", by=None)
    leave_night(vik)
    earlier = timezone.now() - timedelta(hours=1)
    NotificationCursor.objects.update_or_create(
        name=scheduled_notifications.DIGEST, defaults={"until": earlier}
    )
    assert scheduled_notifications.publish_digest()
    send()
    send()
    [mail] = mails.all()
    assert (mail["To"], TITLE in str(mail)) == ("rita@shop.example", True)


@pytest.mark.usefixtures("hidden")
@pytest.mark.parametrize("channel", ["slack", "webhook"])
def test_slack_and_webhook_messages_contain_only_interrupts_visible_to_the_creator(
    person: Person, ask: Ask, monkeypatch: pytest.MonkeyPatch, channel: str
) -> None:
    sent: list[bytes] = []

    def post(url: str, headers: Any, body: bytes, seconds: float) -> AttemptResult:
        sent.append(body)
        return AttemptResult(200)

    for module in (slack_channel, messages):
        monkeypatch.setattr(module, "post_body", post)
    rita, vik = person("rita", "Night"), person("vik", "Night")
    for by in (rita, vik):
        WebhookEndpoint.objects.create(
            channel=channel, url="https://a.example", secret="whsec_c2VjcmV0", with_interrupt=True,
            events=["interrupt.created"], created_by=by, created_by_label=by.username,
        )  # fmt: skip
    outbox.clear_listeners()
    ask()
    leave_night(vik)
    send = {"slack": slack_channel.send, "webhook": messages.send_webhook}[channel]
    shown = []
    for endpoint in WebhookEndpoint.objects.order_by("created_by__username"):
        send(Delivery.objects.get(endpoint=endpoint), endpoint, monotonic() + 60)
        shown.append(TITLE.encode() in b"".join(sent))
        sent.clear()
    assert shown == [True, False]
