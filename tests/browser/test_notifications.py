"""Email notifications of two users: a mention, an assignment, and an unsubscription."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.utils import timezone

from hitl_django import services
from hitl_django.contrib.notifications import mail_channel
from hitl_django.contrib.notifications.preferences import save_preferences
from hitl_django.contrib.webhooks import outbox
from hitl_django.contrib.webhooks.delivery import deliver
from hitl_django.db.alias import write_alias
from hitl_django.models import Interrupt, Run
from hitl_django.worker.sweeper import sweep
from tests.contrib.notifications.conftest import use_server
from tests.contrib.notifications.mail_server import MailServer
from tests.contrib.notifications.test_scheduled_notifications import at_the_hour

from .conftest import leads_on
from .test_accessibility import WAYS, faults

pytestmark = [
    pytest.mark.browser,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]


@pytest.fixture
def mails(site: str, settings: Any, start: Any) -> Iterator[MailServer]:
    """Start a mail server, and create subscribed users."""
    server = MailServer()
    use_server(settings, server.port)
    settings.HITL = {**settings.HITL, "SITE_URL": site}
    mail_channel.make_endpoint(write_alias())
    outbox.clear_listeners()
    yield server
    outbox.clear_listeners()
    server.close()


def send() -> None:
    deliver(str(mail_channel.ENDPOINT))


def give_address(name: str, *codenames: str) -> None:
    user = get_user_model().objects.get(username=name)
    user.email = f"{name}@shop.example"
    user.save()
    user.user_permissions.add(*Permission.objects.filter(codename__in=codenames))


def text_of(mail: Any) -> str:
    return str(mail.get_body(("plain",)).get_content())


@pytest.mark.parametrize("way", [*WAYS, {"java_script_enabled": False}])
def test_mentioned_user_receives_email_and_unsubscribes_without_login(
    mails: MailServer, log_in: Callable[..., Any], start: Callable[..., Run], way: dict[str, Any]
) -> None:
    item = Interrupt.objects.get(run=start("approval", text="the news"))
    rita, ravi = log_in("rita", **way), log_in("ravi", **way)
    give_address("rita", "assign_interrupt")
    give_address("ravi")

    rita.goto(f"/admin/hitl_django/reviewitem/{item.pk}/change/")
    rita.fill("[name=text]", "@ravi, is this ours?")
    with leads_on(rita):
        rita.click("button:has-text('Comment')")
    assert rita.locator(".hitl-mention").inner_text() == "@ravi"
    rita.locator("summary:has-text('Assign')").click()
    rita.fill("[name=user]", "ravi")
    with leads_on(rita):
        rita.get_by_role("button", name="Assign", exact=True).click()
    rita.wait_for_selector(":is(.messagelist .success, .hitl-toast.is-success)")

    send()
    mention, assignment = mails.next(), mails.next()
    assert mention["Subject"].startswith("rita mentioned you: ")
    assert assignment["Subject"].startswith("rita assigned a request to you: ")
    assert [mail["To"] for mail in (mention, assignment, *mails.all())] == ["ravi@shop.example"] * 2
    found = re.search(r"http\S+/change/", text_of(mention))
    assert found is not None
    ravi.goto(found[0])
    assert ravi.locator("h1").first.inner_text().strip()

    # The reader of the email isn't logged in.
    stop = re.search(r"http\S+/notifications/unsubscribe/\S+", text_of(assignment))
    assert stop is not None
    ravi.context.clear_cookies()
    ravi.goto(stop[0])
    assert "A request is assigned to me" in ravi.inner_text("main")
    if way.get("java_script_enabled", True):
        assert faults(ravi) == []
    with leads_on(ravi):
        ravi.click("button[value=this]")
    assert "You are unsubscribed" in ravi.inner_text("main")

    rita.goto(f"/admin/hitl_django/reviewitem/{item.pk}/change/")
    rita.fill("[name=text]", "@ravi, once more.")
    with leads_on(rita):
        rita.click("button:has-text('Comment')")
    send()
    assert mails.next()["Subject"].startswith("rita mentioned you")


@pytest.mark.parametrize("way", [*WAYS, {"java_script_enabled": False}])
def test_notification_settings_form_saves_and_shows_the_choices(
    mails: MailServer, log_in: Callable[..., Any], way: dict[str, Any]
) -> None:
    page = log_in("rita", **way)
    page.goto("/admin/hitl_notifications/notificationpreferences/")
    page.get_by_label("I am mentioned in a comment").select_option("off")
    page.get_by_label("A request is addressed to me or one of my groups").select_option("daily")
    if way.get("java_script_enabled", True):
        assert faults(page) == []
    with leads_on(page):
        page.click("button:has-text('Save')")
    page.wait_for_selector(":is(.messagelist .success, .hitl-toast.is-success)")
    assert page.get_by_label("I am mentioned in a comment").input_value() == "off"
    width = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert width <= 0


def test_slack_channel_pages_have_no_axe_violations(
    mails: MailServer, log_in: Callable[..., Any]
) -> None:
    page = log_in("olga")
    give_address("olga", "manage_webhooks", "view_webhookendpoint")
    page.goto("/admin/hitl_notifications/slackchannel/add/")
    assert faults(page) == []
    with leads_on(page):
        page.click("button[name=_save]")
    page.wait_for_selector(".hitl-notice.is-bad")
    assert faults(page) == []
    page.fill("[name=address]", "https://1.1.1.1/services/T0/B0/x")
    page.fill("[name=description]", "#night")
    with leads_on(page):
        page.click("button[name=_save]")
    page.wait_for_selector("a.hitl-title")
    assert faults(page) == []


@pytest.mark.parametrize("way", WAYS)
def test_notification_emails_have_no_axe_violations_and_fit_the_viewport(
    mails: MailServer,
    log_in: Callable[..., Any],
    start: Callable[..., Run],
    settings: Any,
    way: dict[str, Any],
) -> None:
    settings.HITL = {**settings.HITL, "DIGEST_HOUR": 0}
    page = log_in("ravi", **way)
    give_address("ravi")
    ravi = get_user_model().objects.get(username="ravi")
    save_preferences(ravi, {"assigned": "daily"})
    overdue, mentioned = (
        Interrupt.objects.get(run=start("approval", text=text)) for text in ("news", "weather")
    )
    services.assign(overdue.pk, to=ravi)
    Interrupt.objects.filter(pk=overdue.pk).update(
        due_at=timezone.now() - timedelta(hours=1), overdue=True
    )
    services.comment(mentioned.pk, "@ravi, what do you think?")
    at_the_hour()
    for _ in range(2):
        sweep()
        send()
    read = {mail["Subject"]: mail.get_body(("html",)).get_content() for mail in mails.all()}
    assert len(read) == 2
    for subject, html in read.items():
        # The page has a Content Security Policy, which would also apply to the email.
        page.goto("about:blank")
        page.set_content(html)
        assert faults(page) == [], subject
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
