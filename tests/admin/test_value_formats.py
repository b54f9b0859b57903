"""Display formats of values: display hints, links, images and untrusted values."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from django.core.checks import run_checks
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.test import Client

from hitl_django.admin.display import markdown, value_formats
from hitl_django.contrib.insights.models import SpotCheck
from hitl_django.contrib.links.services import create_review_link, revoke_link
from hitl_django.graph_registry.registry import register, unregister
from hitl_django.graph_registry.review_policy import ReviewPolicy
from hitl_django.models import Decision, Interrupt
from tests.graphs import plain

from .browsing import text_of
from .conftest import make_interrupt, page_of


@contextmanager
def displayed(**display: str) -> Iterator[str]:
    """Register a graph whose policy has these hints; yields its name."""
    name = "displayed"
    register(name, review=ReviewPolicy(display=display))(plain)
    try:
        yield name
    finally:
        unregister(name)


def shown(client: Client, payload: Any, **display: str) -> str:
    with displayed(**display) as graph:
        page = text_of(client.get(page_of(make_interrupt(payload, graph=graph))))
    facts = page.partition('<dl class="hitl-facts">')[2]
    return facts.partition('<details class="hitl-edit"')[0].partition("<aside")[0]


def values(page: str) -> list[str]:
    found = re.findall(r"<dd[^>]*>(.*?)</dd>", page, re.S)
    return [re.sub(r"\s+", " ", re.sub("<[^>]*>", "", one)).strip() for one in found]


@pytest.mark.parametrize(
    ("hint", "value", "english", "german"),
    [
        ("money EUR", 123456, "1,234.56 EUR", "1.234,56 EUR"),
        ("money JPY", -1200, "-1,200 JPY", "-1.200 JPY"),
        ("money", 5, "0.05", "0,05"),
        ("money EUR", "12", "12", "12"),
        ("money EUR", True, "Yes", "Ja"),
        ("date", "2026-01-31", "Jan. 31, 2026", "31. Januar 2026"),
        ("date", "2026-01-31T14:30:00", "Jan. 31, 2026, 2:30 p.m.", "31. Januar 2026 14:30"),
        ("date", "2026-02-31", "2026-02-31", "2026-02-31"),
    ],
)
def test_money_and_date_values_are_formatted_in_english_and_german(
    reviewer: Client, settings: Any, hint: str, value: Any, english: str, german: str
) -> None:
    for language, expected in (("en", english), ("de", german)):
        settings.LANGUAGE_CODE = language
        [text] = values(shown(reviewer, {"it": value}, it=hint))
        assert text.replace("\xa0", " ") == expected


def test_display_hint_in_response_schema_formats_the_payload_value(reviewer: Client) -> None:
    lines = {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"cents": {"type": "integer", "display": "money EUR"}},
        },
    }
    schema = {"type": "object", "properties": {"lines": lines, "other": {"display": "no format"}}}
    page = text_of(reviewer.get(page_of(make_interrupt({"lines": [{"cents": 1250}]}, schema))))
    assert "12.50\xa0EUR" in page


def test_review_policy_with_unknown_display_format_raises_value_error() -> None:
    for wrong in ("html", "markdown please", "", None):
        with pytest.raises(ValueError, match="format must be one of"):
            ReviewPolicy(display={"it": wrong})  # type: ignore[dict-item]


class TestMarkdown:
    TEXT = "# Dear *Dana*\n\n- one\n- [two](https://example.com/)\n\n<script>alert(1)</script>"

    def test_markdown_value_is_rendered_with_nofollow_links_and_escaped_html(
        self, reviewer: Client
    ) -> None:
        page = shown(reviewer, {"it": self.TEXT}, it="markdown")
        assert "<h3>Dear <em>Dana</em></h3>" in page
        assert 'href="https://example.com/" rel="noopener noreferrer nofollow"' in page
        assert "<script>" not in page
        assert "&lt;script&gt;" in page

    @pytest.mark.parametrize(
        "text",
        [
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](data:text/html;base64,eA==)",
            "<javascript:alert(1)>",
            "![x](https://evil.example/t.png)",
            "<img src=x onerror=alert(1)>",
            "[x]: javascript:alert(1)\n\n[x]",
            '[x](https://a.example "\\" onclick=alert(1)")',
            "<iframe src=//evil.example></iframe>",
        ],
    )
    def test_markdown_value_with_unsafe_urls_or_html_has_only_safe_tags(
        self, reviewer: Client, text: str
    ) -> None:
        page = shown(reviewer, {"it": text}, it="markdown")
        [made] = re.findall(r'<div class="hitl-markdown">(.*?)</div>', page, re.S)
        tags = re.findall(r"<(\w+)([^>]*)>", made)
        assert {tag for tag, _ in tags} <= {"p", "a"}
        for tag, attributes in tags:
            assert "javascript" not in attributes.lower()
            assert "onclick" not in attributes
            assert tag == "p" or "data:" not in attributes

    def test_markdown_field_shows_rendered_text_beside_the_source(self, reviewer: Client) -> None:
        schema = {
            "type": "object",
            "properties": {
                "approved": {"type": "boolean"},
                "text": {"type": "string", "display": "markdown"},
            },
        }
        page = text_of(reviewer.get(page_of(make_interrupt({"text": self.TEXT}, schema))))
        assert "<h3>Dear <em>Dana</em></h3>" in page
        assert "# Dear *Dana*" in page

    def test_markdown_value_shows_invisible_characters_as_code_points(
        self, reviewer: Client
    ) -> None:
        assert "⟨U+202E⟩" in shown(reviewer, {"it": "a\u202eb"}, it="markdown")

    def test_markdown_value_without_hint_or_markdown_library_is_plain_text(
        self, reviewer: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "# Dear *Dana*" in shown(reviewer, {"it": self.TEXT})
        monkeypatch.setitem(sys.modules, "markdown_it", None)
        markdown._load.cache_clear()
        assert "# Dear *Dana*" in shown(reviewer, {"it": self.TEXT}, it="markdown")
        markdown._load.cache_clear()

    @pytest.mark.promise("P21")
    @pytest.mark.parametrize(
        "text",
        [">" * 20_000, "[" * 20_000, "*a " * 7_000, "`" * 20_000, "- " * 10_000, "|a\n" * 7_000],
    )
    def test_markdown_value_with_20000_special_characters_renders_within_two_seconds(
        self, reviewer: Client, text: str
    ) -> None:
        began = time.process_time()
        shown(reviewer, {"it": text}, it="markdown")
        assert time.process_time() - began < 2


class TestLinksAndImages:
    @pytest.mark.parametrize(
        "url", ["https://example.com/a?b=1", "http://example.com", "mailto:d@e.de"]
    )
    def test_link_value_is_shown_as_nofollow_link_with_its_url_as_text(
        self, reviewer: Client, url: str
    ) -> None:
        page = shown(reviewer, {"it": url}, it="link")
        assert f'href="{url}" rel="noopener noreferrer nofollow" dir="ltr">{url}</a>' in page

    @pytest.mark.parametrize(
        "url",
        [
            "javascript:alert(1)",
            "https://bank.example@evil.example/",
            "data:text/html,x",
            "//evil.example",
            "https://exa mple.com",
            "https://exämple.com",
            7,
        ],
    )
    def test_link_value_with_unsafe_or_misleading_url_is_plain_text(
        self, reviewer: Client, url: Any
    ) -> None:
        assert "<a" not in shown(reviewer, {"it": url}, it="link")

    def test_url_value_without_display_hint_is_plain_text(self, reviewer: Client) -> None:
        assert "<a" not in shown(reviewer, {"it": "https://example.com/"}, other="link")

    def test_image_value_is_shown_only_from_media_url_and_allowed_hosts(
        self, reviewer: Client, settings: Any
    ) -> None:
        settings.HITL = {**settings.HITL, "IMAGE_HOSTS": ["img.example"]}
        settings.MEDIA_URL = "/media/"
        for url in ("https://img.example/a.png", "/media/a.png"):
            assert f'<img class="hitl-image" src="{url}"' in shown(
                reviewer, {"it": url}, it="image"
            )
        for url in (
            "https://evil.example/a.png",
            "https://img.example.evil.example/a.png",
            "https://x@img.example/a.png",
            "http://img.example/a.png",
            "//img.example/a.png",
            "/admin/logout/",
            "/media/../admin/logout/",
            "/media/%2e%2e/admin/",
        ):
            assert "<img" not in shown(reviewer, {"it": url}, it="image"), url

    def test_image_value_without_media_url_is_not_shown(
        self, reviewer: Client, settings: Any
    ) -> None:
        settings.MEDIA_URL = ""
        assert "<img" not in shown(reviewer, {"it": "/anything.png"}, it="image")


@pytest.fixture
def media(settings: Any, tmp_path: Path) -> Path:
    settings.MEDIA_ROOT = tmp_path / "media"
    default_storage.save("invoices/a.pdf", ContentFile(b"%PDF"))
    default_storage.save("invoices/b.svg", ContentFile(b"<svg/>"))
    default_storage.save("invoices/c.png", ContentFile(b"PNG"))
    default_storage.save("private/d.pdf", ContentFile(b"secret"))
    (tmp_path / "outside.txt").write_text("outside")
    return tmp_path


def file_of(client: Client, item: Interrupt, pointer: str) -> Any:
    return client.get(f"{page_of(item).removesuffix('change/')}file/?at={quote(pointer)}")


def look_at(item: Interrupt) -> SpotCheck:
    made = Decision.objects.create(
        interrupt=item, version=1, type="approve", value=True, via="admin",
        request_digest="1", payload_digest="1",
    )  # fmt: skip
    return SpotCheck.objects.create(interrupt=item, decision=made)


def read(response: Any) -> bytes:
    return b"".join(response.streaming_content)


@pytest.mark.usefixtures("media")
class TestFiles:
    def test_spot_check_page_serves_files_with_display_hint_to_permitted_users_only(
        self, reviewer: Client, browse: Any
    ) -> None:
        with displayed(paper="file invoices/", picture="image invoices", page="link") as graph:
            payload = {
                "paper": "invoices/a.pdf",
                "picture": "invoices/c.png",
                "page": "https://shop.example/orders/7",
                "other": "private/d.pdf",
            }
            look = look_at(make_interrupt(payload, graph=graph, status="decided"))
            url = page_of(look, "spotcheck")
            page = text_of(reviewer.get(url))
            assert 'href="https://shop.example/orders/7"' in page
            assert '<img class="hitl-image"' in page
            # The request's page names the approver.
            assert "/reviewitem/" not in page[page.index("Request") : page.index("Raw")]
            file = url.removesuffix("change/") + "file/"
            assert f"{file}?at=%2Fpaper" in page
            assert read(reviewer.get(f"{file}?at=/paper")) == b"%PDF"
            assert read(reviewer.get(f"{file}?at=/picture")) == b"PNG"
            assert reviewer.get(f"{file}?at=/other").status_code == 404
            assert reviewer.get(file).status_code == 302
            assert browse("nobody").get(f"{file}?at=/paper").status_code in (403, 404)

    def test_spot_check_file_returns_404_for_the_approver(
        self, reviewer: Client, person: Any
    ) -> None:
        with displayed(paper="file invoices/") as graph:
            look = look_at(
                make_interrupt({"paper": "invoices/a.pdf"}, graph=graph, status="decided")
            )
            file = page_of(look, "spotcheck").removesuffix("change/") + "file/?at=/paper"
            assert read(reviewer.get(file)) == b"%PDF"
            Decision.objects.update(by=person("reviewer"))
            assert reviewer.get(file).status_code == 404

    def test_request_file_requires_view_permission_and_is_sandboxed(
        self, reviewer: Client, browse: Any
    ) -> None:
        with displayed(paper="file invoices/", picture="image invoices") as graph:
            item = make_interrupt(
                {"paper": ["invoices/a.pdf"], "picture": "invoices/c.png"}, graph=graph
            )
            page = text_of(reviewer.get(page_of(item)))
            assert "file/?at=%2Fpaper%2F0" in page
            assert '<img class="hitl-image"' in page
            paper, picture = (
                file_of(reviewer, item, "/paper/0"),
                file_of(reviewer, item, "/picture"),
            )
            assert (read(paper), read(picture)) == (b"%PDF", b"PNG")
            assert paper["Content-Disposition"] == 'attachment; filename="a.pdf"'
            assert paper["Content-Type"] == "application/octet-stream"
            assert picture["Content-Type"] == "image/png"
            for response in (paper, picture):
                assert response["X-Content-Type-Options"] == "nosniff"
                assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
                assert "no-store" in response["Cache-Control"]
            assert file_of(browse("nobody"), item, "/paper/0").status_code in (403, 404)
            assert file_of(Client(), item, "/paper/0").status_code == 302

    @pytest.mark.parametrize(
        "name",
        [
            "private/d.pdf",
            "invoices/../private/d.pdf",
            "invoices/missing.pdf",
            "../outside.txt",
            "invoices/../../outside.txt",
            "/etc/passwd",
            "invoices\\a.pdf",
            "invoices",
            "invoices/",
            "",
            7,
            {"a": 1},
        ],
    )
    def test_request_file_outside_the_folder_of_its_display_hint_returns_404(
        self, reviewer: Client, name: Any
    ) -> None:
        with displayed(paper="file invoices") as graph:
            item = make_interrupt({"paper": name}, graph=graph)
            assert file_of(reviewer, item, "/paper").status_code == 404

    @pytest.mark.parametrize("pointer", ["", "/other", "/paper/0", "/missing", "x", "/~9"])
    def test_request_file_without_display_hint_returns_404(
        self, reviewer: Client, pointer: str
    ) -> None:
        with displayed(paper="file") as graph:
            item = make_interrupt(
                {"paper": "invoices/a.pdf", "other": "private/d.pdf"}, graph=graph
            )
            assert file_of(reviewer, item, pointer).status_code == 404
            assert read(file_of(reviewer, item, "/paper")) == b"%PDF"

    def test_request_file_in_svg_format_is_downloaded_instead_of_displayed(
        self, reviewer: Client
    ) -> None:
        with displayed(it="image") as graph:
            item = make_interrupt({"it": "invoices/b.svg"}, graph=graph)
            assert "<img" not in text_of(reviewer.get(page_of(item)))
            response = file_of(reviewer, item, "/it")
            assert read(response) == b"<svg/>"
            assert response["Content-Disposition"].startswith("attachment")
            assert response["Content-Type"] == "application/octet-stream"


@pytest.mark.usefixtures("media")
class TestLinkPage:
    def test_review_link_page_shows_formatted_values_with_content_security_policy(
        self, client: Client, settings: Any
    ) -> None:
        settings.HITL = {**settings.HITL, "IMAGE_HOSTS": ["pictures.example"]}
        settings.MEDIA_URL = "https://files.example/media/"
        payload = {
            "a": "https://example.com/",
            "b": "[x](https://example.com/)",
            "c": ["invoices/a.pdf"],
            "d": 1200,
            "e": "https://pictures.example/cat.png",
        }
        hints = {"a": "link", "b": "markdown", "c": "file invoices", "d": "money EUR", "e": "image"}
        with displayed(**hints) as graph:
            link = create_review_link(make_interrupt(payload, graph=graph).pk, name="Lena")
            response = client.get(link.url)
            page = text_of(response)
            paper = client.get(f"{link.url}?at=/c/0")
            assert read(paper) == b"%PDF"
        assert "12.00\xa0EUR" in page
        outside = 'href="https://example.com/" rel="noopener noreferrer nofollow"'
        assert page.count(outside) == 2
        assert '<a class="hitl-outside" href="./?at=%2Fc%2F0" download>a.pdf</a>' in page
        assert 'src="https://pictures.example/cat.png"' in page
        images = "img-src 'self' https://files.example https://pictures.example;"
        assert images in response["Content-Security-Policy"]
        # The URL contains the secret, so no later page may receive or display it.
        assert response["Referrer-Policy"] == "no-referrer"
        assert link.url.rstrip("/").rpartition("/")[2] not in page

    @pytest.mark.promise("P18")
    def test_review_link_page_serves_files_with_display_hint_until_the_link_is_revoked(
        self, client: Client
    ) -> None:
        with displayed(paper="file invoices", picture="image") as graph:
            payload = {
                "paper": "invoices/a.pdf", "other": "private/d.pdf", "picture": "invoices/c.png",
                "bad": "../outside.txt",
            }  # fmt: skip
            link = create_review_link(make_interrupt(payload, graph=graph).pk, name="Lena")
            paper, picture = (client.get(f"{link.url}?at=/{name}") for name in ("paper", "picture"))
            assert (read(paper), read(picture)) == (b"%PDF", b"PNG")
            assert paper["Content-Disposition"] == 'attachment; filename="a.pdf"'
            for response in (paper, picture):
                assert response["Content-Security-Policy"] == "default-src 'none'; sandbox"
                assert "no-store" in response["Cache-Control"]
                assert response["Referrer-Policy"] == "no-referrer"
                assert response["X-Robots-Tag"] == "noindex, nofollow, noarchive"
            for pointer in ("/other", "/bad", "/missing", "", "x", "/~9"):
                assert client.get(link.url, {"at": pointer}).status_code == 404, pointer
            revoke_link(link.id)
            response = client.get(f"{link.url}?at=/paper")
            assert response.status_code == 410
            assert b"%PDF" not in response.content


@pytest.mark.parametrize("hint", ["date", "money EUR"])
def test_formatted_value_with_failing_renderer_is_plain_text(
    reviewer: Client, monkeypatch: pytest.MonkeyPatch, settings: Any, hint: str
) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    far = "9999-12-31T23:59:59-23:59"
    assert values(shown(reviewer, {"it": far}, it="date")) == [far]

    def fail(*arguments: Any) -> Any:
        raise RuntimeError("whatever a renderer of a library raises")

    monkeypatch.setitem(value_formats._RENDERERS, hint.partition(" ")[0], fail)
    assert values(shown(reviewer, {"it": 12}, it=hint)) == ["12"]


def test_date_value_before_year_one_in_utc_is_plain_text(reviewer: Client, admin_user: Any) -> None:
    first = "0001-01-01T00:00:00+23:59"
    with displayed(it="date") as graph:
        item = make_interrupt({"it": first}, graph=graph)
        assert first in text_of(reviewer.get(page_of(item)))
        link = create_review_link(item.pk, name="Lena", by=admin_user)
        assert first in text_of(Client().get(link.url))


def test_pointer_to_file_with_an_invalid_or_very_long_list_index_finds_no_file() -> None:
    with displayed(rows="file reports") as graph:
        item = make_interrupt({"rows": ["reports/a.txt"]}, graph=graph)
        assert value_formats.find_file(item, "/rows/0") == ("reports/a.txt", False)
        for index in ("9" * 4400, "²", "-1", "1"):
            assert value_formats.find_file(item, f"/rows/{index}") == ("", False)


def test_file_display_hint_without_folder_fails_system_check() -> None:
    with displayed(paper="file", scan="file scans"):
        [found] = [each for each in run_checks() if each.id == "hitl_django.W041"]
        assert "'paper'" in found.msg
