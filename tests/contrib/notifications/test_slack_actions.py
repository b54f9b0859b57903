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
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.review_policy import ReviewPolicy
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
        "trigger_id": "13345224609.738474920",
        "user": {"id": "U1", "team_id": "T1"},
        "channel": {"id": CHANNEL},
        "actions": [{"action_id": f"hitl_{type_}", "value": value_of(item)}],
        **more,
    }
    return post(payload, secret=secret, age=age)


def post(payload: dict[str, Any], *, secret: str = SECRET, age: int = 0) -> Any:
    body = urlencode({"payload": json.dumps(payload)})
    stamp = str(int(time.time()) - age)
    headers = {
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": sign(secret, stamp, body.encode()),
    }
    form = "application/x-www-form-urlencoded"
    return Client(enforce_csrf_checks=True).post(URL, body, content_type=form, headers=headers)


def opened(slack: SlackServer) -> dict[str, Any]:
    [call] = slack.of("views.open")
    assert call["trigger_id"] == "13345224609.738474920"
    view: dict[str, Any] = json.loads(call["view"])
    return view


def submit(
    view: dict[str, Any],
    reason: str | None = None,
    chosen: str = "",
    *,
    pk: str = "V1",
    **more: Any,
) -> Any:
    """Submit a modal with a reason, and with the suggested reason of this text."""
    values: dict[str, Any] = {"reason": {"reason": {"type": "plain_text_input", "value": reason}}}
    for block in view["blocks"]:
        if block.get("block_id") == "suggested_reason":
            options = {one["text"]["text"]: one for one in block["element"]["options"]}
            selected = {"selected_option": options.get(chosen)}
            values["suggested_reason"] = {"suggested_reason": {"type": "static_select", **selected}}
    names = ("callback_id", "private_metadata")
    shown = {"id": pk, **{name: view[name] for name in names}, "state": {"values": values}}
    user = {"id": "U1", "team_id": "T1"}
    payload = {"type": "view_submission", "user": user, "view": shown}
    return post(payload, **more)


def errors_in(response: Any) -> dict[str, str]:
    answer = response.json()
    assert answer["response_action"] == "errors"
    errors: dict[str, str] = answer["errors"]
    return errors


@pytest.fixture
def suggest(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that sets the suggested reasons of all graphs."""

    def set_reasons(*reasons: str) -> None:
        policy = ReviewPolicy(reasons=reasons)
        monkeypatch.setattr(registry, "get_review_policy", lambda name: policy)

    return set_reasons


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
    assert "confirm" in found["hitl_approve"]
    assert found["hitl_reject"]["text"]["text"] == "Reject…"
    assert "amount" not in message["blocks"].lower()
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.SendingPolicy"}
    ask(group="Night")
    deliver(channel)
    blocks = json.loads(slack.of("chat.postMessage")[-1]["blocks"])
    [fields] = [block["fields"] for block in blocks if "fields" in block]
    assert fields == [{"type": "plain_text", "text": "Amount\n120", "emoji": False}]


def test_slack_message_with_large_payload_is_within_the_limits_of_slack(
    slack: SlackServer, channel: SlackChannel, ask: Ask, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "POLICY": f"{__name__}.SendingPolicy"}
    payload = {f"key {at}": at for at in range(30)} | {"text": "word " * 2000, "empty": ""}
    item = ask(group="Night")
    Interrupt.objects.filter(pk=item.pk).update(payload=payload)
    deliver(channel)
    blocks = json.loads(slack.of("chat.postMessage")[-1]["blocks"])
    [fields] = [block["fields"] for block in blocks if "fields" in block]
    assert len(fields) == 10
    texts = [
        block["text"]["text"] for block in blocks if block["type"] == "section" and "text" in block
    ]
    assert all(0 < len(text) <= 3000 for text in texts)
    assert any("Key 29: 29" in text for text in texts)


def test_slack_message_of_request_with_required_claim_has_only_the_open_button(
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
    if type_ == "reject":
        assert not Decision.objects.exists()
        assert submit(opened(slack)).content == b""
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


def test_slack_messages_have_buttons_again_after_undo(
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


def test_slack_click_sent_twice_stores_one_decision(ask: Ask, rita: Any) -> None:
    item = ask(group="Night")
    for _ in range(2):
        assert click(item).status_code == 200
    assert Decision.objects.count() == 1


@pytest.mark.parametrize(
    "options",
    [{"secret": "wrong"}, {"age": 301}, {"age": -301}],
    ids=["signature", "old", "future"],
)
def test_slack_click_with_invalid_signature_or_time_returns_403(
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
def test_slack_click_of_unverified_user_stores_no_decision_and_shows_message_to_the_user(
    ask: Ask, rita: Any, slack: SlackServer, values: Any
) -> None:
    slack.know("U1", "rita@shop.example", **values)
    assert click(ask()).status_code == 200
    assert not Decision.objects.exists()
    assert "no matching user" in slack.of("chat.postEphemeral")[0]["text"]


def test_slack_click_with_email_shared_by_several_users_stores_no_decision(
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
def test_slack_click_whose_decision_fails_shows_the_reason_to_the_user(
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
        {"type": "view_submission"},
        {"type": "view_submission", "view": {"callback_id": "hitl_reject"}},
    ],
)
def test_slack_click_with_malformed_payload_returns_400(ask: Ask, rita: Any, more: Any) -> None:
    assert click(ask(), **more).status_code == 400


def test_slack_click_on_open_button_and_unknown_interaction_return_200(ask: Ask) -> None:
    assert click(ask(), actions=[{"action_id": "x"}]).status_code == 200
    other = {"type": "view_submission", "view": {"callback_id": "x"}}
    assert post({**other, "user": {"id": "U1"}}).status_code == 200
    assert post({"type": "view_closed"}).status_code == 200


@pytest.mark.parametrize(
    ("code", "state"),
    [("channel_not_found", "dead"), ("internal_error", "pending"), ("invalid_auth", "pending")],
)
def test_slack_api_error_code_determines_if_the_delivery_becomes_dead_or_stays_pending(
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


def test_slack_reject_button_opens_modal_with_title_and_optional_reason(
    slack: SlackServer, ask: Ask, rita: Any
) -> None:
    click(ask(), "reject")
    view = opened(slack)
    assert (view["type"], view["title"]["text"], view["submit"]["text"]) == (
        "modal",
        "Reject",
        "Reject",
    )
    title, reason = view["blocks"]
    assert title["text"] == {"type": "plain_text", "text": "Refund 120 EUR?", "emoji": False}
    assert reason["optional"]
    assert reason["element"]["max_length"] == 3000


def test_slack_modal_saves_the_typed_reason_with_the_rejection(
    slack: SlackServer, ask: Ask, rita: Any
) -> None:
    click(ask(), "reject")
    assert submit(opened(slack), "Please send a photo.").content == b""
    decision = Decision.objects.get()
    assert (decision.type, decision.reason) == ("reject", "Please send a photo.")
    assert (decision.by, decision.via) == (rita, "slack")


def test_slack_modal_saves_the_suggested_reason_before_the_typed_reason(
    slack: SlackServer, ask: Ask, rita: Any, suggest: Callable[..., None]
) -> None:
    long = "The customer has received a voucher for the same order " * 3
    suggest("Proof missing", long.strip())
    click(ask(), "reject")
    view = opened(slack)
    options = [one["text"]["text"] for one in view["blocks"][1]["element"]["options"]]
    assert options[0] == "Proof missing"
    assert len(options[1]) <= 75
    submit(view, "Which shoe?", options[1])
    assert Decision.objects.get().reason == f"{long.strip()}\nWhich shoe?"


def test_slack_modal_with_removed_suggestion_shows_an_error_and_stores_no_decision(
    slack: SlackServer, ask: Ask, rita: Any, suggest: Callable[..., None]
) -> None:
    suggest("Proof missing")
    click(ask(), "reject")
    view = opened(slack)
    suggest("Too late")
    errors = errors_in(submit(view, "", "Proof missing"))
    assert "Select a valid choice" in errors["suggested_reason"]
    assert not Decision.objects.exists()


def test_slack_modal_with_too_long_reason_shows_an_error_and_stores_no_decision(
    slack: SlackServer, ask: Ask, rita: Any
) -> None:
    click(ask(), "reject")
    errors = errors_in(submit(opened(slack), "x" * 10_001))
    assert "10000" in errors["reason"]
    assert not Decision.objects.exists()


@pytest.mark.parametrize("reason", ["a\0b", "\ud800"], ids=["nul", "surrogate"])
def test_slack_modal_with_unstorable_reason_shows_an_error_or_stores_the_reason_escaped(
    slack: SlackServer, ask: Ask, rita: Any, reason: str
) -> None:
    click(ask(), "reject")
    response = submit(opened(slack), reason)
    assert response.status_code == 200
    saved = Decision.objects.values_list("reason", flat=True).first()
    assert saved or errors_in(response)["reason"]
    assert reason != saved


@pytest.mark.parametrize(
    ("spend", "words"),
    [
        (lambda item, user: user.user_permissions.clear(), "permission"),
        (lambda item, user: services.decide(item.pk, "approve"), "closed"),
        (lambda item, user: Interrupt.objects.update(version=2), "changed"),
    ],
    ids=["permission", "decided", "changed"],
)
def test_slack_modal_after_conflict_shows_the_reason_and_updates_the_message(
    slack: SlackServer, channel: SlackChannel, ask: Ask, rita: Any,
    spend: Callable[[Interrupt, Any], Any], words: str,
) -> None:  # fmt: skip
    item = ask(group="Night")
    deliver(channel)
    click(item, "reject")
    spend(item, rita)
    decided = Decision.objects.count()
    assert words in errors_in(submit(opened(slack), "No."))["reason"]
    assert Decision.objects.count() == decided
    deliver(channel)
    assert slack.of("chat.update")


def test_slack_modal_of_claimed_request_shows_an_error(
    slack: SlackServer, ask: Ask, rita: Any, person: Callable[..., Any]
) -> None:
    item = ask(group="Night")
    click(item, "reject")
    services.claim(item.pk, by=person("ravi", "Night"))
    assert "Someone else" in errors_in(submit(opened(slack)))["reason"]


def test_slack_modal_submitted_twice_stores_one_rejection_and_second_modal_says_request_is_closed(
    slack: SlackServer, ask: Ask, rita: Any
) -> None:
    click(ask(), "reject")
    view = opened(slack)
    for _ in range(2):
        assert submit(view, "No.").content == b""
    assert "closed" in errors_in(submit(view, "No!", pk="V2"))["reason"]
    assert Decision.objects.get().reason == "No."


def test_slack_modal_of_unverified_user_shows_an_error_and_stores_no_decision(
    slack: SlackServer, ask: Ask, rita: Any
) -> None:
    click(ask(), "reject")
    slack.know("U1", "rita@shop.example", is_email_confirmed=False)
    assert "no matching user" in errors_in(submit(opened(slack)))["reason"]
    assert not Decision.objects.exists()


def test_slack_modal_with_invalid_signature_returns_403(
    slack: SlackServer, ask: Ask, rita: Any
) -> None:
    click(ask(), "reject")
    assert submit(opened(slack), secret="wrong").status_code == 403
    assert not Decision.objects.exists()


@pytest.mark.parametrize(
    ("spend", "words"),
    [
        (lambda item, user: user.user_permissions.clear(), "permission"),
        (lambda item, user: services.decide(item.pk, "approve"), "closed"),
        (lambda item, user: Interrupt.objects.update(version=2), "changed"),
    ],
    ids=["permission", "decided", "changed"],
)
def test_slack_reject_button_opens_no_modal_and_shows_the_reason_if_rejection_is_not_possible(
    slack: SlackServer, ask: Ask, rita: Any, spend: Callable[[Interrupt, Any], Any], words: str
) -> None:
    item = ask()
    spend(item, rita)
    assert click(item, "reject").status_code == 200
    assert slack.of("views.open") == []
    assert words in slack.of("chat.postEphemeral")[0]["text"]


def test_slack_reject_button_whose_modal_cannot_be_opened_shows_a_message_to_the_user(
    slack: SlackServer, ask: Ask, rita: Any
) -> None:
    slack.answers["views.open"] = {"ok": False, "error": "expired_trigger_id"}
    assert click(ask(), "reject").status_code == 200
    assert "could not be saved" in slack.of("chat.postEphemeral")[0]["text"]
