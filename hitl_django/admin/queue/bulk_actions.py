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
from hitl_django.admin.request.request_actions import FORMS, run_action
from hitl_django.engine.errors import HitlError
from hitl_django.errors import NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Interrupt
from hitl_django.permissions import get_policy

from .bulk_decide import GONE, BulkPages, describe_problem

#: Title of the form page and message about successes, by action.
ACTIONS: dict[str, tuple[Any, Any]] = {
    "claim": ("", _("Requests claimed: %(n)s")),
    "snooze": (_("Snooze requests"), _("Requests snoozed: %(n)s")),
    "assign": (_("Assign requests"), _("Requests assigned: %(n)s")),
}
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
        if request.method != "POST" or verb not in ACTIONS:
            return HttpResponseRedirect(self.url("changelist", request))
        choices = self.read_choices(request)
        if not choices:
            self.message_user(request, _("No requests selected."), level=messages.WARNING)
            return HttpResponseRedirect(self.url("changelist", request))
        found = self.find_rows(request, choices)
        rows = [found.get(choice.pk) for choice in choices]
        if verb == "assign" and not may_assign_any(request.user, rows):
            # Check this first: the form would reveal users and groups.
            raise PermissionDenied
        kind = FORMS.get(verb)
        if kind is not None:
            form = kind(
                request.POST if "confirmed" in request.POST else None, use_required_attribute=False
            )
            if not form.is_valid():
                return self._ask_for_more(request, verb, rows, form)
        problems = [self._apply_action(request, verb, row) for row in rows]
        self._report(request, verb, [problem for problem in problems if problem], len(rows))
        return HttpResponseRedirect(self.url("changelist", request))

    def _ask_for_more(
        self,
        request: HttpRequest,
        verb: str,
        rows: Sequence[Interrupt | None],
        form: forms.Form,
    ) -> HttpResponse:
        page = self.page(
            request,
            ACTIONS[verb][0],
            "bulk_action.html",
            verb=verb,
            form=form,
            lines=[self.describe_row(request, row) for row in rows if row is not None],
            many_url=self.url("many", request),
            list_url=self.url("changelist", request),
        )
        page["Cache-Control"] = "no-store"
        return page

    def _apply_action(self, request: HttpRequest, verb: str, row: Interrupt | None) -> str:
        """Apply the action to one interrupt.

        Returns the error message, or an empty string on success.
        """
        if row is None:
            return str(GONE)
        kind = FORMS.get(verb)
        form = None if kind is None else kind(request.POST)
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
        return f"“{escape_hidden(row.title)}”: {problem}" if problem else ""

    def _report(self, request: HttpRequest, verb: str, problems: list[str], count: int) -> None:
        if done := count - len(problems):
            self.message_user(request, ACTIONS[verb][1] % {"n": done}, messages.SUCCESS)
        for problem in problems[:NAMED]:
            self.message_user(request, problem, messages.WARNING)
        if (more := len(problems) - NAMED) > 0:
            self.message_user(
                request, _("Requests not changed: %(n)s") % {"n": more}, messages.WARNING
            )


def may_assign_any(user: Any, rows: Sequence[Interrupt | None]) -> bool:
    """Return whether the user may assign at least one of the interrupts."""
    policy = get_policy()
    return any(row is not None and policy.may_assign(user, row) for row in rows)
