"""Responses of public pages, with headers that protect the page's URL and content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.loader import render_to_string
from django.templatetags.static import static

from hitl_django.conf import hitl

from .brand import Brand, read_brand

Response = TypeVar("Response", bound=HttpResponseBase)

HEADERS = {
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}
POLICY = (
    "default-src 'none'; style-src {styles}; img-src {images}; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


def render_page(
    request: HttpRequest,
    template: str,
    *,
    status: int,
    headers: Mapping[str, str] | None = None,
    **context: Any,
) -> HttpResponse:
    """Return a response with a template that extends ``hitl_django/public/page.html``."""
    brand = read_brand()
    text = render_to_string(template, {**context, "brand": brand}, request)
    response = HttpResponse(text, status=status, headers=headers)
    return protect_response(
        response,
        styles=" ".join(_list_style_sources(brand)),
        images=" ".join(_list_image_sources(brand)),
    )


def protect_response(
    response: Response, *, styles: str = "'none'", images: str = "'none'"
) -> Response:
    """Add headers that protect the URL and the content of a response.

    The headers forbid embedding the page in a frame, sending the page's URL as a referrer, and
    loading resources. ``styles`` and ``images`` are the sources from which the page may load
    stylesheets and images, as in a Content-Security-Policy. If the response already has a
    Content-Security-Policy, for example for a file, that policy doesn't change.
    """
    for header, value in HEADERS.items():
        response.headers[header] = value
    policy = POLICY.format(styles=styles, images=images)
    response.headers.setdefault("Content-Security-Policy", policy)
    return response


def _list_style_sources(brand: Brand) -> list[str]:
    files = _read_origin(static("hitl_django/public.css")) or "'self'"
    return list(dict.fromkeys([files, "'self'"] if brand.stylesheet else [files]))


def _list_image_sources(brand: Brand) -> list[str]:
    own = (_read_origin(str(url)) for url in (settings.MEDIA_URL, settings.STATIC_URL, brand.logo))
    hosts = (f"https://{host}" for host in hitl.IMAGE_HOSTS)
    return list(dict.fromkeys(["'self'", *filter(None, own), *hosts]))


def _read_origin(url: str) -> str:
    found = urlsplit(url)
    return f"{found.scheme or 'https'}://{found.netloc}" if found.netloc else ""
