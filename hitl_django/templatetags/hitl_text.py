"""Template filters for untrusted text."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.utils.formats import localize
from django.utils.html import format_html
from django.utils.translation import gettext

from hitl_django.admin.display.payload_display import display_arguments
from hitl_django.dialects import is_middleware_node
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Decision

register = template.Library()
register.filter("action_arguments", display_arguments)


@register.filter
def visible(value: Any) -> str:
    """Replace the invisible characters in a text by their code points."""
    # Don't mark the result as safe, so that templates escape it.
    return escape_hidden(str(value)) if value is not None else ""


@register.filter
def node_suffix(name: str) -> str:
    """Return a separator and the node's name, for display after the graph's name.

    The result is an empty string for a node that runs a hook of an agent's middleware.
    """
    return "" if is_middleware_node(name) else format_html(" ▸ <bdi>{}</bdi>", visible(name))


@register.filter
def graph_title(name: str) -> str:
    """Return the title of a graph, or its name if the graph has no title."""
    return visible(registry.get_title(name))


@register.filter(expects_localtime=True)
def moment(value: datetime) -> str:
    """Return an HTML ``<time>`` element with the time in the format of the current language.

    The attribute ``datetime`` of the element contains the exact time.
    """
    return format_html('<time datetime="{}">{}</time>', value.isoformat(), localize(value))


@register.filter
def or_erased(text: str) -> str:
    """Return the text or, if it is empty, a note that the text was erased.

    Use this filter only for required texts.
    """
    return visible(text) or gettext("(erased)")


@register.filter
def decision(word: str) -> str:
    """Return the translated name of a decision type."""
    return str(dict(Decision.Type.choices).get(word, word))
