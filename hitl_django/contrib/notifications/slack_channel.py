"""The Slack channel of notifications. It posts interrupts of a group or graph.

The address of a channel is the URL of an incoming webhook or the id of a Slack channel. If the
address is the id of a Slack channel, the project's Slack app posts the messages with its bot token.
Only these messages have buttons for decisions, and only these messages are updated when the
interrupt is closed. Each delivery stores the timestamp by which Slack identifies its message.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import timedelta
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction
from django.db.models import TextField
from django.db.models.functions import Cast

from hitl_django import audit
from hitl_django.conf import hitl
from hitl_django.contrib.webhooks import outbox
from hitl_django.contrib.webhooks.addresses import AddressRefused, check_url
from hitl_django.contrib.webhooks.channels import AttemptResult, Channel
from hitl_django.contrib.webhooks.event_labels import TEST
from hitl_django.contrib.webhooks.http_post import post_body
from hitl_django.contrib.webhooks.messages import select_visible_to_creator
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.contrib.webhooks.services import may_manage
from hitl_django.db.alias import write_alias
from hitl_django.db.retry import retry_on_conflict
from hitl_django.db.write_batch import WriteBatch
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.events import EventName
from hitl_django.extensions import Event
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Interrupt

from . import slack_api, slack_messages
from .models import SlackChannel
from .slack_api import SlackError
from .topics import DUE_SOON, UPDATE, UPDATE_LABELS

EVENTS = frozenset(
    {
        EventName.INTERRUPT_CREATED,
        EventName.INTERRUPT_ASSIGNED,
        DUE_SOON,
        EventName.INTERRUPT_OVERDUE,
        EventName.INTERRUPT_EXPIRED,
    }
)
#: Events after which the messages about an interrupt are updated.
CHANGES = frozenset(
    {EventName.INTERRUPT_DECIDED, EventName.INTERRUPT_UNDONE, EventName.INTERRUPT_EXPIRED}
)
CHANNEL_ID = re.compile(r"[CG][A-Z0-9]{6,30}")
#: The clocks of the database and of the processes may differ.
MARGIN = timedelta(minutes=5)
GONE = "The message was deleted in Slack."
#: Reasons of permanent failures, by the status of Slack's response.
REASONS = {
    400: "Slack returned 400: invalid message, or the channel doesn't accept it.",
    403: "Slack returned 403: the workspace doesn't allow this webhook to post.",
    404: "Slack returned 404: the webhook was revoked or the channel was deleted.",
    410: "Slack returned 410: the channel is archived.",
}
#: Statuses after which a delivery is retried, in addition to 500 and higher.
LATER = frozenset({408, 425, 429})


def save_channel(
    channel: SlackChannel, *, address: str, description: str, graphs: Collection[str],
    group: str, is_active: bool, by: Any,
) -> None:  # fmt: skip
    """Create or change a channel.

    ``address`` is the URL of an incoming webhook or the id of a Slack channel. An empty ``address``
    keeps the current address. A user who sets the address becomes the creator of the channel. The
    channel then gets only interrupts that the creator may view.
    """
    _refuse_if_not_allowed(by)
    values: dict[str, Any] = {
        "channel": SLACK.name,
        "description": escape_unstorable(description)[:255],
        "graphs": sorted(graphs),
        "group_label": group,
        "is_active": is_active,
    }
    if address:
        check_address(address)
        parts = urlsplit(address)
        values |= {"secret": address, "url": f"{parts.scheme}://{parts.netloc}/…", "events": []}
        if _is_channel_id(address):
            values |= {"url": f"slack:{address}", "events": sorted({*EVENTS, UPDATE})}
        values |= {"created_by": by, "created_by_label": audit.label_user(by)}
    if is_active:
        values |= {"failures": 0, "paused_until": None, "stopped": ""}
    for name, value in values.items():
        setattr(channel, name, value)
    # Write only these columns, because a worker may have leased the endpoint in the meantime.
    changed = None if channel._state.adding else [*values]
    channel.save(using=write_alias(), update_fields=changed)
    outbox.clear_listeners()


def check_address(address: str) -> None:
    """Raise InvalidInputError if the address is neither an incoming webhook nor a channel id.

    A channel id is valid only with the setting SLACK_BOT_TOKEN.
    """
    if _is_channel_id(address):
        if not hitl.SLACK_BOT_TOKEN:
            reason = "A channel ID requires the setting SLACK_BOT_TOKEN."
            raise InvalidInputError(reason, [("address", reason)])
        return
    try:
        check_url(address)
    except AddressRefused as refusal:
        raise InvalidInputError(str(refusal), [("address", str(refusal))]) from None


def delete_channel(channel: SlackChannel, *, by: Any) -> None:
    """Delete a channel and its deliveries."""
    _refuse_if_not_allowed(by)
    channel.delete(using=write_alias())
    outbox.clear_listeners()


@retry_on_conflict
def try_channel(channel: SlackChannel, *, by: Any) -> None:
    """Queue a test message to a channel, even if the channel is paused."""
    _refuse_if_not_allowed(by)
    with transaction.atomic(using=write_alias()):
        rows = WebhookEndpoint.objects.using(write_alias()).filter(pk=channel.pk)
        rows.update(paused_until=None)
        batch = WriteBatch(write_alias())
        outbox.add_messages(batch, TEST, {}, [channel.pk])
        batch.run()


def update_messages(batch: WriteBatch, event: Event) -> None:
    """Queue updates of an interrupt's Slack messages after the interrupt was closed or reopened."""
    if event.name in CHANGES:
        queue_update(batch, event.graph, event.data["interrupt_id"])


def queue_update(batch: WriteBatch, graph: str, interrupt_id: Any) -> None:
    """Queue updates of an interrupt's messages in all channels that the Slack app posts to."""
    data = {"graph": graph, "interrupt_id": interrupt_id}
    # The interrupt may have been assigned to another group in the meantime.
    outbox.write_messages(batch, Event(UPDATE, graph, data), any_group=True)


def send(delivery: Delivery, endpoint: WebhookEndpoint, deadline: float) -> AttemptResult:
    """Post an interrupt or a test message to Slack, or update the messages about an interrupt.

    An interrupt that was closed after the delivery was stored is not posted.
    """
    is_app = _is_channel_id(endpoint.secret)
    if delivery.event == TEST and is_app:
        message = slack_messages.build_test_message()
        return _call("chat.postMessage", endpoint, message, deadline)[0]
    if delivery.event == TEST:
        return _post(endpoint, slack_messages.build_test(), deadline)
    rows = Interrupt.objects.using(write_alias()).select_related("thread", "run")
    seen = select_visible_to_creator(endpoint, rows)
    item = seen.filter(pk=delivery.data["interrupt_id"]).first()
    if delivery.event == UPDATE and item is None:
        return AttemptResult(ends=Delivery.State.DELIVERED)
    if item is None:
        return _drop("The request doesn't exist, or the channel's creator can't view it.")
    if delivery.event == UPDATE:
        return _update(delivery, endpoint, item, deadline)
    if item.status != Interrupt.Status.PENDING:
        return _drop("The request was closed.")
    is_for_somebody = item.group_id is not None or item.assignee_id is not None
    if delivery.event == EventName.INTERRUPT_ASSIGNED and not is_for_somebody:
        return _drop("The request is no longer assigned.")
    if is_app:
        return _post_message(delivery, endpoint, item, deadline)
    return _post(endpoint, slack_messages.build_body(delivery, item), deadline)


def _post_message(
    delivery: Delivery, endpoint: WebhookEndpoint, item: Interrupt, deadline: float
) -> AttemptResult:
    message = slack_messages.build_message(delivery, item)
    result, answer = _call("chat.postMessage", endpoint, message, deadline)
    if answer is not None:
        rows = Delivery.objects.using(write_alias()).filter(pk=delivery.pk)
        rows.update(data={**delivery.data, "ts": answer.get("ts"), "at": answer.get("channel")})
    return result


def _update(
    delivery: Delivery, endpoint: WebhookEndpoint, item: Interrupt, deadline: float
) -> AttemptResult:
    """Update the messages about an interrupt. If there are no messages, nothing is sent."""
    # The index of the endpoint's deliveries limits the rows to those since the interrupt. Comparing
    # their text is faster than parsing each of them, and the id is compared below.
    posted = Delivery.objects.using(write_alias()).filter(
        endpoint=endpoint.pk, event__in=EVENTS, created_at__gte=item.created_at - MARGIN
    )
    posted = posted.annotate(text=Cast("data", TextField())).filter(text__contains=str(item.pk))
    message = slack_messages.build_message(delivery, item)
    for data in posted.order_by("created_at").values_list("data", flat=True):
        if data.get("interrupt_id") != str(item.pk) or not data.get("ts"):
            continue
        target = {"channel": data["at"], "ts": data["ts"]}
        result, _answer = _call("chat.update", endpoint, {**message, **target}, deadline)
        if result.fault != GONE and result.ends != Delivery.State.DELIVERED:
            return result
    return AttemptResult(ends=Delivery.State.DELIVERED)


def _call(
    method: str, endpoint: WebhookEndpoint, message: dict[str, Any], deadline: float
) -> tuple[AttemptResult, dict[str, Any] | None]:
    values = {"channel": endpoint.secret, **message}
    try:
        answer = slack_api.call(method, values, deadline - monotonic())
    except SlackError as error:
        return _judge_error(error), None
    return AttemptResult(200, ends=Delivery.State.DELIVERED), answer


def _judge_error(error: SlackError) -> AttemptResult:
    if error.status is None or error.status != 200:
        return _judge(AttemptResult(error.status, error.retry_after, f"Slack: {error.code}."))
    if error.code in slack_api.TEMPORARY:
        return AttemptResult(503, fault=f"Slack returned {error.code}.")
    if error.code in slack_api.TOKEN_ERRORS:
        # This concerns all messages. They are sent after the token is corrected.
        return AttemptResult(fault=f"Slack rejected the bot token: {error.code}.")
    return _drop(GONE if error.code == "message_not_found" else f"Slack returned {error.code}.")


def _is_channel_id(address: str) -> bool:
    return CHANNEL_ID.fullmatch(address) is not None


def _post(endpoint: WebhookEndpoint, body: bytes, deadline: float) -> AttemptResult:
    headers = {"Content-Type": "application/json", "User-Agent": "hitl-django"}
    return _judge(post_body(endpoint.secret, headers, body, deadline - monotonic()))


def _refuse_if_not_allowed(by: Any) -> None:
    if by is not None and not may_manage(by):
        raise NotAllowedError("You don't have permission to manage Slack channels.")


def _judge(answer: AttemptResult) -> AttemptResult:
    """End the delivery if Slack would reject the same message again. Otherwise, return ``answer``.

    To end the delivery, a copy of ``answer`` with the final state is returned.
    """
    status = answer.status
    if status is None or status >= 500 or status in LATER or 200 <= status < 300:
        return answer
    reason = REASONS.get(status, f"Slack returned {status}.")
    return AttemptResult(status, fault=reason, ends=Delivery.State.DEAD)


def _drop(reason: str) -> AttemptResult:
    return AttemptResult(fault=reason, ends=Delivery.State.DEAD)


SLACK = Channel(SlackChannel.CHANNEL, lambda: EVENTS, send, labels=UPDATE_LABELS)
