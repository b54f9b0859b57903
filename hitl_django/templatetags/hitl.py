"""Template tags that show interrupts on pages of your project."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import format_html

from hitl_django.admin.display.key_facts import list_key_facts
from hitl_django.admin.display.refusal_messages import describe_outcome
from hitl_django.admin.display.short_times import format_due
from hitl_django.admin.request.request_view import display_interrupt, display_why
from hitl_django.forms import ResponseForm
from hitl_django.models import Interrupt

register = template.Library()


@register.inclusion_tag("hitl_django/payload.html")
def hitl_payload(
    interrupt: Interrupt, form: ResponseForm | None = None, file_url: str = ""
) -> dict[str, Any]:
    """Return the template context for the reason and the payload of an interrupt.

    Values that appear in fields of the form are omitted. ``file_url`` is the URL that serves the
    payload's files, such as the path of a ``ResponseView``. Without the URL, the values contain no
    links.
    """
    forms = None if form is None or form.interrupt_forms.actions else form.interrupt_forms
    return {
        "why": display_why(interrupt, None),
        "values": display_interrupt(interrupt, forms, file_url),
    }


@register.inclusion_tag("hitl_django/key_facts.html")
def hitl_facts(interrupt: Interrupt) -> dict[str, Any]:
    """Return the template context for an interrupt in a list: the key facts of the payload.

    The review policy names the key facts. By default, the key facts are the payload's first values.
    """
    row: Any = interrupt
    if not hasattr(row, "small_payload"):
        row.small_payload, row.small_schema = interrupt.payload, interrupt.response_schema
    return {"values": list_key_facts(row).facts}


@register.simple_tag(takes_context=True)
def hitl_status(context: Any, interrupt: Interrupt) -> str:
    """Return the status of a pending interrupt with its due time, or the outcome of a closed one.

    The outcome names the person who decided.
    """
    if interrupt.status == Interrupt.Status.PENDING:
        due = format_due(interrupt)
        status = Interrupt.Status(interrupt.status).label
        return format_html("{} · {}", status, due) if due else str(status)
    user = getattr(context.get("request"), "user", None)
    return str(describe_outcome(interrupt, interrupt.closing(), user).headline)
