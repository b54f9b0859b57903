"""Approval and rejection with the buttons of Slack messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client

from hitl_django import services
from hitl_django.contrib.notifications import slack_api, slack_channel
from hitl_django.contrib.notifications.models import SlackChannel
from hitl_django.contrib.notifications.slack_signature import sign
from hitl_django.contrib.webhooks import delivery
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.engine.errors import InvalidInputError
from hitl_django.models import Decision, Interrupt
from hitl_django.permissions import ModelPermissionPolicy

from .slack_server import SlackServer

Ask = Callable[..., Interrupt]
SECRET, CHANNEL, URL = "8f742231b10e8888abcd99yyyzzz85a5", "C0123ABCD", "/hitl/notifications/slack/"


class SendingPolicy(ModelPermissionPolicy):
    """A policy that allows payloads in Slack."""

    def may_send_payload(self, channel: str, interrupt: Interrupt) -> bool:
        return channel == "slack"


@pytest.fixture(autouse=True)
def slack(
    here: dict[str, Any], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SlackServer]:
    settings.HITL = {**here, "SLACK_BOT_TOKEN": "xoxb-1", "SLACK_SIGNING_SECRET": SECRET}
    server = SlackServer()
    monkeypatch.setattr(slack_api, "API_URL", server.url)
    monkeypatch.setattr("hitl_django.contrib.notifications.slack_actions.SECONDS", 60.0)
    slack_api._find_team.cache_clear()
    yield server
    server.close()


@pytest.fixture
def channel(db: None) -> SlackChannel:
    return make_channel()


@pytest.fixture
def rita(person: Callable[..., Any], slack: SlackServer) -> Any:
    slack.know("U1", "Rita@shop.example")
    return person("rita", "Night")


def make_channel(address: str = CHANNEL, **values: Any) -> SlackChannel:
    made = SlackChannel()
    options = {"description": "", "graphs": [], "group": "", "is_active": True, "by": None}
    slack_channel.save_channel(made, address=address, **{**options, **values})
    return made


def deliver(channel: SlackChannel) -> None:
    delivery.deliver(str(channel.pk))
    rows = Delivery.objects.filter(endpoint=channel.pk)
    assert not rows.exclude(state="delivered").exists()


def buttons(message: dict[str, str]) -> dict[str, Any]:
    blocks = json.loads(message["blocks"])
    found = [element for block in blocks for element in block.get("elements", ())]
    return {
        button.get("action_id", "open"): button
        for button in found
        if "value" in button or "url" in button
    }


def value_of(item: Interrupt) -> str:
    return f"{item.pk}:{item.version}:{item.payload_digest}"


def click(
    item: Interrupt, type_: str = "approve", *, secret: str = SECRET, age: int = 0, **more: Any
) -> Any:
    payload = {
        "type": "block_actions",
        "user": {"id": "U1", "team_id": "T1"},
        "channel": {"id": CHANNEL},
        "actions": [{"action_id": f"hitl_{type_}", "value": value_of(item)}],
        **more,
    }
    body = urlencode({"payload": json.dumps(payload)})
    stamp = str(int(time.time()) - age)
    headers = {
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": sign(secret, stamp, body.encode()),
    }
    form = "application/x-www-form-urlencoded"
    return Client(enforce_csrf_checks=True).post(URL, body, content_type=form, headers=headers)


def test_slack_app_message_has_buttons_and_no_payload_by_default(
    slack: SlackServer, channel: SlackChannel, ask: Ask, settings: Any
) -> None:
    item = ask(group="Night")
    deliver(channel)
    [message] = slack.of("chat.postMessage")
    assert (message["channel"], message["token"]) == (CHANNEL, "Bearer xoxb-1")
    found = buttons(message)
    assert set(found) == {"hitl_approve", "hitl_reject", "open"}
    assert found["hitl_approve"]["value"] == value_of(item)
    assert "confirm" in found["hitl_reject"]
    assert "amount" not in message["blocks"]
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.SendingPolicy"}
    ask(group="Night")
    deliver(channel)
    assert "amount" in slack.of("chat.postMessage")[-1]["blocks"]


def test_slack_message_of_request_with_required_claim_has_only_open(
    slack: SlackServer, channel: SlackChannel, ask: Ask
) -> None:
    ask(group="Night", claim_required=True)
    deliver(channel)
    assert set(buttons(slack.of("chat.postMessage")[0])) == {"open"}


@pytest.mark.parametrize(
    ("type_", "words"), [("approve", "Approved by rita"), ("reject", "Rejected by rita")]
)
def test_slack_click_decides_as_the_mapped_user_and_updates_all_messages(
    slack: SlackServer, channel: SlackChannel, ask: Ask, rita: Any, type_: str, words: str
) -> None:
    other = make_channel("C9999ZZZZ", group="Night")
    item = ask(group="Night")
    deliver(channel)
    deliver(other)
    assert click(item, type_).status_code == 200
    decision = Decision.objects.get()
    assert (decision.type, decision.by, decision.via) == (type_, rita, "slack")
    deliver(channel)
    deliver(other)
    updates = slack.of("chat.update")
    assert len(updates) == 2
    for update in updates:
        assert update["ts"] == "1700000000.000100"
        assert words in update["blocks"]
        assert set(buttons(update)) == {"open"}


def test_slack_messages_are_updated_after_decision_elsewhere_and_reassignment(
    slack: SlackServer, ask: Ask, rita: Any, person: Callable[..., Any]
) -> None:
    channel = make_channel(group="Night")
    item = ask(group="Night")
    deliver(channel)
    day = person("olga", "Day").groups.get()
    services.assign(item.pk, group=day, by=rita)
    services.decide(item.pk, "approve")
    deliver(channel)
    assert "Approved by system" in slack.of("chat.update")[-1]["blocks"]


def test_slack_messages_get_their_buttons_back_after_undo(
    slack: SlackServer, channel: SlackChannel, ask: Ask, rita: Any, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "UNDO_SECONDS": 600}
    item = ask(group="Night")
    deliver(channel)
    services.decide(item.pk, "approve", by=rita)
    deliver(channel)
    services.undo(item.pk, by=rita)
    deliver(channel)
    item.refresh_from_db()
    assert buttons(slack.of("chat.update")[-1])["hitl_approve"]["value"] == value_of(item)


def test_slack_click_sent_again_changes_nothing(ask: Ask, rita: Any) -> None:
    item = ask(group="Night")
    for _ in range(2):
        assert click(item).status_code == 200
    assert Decision.objects.count() == 1


@pytest.mark.parametrize(
    "options",
    [{"secret": "wrong"}, {"age": 301}, {"age": -301}],
    ids=["signature", "old", "future"],
)
def test_slack_click_with_invalid_signature_or_time_is_rejected(
    ask: Ask, rita: Any, slack: SlackServer, options: Any
) -> None:
    assert click(ask(), **options).status_code == 403
    assert Client().post(URL, {"payload": "{}"}).status_code == 403
    assert not Decision.objects.exists()
    assert slack.calls == []


def test_slack_url_without_signing_secret_returns_404(ask: Ask, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "SLACK_SIGNING_SECRET": ""}
    assert click(ask(), secret="").status_code == 404


@pytest.mark.parametrize(
    "values",
    [
        {"is_email_confirmed": False},
        {"deleted": True},
        {"is_bot": True},
        {"team_id": "T2"},
    ],
    ids=["unconfirmed", "deleted", "bot", "other workspace"],
)
def test_slack_click_of_unverified_user_decides_nothing_and_tells_the_user(
    ask: Ask, rita: Any, slack: SlackServer, values: Any
) -> None:
    slack.know("U1", "rita@shop.example", **values)
    assert click(ask()).status_code == 200
    assert not Decision.objects.exists()
    assert "no matching user" in slack.of("chat.postEphemeral")[0]["text"]


def test_slack_click_of_inactive_or_ambiguous_user_decides_nothing(
    ask: Ask, rita: Any, person: Callable[..., Any]
) -> None:
    item = ask()
    person("rita2", email="RITA@shop.example")
    click(item)
    rita.is_active = False
    rita.save()
    person("rita3", email="RITA@shop.example")
    click(item)
    assert not Decision.objects.exists()


@pytest.mark.parametrize(
    ("spend", "words"),
    [
        (lambda item, user: user.user_permissions.clear(), "permission"),
        (lambda item, user: services.decide(item.pk, "reject"), "closed"),
        (lambda item, user: Interrupt.objects.update(version=2), "changed"),
    ],
    ids=["permission", "decided", "changed"],
)
def test_refused_slack_click_tells_the_user_the_reason(
    ask: Ask, rita: Any, slack: SlackServer, spend: Callable[[Interrupt, Any], Any], words: str
) -> None:
    item = ask()
    spend(item, rita)
    decided = Decision.objects.count()
    assert click(item).status_code == 200
    assert Decision.objects.count() == decided
    [told] = slack.of("chat.postEphemeral")
    assert words in told["text"]
    assert (told["user"], told["channel"]) == ("U1", CHANNEL)


@pytest.mark.parametrize(
    "more",
    [
        {"actions": [{"action_id": "hitl_approve"}]},
        {"actions": [{"action_id": "hitl_approve", "value": "no-uuid:1:x"}]},
        {"actions": 5},
        {"user": None},
    ],
)
def test_slack_click_with_malformed_payload_returns_400(ask: Ask, rita: Any, more: Any) -> None:
    assert click(ask(), **more).status_code == 400


def test_slack_click_on_open_and_other_interactions_are_acknowledged(ask: Ask) -> None:
    assert click(ask(), actions=[{"action_id": "x"}]).status_code == 200
    assert click(ask(), type="view_submission").status_code == 200


@pytest.mark.parametrize(
    ("code", "state"),
    [("channel_not_found", "dead"), ("internal_error", "pending"), ("invalid_auth", "pending")],
)
def test_slack_app_errors_end_or_repeat_the_delivery(
    slack: SlackServer, channel: SlackChannel, ask: Ask, code: str, state: str
) -> None:
    slack.answers["chat.postMessage"] = {"ok": False, "error": code}
    ask(group="Night")
    delivery.deliver(str(channel.pk))
    row = Delivery.objects.get()
    assert row.state == state
    assert code in row.fault


def test_slack_channel_id_requires_bot_token(db: None, settings: Any) -> None:
    settings.HITL = {**settings.HITL, "SLACK_BOT_TOKEN": ""}
    with pytest.raises(InvalidInputError, match="SLACK_BOT_TOKEN"):
        make_channel()
