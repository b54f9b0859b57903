"""Bulk actions of the list: claim, snooze and assign. Each interrupt is changed separately.

An action that needs a time or a name opens a page with a form and the selected interrupts.
Afterwards, the list shows the number of successes and the reasons for failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext_lazy as _

from hitl_django.admin.base import View
from hitl_django.admin.display.bulk_buttons import get_checkbox_value
from hitl_django.admin.request.request_actions import FORMS, run_action
from hitl_django.admin.request.request_controller import NOT_SAVED
from hitl_django.engine.errors import HitlError
from hitl_django.errors import NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Interrupt
from hitl_django.permissions import get_policy

from .batches import ALL, RESULTS, Batch, read_selection, select_later
from .bulk_decide import GONE, BulkPages, add_facts, describe_problem

#: Title of the form page and message about successes, by action.
ACTIONS: dict[str, tuple[Any, Any]] = {
    "claim": (_("Claim requests"), _("Requests claimed: %(n)s")),
    "snooze": (_("Snooze requests"), _("Requests snoozed: %(n)s")),
    "assign": (_("Assign requests"), _("Requests assigned: %(n)s")),
}
#: Fields of the form that the next batch needs, by action.
SENT = {
    "claim": ("verb", "confirmed"),
    "snooze": ("verb", "confirmed", "until", "at"),
    "assign": ("verb", "confirmed", "user", "group"),
}
#: Mark of a result: the end of the snooze is after the due date.
LATE = "late"
#: Maximum number of failures that the message lists individually.
NAMED = 10


class BulkActionPages(BulkPages):
    """The form page of bulk actions."""

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {**super().own_pages(), "many": ("many/", self.many_view)}

    # Each action has its own transaction, regardless of ATOMIC_REQUESTS.
    @transaction.non_atomic_requests
    def many_view(self, request: HttpRequest) -> HttpResponse:
        """Show the form of an action, or apply the action to each selected interrupt."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        verb = request.POST.get("verb", "")
        if request.method != "POST":  # The login page redirects here with GET.
            self.message_user(request, NOT_SAVED, level=messages.WARNING)
            return HttpResponseRedirect(self.url("changelist", request))
        if verb not in ACTIONS:
            return HttpResponseRedirect(self.url("changelist", request))
        choices = read_selection(request)
        if not choices and RESULTS not in request.POST:
            self.message_user(request, _("No requests selected."), level=messages.WARNING)
            return HttpResponseRedirect(self.url("changelist", request))
        batch = Batch.read(request, choices, width=2)
        kind = FORMS.get(verb)
        confirmed = "confirmed" in request.POST or (kind is None and ALL not in request.POST)
        found = self.find_rows(request, batch.now if confirmed else choices)
        rows = [found.get(choice.pk) for choice in (batch.now if confirmed else choices)]
        if verb == "assign" and rows and not may_assign_any(request.user, rows):
            # Check this first: the form would reveal users and groups.
            raise PermissionDenied
        if kind is not None:
            form = kind(request.POST if confirmed else None, use_required_attribute=False)
            if not form.is_valid():
                found = self.find_rows(request, choices)
                rows = [found.get(choice.pk) for choice in choices]
                return self._ask_for_more(request, verb, rows, form)
        elif not confirmed:
            return self._ask_for_more(request, verb, rows, None)
        results = [*batch.results, *(self._apply_action(request, verb, row) for row in rows)]
        if batch.later:
            fields = batch.list_fields(request, SENT[verb], results)
            title, url = ACTIONS[verb][0], self.url("many", request)
            return self.progress_page(request, title, url, batch, fields)
        self._report(request, verb, results, left=len(choices) - len(batch.now))
        return HttpResponseRedirect(self.url("changelist", request))

    def _ask_for_more(
        self,
        request: HttpRequest,
        verb: str,
        rows: Sequence[Interrupt | None],
        form: forms.Form | None,
    ) -> HttpResponse:
        every = [row for row in rows if row is not None]
        shown, rest, others = select_later(every, get_checkbox_value)
        page = self.page(
            request,
            ACTIONS[verb][0],
            "bulk_action.html",
            verb=verb,
            form=form,
            count=len(every),
            lines=add_facts([self.describe_row(request, row) for row in shown]),
            rest=rest,
            others=others,
            many_url=self.url("many", request),
            back=self.url("changelist", request),
        )
        page["Cache-Control"] = "no-store"
        return page

    def _apply_action(self, request: HttpRequest, verb: str, row: Interrupt | None) -> list[str]:
        """Apply the action to one interrupt. Return a list with an error message and a warning.

        The error message is empty on success. The warning is LATE if the interrupt is snoozed until
        after its due date, otherwise an empty string.
        """
        if row is None:
            return [str(GONE), ""]
        kind = FORMS.get(verb)
        form = None if kind is None else kind(request.POST)
        late = ""
        try:
            done = run_action(request, row, verb, form)
        except HitlError as error:
            denied = type(error) is NotAllowedError
            problem = (
                _("You don't have permission to do this.") if denied else describe_problem(error)
            )
        else:
            # The form may be invalid for this interrupt only.
            faults = [] if done or form is None else form.errors.get_json_data().values()
            problem = " ".join(fault["message"] for some in faults for fault in some)
            late = LATE if done is not None and done.warnings else ""
        return [f"“{escape_hidden(row.title)}”: {problem}" if problem else "", late]

    def _report(
        self, request: HttpRequest, verb: str, results: Sequence[Sequence[str]], *, left: int
    ) -> None:
        problems = [problem for problem, _late in results if problem]
        if done := len(results) - len(problems):
            self.message_user(request, ACTIONS[verb][1] % {"n": done}, messages.SUCCESS)
        if late := sum(bool(late) for _problem, late in results):
            words = _("Requests snoozed until after their due date: %(n)s")
            self.message_user(request, words % {"n": late}, messages.WARNING)
        for problem in problems[:NAMED]:
            self.message_user(request, problem, messages.WARNING)
        if more := left + len(problems[NAMED:]):
            self.message_user(
                request, _("Requests not changed: %(n)s") % {"n": more}, messages.WARNING
            )


def may_assign_any(user: Any, rows: Sequence[Interrupt | None]) -> bool:
    """Return whether the user may assign at least one of the interrupts."""
    policy = get_policy()
    return any(row is not None and policy.may_assign(user, row) for row in rows)
