"""Template tags that link to this app's admin pages.

Links lead to the current admin site, or to the default site outside of the admin.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import template
from django.apps import apps
from django.utils.html import format_html

from hitl_django import services
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import find_startable_graphs

register = template.Library()

#: Maximum number of pending requests that are counted.
MOST = 100


@register.simple_block_tag(takes_context=True)
def page_link(
    context: Any, content: str, page: str, *args: Any, css: str = "hitl-link-to",
    alone: bool = False, **query: Any,
) -> str:  # fmt: skip
    """Return the content of the block as a link to an admin page.

    ``page`` has the form ``run_change`` or, for another app, ``ratings.rating_change``. ``query``
    contains parameters of the URL. If no admin site has the page, the content is returned without a
    link. With ``alone``, an empty string is returned instead. Use ``alone`` if the content is
    useless without the link.
    """
    app, _, page = page.rpartition(".")
    name, _, view = page.partition("_")
    model = apps.get_model(app or "hitl_django", name)
    url = find_admin_page(model, view, *args, request=context.get("request"))
    if not url:
        return "" if alone else format_html('<span dir="auto">{}</span>', content)
    if query:
        url += "?" + urlencode(query)
    return format_html('<a href="{}" class="{}" dir="auto">{}</a>', url, css, content)


@register.inclusion_tag("hitl_django/admin/waiting.html", takes_context=True)
def waiting_for_you(context: Any) -> dict[str, Any]:
    """Return the template context for a link to the review queue.

    The context contains the queue's URL and the number of interrupts that the user can decide.
    """
    request = context.get("request")
    url = find_admin_page(
        apps.get_model("hitl_django", "reviewitem"), "changelist", request=request
    )
    count = services.count_for(request.user, most=MOST) if url else 0
    return {"count": count, "is_more": count >= MOST, "least": MOST - 1, "url": url}


@register.simple_tag(takes_context=True)
def start_url(context: Any) -> str:
    """Return the URL of the page that starts a run, or an empty string without permission."""
    request = context.get("request")
    if request is None or not any(find_startable_graphs(request.user)):
        return ""
    return find_admin_page(apps.get_model("hitl_django", "run"), "start", request=request)
