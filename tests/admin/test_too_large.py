"""A form that is more than Django reads: a page that says so, and nothing recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from hitl_django import services
from hitl_django.models import Comment, Decision, Interrupt

from .browsing import text_of
from .conftest import list_of, page_of

Asked = Callable[..., Interrupt]
MB = 1024 * 1024
FORM = "application/x-www-form-urlencoded"


def sent(client: Client, url: str, size: int) -> Any:
    body = b"decision=respond&reply=" + b"x" * size
    return client.post(url, body, content_type=FORM)


@pytest.mark.promise("P21")
@pytest.mark.parametrize("page", ["change", "handling", "bulk"])
def test_ten_megabytes_are_refused_on_a_page_of_the_admin(
    page: str, person: Callable[[str], Any], asked: Asked
) -> None:
    # As a browser comes to it: the token is looked for in what can't be read.
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("reviewer"))
    item = asked("approval")
    args = [] if page == "bulk" else [item.pk]
    url = reverse(f"admin:hitl_django_reviewitem_{page}", args=args)
    response = sent(client, url, 10 * MB)
    text = text_of(response)
    assert response.status_code == 413
    assert "Nothing of it was recorded" in text
    assert "A form may hold 2.5\xa0MB, and this one held more." in text
    assert f'<a class="button" href="{url}">' in text
    assert 'id="user-tools"' in text  # inside the admin's own frame
    assert not Decision.objects.exists()
    assert not Comment.objects.exists()


@pytest.mark.promise("P21")
def test_too_many_fields_are_refused_as_well(reviewer: Client, asked: Asked) -> None:
    url = page_of(asked("approval"))
    most = reviewer.post(url, {f"field-{n}": "x" for n in range(1000)})
    assert most.status_code == 409  # it came from no form of ours
    response = reviewer.post(url, {f"field-{n}": "x" for n in range(1001)})
    assert response.status_code == 413
    assert "A form may have 1000 fields" in text_of(response)


def test_who_may_not_come_in_is_told_nothing(client: Client, asked: Asked, db: None) -> None:
    response = sent(client, page_of(asked("approval")), 3 * MB)
    assert response.headers["Location"].startswith("/admin/login/")


def test_a_link_says_it_too(client: Client, asked: Asked, admin_user: User) -> None:
    link = services.make_link(asked("approval").pk, name="Lena", by=admin_user)
    response = sent(client, urlsplit(link.url).path, 3 * MB)
    assert response.status_code == 413
    assert "Nothing of yours was recorded." in text_of(response)
    assert not Decision.objects.exists()


def test_pages_of_others_are_left_to_django(admin_client: Client) -> None:
    assert sent(admin_client, reverse("admin:auth_user_add"), 3 * MB).status_code == 400
    assert sent(admin_client, list_of("webhookendpoint"), 3 * MB).status_code == 413
