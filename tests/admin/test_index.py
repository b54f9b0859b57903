"""The number of pending requests on the admin index."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django.asserts import assertRedirects

from hitl_django import admin as ours
from hitl_django.templatetags import hitl_pages

from .browsing import text_of
from .conftest import list_of, make_interrupt

INDEX = reverse("admin:index")


def test_admin_index_counts_unclaimed_requests_that_are_unassigned_or_assigned_to_the_user(
    reviewer: Client, person: Callable[[str], Any]
) -> None:
    me, sam = person("reviewer"), User.objects.create_user("sam")
    until = timezone.now() + timedelta(hours=1)
    assert "for you" not in text_of(reviewer.get(INDEX))
    make_interrupt({})
    assert "1 request needs your review" in text_of(reviewer.get(INDEX))
    make_interrupt({}, claimed_by=me, claimed_until=until)
    make_interrupt({}, assignee=me)
    make_interrupt({}, assignee=me, claimed_by=me, claimed_until=until)
    make_interrupt({}, claimed_by=sam, claimed_until=until)
    make_interrupt({}, assignee=sam)
    make_interrupt({}, group=Group.objects.create(name="others"))
    make_interrupt({}, snoozed_until=until)
    make_interrupt({}, status="decided")
    page = text_of(reviewer.get(INDEX))
    assert "4 requests need your review" in page
    assert f'href="{list_of()}"' in page


@pytest.mark.parametrize("role", ["nobody", "reader", "operator", "blind"])
def test_admin_index_without_decide_permission_shows_no_request_count(
    role: str, browse: Callable[[str], Client]
) -> None:
    make_interrupt({})
    page = browse(role).get(INDEX)
    assert page.status_code == 200
    assert "for you" not in text_of(page)


def test_admin_index_request_count_above_limit_is_shown_as_more_than_the_limit(
    reviewer: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hitl_pages, "MOST", 3)
    for _ in range(5):
        make_interrupt({})
    assert "More than 2 requests need your review" in text_of(reviewer.get(INDEX))


def test_admin_index_request_count_takes_at_most_eight_queries(
    reviewer: Client, django_assert_max_num_queries: Any
) -> None:
    for _ in range(5):
        make_interrupt({})
    # Session, user, permissions, Django's own log; the groups, the first one, the count.
    with django_assert_max_num_queries(8):
        assert "5 requests" in text_of(reviewer.get(INDEX))


def log_in(user: Any, next: str = INDEX) -> str:  # noqa: A002
    user.set_password("secret")
    user.save()
    data = {"username": user.username, "password": "secret", "next": next}
    return Client().post(reverse("admin:login"), data)["Location"]


def test_login_of_reviewer_redirects_to_the_queue_unless_another_page_was_requested(
    person: Callable[[str], Any],
) -> None:
    make_interrupt({})
    assert log_in(person("reviewer")) == list_of()
    # A page that the user requested takes precedence.
    asked_for = reverse("admin:hitl_django_run_changelist")
    assert log_in(person("reviewer"), asked_for) == asked_for


def test_login_of_operator_redirects_to_the_overview_with_and_without_pending_requests(
    person: Callable[[str], Any],
) -> None:
    assert log_in(person("operator")) == reverse("admin:hitl_django_run_overview")
    make_interrupt({})
    assert log_in(person("operator")) == reverse("admin:hitl_django_run_overview")


@pytest.mark.parametrize("role", ["nobody", "reader", "blind"])
def test_login_of_user_without_decide_permission_leads_to_admin_index(
    role: str, person: Callable[[str], Any]
) -> None:
    make_interrupt({})
    assert log_in(person(role)) == INDEX


def test_login_of_reviewer_with_empty_queue_or_other_model_permissions_leads_to_admin_index(
    person: Callable[[str], Any],
) -> None:
    assert log_in(person("reviewer")) == INDEX
    make_interrupt({})
    user = person("reviewer")
    user.user_permissions.add(Permission.objects.get(codename="view_group"))
    assert log_in(user) == INDEX


@pytest.mark.parametrize("came_from", ["none", "cross-site", "same-site"])
def test_admin_index_opened_from_address_bar_or_other_site_redirects_reviewer_to_pending_requests(
    came_from: str, reviewer: Client, browse: Callable[[str], Client]
) -> None:
    come: dict[str, Any] = {"headers": {"sec-fetch-site": came_from}}
    assert reviewer.get(INDEX, **come).status_code == 200
    make_interrupt({})
    assertRedirects(reviewer.get(INDEX, **come), list_of())
    assert browse("reader").get(INDEX, **come).status_code == 200


def test_admin_index_opened_by_link_within_the_admin_does_not_redirect_to_requests(
    reviewer: Client,
) -> None:
    make_interrupt({})
    assert reviewer.get(INDEX, headers={"sec-fetch-site": "same-origin"}).status_code == 200
    assert reviewer.get(INDEX).status_code == 200


def test_admin_site_with_custom_index_template_keeps_the_template() -> None:
    site = admin.AdminSite("own")
    site.index_template = "own/index.html"
    ours.register(site)
    assert site.index_template == "own/index.html"


def test_admin_index_request_count_with_language_code_de_is_in_german(
    reviewer: Client, person: Callable[[str], Any], settings: Any
) -> None:
    settings.LANGUAGE_CODE = "de"
    make_interrupt({})
    assert "1 Anfrage wartet auf Ihre Prüfung" in text_of(reviewer.get(INDEX))


def test_admin_index_counts_requests_assigned_to_groups_of_the_user(
    reviewer: Client, person: Callable[[str], Any]
) -> None:
    crew = Group.objects.create(name="crew")
    person("reviewer").groups.add(crew)
    make_interrupt({}, group=crew)
    assert "1 request needs your review" in text_of(reviewer.get(INDEX))


def test_admin_index_links_to_start_page_only_with_start_permission(
    browse: Callable[[str], Client], person: Callable[[str], Any]
) -> None:
    start = reverse("admin:hitl_django_run_start")
    assert start not in text_of(browse("operator").get(INDEX))
    person("nobody").user_permissions.add(Permission.objects.get(codename="start_run"))
    assert f'href="{start}"' in text_of(browse("nobody").get(INDEX))
