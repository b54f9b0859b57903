"""Scheduled notifications: punctual, once, and only if needed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from hitl_django import services
from hitl_django.contrib.notifications import scheduled_notifications
from hitl_django.contrib.notifications.models import NotificationCursor
from hitl_django.contrib.notifications.preferences import save_preferences
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.models import Interrupt
from hitl_django.worker.sweeper import sweep

from .mail_server import MailServer

Ask = Callable[..., Interrupt]
Person = Callable[..., Any]
Send = Callable[[], None]


def ask_for_later(ask: Ask, count: int = 1, **terms: Any) -> list[Interrupt]:
    asked = [ask(due=timedelta(days=1), **terms) for _ in range(count)]
    Interrupt.objects.update(
        created_at=Now() - timedelta(days=1), due_at=timezone.now() + timedelta(minutes=30)
    )
    return asked


def told(event: str) -> int:
    return Delivery.objects.filter(event=event).count()


def test_due_soon_email_is_sent_once_over_repeated_sweeps(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    ask_for_later(ask, group="Night")
    send()
    mails.all()
    for _ in range(3):
        sweep()
        send()
    [mail] = mails.all()
    assert mail["Subject"] == "Due soon: Refund 120 EUR?"


def test_request_created_shortly_before_its_due_time_publishes_no_due_reminder_event(
    mails: MailServer, person: Person, ask: Ask
) -> None:
    person("rita", "Night")
    ask(group="Night", due=timedelta(minutes=30))
    sweep()
    assert told("interrupt.due") == 0


def test_due_soon_email_is_sent_to_the_claimant_instead_of_the_group(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    person("rita", "Night")
    [item] = ask_for_later(ask, group="Night")
    ravi = person("ravi", "Night")
    services.claim(item.pk, by=ravi)
    send()
    mails.all()
    sweep()
    send()
    assert [mail["To"] for mail in mails.all()] == ["ravi@shop.example"]


def test_due_reminder_events_of_several_sweep_batches_are_published_for_every_request(
    mails: MailServer, person: Person, ask: Ask, settings: Any
) -> None:
    person("rita", "Night")
    ask_for_later(ask, 3, group="Night")
    ask_for_later(ask, 4, group="Night")  # all seven at the same moment
    settings.HITL = {**settings.HITL, "SWEEP_BATCH": 2}
    for _ in range(3):
        scheduled_notifications.publish_due()
    assert told("interrupt.due") == 7


def test_due_reminder_event_is_published_once_by_concurrent_sweeps(
    mails: MailServer, person: Person, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    person("rita", "Night")
    ask_for_later(ask, group="Night")
    seen = scheduled_notifications._read_mark(scheduled_notifications.DUE)
    assert scheduled_notifications.publish_due() == 1
    monkeypatch.setattr(scheduled_notifications, "_read_mark", lambda name: seen)
    assert scheduled_notifications.publish_due() == 0
    assert told("interrupt.due") == 1


def test_sweep_without_due_notifications_changes_no_rows(mails: MailServer) -> None:
    sweep()
    marks = list(NotificationCursor.objects.values())
    sweep()
    assert list(NotificationCursor.objects.values()) == marks
    assert not Delivery.objects.exists()


def at_the_hour() -> None:
    NotificationCursor.objects.update_or_create(
        name=scheduled_notifications.DIGEST, defaults={"until": timezone.now() - timedelta(days=3)}
    )


@pytest.fixture
def any_hour(settings: Any) -> None:
    settings.HITL = {**settings.HITL, "DIGEST_HOUR": 0}


@pytest.mark.usefixtures("any_hour")
def test_daily_digest_email_lists_twenty_requests_and_counts_the_remaining_requests(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    rita, ravi = person("rita", "Night"), person("ravi", "Night")
    save_preferences(rita, {"requested": "daily", "mentioned": "daily"})
    save_preferences(ravi, {"requested": "off"})
    titles = [f"Refund {number} EUR?" for number in range(23)]
    asked = [ask(title, group="Night") for title in titles]
    ask("Not for her")
    Interrupt.objects.filter(pk=asked[0].pk).update(due_at=Now() - timedelta(hours=1), overdue=True)
    other = ask("Where she is mentioned")
    services.comment(other.pk, "@rita, what do you think?", by=ravi)
    send()
    assert mails.all() == []
    at_the_hour()
    for _ in range(2):
        sweep()
        send()
    [mail] = mails.all()
    assert mail["To"] == "rita@shop.example"
    assert mail["Subject"] == "23 requests need your review"
    assert "List-Unsubscribe" in mail
    text = mail.get_body(("plain",)).get_content()
    assert text.count("* Refund") == 20
    assert "1 request is overdue." in text
    assert "And 3 more requests." in text
    assert "* Where she is mentioned" in text
    assert "Not for her" not in text
    assert mail.get_body(("html",)).get_content().count("Refund") == 20


def test_mention_is_listed_in_exactly_one_digest_email(
    mails: MailServer, person: Person, ask: Ask, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_notifications, "_find_hour", lambda now: now)
    rita = person("rita")
    save_preferences(rita, {"mentioned": "daily"})
    services.comment(ask("Where she is mentioned").pk, "@rita?", by=person("ravi"))
    send()
    at_the_hour()  # three days ago, and she was mentioned the day after
    Delivery.objects.update(created_at=Now() - timedelta(days=2))
    for _ in range(2):
        assert scheduled_notifications.publish_digest()
        send()
    [mail] = mails.all()
    assert mail["Subject"] == "You were mentioned"


@pytest.mark.usefixtures("any_hour")
def test_digest_without_pending_requests_is_not_sent(
    mails: MailServer, person: Person, ask: Ask, send: Send
) -> None:
    rita = person("rita", "Night")
    save_preferences(rita, {"requested": "daily"})
    services.decide(ask(group="Night").pk, "approve", by=rita)
    at_the_hour()
    sweep()
    send()
    assert mails.all() == []


def test_digest_is_not_published_before_digest_hour(
    mails: MailServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_hour()
    later = timezone.now() + timedelta(hours=1)
    monkeypatch.setattr(scheduled_notifications, "_find_hour", lambda now: later)
    assert not scheduled_notifications.publish_digest()


@pytest.mark.usefixtures("any_hour")
def test_request_with_notification_default_daily_sends_only_a_digest_email(
    mails: MailServer, person: Person, ask: Ask, send: Send, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "NOTIFICATION_DEFAULT": "daily"}
    person("rita", "Night")
    ask(group="Night")
    send()
    assert mails.all() == []
    at_the_hour()
    sweep()
    send()
    [mail] = mails.all()
    assert mail["Subject"] == "1 request needs your review"
