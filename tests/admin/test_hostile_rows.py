"""Escaping of untrusted text in webhooks, links, bulk decisions, users and closed requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse

from hitl_django import services
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.models import Delivery, WebhookEndpoint
from hitl_django.json_text.sanitize import escape_invisible
from hitl_django.models import (
    AuditEntry,
    ChannelBlob,
    Comment,
    Decision,
    GraphShape,
    Interrupt,
    Run,
    Thread,
)
from tests.contrib.links.conftest import signature_of

from .browsing import text_of
from .conftest import list_of, make_interrupt, page_of
from .test_hostile import MARK, TEXTS, assert_inert

pytestmark = pytest.mark.promise("P19")
#: Texts in addition to those of the other pages.
LONG = [*TEXTS, MARK + "W" * 290, f"{MARK} " + "\u0301" * 200, f"{MARK}\u200d\ufeff\u2028\u2029"]
URL = "https://crm.example/hooks"


def value_of(item: Interrupt) -> str:
    return f"{item.pk}.{item.version}.{item.payload_digest}"


@pytest.mark.any_database
@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
@pytest.mark.slow
def test_pages_of_closed_requests_and_bulk_decisions_escape_markup(
    text: str, admin_client: Client
) -> None:
    shown = escape_invisible(text)[:255]
    items = {
        status: make_interrupt({text: text}, title=shown, why=text, node=text[:200], status=status)
        for status in ("pending", "expired", "superseded", "cancelled")
    }
    moved = make_interrupt({text: text}, title=shown, version=3)
    Interrupt.objects.update(group_label=shown[:150])
    for thread in Thread.objects.all():
        Thread.objects.filter(pk=thread.pk).update(thread_id=f"{thread.pk} {text}"[:255])
    Run.objects.update(started_by_label=text[:255])
    for item in items.values():
        Comment.objects.create(interrupt=item, by_label=text[:255], via="api", text=text)
        AuditEntry.objects.create(
            thread=item.thread, seq=100, verb="comment", subject=text[:255], actor_label=text[:255],
            via="code", at=item.created_at, hash="0", detail={text: text},
        )  # fmt: skip
    stale = value_of(moved).replace(".3.", ".1.")
    bulk = {"decision": "reject", "item": [value_of(items["pending"]), stale], "reason": text}
    for response in (
        *(admin_client.get(page_of(item)) for item in items.values()),
        *(admin_client.get(page_of(item.thread_id, "thread")) for item in items.values()),
        admin_client.get(list_of()),
        admin_client.get(list_of("thread")),
        admin_client.get(list_of("run")),
        admin_client.post(reverse("admin:hitl_django_reviewitem_bulk"), bulk),
        admin_client.post(reverse("admin:hitl_django_reviewitem_bulk"), {**bulk, "confirmed": "1"}),
    ):
        assert response.status_code == 200
        assert_inert(text_of(response))


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
@pytest.mark.slow
def test_request_page_escapes_hostile_text_and_searches_for_hostile_text_return_200(
    text: str, admin_client: Client
) -> None:
    item = make_interrupt(
        {text: text}, title=escape_invisible(text)[:255], why=text, node=text[:200]
    )
    assert_inert(text_of(admin_client.get(page_of(item))))
    for model in ("reviewitem", "run", "thread", "decision", "delivery"):
        # The result depends on the database's definition of a word.
        assert admin_client.get(list_of(model), {"q": text}).status_code == 200


@pytest.mark.any_database
@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_webhook_and_delivery_pages_escape_markup(text: str, admin_client: Client) -> None:
    hook = webhook_services.create_webhook(URL, description=escape_invisible(text)[:255])
    webhook_services.send_test_event(hook.id)
    WebhookEndpoint.objects.update(
        stopped=text[:255], description=text[:255], created_by_label=text[:255],
        is_active=False, url=f"https://crm.example/{text}", graphs=[text], events=[text],
    )  # fmt: skip
    Delivery.objects.update(fault=text[:255], data={text: text}, state="dead", status=500)
    message = Delivery.objects.get()
    for response in (
        admin_client.get(list_of("webhookendpoint")),
        admin_client.get(page_of(hook.id, "webhookendpoint")),
        admin_client.get(f"{page_of(hook.id, 'webhookendpoint').removesuffix('change/')}delete/"),
        admin_client.get(list_of("delivery")),
        admin_client.get(page_of(message, "delivery")),
    ):
        assert response.status_code == 200
        assert_inert(text_of(response))
    refused = admin_client.post(
        reverse("admin:hitl_webhooks_webhookendpoint_add"), {"url": f"http://{text}"}
    )
    assert refused.status_code == 200
    assert_inert(text_of(refused), says="Add webhook")


@pytest.mark.any_database
@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_schedule_pages_escape_markup(text: str, admin_client: Client) -> None:
    made = create_schedule("steps", "0 7 * * *", {"log": []})
    Schedule.objects.update(
        description=text[:255], graph=text[:100], expression=text[:100], timezone=text[:64],
        input={text: text}, last_error=text, owner_label=text[:255],
    )  # fmt: skip
    chosen = {"action": "pause", "_selected_action": str(made.id)}
    for response in (
        admin_client.get(list_of("schedule")),
        admin_client.get(list_of("schedule"), {"q": text}),
        admin_client.get(page_of(made.id, "schedule")),
        admin_client.post(list_of("schedule"), chosen, follow=True),
    ):
        assert response.status_code == 200
        assert_inert(text_of(response))


@pytest.mark.any_database
@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_review_link_pages_escape_markup(text: str, admin_client: Client, admin_user: Any) -> None:
    item = make_interrupt({text: text, "why": text}, title=escape_invisible(text)[:255], why=text)
    link = create_review_link(item.pk, name="Lena", by=admin_user)
    ReviewLink.objects.update(name=text[:255], created_by_label=text[:255])
    path, stranger = urlsplit(link.url).path, Client()
    add = reverse("admin:hitl_links_reviewlink_add") + f"?interrupt={item.pk}"
    signature = signature_of(stranger.get(path).content.decode())
    written = {"decision": text, "reason": text, "answer": text, "signature": signature}
    for response in (
        stranger.get(path),
        stranger.post(path, written),
        admin_client.get(list_of("reviewlink")),
        admin_client.get(page_of(link.id, "reviewlink")),
        admin_client.get(add),
        admin_client.post(add, {"name": text, "days": text, "decisions": ["approve"]}),
    ):
        assert response.status_code in (200, 409, 422)
        assert_inert(text_of(response))


@pytest.mark.any_database
@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_admin_pages_escape_markup_in_user_and_group_names(
    text: str, admin_user: Any, admin_client: Client
) -> None:
    Group.objects.create(name=text[:150])
    # Django's own pages display names unchanged. The pages of this app escape hidden characters.
    other = get_user_model().objects.create_user(text[:150], is_superuser=True)
    item, done = make_interrupt(1), make_interrupt({"a": MARK})
    services.assign(item.pk, to=other, by=admin_user, via="code")
    services.claim(item.pk, by=other, via="code")
    services.decide(done.pk, "approve", by=other)
    for response in (
        admin_client.get(list_of()),
        admin_client.get(page_of(item)),
        admin_client.get(page_of(done)),
        admin_client.get(page_of(done.run_id, "run")),
        admin_client.get(page_of(done.thread_id, "thread")),
        admin_client.post(page_of(done), {"decision": "approve", "reason": text}),
    ):
        assert response.status_code in (200, 409)
        assert_inert(text_of(response))


def test_str_of_django_model_instances_escapes_invisible_characters() -> None:
    text = "re\u202eject"
    for row in (
        Comment(by_label=text),
        Decision(type="approve", by_label=text),
        Interrupt(title=text),
        Run(graph=text),
        ChannelBlob(channel=text, version="1"),
        GraphShape(graph=text, fingerprint="1"),
    ):
        assert "re\\u202eject" in str(row), type(row)


#: Texts that can't be stored, or that have a special meaning in a URL or query.
BROKEN = ["\x00", "a\x00b", "\ud800", "\ufffe", "%00", "1e999", "٣", "9" * 5000, "{" * 3000, ""]


@pytest.mark.parametrize("text", BROKEN, ids=range(len(BROKEN)))
def test_admin_post_and_search_with_unstorable_text_cause_no_server_error(
    text: str, admin_client: Client, asked: Callable[..., Interrupt], admin_user: Any
) -> None:
    item = asked()
    link = create_review_link(item.pk, name="Lena", by=admin_user)
    hook = webhook_services.create_webhook(URL)
    base, run = f"{list_of()}{item.pk}", f"{list_of('run')}{item.run_id}"
    digests = {"digest": item.payload_digest, "version": item.version}
    sent: dict[str, dict[str, Any]] = {
        page_of(item): {**digests, "decision": "approve", "reason": text, "answer/amount": text},
        f"{page_of(item)}?": {"decision": text, "digest": text, "version": text, "key": text},
        urlsplit(link.url).path: {"decision": "reject", "reason": text, "key": text},
        f"{base}/handling/": {"verb": "comment", "text": text},
        f"{base}/handling/?": {"verb": "assign", "user": text, "group": text},
        f"{base}/handling/?a": {"verb": "snooze", "until": text},
        reverse("admin:hitl_django_reviewitem_bulk"): {"item": text, "decision": "approve"},
        f"{run}/cancel/": {"reason": text},
        f"{run}/fork/nowhere/": {"values": text},
        f"{list_of('webhookendpoint')}add/": {"url": text, "description": text, "events": text},
        f"{list_of('webhookendpoint')}{hook.id}/change/": {"url": URL, "description": text},
    }
    for url, body in sent.items():
        coded = {
            name: value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            for name, value in body.items()
        }
        response = admin_client.post(url, coded)
        assert response.status_code < 500, url
    for model in ("reviewitem", "run", "thread", "decision", "delivery"):
        query = {"q": text.encode("utf-8", "surrogatepass")}
        assert admin_client.get(list_of(model), query).status_code < 500


@pytest.mark.parametrize("model", ["run", "thread", "interrupt", "decision", "reviewitem"])
def test_admin_search_with_1500_words_returns_200(model: str, admin_client: Client) -> None:
    words = "word " * 1_500
    assert admin_client.get(list_of(model), {"q": words}).status_code == 200
