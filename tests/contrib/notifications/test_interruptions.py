"""Workers killed while sending emails, and sweeps killed before: no email is lost."""

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
from hitl_django.models import Interrupt
from tests.chaos import commits
from tests.contrib.webhooks.test_interruptions import end_claims

from .mail_server import MailServer

pytestmark = [pytest.mark.long, pytest.mark.django_db(transaction=True)]

Ask = Callable[..., Interrupt]
Person = Callable[..., Any]
Send = Callable[[], None]


@pytest.fixture
def list_sent(mails: MailServer) -> Callable[[], list[str]]:
    """Return the emails received since the last call. Each has a unique Message-ID."""

    def list_new() -> list[str]:
        received = mails.all()
        sent = {mail["Message-ID"]: f"{mail['To']}: {mail['Subject']}" for mail in received}
        assert len(sent) == len({*sent.values()})
        return [sent[mail["Message-ID"]] for mail in received]

    return list_new


def test_email_for_each_event_is_sent_once_despite_worker_kill_at_any_commit(
    person: Person, ask: Ask, send: Send, list_sent: Callable[[], list[str]]
) -> None:
    ravi = person("ravi", "Night")
    rita = person("rita", "Night")
    first = ask(group="Night", due=timedelta(days=1))
    services.comment(first.pk, "@rita and @lena?", by=ravi)
    services.assign(first.pk, to=rita, by=ravi)
    created = Now() - timedelta(days=1)
    Interrupt.objects.update(created_at=created, due_at=timezone.now() + timedelta(minutes=30))

    def tell() -> None:
        scheduled_notifications.publish_due()
        send()

    commits.assert_same_after_kills(tell, wait=end_claims, effects=list_sent)


def test_digest_email_is_sent_once_despite_worker_kill_at_any_commit(
    person: Person, ask: Ask, send: Send, list_sent: Callable[[], list[str]], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "DIGEST_HOUR": 0}
    for name in ("rita", "ravi"):
        save_preferences(person(name, "Night"), {"requested": "daily"})
    ask(group="Night")
    send()
    until = timezone.now() - timedelta(days=3)
    NotificationCursor.objects.create(name=scheduled_notifications.DIGEST, until=until)

    def tell() -> None:
        scheduled_notifications.publish_digest()
        send()

    commits.assert_same_after_kills(tell, wait=end_claims, effects=list_sent)


def test_emails_are_sent_once_despite_worker_kill_at_any_commit_if_notification_default_is_daily(
    person: Person, ask: Ask, send: Send, list_sent: Callable[[], list[str]], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "NOTIFICATION_DEFAULT": "daily"}
    person("rita", "Night")
    save_preferences(person("ravi", "Night"), {"requested": "now"})
    ask(group="Night")
    commits.assert_same_after_kills(send, wait=end_claims, effects=list_sent)
