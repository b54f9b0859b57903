"""Creating, listing and revoking review links on admin pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import strip_tags

from hitl_django import services
from hitl_django.contrib.links.models import ReviewLink
from hitl_django.contrib.links.services import create_review_link, decide_by_link, get_link_states
from hitl_django.models import Interrupt
from tests.admin.conftest import *  # noqa: F403
from tests.admin.conftest import list_of, page_of

FORM = {"name": "Lena Roth", "email": "", "days": "3", "decisions": ["approve", "reject"]}


def add_url(interrupt: Any) -> str:
    return f"{reverse('admin:hitl_links_reviewlink_add')}?interrupt={interrupt}"


@pytest.fixture
def host(browse: Callable[[str], Client], person: Callable[[str], Any]) -> Client:
    person("reviewer").user_permissions.add(Permission.objects.get(codename="link_interrupt"))
    return browse("reviewer")


def test_review_link_url_is_shown_at_creation_and_on_no_later_page(
    host: Client, asked: Callable[..., Interrupt]
) -> None:
    interrupt = asked("approval")
    url = add_url(interrupt.pk)
    assert url in host.get(page_of(interrupt)).content.decode()
    assert host.get(url).status_code == 200
    response = host.post(url, FORM)
    address = response.context["url"]
    assert address in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    link = ReviewLink.objects.get()
    assert (link.name, link.decisions, link.created_by_label) == (
        "Lena Roth",
        ["approve", "reject"],
        "reviewer",
    )
    for page in (host.get(list_of("reviewlink")), host.get(page_of(link, "reviewlink"))):
        assert "Lena Roth" in page.content.decode()
        assert '<span class="hitl-pill is-ok">Active</span>' in page.content.decode()
        assert address not in page.content.decode()
    assert Client().get(urlsplit(address).path).status_code == 200


def test_review_link_page_has_selectable_url_and_prefilled_email(
    host: Client, asked: Callable[..., Interrupt]
) -> None:
    response = host.post(add_url(asked("approval").pk), {**FORM, "email": "lena+a&b@shop.example"})
    page, url = response.content.decode(), response.context["url"]
    assert f'<input class="hitl-input" type="text" readonly value="{url}"' in page
    assert "hitl_django/links/link.js" in page
    mail = urlsplit(response.context["mail_url"])
    assert (mail.scheme, unquote(mail.path)) == ("mailto", "lena+a&b@shop.example")
    fields = parse_qs(mail.query)
    assert list(fields) == ["subject", "body"]
    assert url in fields["body"][0].splitlines()
    assert fields["body"][0].startswith("Hello Lena Roth,")
    # The formatted time ends in "a.m." or "p.m.".
    assert ".." not in fields["body"][0] + strip_tags(
        Client().get(urlsplit(url).path).content.decode()
    )


def test_review_link_form_with_invalid_field_shows_its_error_and_creates_no_link(
    host: Client, asked: Callable[..., Interrupt]
) -> None:
    interrupt = asked("approval")
    url = add_url(interrupt.pk)
    for wrong in ({"name": ""}, {"name": "system"}, {"days": "0"}, {"decisions": ["expire"]}):
        response = host.post(url, {**FORM, **wrong})
        assert response.status_code == 200
        assert list(response.context["form"].errors) == list(wrong)
    services.decide(interrupt.pk, "approve")
    assert "no longer pending" in host.post(url, FORM).content.decode()
    assert not ReviewLink.objects.exists()


def test_review_link_list_action_revokes_unused_links_and_reports_used_links(
    host: Client, asked: Callable[..., Interrupt]
) -> None:
    links = [create_review_link(asked("approval").pk, name=name) for name in ("Lena", "Dana")]
    token = links[1].url.rstrip("/").rpartition("/")[2]
    decide_by_link(token, "approve")
    chosen = {"action": "revoke", "_selected_action": [str(link.id) for link in links]}
    page = host.post(list_of("reviewlink"), chosen, follow=True).content.decode()
    assert "1 link revoked." in page
    assert "1 link could not be revoked." in page
    states = get_link_states([link.id for link in links])
    assert {*states.values()} == {"revoked", "used"}


@pytest.mark.promise("P18")
def test_review_link_pages_without_link_permission_return_403_or_404(
    browse: Callable[[str], Client], asked: Callable[..., Interrupt]
) -> None:
    interrupt = asked("approval")
    link = create_review_link(interrupt.pk, name="Lena Roth")
    for role in ("reviewer", "reader", "nobody"):
        client = browse(role)
        assert client.get(list_of("reviewlink")).status_code == 403
        assert client.get(page_of(link.id, "reviewlink")).status_code in (403, 404)
        for response in (
            client.get(add_url(interrupt.pk)),
            client.post(add_url(interrupt.pk), FORM),
        ):
            assert response.status_code in (403, 404)
    assert ReviewLink.objects.count() == 1
    assert add_url(interrupt.pk) not in browse("reviewer").get(page_of(interrupt)).content.decode()


def test_review_link_form_for_unknown_request_returns_404(host: Client) -> None:
    for nothing in ("", "x", "11111111-2222-4333-8444-555555555555"):
        assert host.get(add_url(nothing)).status_code == 404


def test_review_link_list_query_count_is_constant_for_one_and_four_links(
    host: Client, person: Callable[[str], Any], asked: Callable[..., Interrupt]
) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as made:
            page = host.get(list_of("reviewlink"))
        assert page.content.decode().count(">Active</span>") == ReviewLink.objects.count()
        return len(made)

    def make() -> None:
        create_review_link(asked("approval").pk, name="Lena", by=person("reviewer"))

    make()
    host.get(list_of("reviewlink"))  # content types and the like are looked up once
    before = queries()
    for _ in range(3):
        make()
    assert queries() == before
