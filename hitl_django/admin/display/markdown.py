"""Markdown of strangers as HTML: no markup of theirs, no pictures, and links only as they look.

The renderer writes every tag of theirs as text, and the sanitizer lets no other through than those
that it makes. Both come with the extra ``markdown``.
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
#: The class of a name that a text mentions.
MENTION = "hitl-mention"
#: Cells that tables may have: each row has as many as its table's head, whatever it says itself.
MOST_CELLS = 5_000


def render_markdown(text: str, *, links: bool, mentions: Collection[str] = ()) -> SafeString | None:
    """Return the HTML of a text, with its ``links`` or without; ``mentions`` are marked in it.

    None without the extra, and of a text whose tables would become too large.
    """
    render = _load()
    if render is None or _count_cells(text) > MOST_CELLS:
        return None
    return SafeString(render(escape_hidden(text), links, mentions))


def _count_cells(text: str) -> int:
    """Count the cells that a text's tables may come to, at the most."""
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
        """Split a piece of text where it mentions somebody."""
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
                # Below the headings of the page.
                token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
            if names and token.children:
                token.children = [made for one in token.children for made in mark(one, names)]
        return nh3.clean(
            parser.renderer.render(tokens, parser.options, {}),
            tags=TAGS | {"a"} if links else TAGS,
            attributes={"a": {"href"}, "*": set()},  # no title either, which may say otherwise
            allowed_classes={"strong": {MENTION}},
            url_schemes={"http", "https", "mailto"},
            link_rel="noopener noreferrer nofollow",
        )

    return render
