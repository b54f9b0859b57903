"""Markdown of strangers as HTML: no markup of theirs, no pictures, and links only as they look.

The renderer writes every tag of theirs as text, and the sanitizer lets no other through than those
that it makes. Both come with the extra ``markdown``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from django.utils.safestring import SafeString

from hitl_django.forms.json_input import escape_hidden

TAGS = {
    "blockquote", "br", "code", "em", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
    "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip


def render_markdown(text: str, *, links: bool) -> SafeString | None:
    """Returns the HTML of a text, with its ``links`` or without; None without the extra."""
    render = _load()
    return None if render is None else SafeString(render(escape_hidden(text), links))


@cache
def _load() -> Callable[[str, bool], str] | None:
    try:
        import nh3
        from markdown_it import MarkdownIt
    except ImportError:
        return None
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")

    def render(text: str, links: bool) -> str:
        tokens = parser.parse(text)
        for token in tokens:
            if token.type in ("heading_open", "heading_close"):
                # Below the headings of the page.
                token.tag = f"h{min(6, int(token.tag[1]) + 2)}"
        return nh3.clean(
            parser.renderer.render(tokens, parser.options, {}),
            tags=TAGS | {"a"} if links else TAGS,
            attributes={"a": {"href"}, "*": set()},  # no title either, which may say otherwise
            url_schemes={"http", "https", "mailto"},
            link_rel="noopener noreferrer nofollow",
        )

    return render
