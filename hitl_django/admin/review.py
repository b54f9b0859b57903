"""The review queue: what waits for a decision. The page of one question is in item.py."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.text import get_text_list
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from hitl_django import services
from hitl_django.models import Decision, ReviewItem

from .item import ItemPages
from .notices import silence_of
from .readonly import GraphFilter, ago, entry, place


@admin.register(ReviewItem)
class ReviewItemAdmin(ItemPages):
    """What waits for a decision, the longest wait first."""

    list_display = ("question", "waiting")
    change_list_template = "hitl_django/admin/queue.html"
    list_filter = (GraphFilter,)
    list_title = _("Review queue")
    empty_text = _(
        "Nothing waits for a decision. Questions appear here as soon as a graph stops and asks one."
    )
    search_fields = ("title",)
    search_help_text = _("Searches the questions' titles.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        # The list doesn't show payloads, so it doesn't load them.
        return super().get_queryset(request).defer("payload", "payload_digest")

    def list_context(self, changes: ChangeList) -> dict[str, Any]:
        # The queue's own name doesn't count: three "review queue" wait.
        total = changes.result_count
        count = ngettext("%(total)d question waits", "%(total)d questions wait", total)
        return {
            "silence": silence_of(services.worker_health()),
            "count": count % {"total": total},
            "page_range": changes.paginator.get_elided_page_range(changes.page_num),
        }

    @admin.display(description=_("question"), ordering="title")
    def question(self, item: Any) -> str:
        words: list[Any] = [str(Decision.Type(word).label) for word in item.allowed_decisions]
        labels = get_text_list(words, _("or"))
        return entry(item, item.title, place(item), labels)

    @admin.display(description=_("waiting"), ordering="created_at")
    def waiting(self, item: Any) -> str:
        return format_html(
            '<time datetime="{}" title="{}">{}</time>',
            item.created_at.isoformat(),
            item.created_at.strftime("%Y-%m-%d %H:%M %Z"),
            ago(item.created_at) or _("just now"),
        )
