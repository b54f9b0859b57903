"""Activity of a request: comments and entries of the audit log, on the request page."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import strip_tags

from hitl_django import services
from hitl_django.models import Interrupt

from .browsing import text_of
from .conftest import page_of

pytestmark = pytest.mark.django_db

Asked = Callable[..., Interrupt]


def activities(client: Client, item: Interrupt) -> list[str]:
    page = text_of(client.get(page_of(item)))
    assert "Activity" in page
    [found] = re.findall(r'<ol class="hitl-acts-list">(.*?)</ol>', page, re.S)
    entries = re.findall(r"<li>(.*?)</li>", found, re.S)
    # The initials and the times differ.
    plain = [re.sub(r"<time.*?</time>|<span class=\"hitl-avatar.*?</span>", "", one, flags=re.S)
             for one in entries]  # fmt: skip
    return [" ".join(strip_tags(re.sub(r"<div", " <div", one)).split()) for one in plain]


@pytest.fixture
def lead(django_user_model: Any) -> Any:
    return django_user_model.objects.create_superuser("lead")


def test_activity_lists_actions_and_comments_in_chronological_order(
    reviewer: Client, asked: Asked, person: Callable[[str], Any], lead: Any
) -> None:
    item, me = asked(), person("reviewer")
    services.comment(item.pk, "First look.", by=me)
    services.assign(item.pk, to=me, by=lead)
    services.claim(item.pk, by=me)
    services.claim(item.pk, by=lead, take_over=True)
    services.comment(item.pk, "Mine now.", by=lead)
    services.snooze(item.pk, until=timezone.now() + timedelta(days=1), by=lead)
    services.snooze(item.pk, until=None, by=lead)
    services.assign(item.pk, to=None, by=lead)
    found = activities(reviewer, item)
    assert found[:4] == [
        "Review requested",
        "reviewer First look.",
        "lead · Assigned to reviewer.",
        "lead · Took over a claim",
    ]
    assert found[4] == "lead Mine now."
    assert found[5].startswith("lead · Snoozed until ")
    assert found[6:] == ["lead · Returned to the queue", "lead · Unassigned."]


def test_activity_omits_actions_on_other_requests_and_denied_actions(
    reviewer: Client, asked: Asked, person: Callable[[str], Any], lead: Any
) -> None:
    item, other = asked(), asked()
    services.assign(other.pk, to=lead, by=lead)
    with pytest.raises(Exception, match="permission"):
        services.assign(item.pk, to=lead, by=person("reader"))
    assert activities(reviewer, item) == ["Review requested"]


def test_activity_without_permission_for_the_thread_lists_only_comments(
    browse: Callable[[str], Client], asked: Asked, lead: Any
) -> None:
    item = asked()
    services.assign(item.pk, to=lead, by=lead)
    services.comment(item.pk, "Hello.", by=lead)
    assert activities(browse("asker"), item) == ["Review requested", "lead Hello."]
    assert "lead · Assigned to lead." in activities(browse("reader"), item)


def test_activity_escapes_usernames(
    reviewer: Client, asked: Asked, django_user_model: Any, lead: Any
) -> None:
    item = asked()
    name = "<b>x</b>"
    services.assign(item.pk, to=django_user_model.objects.create_superuser(name), by=lead)
    page = text_of(reviewer.get(page_of(item)))
    assert "<b>x</b>" not in page
    assert "Assigned to &lt;b&gt;x&lt;/b&gt;." in page


def test_request_page_with_activity_takes_at_most_sixteen_queries(
    reviewer: Client, asked: Asked, lead: Any, django_assert_max_num_queries: Any
) -> None:
    item = asked()
    for _number in range(5):
        services.assign(item.pk, to=lead, by=lead)
        services.comment(item.pk, "Hello.", by=lead)
    reviewer.get(page_of(item))
    with django_assert_max_num_queries(16):
        reviewer.get(page_of(item))
