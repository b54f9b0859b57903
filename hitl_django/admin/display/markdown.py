"""Conversion of untrusted Markdown to safe HTML, without raw HTML, images or disguised links.

The renderer escapes all tags in the text. The sanitizer then allows only tags that the renderer
creates. The extra ``markdown`` installs the renderer and the sanitizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import cache
from typing import Any

from django.utils.safestring import SafeString

from hitl_django.forms.json_input import escape_hidden
from hitl_django.services.reviews.mentions import split_at_mentions

TAGS = {
    "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
#: CSS class of a mention.
MENTION = "hitl-mention"
#: Maximum number of table cells. Each table row gets as many cells as the header row.
MAX_CELLS = 5_000


def render_markdown(text: str, *, links: bool, mentions: Collection[str] = ()) -> SafeString | None:
    """Return the HTML of a Markdown text, or None if the text can't be rendered.

    The text can't be rendered if the extra ``markdown`` isn't installed, or if the text has too
    many table cells. Links are enabled if ``links`` is true. Names in ``mentions`` are highlighted.
    """
    render = _load()
    if render is None or _count_cells(text) > MAX_CELLS:
        return None
    return SafeString(render(escape_hidden(text), links, mentions))


def _count_cells(text: str) -> int:
    blocks = [block.split("\n") for block in re.split(r"\n[ \t]*\n", text) if "|" in block]
    return sum(len(lines) * max(line.count("|") for line in lines) for lines in blocks)


@cache
def _load() -> Callable[[str, bool, Collection[str]], str] | None:
    try:
        import nh3
        from markdown_it import MarkdownIt
        from markdown_it.token import Token
    except ImportError:
        return None
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")

    def mark(token: Any, names: Collection[str]) -> Iterator[Any]:
        if token.type != "text":
            yield token
            return
        for part, is_mention in split_at_mentions(token.content, names):
            if is_mention:
                yield Token("strong_open", "strong", 1, attrs={"class": MENTION})
            yield Token("text", "", 0, content=part)
            if is_mention:
                yield Token("strong_close", "strong", -1)

    def render(text: str, links: bool, names: Collection[str]) -> str:
        tokens = parser.parse(text)
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                # Start headings two levels below those of the page.
                token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
            if names and token.children:
                token.children = [made for one in token.children for made in mark(one, names)]
        return nh3.clean(
            parser.renderer.render(tokens, parser.options, {}),
            tags=TAGS | {"a"} if links else TAGS,
            # Titles are excluded, because a title could contradict the target of its link.
            attributes={"a": {"href"}, "*": set()},
            allowed_classes={"strong": {MENTION}},
            url_schemes={"http", "https", "mailto"},
            link_rel="noopener noreferrer nofollow",
        )

    return render
