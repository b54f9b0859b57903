"""Template tag for the icons of the review pages."""

from __future__ import annotations

from django import template
from django.utils.html import format_html

register = template.Library()


@register.simple_tag
def icon(name: str, size: int = 16) -> str:
    """Return an icon of ``hitl_django/admin/icons.html``, ``size`` pixels wide and high.

    The icon is hidden from screen readers.
    """
    return format_html(
        '<svg class="hitl-i" width="{0}" height="{0}" aria-hidden="true" focusable="false">'
        '<use href="#hitl-{1}"/></svg>',
        size,
        name,
    )
