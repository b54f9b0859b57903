"""Secrecy of a link's URL: absent from logs, emails and caches for all requests."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any
from unittest import mock

import django
import pytest
from django.core import mail
from django.db import OperationalError
from django.test import Client
from django.views.debug import ExceptionReporter

from hitl_django.models import Decision, Interrupt
from tests.admin.browsing import text_of

from .conftest import link_to, send, signature_of

# From Django 6.1 on, a project names its mailers. Earlier versions have one mailer without a name.
pytestmark = pytest.mark.filterwarnings("ignore:Django 2028 will not have a default mailer")

FORM = "application/x-www-form-urlencoded"
PARTS = "multipart/form-data; boundary=part"
FILE = (
    b'--part\r\nContent-Disposition: form-data; name="reason"; filename="a.txt"\r\n\r\n'
    + b"x" * 100_000
    + b"\r\n--part--\r\n"
)
MANY = "&".join(f"field-{n}=x" for n in range(1001)).encode()

#: Data sent to the URL of a valid link, and the status of the response.
SENT: dict[str, tuple[Callable[[Client, str], Any], int]] = {
    "a form without its cookie": (lambda who, url: who.post(url, {"decision": "approve"}), 403),
    "a form with a wrong signature": (
        lambda who, url: who.post(url, {"decision": "approve", "signature": "x:é" * 99}),
        403,
    ),
    "a form of another site": (
        lambda who, url: who.post(url, {"decision": "approve"}, headers={"Origin": "https://x.y"}),
        403,
    ),
    "no form": (lambda who, url: who.post(url, "[1]", content_type="application/json"), 403),
    "broken parts": (
        lambda who, url: who.post(url, b"--x", content_type="multipart/form-data"),
        400,
    ),
    "parts cut off": (lambda who, url: who.post(url, FILE[:200], content_type=PARTS), 400),
    "a file": (lambda who, url: who.post(url, FILE, content_type=PARTS), 400),
    "another charset": (
        lambda who, url: who.post(url, b"a=b", content_type=f"{FORM}; charset=latin-1"),
        400,
    ),
    "a length that is none": (
        lambda who, url: who.post(url, b"a=b", content_type=FORM, CONTENT_LENGTH="9" * 5000),
        400,
    ),
    "too many fields": (lambda who, url: who.post(url, MANY, content_type=FORM), 413),
    "too much": (lambda who, url: who.post(url, b"a=" + b"x" * 3_000_000, content_type=FORM), 413),
    "no slash": (lambda who, url: who.get(url.rstrip("/")), 200),
    "a form and no slash": (lambda who, url: who.post(url.rstrip("/"), {"decision": "x"}), 403),
    "more behind it": (lambda who, url: who.get(f"{url}more/"), 404),
    "a line behind it": (lambda who, url: who.get(f"{url}%0Amore"), 404),
    "a bracket behind it": (lambda who, url: who.get(url.rstrip("/") + ")/"), 404),
    "from a page": (
        lambda who, url: who.get(f"{url}x", headers={"Referer": f"http://testserver{url}"}),
        404,
    ),
    **{
        method: (lambda who, url, method=method: who.generic(method, url), 405)
        for method in ("PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
    },
}


@pytest.fixture(params=[False, True], ids=["", "debug"])
def host(request: Any, settings: Any) -> Any:
    """Configure a project that sends error reports by email."""
    settings.DEBUG = request.param
    ops = "ops@shop.example"
    settings.ADMINS = settings.MANAGERS = [ops if django.VERSION >= (6, 0) else ("Ops", ops)]
    broken_links = "django.middleware.common.BrokenLinkEmailsMiddleware"
    settings.MIDDLEWARE = [broken_links, *settings.MIDDLEWARE]
    return settings


def token_of(url: str) -> str:
    return url.rstrip("/").rpartition("/")[2]


def assert_kept_to_itself(response: Any) -> None:
    """Assert that the page has its own headers and sets no cookie."""
    assert "no-store" in response.headers["Cache-Control"]
    assert response.headers["Referrer-Policy"] == "no-referrer"
    assert response.headers["X-Robots-Tag"] == "noindex, nofollow, noarchive"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert not response.cookies


def assert_not_told(token: str, records: list[logging.LogRecord]) -> None:
    """Assert that no log record contains the token, including its request and traceback."""
    for record in records:
        kept = [
            record.getMessage(),
            *map(str, record.args or ()),
            *map(repr, vars(record).values()),
        ]
        if record.exc_info:
            kept.append("".join(traceback.format_exception(*record.exc_info)))
        if (request := getattr(record, "request", None)) is not None:
            kept += map(repr, [request.META, getattr(request, "scope", None)])
            kept += [request.get_full_path(), repr(request.resolver_match), repr(request.headers)]
            report = ExceptionReporter(request, *(record.exc_info or (None, None, None)))
            kept += [report.get_traceback_text(), report.get_traceback_html()]
        assert not [text for text in kept if token in text], record
    assert not [letter for letter in mail.outbox if token in letter.subject + letter.body]


@pytest.mark.promise("P22")
@pytest.mark.parametrize("what", SENT)
def test_link_page_is_uncached_and_logs_no_token_for_any_request(
    what: str,
    asked: Callable[..., Interrupt],
    visitor: Client,
    host: Any,
    records: list[logging.LogRecord],
) -> None:
    url = link_to(asked())
    sent, status = SENT[what]
    response = sent(visitor, url)
    assert response.status_code == status
    assert_kept_to_itself(response)
    assert_not_told(token_of(url), records)
    assert not Decision.objects.exists()
    assert send(visitor, url, decision="reject").status_code == 302


@pytest.mark.promise("P22")
@pytest.mark.parametrize("error", [OperationalError("gone"), ValueError, KeyError, RecursionError])
@pytest.mark.parametrize(
    "where", ["services.resolve_link", "services.decide_by_link", "display_why"]
)
def test_link_token_appears_in_no_log_entry_of_an_internal_error(
    where: str,
    error: Any,
    asked: Callable[..., Interrupt],
    visitor: Client,
    host: Any,
    records: list[logging.LogRecord],
) -> None:
    url = link_to(asked())
    if isinstance(error, type):
        error = error(f"no {url} here")
    form = {"decision": "reject", "signature": signature_of(visitor.get(url).content.decode())}
    with mock.patch(f"hitl_django.contrib.links.pages.page.{where}", side_effect=error):
        response = visitor.post(url, form if "services" in where else {})
    assert response.status_code == (503 if isinstance(error, OperationalError) else 500)
    assert_kept_to_itself(response)
    assert "Something went wrong" in text_of(response) or "temporarily unavailable" in text_of(
        response
    )
    assert_not_told(token_of(url), records)
    (told,) = [line for line in records if line.name == "hitl_django" and line.levelname == "ERROR"]
    assert type(error).__name__ in told.getMessage()
    assert "test_secrecy" not in told.getMessage()
    assert not Decision.objects.exists()
    assert send(visitor, url, decision="reject").status_code == 302
