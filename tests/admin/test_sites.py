"""The pages on custom admin sites, and the admin site to which links lead."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.admin import GroupAdmin
from django.contrib.auth.models import Group, Permission
from django.http import HttpRequest
from django.test import Client
from django.urls import include, path, reverse

from hitl_django import admin as ours
from hitl_django import services
from hitl_django.contrib.webhooks.messages import build_body
from hitl_django.contrib.webhooks.services import create_webhook
from hitl_django.models import Interrupt, ReviewItem, Run
from hitl_django.page_urls import find_admin_page

from .addresses import ADDRESSES, address_of, rows

__all__ = ["rows"]  # the fixture

pytestmark = pytest.mark.any_database


class Desk(admin.AdminSite):
    """A site for people without a staff account."""

    def has_permission(self, request: HttpRequest) -> bool:
        return request.user.is_active


class ReviewedGroups(ours.SubjectReviews, GroupAdmin):
    """ModelAdmin of a host project."""


whole, bare, desk = admin.AdminSite("office"), admin.AdminSite("bare"), Desk("desk")
ours.register(whole)
ours.register(desk)
whole.register(Group, ReviewedGroups)
bare.register(Group, ReviewedGroups)
desk.register(Group, ReviewedGroups)

urlpatterns: list[Any] = [
    path("admin/", admin.site.urls),
    path("in/the/office/", whole.urls),
    path("bare/", bare.urls),
    path("desk/", desk.urls),
    path("hitl/", include("hitl_django.urls")),
]


def test_registered_placeholder_becomes_the_model_admin_on_first_use() -> None:
    site = admin.AdminSite("new")
    ours.register(site)
    page = site._registry[Run]
    assert isinstance(page, admin.ModelAdmin)
    assert page.list_display == ours.RunAdmin.list_display
    assert (type(page), page.model, page.admin_site) == (ours.RunAdmin, Run, site)


class WithoutDefault:
    """A URL conf without Django's own site."""

    urlpatterns = tuple(one for one in urlpatterns if str(one.pattern) != "admin/")


class BareAlone:
    """URLconf without a page of this app."""

    urlpatterns = (path("bare/", bare.urls), path("hitl/", include("hitl_django.urls")))


@pytest.fixture(autouse=True)
def urls(settings: Any) -> None:
    settings.ROOT_URLCONF = __name__


@pytest.fixture
def root(admin_user: Any) -> Client:
    client = Client()
    client.force_login(admin_user)
    return client


def links(html: str) -> set[str]:
    main = html[html.index('<div id="hitl"') :]
    return {url for url in re.findall(r'(?:href|action)="(/[^"]*)"', main) if url != "/"}


@pytest.fixture
def about(advance: Callable[[], int]) -> Group:
    group = Group.objects.create(name="a")
    services.start("approval", {"text": "the news"}, subject=group)
    advance()
    return group


@pytest.mark.slow
def test_every_page_on_a_custom_admin_site_links_only_to_the_custom_site(
    root: Client, rows: dict[str, Any]
) -> None:
    seen = set()
    for name in ADDRESSES:
        here = address_of(name, rows).replace("/admin/", "/in/the/office/")
        response: Any = root.get(here, follow=True)
        html = response.getvalue().decode()
        if response.status_code == 200 and '<div id="hitl"' in html:
            elsewhere = {url for url in links(html) if not url.startswith("/in/the/office/")}
            assert elsewhere == set(), name
            seen.add(name)
    assert len(seen) > 40


def test_decision_message_on_a_custom_admin_site_links_to_the_custom_site(
    root: Client, rows: dict[str, Any]
) -> None:
    item = rows["reviewitem"]
    page = reverse("office:hitl_django_reviewitem_change", args=[item.pk])
    body = {
        "decision": "approve", "digest": item.payload_digest, "version": item.version,
        "answer/amount": "1",
    }  # fmt: skip
    done: Any = root.post(page, body, follow=True)
    assert done.redirect_chain[-1][0].startswith("/in/the/office/")
    told = done.content.decode()
    assert f"/in/the/office/hitl_django/run/{item.run_id}/change/" in told
    assert "/admin/hitl_django" not in told


def test_object_page_on_site_without_package_pages_links_to_another_site_with_package_pages(
    root: Client, about: Group
) -> None:
    item = Interrupt.objects.get()
    page: Any = root.get(reverse("bare:auth_group_change", args=[about.pk]))
    assert page.status_code == 200
    assert f"/admin/hitl_django/run/{item.run_id}/change/" in links(page.content.decode())
    there: Any = root.get(reverse("office:auth_group_change", args=[about.pk]))
    assert f"/in/the/office/hitl_django/run/{item.run_id}/change/" in links(there.content.decode())


def test_package_links_without_a_default_admin_site_lead_to_another_registered_site(
    root: Client, about: Group, settings: Any
) -> None:
    settings.ROOT_URLCONF = WithoutDefault
    page: Any = root.get(f"/bare/auth/group/{about.pk}/change/")
    item = Interrupt.objects.get()
    assert f"/desk/hitl_django/reviewitem/{item.pk}/change/" in links(page.content.decode())
    assert find_admin_page(ReviewItem, "changelist") == "/desk/hitl_django/reviewitem/"


def test_object_page_has_no_links_if_no_admin_site_contains_the_package_pages(
    root: Client, about: Group, settings: Any
) -> None:
    settings.ROOT_URLCONF = BareAlone
    page: Any = root.get(f"/bare/auth/group/{about.pk}/change/")
    html = page.content.decode()
    assert page.status_code == 200
    assert "Publish the news?" in html
    assert "Runs and pending reviews" in html
    assert not [url for url in links(html) if "hitl_django" in url]
    assert find_admin_page(Run, "changelist") == ""


def test_package_links_lead_only_to_admin_sites_accessible_to_the_user(
    about: Group, django_user_model: Any
) -> None:
    guest = django_user_model.objects.create_user("guest")  # no staff
    names = ["view_interrupt", "view_run", "view_thread", "view_group"]
    guest.user_permissions.set(Permission.objects.filter(codename__in=names))
    client = Client()
    client.force_login(guest)
    item = Interrupt.objects.get()
    page: Any = client.get(f"/desk/hitl_django/reviewitem/{item.pk}/change/")
    led = links(page.content.decode())
    assert led
    assert all(url.startswith("/desk/") for url in led)
    desk.unregister(Run)
    try:
        page = client.get(f"/desk/hitl_django/reviewitem/{item.pk}/change/")
        assert "View run" not in page.content.decode()
    finally:
        desk.register(Run, ours.RunAdmin)


def test_request_page_on_a_custom_site_links_related_object_on_the_custom_site(
    root: Client, about: Group
) -> None:
    item = Interrupt.objects.get()
    page: Any = root.get(reverse("office:hitl_django_reviewitem_change", args=[item.pk]))
    assert f"/in/the/office/auth/group/{about.pk}/change/" in links(page.content.decode())


def test_webhook_review_url_leads_to_a_site_with_the_request_page(
    rows: dict[str, Any], settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "SITE_URL": "https://example.com"}
    create_webhook("https://crm.example/two")
    delivery = rows["delivery"]
    item = rows["reviewitem"]
    delivery.data = {**delivery.data, "interrupt_id": str(item.pk)}
    page = f"hitl_django/reviewitem/{item.pk}/change/"
    assert f"https://example.com/admin/{page}".encode() in build_body(delivery, delivery.endpoint)
    settings.ROOT_URLCONF = WithoutDefault
    assert f"https://example.com/desk/{page}".encode() in build_body(delivery, delivery.endpoint)
    settings.ROOT_URLCONF = BareAlone
    assert b'"review"' not in build_body(delivery, delivery.endpoint)


def test_second_registration_on_an_admin_site_keeps_models_registered(about: Group) -> None:
    ours.register(whole)
    assert whole.is_registered(Run)
