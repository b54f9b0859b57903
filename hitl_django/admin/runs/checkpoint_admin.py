"""Read-only pages of the engine's tables, for debugging.

The admin's index lists the pages only if ``HITL["ADMIN_SHOW_ENGINE_MODELS"]`` is set. The page of a
thread links to these pages. Lists don't show stored values. Detail pages show stored values up to a
size limit, to users who can view the thread's state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.db.models.functions import Length
from django.http import HttpRequest, HttpResponse
from django.utils.functional import cached_property
from django.utils.translation import gettext_lazy as _

from hitl_django.admin.base import ReadOnlyAdmin, format_entry
from hitl_django.admin.display.payload_display import MAX_TEXT, DisplayedValue
from hitl_django.checkpoints.codec import codec
from hitl_django.checkpoints.encrypted_rows import decrypt_column, decrypt_row
from hitl_django.checkpoints.value_deltas import head_size
from hitl_django.conf import hitl
from hitl_django.engine.constants import KEYED, RESUME
from hitl_django.engine.errors import PayloadError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import ChannelBlob, Checkpoint, PendingWrite, Thread
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy
from hitl_django.run_events.redaction import redact_value
from hitl_django.services.runs.shown_interrupts import ShownInterrupts

#: Maximum number of rows that a list counts, and of bytes that a page decodes.
COUNTED, DECODED = 10_000, 512 * 1024


class CappedPaginator(Paginator):
    """Paginator that counts up to a limit, because the tables may be very large."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by()[:COUNTED].count())


class ThreadIdFilter(admin.SimpleListFilter):
    """Filter by thread id.

    Only links use this filter. The page of the list doesn't show the filter.
    """

    title = _("thread")
    parameter_name = "thread"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        given = request.GET.get(self.parameter_name)
        return [(given, escape_hidden(given))] if given else []

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(thread__thread_id=self.value()) if self.value() else queryset


class EngineAdmin(ReadOnlyAdmin):
    """Base class of the admin pages of the engine's tables."""

    list_filter = (ThreadIdFilter,)
    list_select_related = ("thread",)
    visible_through = "thread"
    ordering = ("-pk",)
    paginator = CappedPaginator
    payloads: ClassVar[tuple[str, ...]] = ("data",)

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        if not request.user.has_perm(f"{self.opts.app_label}.view_{self.opts.model_name}"):
            return rows.none()
        return super().visible(request, rows)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return bool(hitl.ADMIN_SHOW_ENGINE_MODELS) and super().has_module_permission(request)

    def rows(self) -> QuerySet[Any]:
        return super().rows().select_related("thread")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).defer(*self.payloads)

    @admin.display(description=_("row"))
    def row(self, row: Any) -> str:
        return format_entry(
            row, str(row), escape_hidden(row.thread.thread_id), escape_hidden(row.ns) or "–"
        )

    def show(self, request: HttpRequest, row: Any) -> HttpResponse:
        """Show one row, with stored values only for users who can view the thread's state."""
        sees = get_policy().may_view_state(request.user, row.thread)
        return self.page(
            request,
            row,
            "engine.html",
            title=f"{self.opts.verbose_name}: {row}",
            columns=[
                (field.verbose_name, escape_hidden(str(getattr(row, field.attname))))
                for field in self.opts.concrete_fields
                if field.name not in self.payloads and field.name != "thread"
            ],
            list_url=self.url("changelist", request),
            sees=sees,
            held=_list_values(row, self.payloads, request.user) if sees else [],
        )


def _decrypt_payload(row: Any, data: bytes) -> bytes:
    if isinstance(row, Checkpoint):
        return decrypt_column(data)
    return decrypt_row(data, row.digest, head_size(data), "row")[0]


def _list_values(row: Any, names: Sequence[str], user: Any) -> list[DisplayedValue]:
    interrupts = ShownInterrupts(row.thread_id, user)
    return [_display_column(row, name, interrupts) for name in names if getattr(row, name)]


def _display_column(row: Any, name: str, interrupts: ShownInterrupts) -> DisplayedValue:
    data = bytes(getattr(row, name))
    if len(data) > DECODED:
        return DisplayedValue(
            name, _("%(n)d bytes, too large to display") % {"n": len(data)}, "none"
        )
    # The page of a decision shows the response with its secrets redacted.
    redact = (*registry.get_redacted_keys(row.thread.graph), RESUME, KEYED)
    try:
        value = codec.decode(_decrypt_payload(row, data))
        if isinstance(row, Checkpoint) and name == "writes":
            value = [(path or task, codec.decode(wrote)) for task, path, wrote in value]
    except PayloadError as error:
        return DisplayedValue(name, escape_hidden(str(error)), "none")
    if isinstance(row, ChannelBlob):
        # Add the key, because redaction finds secrets by key.
        value = {row.channel: value}
    if isinstance(row, PendingWrite):
        value = [{key: one} for key, one in interrupts.hide_in_writes(value)]
    if isinstance(row, Checkpoint) and name == "writes":
        value = [
            [of, [{key: one} for key, one in interrupts.hide_in_writes(writes)]]
            for of, writes in value
        ]
    view, cut = redact_value(value, MAX_TEXT, redact)
    text = json.dumps(view, ensure_ascii=False, indent=2)
    return DisplayedValue(name, escape_hidden(text), "code", len(data) if cut else 0)


class CheckpointAdmin(EngineAdmin):
    """Admin of checkpoints, the states of threads between two super-steps."""

    list_display = ("row", "step", "source", "created_at")
    payloads = ("data", "metadata", "scalars", "writes")
    empty_text = _("No checkpoints.")


class ChannelBlobAdmin(EngineAdmin):
    """Admin of the stored values of channels."""

    list_display = ("row", "version", "size")
    empty_text = _("No channel values.")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).annotate(size=Length("data"))

    @admin.display(description=_("bytes"))
    def size(self, row: Any) -> int:
        return int(row.size)


class PendingWriteAdmin(EngineAdmin):
    """Admin of tasks' writes that are not part of a checkpoint yet."""

    list_display = ("row", "task_path", "slot")
    empty_text = _("No pending writes.")


def link_rows(request: HttpRequest, thread: Thread) -> list[tuple[Any, str]]:
    """Return links to the lists of a thread's rows, limited by the user's permissions."""
    found = []
    for model in (Checkpoint, ChannelBlob, PendingWrite):
        may = request.user.has_perm(f"hitl_django.view_{model._meta.model_name}")
        if may and (url := find_admin_page(model, "changelist", request=request)):
            query = urlencode({"thread": thread.thread_id})
            found.append((model._meta.verbose_name_plural, f"{url}?{query}"))
    return found
