"""Display of comments, with highlighted mentions.

The text is shown as Markdown if the extra ``markdown`` is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Comment
from hitl_django.services.reviews.mentions import split_at_mentions

from .initials import get_initials
from .markdown import MENTION, render_markdown


@dataclass(frozen=True)
class DisplayedComment:
    """The text of a comment as HTML, with its author and time."""

    by_label: str
    created_at: datetime
    html: str

    @property
    def initials(self) -> str:
        """The initials of the author."""
        return get_initials(self.by_label)


def display_comment(comment: Comment) -> DisplayedComment:
    """Return a comment for display.

    The text of an erased comment is "(erased)".
    """
    text, names = comment.text or _("(erased)"), comment.mentions or ()
    html = render_markdown(text, links=True, mentions=names)
    if html is not None:
        shown = format_html('<div class="hitl-markdown" dir="auto">{}</div>', html)
    else:
        parts: list[Any] = [
            format_html('<strong class="{}">{}</strong>', MENTION, escape_hidden(part))
            if is_mention
            else escape_hidden(part)
            for part, is_mention in split_at_mentions(text, names)
        ]
        words = format_html_join("", "{}", ((part,) for part in parts))
        shown = format_html('<p class="hitl-text" dir="auto">{}</p>', words)
    return DisplayedComment(comment.by_label, comment.created_at, shown)
