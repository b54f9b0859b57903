"""The project's brand on public pages and in emails, from ``HITL["BRAND"]``.

The accent color is served as a stylesheet, because the Content-Security-Policy of public pages
forbids inline styles.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import cache_control
from django.views.decorators.http import require_safe

from hitl_django.conf import hitl
from hitl_django.page_urls import build_url, find_path

#: Seconds for which browsers cache the stylesheet. A changed color has a different URL.
CACHE_SECONDS = 86_400
WHITE, BLACK = "#ffffff", "#000000"


@dataclass(frozen=True, slots=True)
class Brand:
    """The name, logo and accent color of the project. Each value may be empty."""

    name: str = ""
    logo: str = ""
    accent: str = ""

    @property
    def on_accent(self) -> str:
        """The text color on the accent color: white if the contrast is at least 4.5, or black."""
        return WHITE if 1.05 / (_luminance(self.accent) + 0.05) >= 4.5 else BLACK

    @property
    def stylesheet(self) -> str:
        """The path of the stylesheet, or an empty string without an accent color."""
        path = find_path("hitl_django:brand") if self.accent else None
        return f"{path}?{self.accent.lstrip('#')}" if path else ""

    @property
    def logo_url(self) -> str:
        """The absolute URL of the logo for emails, or an empty string."""
        if self.logo.startswith("/"):
            return build_url(self.logo) if hitl.SITE_URL else ""
        return self.logo


def read_brand() -> Brand:
    """Return the brand from the settings. By default, all values are empty."""
    return Brand(**(hitl.BRAND or {}))


@login_not_required
@require_safe
@cache_control(public=True, max_age=CACHE_SECONDS)
def serve_stylesheet(request: HttpRequest) -> HttpResponse:
    """Return the stylesheet with the accent color."""
    brand = read_brand()
    rules = (
        f":root {{ --hitl-accent: {brand.accent}; --hitl-accent-on: {brand.on_accent}; }}\n"
        if brand.accent
        else ""
    )
    headers = {"X-Content-Type-Options": "nosniff"}
    return HttpResponse(rules, content_type="text/css; charset=utf-8", headers=headers)


def _luminance(color: str) -> float:
    """Return the relative luminance of a color according to WCAG."""
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
