"""Template tags that render Django's change lists with the templates of the review pages."""

from __future__ import annotations

from typing import Any

from django import template
from django.contrib.admin.templatetags import admin_list

register = template.Library()


@register.inclusion_tag("hitl_django/admin/list_results.html")
def list_results(cl: Any) -> dict[str, Any]:
    """Return the template context for the table of a change list."""
    return admin_list.result_list(cl)


@register.inclusion_tag("hitl_django/admin/list_pages.html")
def list_pages(cl: Any) -> dict[str, Any]:
    """Return the template context for a change list's number of results and its page links."""
    return admin_list.pagination(cl)
