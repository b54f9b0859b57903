"""Comments on the request page: Markdown and mentions."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from hitl_django import services
from hitl_django.admin.display import markdown
from hitl_django.models import Comment

from .browsing import text_of
from .conftest import make_interrupt, page_of

pytestmark = pytest.mark.django_db


def show(client: Client, text: str, **options: Any) -> str:
    """Return a comment as displayed on the page of its request."""
    item = make_interrupt({})
    services.comment(item.pk, text, **options)
    found = re.search(
        r'<div class="hitl-said">(.*?)</div></li>', text_of(client.get(page_of(item))), re.S
    )
    assert found is not None
    return found[1]


def test_comment_with_markdown_is_rendered_as_html_and_stored_unchanged(reviewer: Client) -> None:
    text = "**Please** see [the file](https://a.example/x).\nIt has\n\n- one\n- two\n\n`code`"
    shown = show(reviewer, text)
    assert '<div class="hitl-markdown" dir="auto">' in shown
    assert "<strong>Please</strong>" in shown
    assert '<a href="https://a.example/x" rel="noopener noreferrer nofollow">the file</a>' in shown
    assert "<li>one</li>" in shown
    assert "<code>code</code>" in shown
    assert Comment.objects.get().text == text


@pytest.mark.promise("P19")
@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<b onclick=alert(1)>x</b>",
        "![x](https://evil.example/x.png)",
        "[x](javascript:alert(1))",
        "[x](data:text/html,x)",
        '<strong class="hitl-mention">@root</strong>',
        "a\u202eb\u0007",
    ],
)
def test_comment_with_hostile_html_or_url_has_no_script_image_or_unsafe_link(
    reviewer: Client, text: str
) -> None:
    shown = show(reviewer, text)
    assert not re.findall(r"<(?:script|b|img|strong)\b", shown)
    assert not re.findall(r'href="(?!https?:|mailto:)', shown)
    assert "\u202e" not in shown


def test_comment_highlights_mention_of_a_user_only_outside_of_code(
    reviewer: Client, person: Callable[[str], Any]
) -> None:
    person("reader")
    shown = show(reviewer, "*Look, @reader* and `@reader`, @nobody.")
    assert shown.count('<strong class="hitl-mention">@reader</strong>') == 1
    assert "<code>@reader</code>" in shown


def test_comment_without_markdown_extra_is_shown_as_escaped_text_with_mentions(
    reviewer: Client, person: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    person("reader")
    monkeypatch.setattr(markdown, "_load", lambda: None)
    shown = show(reviewer, "**Look**, @reader <b>")
    marked = '**Look**, <strong class="hitl-mention">@reader</strong> &lt;b&gt;'
    assert shown == f'<p class="hitl-text" dir="auto">{marked}</p>'


def test_erased_comment_is_shown_as_erased_on_request_page(reviewer: Client) -> None:
    item = make_interrupt({})
    Comment.objects.create(interrupt=item, by_label="sam", via="admin", text="")
    assert "(erased)" in text_of(reviewer.get(page_of(item)))


def test_comment_with_oversized_table_is_shown_as_plain_text_within_five_seconds(
    reviewer: Client,
) -> None:
    row = "|a" * 20
    small = f"{row}\n{'|-' * 20}\n{row}"
    assert "<table>" in show(reviewer, small)
    begun = time.perf_counter()
    # Each of its lines would have as many cells as its head.
    shown = show(reviewer, f"{row}\n{'|-' * 20}\n" + "|\n" * 3000)
    assert '<p class="hitl-text"' in shown
    assert len(shown) < 20_000
    assert time.perf_counter() - begun < 5
