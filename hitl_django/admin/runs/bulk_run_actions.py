"""Bulk retry and bulk cancellation of runs, with a separate operation for each run.

The confirmation page lists the selected runs, with the reason for each run that can't be changed.
The result page shows the result of each run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from hitl_django import services
from hitl_django.admin.base import ReadOnlyAdmin, View, format_pill, name_graph, name_run
from hitl_django.admin.display.decision_messages import format_recorded
from hitl_django.engine.errors import HitlError
from hitl_django.errors import NotAllowedError, RunNotFound, RunStateError
from hitl_django.models import Interrupt, Run
from hitl_django.permissions import get_policy
from hitl_django.services.runs.cancel import CANCELLABLE
from hitl_django.services.runs.operate import RETRYABLE, is_superseded

from .run_actions import CancelForm, RunOperations

#: Maximum number of runs per operation, each with its own transaction.
MOST = 500

GONE = _("This run no longer exists.")
DENIED = _("You don't have permission to do this.")
SUPERSEDED = _("This thread has a newer run.")


@dataclass(frozen=True, slots=True)
class BulkOperation:
    """An operation on several runs: its texts, and the run states in which it is allowed."""

    allowed: Sequence[str]
    title: Any
    #: Reason shown for runs in other states.
    refusal: Any
    done: Any
    summary: Any


OPERATIONS = {
    "retry": BulkOperation(
        RETRYABLE,
        _("Retry runs"),
        _("Only failed or parked runs can be retried."),
        _("Queued."),
        ngettext_lazy("%(n)d run queued.", "%(n)d runs queued.", "n"),
    ),
    "cancel": BulkOperation(
        CANCELLABLE,
        _("Cancel runs"),
        _("This run has already ended."),
        _("Cancelled."),
        ngettext_lazy("%(n)d run cancelled.", "%(n)d runs cancelled.", "n"),
    ),
}


@dataclass(frozen=True, slots=True)
class RunRow:
    """A selected run.

    ``problem`` is an error message. ``done`` is a confirmation. ``pk`` is the value that the form
    submits.
    """

    title: str
    place: str = ""
    url: str = ""
    state: str = ""
    problem: Any = ""
    done: Any = ""
    pk: UUID | None = None


class BulkRunPages(RunOperations, ReadOnlyAdmin):
    """Confirmation page and result page of a bulk operation."""

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {**super().own_pages(), "many": ("many/", self.many_view)}

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        # The form is submitted to the list's URL, because the list's filters define "all runs".
        if request.method == "POST" and request.POST.get("verb") in OPERATIONS:
            if not self.has_view_permission(request):
                raise PermissionDenied
            return self._ask_about_many(request, request.POST["verb"])
        return super().changelist_view(request, extra_context)

    # Each operation has its own transaction, regardless of ATOMIC_REQUESTS.
    @transaction.non_atomic_requests
    def many_view(self, request: HttpRequest) -> HttpResponse:
        """Apply the operation to each confirmed run, and show the results."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        verb, chosen = request.POST.get("verb", ""), _read_ticks(request)[:MOST]
        if request.method != "POST" or verb not in OPERATIONS or not chosen:
            return HttpResponseRedirect(self.url("changelist", request))
        rows = self.get_queryset(request).filter(pk__in=chosen)
        form = CancelForm(request.POST) if verb == "cancel" else None
        if form is not None and not form.is_valid():
            return self._list_many(request, verb, rows, form)
        problems = self._operate(request, verb, chosen, form)
        found = {row.pk: row for row in rows.select_related("thread")}
        lines = []
        for pk, problem in problems.items():
            done = "" if problem else OPERATIONS[verb].done
            # Only the id of a deleted run is known.
            line = self._describe(request, found[pk]) if pk in found else RunRow(str(pk))
            lines.append(replace(line, problem=problem, done=done))
        made = [line for line in lines if line.done]
        summary = OPERATIONS[verb].summary % {"n": len(made)}
        return self._bulk_page(
            request,
            verb,
            "run_bulk_done.html",
            summary=format_recorded(summary, f"runs {verb}") if made else summary,
            made=made,
            failed=[line for line in lines if line.problem],
        )

    def _ask_about_many(self, request: HttpRequest, verb: str) -> HttpResponse:
        rows = self.get_queryset(request).filter(pk__in=_read_ticks(request))
        if "all" in request.POST:
            try:
                rows = self.get_changelist_instance(request).queryset
            except IncorrectLookupParameters:
                words = _("The list has changed. Please check your selection.")
                self.message_user(request, words, level=messages.WARNING)
                return HttpResponseRedirect(self.url("changelist", request))
        return self._list_many(request, verb, rows, CancelForm() if verb == "cancel" else None)

    def _list_many(
        self, request: HttpRequest, verb: str, rows: QuerySet[Run], form: CancelForm | None
    ) -> HttpResponse:
        rows = rows.select_related("thread").annotate(is_superseded=is_superseded())
        fits = Q(state__in=OPERATIONS[verb].allowed)
        if verb == "retry":
            fits &= Q(is_superseded=False)
        chosen = list(rows.filter(fits)[: MOST + 1])
        others = list(rows.exclude(fits)[: MOST + 1])
        if not chosen and not others:
            self.message_user(request, _("No requests selected."), level=messages.WARNING)
            return HttpResponseRedirect(self.url("changelist", request))
        lines = [
            replace(self._describe(request, row), problem=_find_obstacle(request.user, verb, row))
            for row in (*chosen[:MOST], *others[:MOST])
        ]
        ready = [line for line in lines if not line.problem]
        interrupts = Interrupt.objects.filter(run__in=[line.pk for line in ready])
        return self._bulk_page(
            request,
            verb,
            "run_bulk.html",
            form=form,
            ready=ready,
            refused=[line for line in lines if line.problem],
            most=MOST,
            is_cut_short=len(chosen) > MOST,
            has_others=len(others) > MOST,
            withdrawn=interrupts.filter(status=Interrupt.Status.PENDING).count() if form else 0,
            many_url=self.url("many", request),
        )

    def _operate(
        self, request: HttpRequest, verb: str, chosen: Sequence[UUID], form: CancelForm | None
    ) -> dict[UUID, Any]:
        """Apply the operation to each of the runs with the ids ``chosen``.

        Returns an error message for each run, by run id. On success, the message is empty.
        """
        if form is None:
            retried = services.retry_all(chosen, by=request.user, via="admin")
            return {
                each.run_id: _describe_problem(verb, each.error) if each.error else ""
                for each in retried
            }
        problems: dict[UUID, Any] = {}
        for pk in chosen:
            try:
                reason = form.cleaned_data["reason"]
                services.cancel(pk, by=request.user, via="admin", reason=reason)
                problems[pk] = ""
            except HitlError as error:
                problems[pk] = _describe_problem(verb, error)
        return problems

    def _describe(self, request: HttpRequest, row: Run) -> RunRow:
        return RunRow(
            name_graph(row.graph),
            name_run(row),
            self.url("change", request, row.pk),
            format_pill(row.state),
            pk=row.pk,
        )

    def _bulk_page(
        self, request: HttpRequest, verb: str, template: str, **context: Any
    ) -> HttpResponse:
        page = self.page(
            request,
            OPERATIONS[verb].title,
            template,
            verb=verb,
            back=self.url("changelist", request),
            **context,
        )
        page["Cache-Control"] = "no-store"
        return page


def _read_ticks(request: HttpRequest) -> list[UUID]:
    found: dict[UUID, None] = {}
    for text in request.POST.getlist("item"):
        try:
            found[UUID(text)] = None
        except ValueError:
            continue
    return list(found)


def _find_obstacle(user: Any, verb: str, row: Any) -> Any:
    """Return the reason why an operation can't be applied to a run, as far as known in advance."""
    if not get_policy().may_operate(user, row):
        return DENIED
    if row.state not in OPERATIONS[verb].allowed:
        return OPERATIONS[verb].refusal
    return SUPERSEDED if verb == "retry" and row.is_superseded else ""


def _describe_problem(verb: str, error: HitlError) -> Any:
    if isinstance(error, RunNotFound):
        return GONE
    if isinstance(error, NotAllowedError):
        return DENIED
    if isinstance(error, RunStateError):
        is_superseded = error.state in error.allowed
        return SUPERSEDED if is_superseded else OPERATIONS[verb].refusal
    return _("The decision could not be saved.")
