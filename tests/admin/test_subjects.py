"""Runs and open reviews on the page of a related object."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import label_for_field
from django.contrib.auth.admin import GroupAdmin
from django.contrib.auth.models import Group, Permission
from django.test import Client, RequestFactory
from django.urls import reverse

from hitl_django import services
from hitl_django.admin import SubjectReviews
from hitl_django.contrib.webhooks.models import Delivery
from hitl_django.models import Interrupt, Run

from .browsing import post_of, text_of
from .conftest import page_of

Advance = Callable[[], int]


class ReviewedGroups(SubjectReviews, GroupAdmin):
    """ModelAdmin of a host project."""


@pytest.fixture
def show(rf: RequestFactory, person: Callable[[str], Any]) -> Callable[[str, Group], str]:
    def render(role: str, group: Group) -> str:
        user = person(role)
        user.user_permissions.add(Permission.objects.get(codename="view_group"))
        request = rf.get("/")
        request.user = type(user).objects.get(pk=user.pk)
        response: Any = ReviewedGroups(Group, admin.site).change_view(request, str(group.pk))
        return str(response.render().content.decode())

    return render


def about(group: Group, advance: Advance) -> Interrupt:
    info = services.start("approval", {"text": f"group {group.name}"}, subject=group)
    advance()
    return Interrupt.objects.get(run=info.id)


def test_object_page_lists_runs_and_pending_requests_of_the_object_only(
    show: Callable[[str, Group], str], advance: Advance
) -> None:
    group, other = Group.objects.create(name="a"), Group.objects.create(name="b")
    mine, theirs = about(group, advance), about(other, advance)

    page = show("reader", group)

    assert "Runs and pending reviews" in page
    assert page_of(mine) in page
    assert page_of(mine.run_id, "run") in page
    assert '<span class="hitl-pill is-warn">Waiting for review</span>' in page
    assert page_of(theirs) not in page


def test_object_page_after_decision_shows_no_pending_request(
    show: Callable[[str, Group], str], advance: Advance
) -> None:
    group = Group.objects.create(name="a")
    item = about(group, advance)
    services.decide(item.pk, "approve")
    advance()
    page = show("reader", group)
    assert page_of(item) not in page
    assert "No pending requests for this object." in page
    assert '<span class="hitl-pill is-ok">Succeeded</span>' in page


@pytest.mark.promise("P18")
def test_object_page_shows_runs_section_only_with_permission(
    show: Callable[[str, Group], str], advance: Advance
) -> None:
    group = Group.objects.create(name="a")
    item = about(group, advance)
    assert "Runs and pending reviews" not in show("nobody", group)
    page = show("asker", group)
    assert page_of(item) in page
    assert page_of(item.run_id, "run") not in page


def test_object_page_with_three_runs_takes_at_most_fourteen_queries(
    show: Callable[[str, Group], str], advance: Advance, django_assert_max_num_queries: Any
) -> None:
    group = Group.objects.create(name="a")
    for _ in range(3):
        about(group, advance)
    show("reader", group)
    with django_assert_max_num_queries(14):
        show("reader", group)


def test_object_page_links_to_start_form_that_starts_a_run_for_the_object(
    show: Callable[[str, Group], str], browse: Callable[[str], Client], person: Any
) -> None:
    group = Group.objects.create(name="<b>a & b</b>")
    start = reverse("admin:hitl_django_run_start")
    assert start not in show("operator", group)
    person("operator").user_permissions.add(Permission.objects.get(codename="start_run"))
    address = f"{start}?subject=auth.group%2F{group.pk}"
    assert f'href="{address}"' in show("operator", group)
    client = browse("operator")
    page = client.get(address)
    form = reverse("admin:hitl_django_run_start_graph", args=["approval"])
    assert f'href="{form}?subject=auth.group%2F{group.pk}"' in text_of(page)
    assert "&lt;b&gt;a &amp; b&lt;/b&gt;" in text_of(page)
    page = client.get(f"{form}?subject=auth.group%2F{group.pk}")
    posted = post_of(text_of(page).split('class="hitl-form"')[1].split("</form>")[0])
    assert posted["subject"] == [f"auth.group/{group.pk}"]
    posted |= {"input/text": ["the news"], "start": ["1"]}
    client.post(form, posted)
    assert Run.objects.get().thread.subject == group


@pytest.mark.promise("P18")
@pytest.mark.parametrize("name", ["auth.group/{}", "auth.group/0", "no.model/1", "nonsense/x"])
def test_start_form_for_hidden_or_unknown_object_shows_an_error_and_starts_no_run(
    name: str, browse: Callable[[str], Client], person: Any
) -> None:
    group = Group.objects.create(name="zq secret qz")
    person("operator").user_permissions.add(Permission.objects.get(codename="start_run"))
    form = reverse("admin:hitl_django_run_start_graph", args=["approval"])
    posted = {"input/text": "x", "start": "1", "subject": name.format(group.pk)}
    page = browse("operator").post(form, posted)
    assert "run can&#x27;t be started for this object" in text_of(page)
    assert "zq secret qz" not in text_of(page)
    assert not Run.objects.exists()


def test_admin_column_functions_are_not_shared_between_admin_classes() -> None:
    described: dict[Any, tuple[str, str]] = {}
    for page in admin.site._registry.values():
        for name, column in list(vars(type(page)).items()):
            column = getattr(column, "__func__", column)
            if callable(column) and hasattr(column, "short_description"):
                place = (type(page).__name__, name)
                assert described.setdefault(column, place) == place


def test_delivery_list_column_of_the_user_is_headed_recipient() -> None:
    deliveries = admin.site._registry[Delivery]
    assert str(label_for_field("recipient", Delivery, deliveries)) == "recipient"
