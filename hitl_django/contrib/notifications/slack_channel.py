"""The Slack channel, which posts interrupts of a group or graph to an incoming webhook."""

from __future__ import annotations

from collections.abc import Collection
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from hitl_django import audit
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
from hitl_django.json_text.sanitize import escape_unstorable
from hitl_django.models import Interrupt

from . import slack_messages
from .models import SlackChannel
from .topics import DUE_SOON

EVENTS = frozenset(
    {
        EventName.INTERRUPT_CREATED,
        EventName.INTERRUPT_ASSIGNED,
        DUE_SOON,
        EventName.INTERRUPT_OVERDUE,
        EventName.INTERRUPT_EXPIRED,
    }
)
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

    An empty ``address`` keeps the current address. A user who sets the address becomes the creator,
    and the channel then gets only interrupts that this user may view.
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
        values |= {"secret": address, "url": f"{parts.scheme}://{parts.netloc}/…"}
        values |= {"created_by": by, "created_by_label": audit.label_user(by)}
    if is_active:
        values |= {"failures": 0, "rests_until": None, "stopped": ""}
    for name, value in values.items():
        setattr(channel, name, value)
    # Write only these columns, because a worker may have leased the endpoint in the meantime.
    changed = None if channel._state.adding else [*values]
    channel.save(using=write_alias(), update_fields=changed)
    outbox.clear_listeners()


def check_address(address: str) -> None:
    """Raise InvalidInputError if the address can't belong to an incoming webhook."""
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
    """Queue a test notification, even if the channel is paused."""
    _refuse_if_not_allowed(by)
    with transaction.atomic(using=write_alias()):
        rows = WebhookEndpoint.objects.using(write_alias()).filter(pk=channel.pk)
        rows.update(rests_until=None)
        batch = WriteBatch(write_alias())
        outbox.add_messages(batch, TEST, {}, [channel.pk])
        batch.run()


def send(delivery: Delivery, endpoint: WebhookEndpoint, deadline: float) -> AttemptResult:
    """Post an interrupt or a test to the channel.

    An interrupt that was closed in the meantime is not posted.
    """
    if delivery.event == TEST:
        return _post(endpoint, slack_messages.build_test(), deadline)
    rows = Interrupt.objects.using(write_alias()).select_related("thread", "run")
    seen = select_visible_to_creator(endpoint, rows)
    item = seen.filter(pk=delivery.data["interrupt_id"]).first()
    if item is None:
        return _drop("The request doesn't exist, or the channel's creator can't view it.")
    if item.status != Interrupt.Status.PENDING:
        return _drop("The request was closed.")
    is_for_somebody = item.group_id is not None or item.assignee_id is not None
    if delivery.event == EventName.INTERRUPT_ASSIGNED and not is_for_somebody:
        return _drop("The request is no longer assigned.")
    return _post(endpoint, slack_messages.build_body(delivery, item), deadline)


def _post(endpoint: WebhookEndpoint, body: bytes, deadline: float) -> AttemptResult:
    headers = {"Content-Type": "application/json", "User-Agent": "hitl-django"}
    return _judge(post_body(endpoint.secret, headers, body, deadline - monotonic()))


def _refuse_if_not_allowed(by: Any) -> None:
    if by is not None and not may_manage(by):
        raise NotAllowedError("You don't have permission to manage Slack channels.")


def _judge(answer: AttemptResult) -> AttemptResult:
    """Make a failure permanent if Slack would reject the message again."""
    status = answer.status
    if status is None or status >= 500 or status in LATER or 200 <= status < 300:
        return answer
    reason = REASONS.get(status, f"Slack returned {status}.")
    return AttemptResult(status, fault=reason, ends=Delivery.State.DEAD)


def _drop(reason: str) -> AttemptResult:
    return AttemptResult(fault=reason, ends=Delivery.State.DEAD)


SLACK = Channel(SlackChannel.CHANNEL, lambda: EVENTS, send)
