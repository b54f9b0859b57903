"""The brand and the project's own templates on the page of a review link."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from hitl_django.models import Interrupt

from .conftest import link_to

BRAND = {"name": "Fern & Co", "logo": "https://img.example/logo.svg", "accent": "#0b6b57"}


@pytest.fixture
def templates(settings: Any, tmp_path: Path) -> Path:
    """Return a directory of templates of the project."""
    [engine] = settings.TEMPLATES
    settings.TEMPLATES = [{**engine, "DIRS": [tmp_path]}]
    folder = tmp_path / "hitl_django"
    (folder / "requests").mkdir(parents=True)
    (folder / "links").mkdir()
    return folder


def test_link_page_without_brand_has_no_header_and_no_brand_stylesheet(
    asked: Callable[..., Interrupt], visitor: Client
) -> None:
    page = visitor.get(link_to(asked())).content.decode()
    assert 'class="brand"' not in page
    assert "brand.css" not in page


def test_link_page_shows_brand_name_and_logo_and_loads_its_stylesheet(
    asked: Callable[..., Interrupt], visitor: Client, settings: Any
) -> None:
    settings.HITL = {**settings.HITL, "BRAND": BRAND}
    settings.STATIC_URL = "https://cdn.example/static/"
    response = visitor.get(link_to(asked()))
    page, policy = response.content.decode(), response["Content-Security-Policy"]
    assert "<title>Publish the news? · Fern &amp; Co</title>" in page
    assert '<img src="https://img.example/logo.svg" alt=""' in page
    assert '<link rel="stylesheet" href="/hitl/brand.css?0b6b57">' in page
    assert "style-src https://cdn.example 'self';" in policy
    assert "img-src 'self' https://cdn.example https://img.example;" in policy


@pytest.mark.parametrize(
    ("accent", "on"), [("#0b6b57", "#ffffff"), ("#ffd400", "#000000"), ("#767676", "#ffffff")]
)
def test_brand_stylesheet_sets_accent_and_readable_text_color_and_needs_no_login(
    settings: Any, accent: str, on: str
) -> None:
    login = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, login]
    settings.HITL = {**settings.HITL, "BRAND": {"accent": accent}}
    response = Client().get("/hitl/brand.css")
    assert response["Content-Type"].startswith("text/css")
    assert f"--hitl-accent: {accent}; --hitl-accent-on: {on};" in response.content.decode()
    assert not response.cookies


def test_brand_stylesheet_without_brand_is_empty_and_rejects_post() -> None:
    assert Client().get("/hitl/brand.css").content == b""
    assert Client().post("/hitl/brand.css").status_code == 405


def test_link_page_uses_request_template_of_the_graph(
    asked: Callable[..., Interrupt], visitor: Client, templates: Path
) -> None:
    own = "<p class=own>{{ payload.title }} for {{ link.name }}: {{ values|length }}</p>"
    (templates / "requests" / "approval.html").write_text(own)
    page = visitor.get(link_to(asked())).content.decode()
    assert "<p class=own>Publish the news? for Dana K.:" in page


def test_project_template_overrides_blocks_of_the_link_page(
    asked: Callable[..., Interrupt], visitor: Client, templates: Path
) -> None:
    base = '{% extends "hitl_django/public/page.html" %}'
    (templates / "links" / "message.html").write_text(
        base
        + "{% block page %}{{ message.headline }}{% endblock %}"
        + "{% block footer %}<footer>Imprint</footer>{% endblock %}"
    )
    page = visitor.get(f"/hitl/links/{'A' * 64}/").content.decode()
    assert "<footer>Imprint</footer>" in page
    assert "Link not found" in page
