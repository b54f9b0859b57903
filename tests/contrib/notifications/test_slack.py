"""Slack notifications: all responses of Slack, and untrusted titles without mentions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from hitl_django import services
from hitl_django.contrib.notifications import slack_channel
from hitl_django.contrib.notifications.models import SlackChannel
from hitl_django.contrib.webhooks import delivery, outbox
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.models import Interrupt
from hitl_django.worker.sweeper import sweep
from tests.contrib.webhooks import receiver as faults
from tests.contrib.webhooks.receiver import Receiver, all_closed, answering

from .conftest import SITE

Ask = Callable[..., Interrupt]
Connect = Callable[..., SlackChannel]
Receive = Callable[..., Receiver]


@pytest.fixture
def receive() -> Iterator[Receive]:
    """Start receivers with the given behaviour. By default, they respond like Slack."""
    started: list[Receiver] = []

    def start(*behaviours: Any) -> Receiver:
        started.append(Receiver([*behaviours] or [answering(200, body=b"ok")]))
        return started[-1]

    yield start
    all_closed(started)


@pytest.fixture
def connect(db: None) -> Connect:
    """Create a channel for a receiver."""

    def make(receiver: Receiver, **options: Any) -> SlackChannel:
        values = {"description": "#refunds", "graphs": [], "group": "", "is_active": True}
        channel = SlackChannel()
        values |= {"address": receiver.url + "/T000/B000/secret", "by": None, **options}
        slack_channel.save_channel(channel, **values)
        return channel

    return make


def deliver(channel: SlackChannel) -> Delivery:
    delivery.deliver(str(channel.pk))
    return Delivery.objects.filter(endpoint=channel.pk).latest("created_at")


def texts(body: Any) -> str:
    return json.dumps(body["blocks"], ensure_ascii=False)


def test_slack_message_contains_title_group_due_time_and_link_without_payload(
    receive: Receive, connect: Connect, ask: Ask, person: Any
) -> None:
    person("rita", "Night")
    receiver = receive()
    channel = connect(receiver)
    item = ask(group="Night", due=timedelta(hours=3))
    assert deliver(channel).state == "delivered"
    received = receiver.next()
    assert received.head.startswith("POST ")
    body = json.loads(received.body)
    assert body["text"] == "Review requested: Refund 120 EUR?"
    said = texts(body)
    assert "reviewed ▸ ask" in said
    assert "Night" in said
    # A time that Slack can't convert to the reader's time zone names its zone.
    zone = timezone.localtime(item.due_at).tzname()
    assert re.search(rf"Due: <!date\^\d+\^[^|]+\|[^|>]+ {zone}>", said)
    assert f"{SITE}/admin/hitl_django/reviewitem/{item.pk}/change/" in said
    assert "amount" not in said


def test_slack_message_contains_the_graph_title(
    receive: Receive, connect: Connect, ask: Ask
) -> None:
    receiver = receive()
    channel = connect(receiver)
    Interrupt.objects.filter(pk=ask().pk).update(graph="essay")
    deliver(channel)
    assert "Essay ▸ ask" in texts(json.loads(receiver.next().body))


HOSTILE = "<!channel> *pay* <https://evil.example|here> & @here\n<@U123>"


def test_slack_message_for_hostile_title_contains_no_formatting_or_mentions(
    receive: Receive, connect: Connect, ask: Ask
) -> None:
    receiver = receive()
    channel = connect(receiver)
    item = ask(title=HOSTILE)
    Interrupt.objects.filter(pk=item.pk).update(title=HOSTILE, node="<!here>")
    deliver(channel)
    body = json.loads(receiver.next().body)
    assert "<" not in body["text"]
    assert body["text"].startswith("Review requested: &lt;!channel&gt; *pay*")
    assert (body["link_names"], body["mrkdwn"], body["unfurl_links"]) == (False, False, False)
    formatted = [
        element
        for block in body["blocks"]
        for element in [block.get("text"), *block.get("elements", ())]
        if element and element["type"] == "mrkdwn"
    ]
    assert formatted == []


def test_slack_channel_gets_only_requests_of_its_group_and_graphs(
    receive: Receive, connect: Connect, ask: Ask, person: Any
) -> None:
    person("rita", "Night")
    person("olga", "Day")
    night, other = connect(receive(), group="Night"), connect(receive(), graphs=["typed"])
    ask(group="Night")
    ask(group="Day")
    ask()
    assert Delivery.objects.filter(endpoint=night.pk).count() == 1
    assert not Delivery.objects.filter(endpoint=other.pk).exists()


def test_slack_channel_gets_a_message_for_overdue_requests(
    receive: Receive, connect: Connect, ask: Ask
) -> None:
    receiver = receive()
    channel = connect(receiver)
    item = ask(due=timedelta(hours=1))
    deliver(channel)
    receiver.next()
    Interrupt.objects.filter(pk=item.pk).update(due_at=Now() - timedelta(minutes=1))
    sweep()
    deliver(channel)
    assert json.loads(receiver.next().body)["text"] == "Overdue: Refund 120 EUR?"


def test_slack_channel_gets_a_message_for_assignment_to_its_group(
    receive: Receive, connect: Connect, ask: Ask, person: Any
) -> None:
    rita, ravi = person("rita", "Night"), person("ravi")
    receiver = receive()
    channel = connect(receiver, group="Night")
    item = ask()
    assert not Delivery.objects.exists()
    services.assign(item.pk, group=rita.groups.get(), by=rita)
    assert deliver(channel).state == "delivered"
    assert json.loads(receiver.next().body)["text"] == "Assigned: Refund 120 EUR?"
    # A mention of a user outside the group is not sent to the group's channels.
    services.assign(item.pk, to=ravi, by=rita)
    assert Delivery.objects.count() == 1


def test_slack_message_for_request_unassigned_before_sending_becomes_dead(
    receive: Receive, connect: Connect, ask: Ask, person: Any
) -> None:
    rita = person("rita", "Night")
    channel = connect(receive())
    item = ask(group="Night")
    deliver(channel)
    services.assign(item.pk, by=rita)
    assert deliver(channel).state == "dead"


@pytest.mark.parametrize(("group", "word"), [("Leads", "Escalated"), ("Nobody", "Overdue")])
def test_slack_message_after_expiry_says_escalated_if_the_new_group_exists_or_else_overdue(
    receive: Receive, connect: Connect, ask: Ask, person: Any, group: str, word: str
) -> None:
    person("olga", "Leads")
    receiver = receive()
    channel = connect(receiver)
    item = ask()
    deliver(channel)
    receiver.next()
    Interrupt.objects.filter(pk=item.pk).update(
        expires_at=Now() - timedelta(minutes=1),
        expiry={"seconds": 1, "then": "escalate", "answer": None, "group": group},
    )
    sweep()
    deliver(channel)
    assert json.loads(receiver.next().body)["text"] == f"{word}: Refund 120 EUR?"


@pytest.mark.parametrize("status", [400, 403, 404, 410, 302])
def test_slack_response_with_permanent_error_makes_the_delivery_dead_with_reason(
    receive: Receive, connect: Connect, ask: Ask, status: int
) -> None:
    channel = connect(receive(answering(status, "Location: https://evil.example/")))
    ask()
    delivery = deliver(channel)
    assert (delivery.state, delivery.status, delivery.attempts) == ("dead", status, 1)
    assert delivery.fault.startswith(f"Slack returned {status}")


def test_slack_response_with_retry_after_delays_all_deliveries_of_the_channel(
    receive: Receive, connect: Connect, ask: Ask
) -> None:
    channel = connect(receive(answering(429, "Retry-After: 3000")))
    ask()
    ask()
    delivery = deliver(channel)
    assert Delivery.objects.filter(state="pending").count() == 2
    tried = Delivery.objects.get(status=429)
    now = WebhookEndpoint.objects.values_list(Now(), flat=True).get(pk=channel.pk)
    channel.refresh_from_db()
    assert channel.paused_until - now > timedelta(seconds=2900)
    assert tried.due_at - now > timedelta(seconds=2900)
    assert delivery.state == "pending"


@pytest.mark.parametrize(
    "behaviour", [answering(500), faults.closing, faults.breaking_off, faults.babbling]
)
def test_slack_delivery_after_temporary_failure_is_retried_and_delivered(
    receive: Receive, connect: Connect, ask: Ask, behaviour: Any
) -> None:
    receiver = receive(behaviour, answering(200))
    channel = connect(receiver)
    ask()
    assert deliver(channel).state == "pending"
    Delivery.objects.update(due_at=Now() - timedelta(seconds=1))
    WebhookEndpoint.objects.update(paused_until=None)
    assert deliver(channel).state == "delivered"


@pytest.mark.parametrize("kind", ["silent", "dripping", "flooding"])
def test_slack_delivery_with_slow_response_ends_at_timeout_and_is_pending(
    receive: Receive, connect: Connect, ask: Ask, settings: Any, kind: str
) -> None:
    started: list[Receiver] = []
    behaviour = {
        "silent": lambda: faults.silent(lambda: started[0]),
        "dripping": lambda: faults.dripping(lambda: started[0]),
        "flooding": lambda: faults.flooding,
    }[kind]()
    started.append(receive(behaviour))
    settings.HITL = {**settings.HITL, "WEBHOOK_TIMEOUT_SECONDS": 0.5}
    channel = connect(started[0])
    ask()
    delivery = deliver(channel)
    assert (delivery.state, delivery.attempts) == ("pending", 1)


def test_slack_delivery_with_endless_response_is_delivered(
    receive: Receive, connect: Connect, ask: Ask
) -> None:
    channel = connect(receive(faults.huge))
    ask()
    assert deliver(channel).state == "delivered"


def test_slack_url_is_shown_on_no_page_and_in_no_api_response(
    receive: Receive, connect: Connect, ask: Ask, admin_client: Any
) -> None:
    channel = connect(receive())
    ask()
    delivery = deliver(channel)
    pages = [
        "/admin/hitl_notifications/slackchannel/",
        f"/admin/hitl_notifications/slackchannel/{channel.pk}/change/",
        "/admin/hitl_webhooks/delivery/",
        f"/admin/hitl_webhooks/delivery/{delivery.pk}/change/",
        "/admin/hitl_webhooks/webhookendpoint/",
        "/hitl/api/v1/webhooks/",
    ]
    for page in pages:
        response = admin_client.get(page)
        assert response.status_code == 200, page
        assert b"B000" not in response.content, page
    assert admin_client.get(f"/hitl/api/v1/webhooks/{channel.pk}/").status_code == 404
    assert admin_client.get(
        f"/admin/hitl_webhooks/webhookendpoint/{channel.pk}/change/"
    ).status_code in (302, 404)


def test_slack_channel_is_created_tested_changed_and_deleted_in_the_admin(
    client: Any, person: Any, receive: Receive, ask: Ask
) -> None:
    olga = person("olga", "Night")
    names = ["manage_webhooks", "view_webhookendpoint"]
    olga.user_permissions.add(*Permission.objects.filter(codename__in=names))
    client.force_login(olga)
    url, receiver = "/admin/hitl_notifications/slackchannel/", receive()
    refused = client.post(f"{url}add/", {"address": "http://10.0.0.1/x"})
    assert refused.status_code == 200
    assert b'class="hitl-notice is-bad" role="alert"' in refused.content
    address = receiver.url + "/T000/B000/one"
    given = {"address": address, "description": "#night", "group": "Night", "is_active": "on"}
    assert client.post(f"{url}add/", given).status_code == 302
    channel = SlackChannel.objects.get()
    assert (channel.secret, channel.group_label, channel.created_by) == (address, "Night", olga)
    given |= {"address": "", "group": ""}
    assert client.post(f"{url}{channel.pk}/change/", given).status_code == 302
    channel.refresh_from_db()
    assert (channel.secret, channel.group_label) == (address, "")
    ask()
    deliver(channel)
    again = {"action": "send_again", "_selected_action": [Delivery.objects.get().pk]}
    assert client.post("/admin/hitl_webhooks/delivery/", again).status_code == 302
    assert Delivery.objects.get().state == "pending"
    receiver.all()
    trial = {"action": "try_them", "_selected_action": [channel.pk]}
    assert client.post(url, trial).status_code == 302
    deliver(channel)
    bodies = [json.loads(received.body) for received in receiver.all()]
    assert {"text": "This is a test notification."} in bodies
    assert client.post(f"{url}{channel.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not SlackChannel.objects.exists()


def test_slack_channel_pages_and_services_without_manage_webhooks_permission_return_403_or_raise(
    client: Any, person: Any, receive: Receive, connect: Connect
) -> None:
    channel = connect(receive())
    rita = person("rita")
    client.force_login(rita)
    for page in ("", "add/", f"{channel.pk}/change/", f"{channel.pk}/delete/"):
        assert client.get(f"/admin/hitl_notifications/slackchannel/{page}").status_code in (
            302,
            403,
            404,
        )
    with pytest.raises(NotAllowedError):
        slack_channel.delete_channel(channel, by=rita)
    with pytest.raises(NotAllowedError):
        slack_channel.try_channel(channel, by=rita)
    with pytest.raises(NotAllowedError):
        connect(receive(), by=rita)


def test_slack_delivery_for_creator_without_view_permission_becomes_dead(
    receive: Receive, connect: Connect, ask: Ask, person: Any
) -> None:
    olga = person("olga", sees=False)
    olga.user_permissions.add(Permission.objects.get(codename="manage_webhooks"))
    channel = connect(receive(), by=olga)
    ask()
    delivery = deliver(channel)
    assert delivery.state == "dead"
    assert "the channel's creator can't view it" in delivery.fault


def test_slack_url_with_credentials_raises_invalid_input_error(
    receive: Receive, connect: Connect
) -> None:
    with pytest.raises(InvalidInputError):
        connect(receive(), address="https://user:pass@hooks.example/")


def test_slack_message_for_decided_request_is_not_sent(
    receive: Receive, connect: Connect, ask: Ask
) -> None:
    channel = connect(receive())
    item = ask()
    services.decide(item.pk, "approve")
    assert deliver(channel).fault == "The request was closed."
    outbox.clear_listeners()


def test_slack_channel_change_preserves_epoch_and_lease_of_its_endpoint(
    receive: Receive, connect: Connect
) -> None:
    channel = connect(receive())
    SlackChannel.objects.update(epoch=F("epoch") + 1, lease_until=Now() + timedelta(minutes=1))
    before = SlackChannel.objects.get()
    slack_channel.save_channel(
        channel, address="", description="Night", graphs=[], group="", is_active=True, by=None
    )
    after = SlackChannel.objects.get()
    assert after.description == "Night"
    assert (after.epoch, after.lease_until) == (before.epoch, before.lease_until)
