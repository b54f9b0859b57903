"""All admin URLs of this app, with one row for each, and with the data to submit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.urls import reverse
from django.urls.resolvers import URLResolver

from hitl_django import services
from hitl_django.contrib.archive.models import ArchivedThread
from hitl_django.contrib.archive.retention import archive_ended
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.models import (
    ChannelBlob,
    Checkpoint,
    Decision,
    Interrupt,
    PendingWrite,
)
from tests.reading import name_app

from .conftest import page_of

#: Bulk actions of a list.
ACTIONS = {
    "reviewlink_changelist": "revoke",
    "schedule_changelist": "pause",
    "webhookendpoint_changelist": "try_them",
    "delivery_changelist": "send_again",
}


#: Pages of a model that don't show a single row.
WITHOUT_A_ROW = {
    "bulk", "changelist", "csv", "many", "news", "next", "overview", "record", "remove_filter",
    "reports", "save_filter", "start", "undo_bulk",
}  # fmt: skip


def patterns(found: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the name and the route of each admin URL of this app."""
    for pattern in found:
        if isinstance(pattern, URLResolver):
            yield from patterns(pattern.url_patterns, before + str(pattern.pattern))
            continue
        route = before + str(pattern.pattern)
        # tests/contrib/notifications contains the URLs of notifications, which belong to one user.
        if found := re.match(r"(?!hitl_notifications)(hitl_\w+)/(\w+)/", route):
            app, model = found.groups()
            yield (pattern.name or f"{app}_{model}_row").removeprefix(f"{app}_"), route


@pytest.fixture
def rows(asked: Callable[..., Interrupt], admin_user: Any) -> dict[str, Any]:
    """Create one row of each kind, by model name, including one pending and one decided
    interrupt.
    """
    ended = services.start("approval", {"text": "x"})
    services.cancel(ended.id)
    assert archive_ended(0, 1) == 1
    decided, item = (
        asked("approval", text="a text that has a row of its own, as it is long"),
        asked(),
    )
    services.decide(decided.pk, "approve")
    look = SpotCheck.objects.create(interrupt=decided, decision=Decision.objects.get())
    schedule = create_schedule("approval", "0 7 * * *", {"text": "x"})
    link = create_review_link(item.pk, name="Lena", by=admin_user)
    hook = webhook_services.create_webhook("https://crm.example/hooks")
    webhook_services.send_test_event(hook.id)
    return {
        "archivedthread": ArchivedThread.objects.get(),
        "reviewitem": item,
        "interrupt": item,
        "run": item.run_id,
        "thread": item.thread_id,
        "decision": Decision.objects.get(),
        "checkpoint": Checkpoint.objects.filter(thread=item.thread_id).latest("checkpoint_id"),
        "channelblob": ChannelBlob.objects.all()[0],
        "pendingwrite": PendingWrite.objects.all()[0],
        "reviewlink": link.id,
        "schedule": schedule.id,
        "spotcheck": look,
        "webhookendpoint": WebhookEndpoint.objects.get(),
        "delivery": Delivery.objects.get(),
    }


def address_of(name: str, rows: dict[str, Any]) -> str:
    model, _, page = name.partition("_")
    row = rows[model]
    pk = str(getattr(row, "pk", row))
    app = name_app(model)
    if page == "start_graph":
        return reverse(f"admin:{app}_{name}", args=["typed"])
    if page in WITHOUT_A_ROW:
        return reverse(f"admin:{app}_{name}")
    if page == "add":
        return reverse(f"admin:{app}_{name}") + f"?interrupt={rows['reviewitem'].pk}"
    if page == "row":
        return page_of(row, model).removesuffix("change/")
    more = [rows["checkpoint"].checkpoint_id] if page == "fork" else []
    return reverse(f"admin:{app}_{name}", args=[pk, *more])


def body_of(name: str, rows: dict[str, Any]) -> dict[str, Any]:
    """Return data that would have an effect if the user had the permission."""
    item = rows["reviewitem"]
    row = rows[name.partition("_")[0]]
    return {
        "_selected_action": str(getattr(row, "pk", row)),
        "action": ACTIONS.get(name, ""),
        "decision": "approve",
        "digest": item.payload_digest,
        "version": item.version,
        "answer/amount": "1",
        "item": f"{item.pk}.{item.version}.{item.payload_digest}",
        "confirmed": "1",
        "verb": "comment",
        "text": "a remark",
        "reason": "because",
        "verdict": "agree",
        "query": "show=mine",
        "filter": "1",
        "post": "yes",
        "name": "Lena Roth",
        "days": "3",
        "decisions": ["approve"],
        "url": "https://crm.example/other",
        "values": "",
        "as_node": "",
    }


ADDRESSES = dict(patterns(admin.site.urls[0]))
