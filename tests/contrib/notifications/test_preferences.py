"""Notification settings on their page, and unsubscribe links in emails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core import signing
from django.test import Client

from hitl_django.contrib.notifications.models import NotificationPreferences, SlackChannel
from hitl_django.contrib.notifications.preferences import (
    ALL,
    DIGEST,
    SALT,
    make_unsubscribe_url,
    read_preferences,
    save_preferences,
)
from hitl_django.contrib.notifications.topics import NotificationTopic

from .conftest import SITE

PAGE = "/admin/hitl_notifications/notificationpreferences/"
Person = Callable[..., Any]

TOPICS = [str(topic) for topic in NotificationTopic]


def log_in(user: Any) -> Client:
    client = Client(enforce_csrf_checks=False)
    client.force_login(user)
    return client


def path_of(user: Any, what: str) -> str:
    url = make_unsubscribe_url(user, what)
    assert url is not None
    return url.removeprefix(SITE)


def choices_of(user: Any) -> list[str]:
    wanted = read_preferences(user)
    return [wanted.get(topic) for topic in TOPICS]


def test_notification_settings_form_changes_only_preferences_of_its_user(person: Person) -> None:
    rita, ravi = person("rita"), person("ravi")
    client = log_in(rita)
    page = client.get(PAGE).content.decode()
    assert "Emails are sent to rita@shop.example." in page
    assert page.count('<option value="now" selected>') == len(TOPICS)
    chosen = {**dict.fromkeys(TOPICS, "off"), "requested": "daily", "language": "de"}
    assert client.post(PAGE, chosen).status_code == 302
    assert choices_of(rita) == ["daily", "off", "off", "off", "off"]
    assert read_preferences(rita).language == "de"
    assert choices_of(ravi) == ["now"] * len(TOPICS)
    assert '<option value="daily" selected>' in client.get(PAGE).content.decode()


def test_notification_settings_form_with_invalid_choice_saves_no_preferences(
    person: Person,
) -> None:
    client = log_in(person("rita"))
    page = client.post(PAGE, {**dict.fromkeys(TOPICS, "now"), "requested": "hourly"})
    assert b'class="hitl-notice is-bad" role="alert"' in page.content
    assert not NotificationPreferences.objects.exists()


def test_notification_settings_page_without_view_permission_returns_403(person: Person) -> None:
    client = log_in(person("vik", sees=False))
    assert client.get(PAGE).status_code == 403
    assert b"Notification settings" not in client.get("/admin/").content
    assert b"Notification settings" in log_in(person("rita")).get("/admin/").content


def test_notification_settings_pages_of_another_user_redirect_or_return_403_or_404(
    person: Person,
) -> None:
    rita = person("rita")
    save_preferences(rita, {"requested": "off"})
    client = log_in(person("ravi"))
    for page in (f"{rita.pk}/change/", f"{rita.pk}/delete/", "add/", f"{rita.pk}/history/"):
        assert client.get(PAGE + page).status_code in (302, 403, 404), page


@pytest.mark.parametrize("column", ["email", "last_login"])
def test_notification_settings_page_of_user_without_email_address_shows_a_notice(
    person: Person, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_user_model(), "EMAIL_FIELD", column)
    client = log_in(person("rita", email=""))
    get_user_model().objects.update(last_login=None)
    page = client.get(PAGE).content.decode()
    assert "no email address" in page


@pytest.mark.parametrize("name", ["notificationpreferences", "slackchannel"])
def test_notification_and_slack_forms_without_csrf_token_return_403(
    admin_user: Any, name: str
) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    page = f"/admin/hitl_notifications/{name}/"
    for url in (page, f"{page}add/"):
        sent = {**dict.fromkeys(TOPICS, "off"), "address": "https://hooks.example/x"}
        assert client.post(url, sent).status_code == 403
    assert not NotificationPreferences.objects.exists()
    assert not SlackChannel.objects.exists()


def test_unsubscribe_link_changes_preferences_of_its_recipient_and_not_of_the_logged_in_user(
    person: Person,
) -> None:
    rita, ravi = person("rita"), person("ravi")
    client = Client(enforce_csrf_checks=True)
    client.force_login(ravi)
    assert client.post(path_of(rita, ALL)).status_code == 200
    assert choices_of(rita) == ["off"] * 5
    assert choices_of(ravi) == ["now"] * 5


@pytest.mark.parametrize(
    ("what", "chosen", "left"),
    [
        ("requested", "", ["off", "now", "now", "now", "now"]),
        (ALL, "", ["off"] * 5),
        ("due", "all", ["off"] * 5),
        (DIGEST, "this", ["now", "now", "off", "now", "now"]),
    ],
)
def test_unsubscribe_link_post_turns_off_chosen_topics_without_login(
    person: Person, client: Client, what: str, chosen: str, left: list[str]
) -> None:
    rita = person("rita")
    if what == DIGEST:
        save_preferences(rita, {"mentioned": "daily"})
    before = choices_of(rita)
    page = client.get(path_of(rita, what))
    assert (page.status_code, choices_of(rita)) == (200, before)
    assert "default-src 'none'" in page["Content-Security-Policy"]
    assert client.post(path_of(rita, what), {"what": chosen}).status_code == 200
    assert choices_of(rita) == left


def test_unsubscribe_link_with_invalid_token_returns_404(person: Person, client: Client) -> None:
    rita = person("rita")
    token = signing.dumps([str(rita.pk), "all"], salt="another")
    odd = [signing.dumps(value, salt=SALT) for value in (None, 1, ["x"], ["x", "all"], [9999, ALL])]
    for wrong in (token, path_of(rita, ALL)[:-2], *odd):
        path = wrong if wrong.startswith("/") else f"/hitl/notifications/unsubscribe/{wrong}/"
        assert client.get(path).status_code in (301, 404), path
        assert client.post(path).status_code in (301, 404), path
    assert not NotificationPreferences.objects.exists()


def test_unsubscribe_form_above_size_limit_returns_400_and_saves_no_preferences(
    person: Person, client: Client
) -> None:
    rita = person("rita")
    sent = client.post(path_of(rita, ALL), {"x": "y" * 3_000_000})
    assert sent.status_code == 400
    assert not NotificationPreferences.objects.exists()
