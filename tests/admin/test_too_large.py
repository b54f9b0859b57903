"""Forms that exceed Django's limits: the error page, and no stored changes."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadhandler import MemoryFileUploadHandler
from django.test import Client
from django.urls import reverse

from hitl_django.contrib.links.services import create_review_link, revoke_link
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
def test_admin_form_of_ten_megabytes_returns_413_and_saves_no_decision(
    page: str, person: Callable[[str], Any], asked: Asked
) -> None:
    # A browser's request: the middleware would look for the token in the unreadable body.
    client = Client(enforce_csrf_checks=True)
    client.force_login(person("reviewer"))
    item = asked("approval")
    args = [] if page == "bulk" else [item.pk]
    url = reverse(f"admin:hitl_django_reviewitem_{page}", args=args)
    response = sent(client, url, 10 * MB)
    text = text_of(response)
    assert response.status_code == 413
    assert "Nothing was saved" in text
    assert "Forms are limited to 2.5 MB; this one was larger." in text
    assert f'<a class="hitl-btn" href="{url}">Reload the current version' in text
    assert 'id="user-tools"' in text  # inside the admin's own frame
    assert not Decision.objects.exists()
    assert not Comment.objects.exists()


@pytest.mark.promise("P21")
def test_admin_form_of_more_than_1000_fields_returns_413(reviewer: Client, asked: Asked) -> None:
    url = page_of(asked("approval"))
    most = reviewer.post(url, {f"field-{n}": "x" for n in range(1000)})
    assert most.status_code == 409  # the request doesn't come from the app's form
    response = reviewer.post(url, {f"field-{n}": "x" for n in range(1001)})
    assert response.status_code == 413
    assert "Forms are limited to 1000 fields" in text_of(response)


def test_admin_form_above_size_limit_of_anonymous_user_redirects_to_login(
    client: Client, asked: Asked, db: None
) -> None:
    response = sent(client, page_of(asked("approval")), 3 * MB)
    assert response.headers["Location"].startswith("/admin/login/")


def test_review_link_page_with_too_large_form_returns_413_and_saves_no_decision(
    client: Client, asked: Asked, admin_user: User
) -> None:
    link = create_review_link(asked("approval").pk, name="Lena", by=admin_user)
    response = sent(client, urlsplit(link.url).path, 3 * MB)
    assert response.status_code == 413
    assert "Nothing was saved." in text_of(response)
    assert not Decision.objects.exists()


def test_form_above_size_limit_returns_400_on_pages_of_other_apps_and_413_on_package_pages(
    admin_client: Client,
) -> None:
    assert sent(admin_client, reverse("admin:auth_user_add"), 3 * MB).status_code == 400
    assert sent(admin_client, list_of("webhookendpoint"), 3 * MB).status_code == 413


class Upload(io.BytesIO):
    """Request body that counts the bytes read."""

    taken = 0

    def read(self, size: int | None = -1) -> bytes:
        part = super().read(size)
        self.taken += len(part)
        return part


class Receiver(MemoryFileUploadHandler):
    """Upload handler like a host project's own."""

    received: list[str] = []  # noqa: RUF012

    def new_file(self, field_name: str, *args: Any, **kwargs: Any) -> None:
        self.received.append(field_name)
        super().new_file(field_name, *args, **kwargs)


def parts(size: int, disposition: str = "") -> bytes:
    said = disposition or 'Content-Disposition: form-data; name="reply"; filename="a.txt"'
    return f"--part\r\n{said}\r\n\r\n".encode() + b"x" * size + b"\r\n--part--\r\n"


def upload(client: Client, url: str, body: bytes, kind: str) -> tuple[int, int]:
    stream = Upload(body)
    told = {"CONTENT_LENGTH": str(len(body)), "wsgi.input": stream}
    response = client.generic("POST", url, b"-", content_type=kind, **told)  # type: ignore[arg-type]
    return response.status_code, stream.taken


PARTS = "multipart/form-data; boundary=part"
BODIES = {
    "fields": (FORM, b"reply=" + b"x" * (20 * MB)),
    "a file": (PARTS, parts(20 * MB)),
    "no part": (PARTS, parts(20 * MB, "X-What: nothing")),
}


@pytest.mark.promise("P21")
@pytest.mark.parametrize("kind", BODIES)
def test_upload_by_anonymous_user_or_invalid_link_is_rejected_before_a_byte_is_read(
    kind: str, asked: Asked, admin_user: User
) -> None:
    stranger = Client(enforce_csrf_checks=True)
    stranger.cookies["csrftoken"] = "a" * 32  # which an attacker can invent
    item = asked("approval")
    assert upload(stranger, page_of(item), *reversed(BODIES[kind])) == (403, 0)
    link = create_review_link(item.pk, name="Lena", by=admin_user)
    revoke_link(link.id, by=admin_user)
    assert upload(stranger, link.url, *reversed(BODIES[kind])) == (410, 0)
    assert upload(stranger, f"{link.url[:-9]}AAAAAAAA/", *reversed(BODIES[kind])) == (404, 0)


@pytest.mark.promise("P21")
@pytest.mark.parametrize("kind", BODIES)
def test_upload_above_limit_by_reviewer_or_with_link_is_read_up_to_eight_megabytes(
    kind: str, reviewer: Client, asked: Asked, admin_user: User
) -> None:
    item = asked("approval")
    link = create_review_link(item.pk, name="Lena", by=admin_user)
    for client, url in ((reviewer, page_of(item)), (Client(), link.url)):
        status, read = upload(client, url, *reversed(BODIES[kind]))
        assert status == 413
        assert read == 8 * MB  # so that a browser reads the response; the body is discarded


@pytest.mark.promise("P21")
def test_admin_form_with_a_file_returns_400_and_stores_no_file(
    reviewer: Client, asked: Asked, admin_user: User, settings: Any
) -> None:
    settings.FILE_UPLOAD_HANDLERS = [f"{__name__}.Receiver"]
    item = asked("approval")
    link = create_review_link(item.pk, name="Lena", by=admin_user)
    for client, url in ((reviewer, page_of(item)), (Client(), link.url)):
        status, read = upload(client, url, parts(2 * MB), PARTS)
        assert status == 400
        assert read < MB
    assert Receiver.received == []
    assert not Decision.objects.exists()
