"""Base classes of the read-only admin pages.

The pages show only rows that the user may view.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.templatetags.admin_urls import add_preserved_filters
from django.contrib.admin.utils import lookup_field, unquote
from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.core.exceptions import BadRequest
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.defaultfilters import filesizeformat
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _

from hitl_django.dialects import is_middleware_node
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.models import Run
from hitl_django.permissions import (
    find_row,
    find_startable_graphs,
    get_policy,
    select_visible,
    select_visible_through,
)

from .form_tokens import check_form_token
from .navigation import build_navigation
from .outage_page import answer_outages

View = Callable[..., HttpResponseBase]

#: Maximum length of a search text, the same as in the API.
SEARCHED = 200
#: Shown instead of the title of an interrupt whose thread was erased.
ERASED = _("(erased)")
#: Name of the checkbox column.
PICK = "pick"
#: Content of an empty cell. Small screens omit the cell.
NOTHING = format_html('<span class="{}">–</span>', "hitl-none")


class LinkedChangeList(ChangeList):
    """Change list in which each row links to its page.

    The link to a page contains the list's filters, so that the page can link back to the same list.
    Columns in which no row of the current page has a value are omitted.
    """

    model_admin: ReadOnlyAdmin
    #: Numbers of the shown columns. Numbers in URLs count all columns, including the omitted ones.
    shown_columns: Sequence[int] | None = None

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if not self.get_filters_params() and not self.query:
            # The count includes all rows. If it didn't, Django would offer a link that shows all
            # rows.
            self.full_result_count = self.result_count
        self.complete_rows(request)
        self.drop_columns()

    def complete_rows(self, request: HttpRequest) -> None:
        """Add attributes to the listed rows. The query of the list doesn't load these attributes.

        For example, set ``link`` to the URL of the row's detail page.
        """
        for row in self.result_list:
            row.link = self.model_admin.url("change", request, row.pk)

    def drop_columns(self, *names: str) -> None:
        """Omit the named columns, and all columns in which no listed row has a value."""
        shown = [
            (number, name)
            for number, name in enumerate(self.list_display)
            if name not in names and self._has_anything(name)
        ]
        self.shown_columns = [number for number, _name in shown]
        self.list_display = [name for _number, name in shown]

    def _has_anything(self, column: Any) -> bool:
        cells = (lookup_field(column, row, self.model_admin)[2] for row in self.result_list)
        return any(cell not in (None, "", NOTHING) for cell in cells)

    def get_ordering_field_columns(self) -> Any:
        columns = super().get_ordering_field_columns()
        if self.shown_columns is None or ORDER_VAR not in self.params:
            return columns
        places = {number: place for place, number in enumerate(self.shown_columns)}
        return {places[number]: way for number, way in columns.items() if number in places}

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        terms = (new_params or {}).get(ORDER_VAR)
        if terms and self.shown_columns is not None:
            found = (re.fullmatch(r"(-?)(\d+)", term) for term in terms.split("."))
            named = [f"{term[1]}{self.shown_columns[int(term[2])]}" for term in found if term]
            new_params = {**new_params, ORDER_VAR: ".".join(named)}
        return super().get_query_string(new_params, remove)


class ReadOnlyAdmin(admin.ModelAdmin):
    """Read-only pages of a model's rows, limited to those visible to the user."""

    actions: Any = None
    list_display_links = None
    change_list_template = "hitl_django/admin/list_page.html"
    filter_template = "hitl_django/admin/filter_menu.html"
    #: Text of an empty list.
    empty_text: Any = _("No entries yet.")
    list_title: Any = ""
    list_per_page = 50
    show_full_result_count = False
    view_on_site = False
    #: Lookups that links to the list use in addition to the list's filters.
    linked_lookups: Sequence[str] = ()
    #: Lookup path to the related row that determines whether a row is visible.
    visible_through = ""

    def url(self, page: str, request: HttpRequest, *args: Any) -> str:
        """Return the URL of one of the model's pages, preserving the list's filters."""
        name = f"{self.admin_site.name}:{self.opts.app_label}_{self.opts.model_name}_{page}"
        url = reverse(name, args=args)
        kept: dict[str, Any] = {
            "preserved_filters": self.get_preserved_filters(request),
            "opts": self.opts,
        }
        return str(add_preserved_filters(kept, url))

    def own_pages(self) -> dict[str, tuple[str, View]]:
        """Return additional pages of the model: pairs of route and view, by the page's name."""
        return {}

    def get_urls(self) -> list[Any]:
        urls = super().get_urls()
        for name, (route, view) in self.own_pages().items():
            page: Any = self.admin_site.admin_view(view)
            page.model_admin = self  # Set as on Django's own pages.
            urls.insert(
                0, path(route, page, name=f"{self.opts.app_label}_{self.opts.model_name}_{name}")
            )
        for url in urls:
            # The wrapper encloses the site's permission check, which also queries the database.
            url.callback = answer_outages(check_form_token(refuse_nul(url.callback)))
        return urls

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Narrow ``rows`` to the rows visible to the user."""
        if self.visible_through:
            return select_visible_through(rows, self.visible_through, request.user)
        return select_visible(rows, request.user)

    def rows(self) -> QuerySet[Any]:
        """Return all rows that detail pages can show, regardless of the user's permissions."""
        return self.model._default_manager.all()

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return self.visible(request, super().get_queryset(request))

    def get_object(
        self, request: HttpRequest, object_id: str, from_field: str | None = None
    ) -> Any:
        """Return the row with this id, or None.

        The result is None if the row doesn't exist or the user may not view it.
        """
        seen = self.visible(request, self.rows())
        return find_row(seen, Http404(_("Page not found.")), pk=object_id)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        # Each word adds a condition to the query, and databases limit the number of conditions.
        return super().get_search_results(request, queryset, search_term[:SEARCHED])

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LinkedChangeList

    def lookup_allowed(self, lookup: str, value: Any, request: Any = None) -> bool:
        # Arbitrary lookups would reveal hidden values. They could tell whether a payload or a
        # traceback contains a word.
        allowed = {*self.linked_lookups}
        for one in self.list_filter:
            if isinstance(one, str):
                allowed |= {one, f"{one}__exact", f"{one}__isnull"}
            elif isinstance(one, type) and issubclass(one, admin.SimpleListFilter):
                allowed.add(str(one.parameter_name))
        return lookup in allowed

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # If a policy denies the user all rows, it returns an empty queryset. This check needs no
        # query.
        return not self.visible(request, self.rows()).query.is_empty()

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_change_permission = has_delete_permission = has_add_permission

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        return self.show(request, self.get_object(request, unquote(object_id)))

    def show(self, request: HttpRequest, row: Any) -> HttpResponse:
        """Render the page of a row."""
        raise NotImplementedError

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        title = self.list_title or capfirst(self.opts.verbose_name_plural)
        own = {"title": title, "empty_text": self.empty_text}
        response = super().changelist_view(request, {**own, **(extra_context or {})})
        if isinstance(response, TemplateResponse) and (found := response.context_data):
            found["navigation"] = build_navigation(request, found["available_apps"])
            if "cl" not in found:
                return response  # The page that confirms an action.
            for spec in found["cl"].filter_specs:
                # Use this template instead of the theme's.
                spec.template = self.filter_template
            found.update(self.list_context(found["cl"]))
        return response

    def list_context(self, changes: ChangeList) -> dict[str, Any]:
        """Return additional context variables for the list's template."""
        return {}

    def page(
        self,
        request: HttpRequest,
        original: Any,
        template: str,
        *,
        status: int = 200,
        **context: Any,
    ) -> TemplateResponse:
        """Render an admin page about a row.

        If ``original`` is text, the page is about an object that isn't a row. The text then
        describes the object.
        """
        request.current_app = self.admin_site.name
        # Themes link to the instance's page if ``original`` is a model instance.
        row = original if isinstance(original, self.model) else str(original)
        site = self.admin_site.each_context(request)
        frame = {
            **site,
            "navigation": build_navigation(request, site["available_apps"]),
            "add": False,
            "change": True,
            "has_view_permission": self.has_view_permission(request),
            "is_popup": False,
            "media": forms.Media(),
            "opts": self.opts,
            "original": row,
        }
        context["title"] = escape_hidden(str(context.get("title", original))) or ERASED
        return TemplateResponse(
            request, f"hitl_django/admin/{template}", {**frame, **context}, status=status
        )

    def too_large(self, request: HttpRequest, *, too_many: bool) -> TemplateResponse:
        """Render a page that explains which limit the submitted form exceeds, and how to proceed.

        ``too_many`` is true if the form has too many fields, and false if it is too large.
        """
        return self.page(
            request,
            _("Submission too large"),
            "too_large.html",
            status=413,
            most=None if too_many else filesizeformat(settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
            most_fields=settings.DATA_UPLOAD_MAX_NUMBER_FIELDS,
            back=request.get_full_path(),
        )


def refuse_nul(view: View) -> View:
    """Make a view reject URLs with a NUL character in a parameter.

    PostgreSQL can neither store nor compare text with a NUL. An escaped NUL (``%00``) in a decoded
    parameter is also rejected, because a parameter may contain the URL of a list, and this URL is
    decoded later.
    """

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if any(
            "\0" in text or "%00" in text
            for name, texts in request.GET.lists()
            for text in (name, *texts)
        ):
            raise BadRequest("A parameter has a NUL character.")
        return view(request, *args, **kwargs)

    return answer


class GraphFilter(admin.SimpleListFilter):
    """Filter by graph, offering only graphs of rows visible to the user."""

    title = _("graph")
    parameter_name = "graph"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        seen = model_admin.get_queryset(request).order_by("graph")
        return [
            (name, name_graph(name)) for name in seen.values_list("graph", flat=True).distinct()
        ]

    def has_output(self) -> bool:
        # Show a filter with a single graph only if that graph is selected.
        return len(self.lookup_choices) > 1 or bool(self.value())

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(graph=self.value()) if self.value() else queryset


#: Meaning of the states of runs, which gives the pill of a state its colour.
TONES = {
    Run.State.RUNNING: "is-info",
    Run.State.INTERRUPTED: "is-warn",
    Run.State.SUCCEEDED: "is-ok",
    Run.State.FAILED: "is-bad",
    Run.State.PARKED: "is-plum",
}


def format_pill(state: str) -> str:
    """Return the HTML of a colored pill with a run's state."""
    known = Run.State(state)
    return format_status(known.label, TONES.get(known, ""))


def format_status(label: Any, tone: str = "") -> str:
    """Return the HTML of a badge that shows a status.

    ``tone`` is the CSS class for the meaning of the status, for example ``"is-bad"``.
    """
    return format_html('<span class="{}">{}</span>', f"hitl-pill {tone}".rstrip(), capfirst(label))


def format_tick(value: Any, title: Any) -> str:
    """Return the HTML of the checkbox that selects a row.

    ``value`` identifies the row. ``title`` is the title of the row, for the checkbox's label.
    """
    return format_html(
        '<input type="checkbox" name="item" value="{}" aria-label="{}">',
        value,
        _("Select “%(title)s”") % {"title": title},
    )


def format_entry(row: Any, title: Any, *words: Any) -> str:
    """Return the HTML of the first cell in the list row of ``row``.

    The cell contains ``title`` as a link to the page of ``row``, and below it the texts in
    ``words``.
    """
    line = format_html_join(" · ", "<bdi>{}</bdi>", ((word,) for word in words if word))
    return format_html(
        '<div class="hitl-cell" data-hitl-row="{}"><a href="{}" class="hitl-title">{}</a>'
        '<span class="hitl-sub">{}</span></div>',
        row.pk,
        row.link,
        escape_hidden(str(title)) or ERASED,
        line,
    )


def name_graph(graph: str) -> str:
    """Return the title of a graph, or its name if the graph has no title."""
    return escape_hidden(str(registry.get_title(graph)))


def name_run(run: Run) -> str:
    """Return the run's idempotency key or, if it has no key, the id of its thread."""
    return escape_hidden(run.key or run.thread.thread_id)


def describe_node(row: Any) -> str:
    """Return the graph and the node of an interrupt as HTML.

    For an interrupt of an agent's middleware, the node is omitted.
    """
    if is_middleware_node(row.node):
        return format_html("<bdi>{}</bdi>", name_graph(row.graph))
    return format_html(
        "<bdi>{}</bdi> ▸ <bdi>{}</bdi>", name_graph(row.graph), escape_hidden(row.node)
    )


def can_view_runs(request: HttpRequest) -> bool:
    """Return whether the user may view at least one of the admin pages about runs.

    The user needs one of these permissions: to view runs, to start runs of a graph, or to create
    interrupts with ``ask()``. A user without these permissions needs at least one visible run, such
    as a run that the user started.
    """
    user, rows = request.user, select_visible(Run.objects.all(), request.user)
    if rows.query.is_empty():
        return False
    policy = get_policy()
    if policy.has_permission(user, "hitl_django.view_run") or policy.may_ask(user):
        return True
    return any(find_startable_graphs(user)) or rows.exists()
