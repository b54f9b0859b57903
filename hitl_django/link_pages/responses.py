"""Responses of the pages, with the headers that keep address and content to whom they are for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.templatetags.static import static

Response = TypeVar("Response", bound=HttpResponse)

HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}
POLICY = (
    "default-src 'none'; style-src {styles}; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'"
)


def render_page(
    request: HttpRequest,
    template: str,
    *,
    status: int,
    headers: Mapping[str, str] | None = None,
    **context: Any,
) -> HttpResponse:
    """Renders one of the page's templates."""
    text = render_to_string(f"hitl_django/links/{template}", context, request)
    return protect_response(
        HttpResponse(text, status=status, headers=headers), styles=_style_source()
    )


def protect_response(response: Response, *, styles: str = "'none'") -> Response:
    """Forbids an answer to load anything but styles, to be framed, and to name its address."""
    for header, value in HEADERS.items():
        response.headers[header] = value
    response.headers["Content-Security-Policy"] = POLICY.format(styles=styles)
    return response


def _style_source() -> str:
    """Returns where the page's own style sheet comes from, wherever static files do."""
    found = urlsplit(static("hitl_django/link.css"))
    return f"{found.scheme or 'https'}://{found.netloc}" if found.netloc else "'self'"
