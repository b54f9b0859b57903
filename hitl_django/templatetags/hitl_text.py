"""Template filters for text from models and strangers."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils.formats import localize
from django.utils.html import format_html
from django.utils.translation import gettext

from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Decision

register = template.Library()


@register.filter
def visible(value: Any) -> str:
    """Show characters that a screen hides by their code points."""
    # The text is escaped like any other: what comes out was never marked as safe.
    return escape_hidden(str(value)) if value is not None else ""


@register.filter
def graph_title(name: str) -> str:
    """Says what people call a graph."""
    return visible(registry.get_title(name))


@register.filter(expects_localtime=True)
def moment(value: datetime) -> str:
    """Show a moment as everywhere, and says it to programs with all its digits."""
    return format_html('<time datetime="{}">{}</time>', value.isoformat(), localize(value))


@register.filter
def or_erased(text: str) -> str:
    """Show a text that nobody leaves empty: where it is, it was erased."""
    return visible(text) or gettext("(erased)")


@register.filter
def decision(word: str) -> str:
    """Says a kind of decision in the reader's language."""
    return str(dict(Decision.Type.choices).get(word, word))
