"""Every page inside third-party themes of Django's admin.

A theme is an app before ``django.contrib.admin``, so each theme has its own process and settings.
The test of the pages runs again there.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django
import pytest
from django.conf import settings
from django.test import Client

from hitl_django import services
from hitl_django.models import Interrupt

from .addresses import ADDRESSES, address_of, rows
from .conftest import list_of, page_of

pytestmark = [pytest.mark.any_database, pytest.mark.usefixtures("rows")]

__all__ = ["rows"]  # the fixture

#: The themes, installed as in their instructions.
THEMES = ("unfold", "jazzmin", "grappelli")
#: Pages of the theme that only display rows of this app, except those of webhooks.
THEIRS = ("_delete", "_history")
#: URLs without a page, used by forms or scripts.
NO_PAGE = (
    "spotcheck_csv",
    "spotcheck_record",
    "reviewitem_prefetch",
    "reviewitem_news",
    "reviewitem_payload",
    "reviewitem_people",
    "reviewitem_status",
    "reviewitem_watch",
)


@pytest.fixture
def root(admin_user: Any) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


def supported(theme: str) -> Any:
    is_old = theme.startswith("unfold") and django.VERSION >= (6, 1)
    reason = "django-unfold is made for Django up to 6.0"
    return pytest.param(theme, marks=pytest.mark.skipif(is_old, reason=reason))


def landmarks(html: str) -> list[str]:
    needed = ('<div id="hitl"', '<nav class="hitl-nav"', "hitl_django/review.css")
    missing = [words for words in needed if html.count(words) != 1]
    everywhere = ("<html", "<title", "</body>", '<meta name="viewport"')
    return missing + [f"no {tag}" for tag in everywhere if tag not in html]


@pytest.mark.slow
def test_every_admin_page_in_the_active_theme_returns_200_with_all_landmarks(
    root: Client, rows: dict[str, Any]
) -> None:
    seen = set()
    for name in ADDRESSES:
        response: Any = root.get(address_of(name, rows), follow=True)
        if response.status_code == 403 and name.endswith(("_add", "_delete")):
            continue  # forbidden for all users
        # There are too few rows for a second page.
        assert response.status_code == (204 if name == "reviewitem_prefetch" else 200), name
        if name in NO_PAGE:
            continue
        html = response.content.decode()
        if name.startswith("webhookendpoint") or not name.endswith(THEIRS):
            assert landmarks(html) == [], name
        seen.add(name)
    assert len(seen) > 40


def test_admin_index_in_the_active_theme_shows_the_request_count(root: Client) -> None:
    page = root.get("/admin/").content.decode()
    assert page.index("your review") < page.rindex(list_of("run"))
    for word in ("<html", "<title", "</body>", "hitl_django/index.css", list_of("decision")):
        assert word in page


def test_request_list_and_webhook_pages_in_the_active_theme_have_their_form_controls(
    root: Client, rows: dict[str, Any]
) -> None:
    item = rows["reviewitem"]
    page = root.get(page_of(item)).content.decode()
    for control in ('name="decision" value="approve"', 'name="reason"', 'value="claim"'):
        assert control in page
    queue = root.get(list_of()).content.decode()
    for part in ('name="item"', 'id="searchbar"', "data-hitl-row", "Review next", "Approve…"):
        assert part in queue
    runs = root.get(list_of("run")).content.decode()
    for part in ('class="hitl-filterbar"', "?state__exact=failed", 'class="hitl-title"'):
        assert part in runs
    links = root.get(list_of("reviewlink")).content.decode()
    for part in ('name="action"', 'value="revoke"', 'name="_selected_action"'):
        assert part in links
    hook = root.get(page_of(rows["webhookendpoint"], "webhookendpoint")).content.decode()
    for control in ('name="url"', 'name="events"', 'name="is_active"', 'name="_save"'):
        assert control in hook


def test_admin_form_submissions_in_the_active_theme_return_pages_with_landmarks(
    root: Client, rows: dict[str, Any], asked: Callable[..., Interrupt], settings: Any
) -> None:
    item = asked()
    value = f"{item.pk}.{item.version}.{item.payload_digest}"
    bulk = {"item": value, "decision": "approve"}
    slip = {"digest": item.payload_digest, "version": item.version, "decision": "approve"}
    sent = {
        "bulk": (address_of("reviewitem_bulk", rows), bulk, 200),
        "bulk, done": (address_of("reviewitem_bulk", rows), {**bulk, "confirmed": "1"}, 200),
        "stale": (page_of(item), {**slip, "version": 99}, 409),
        "a fault": (page_of(rows["reviewitem"]), {**slip, "answer/amount": "much"}, 200),
        "a link": (
            address_of("reviewlink_add", rows),
            {"name": "Lena", "days": "3", "decisions": ["approve"]},
            200,
        ),
        "no link": (address_of("reviewlink_add", rows), {"name": ""}, 200),
        "a bad hook": (address_of("webhookendpoint_add", rows), {"url": "nonsense"}, 200),
        "a hook": (address_of("webhookendpoint_add", rows), {"url": "https://a.example/b"}, 200),
        "a bad fork": (address_of("run_fork", rows), {"values": "{"}, 200),
    }
    for name, (url, body, status) in sent.items():
        response: Any = root.post(url, body)
        assert response.status_code == status, name
        assert landmarks(response.content.decode()) == [], name
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 100
    response = root.post(page_of(item), {"reason": "a" * 200})
    assert response.status_code == 413
    assert landmarks(response.content.decode()) == []


def test_decided_request_page_in_the_active_theme_has_landmarks(
    root: Client, asked: Callable[..., Interrupt]
) -> None:
    item = asked("approval")
    services.decide(item.pk, "reject", reason="because")
    assert landmarks(root.get(page_of(item)).content.decode()) == []


@pytest.mark.process
@pytest.mark.skipif(bool(settings.THEME), reason="this is the process of a theme")
@pytest.mark.parametrize("theme", [supported(theme) for theme in THEMES])
def test_admin_page_tests_pass_in_third_party_theme(theme: str) -> None:
    folder = Path(__file__).parents[2]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TEST_THEME": theme, "DATABASE_URL": ""}
    done = subprocess.run(
        [*command, "-p", "no:randomly", "-W", "ignore"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
