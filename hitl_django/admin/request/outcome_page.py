"""Pages that show the outcome of an interrupt, or why a decision could not be stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.http import HttpRequest
from django.template.response import TemplateResponse

from hitl_django import services
from hitl_django.admin.base import ReadOnlyAdmin, can_view_runs
from hitl_django.admin.display.diff_display import get_decision_context
from hitl_django.admin.display.refusal_messages import (
    add_not_saved,
    add_nothing_sent,
    describe_conflict,
    describe_outcome,
)
from hitl_django.admin.display.run_status import describe_run
from hitl_django.admin.display.subject_links import link_subject
from hitl_django.errors import NotAllowedError
from hitl_django.forms.interrupt_forms import TypedText
from hitl_django.models import Interrupt, ReviewItem, Run
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy, select_visible

from .request_view import InterruptViewFactory
from .undo_button import render_undo_button


class OutcomePage(ReadOnlyAdmin):
    """Page that shows the outcome of an interrupt, or why a decision could not be stored."""

    def show_outcome(
        self,
        request: HttpRequest,
        item: Interrupt,
        *,
        kept: Sequence[TypedText] | None = None,
        status: int = 200,
        forms: Any = None,
    ) -> TemplateResponse:
        """Show the outcome of an interrupt.

        If a response was not accepted, ``kept`` are the texts that the user typed. The page shows
        these texts for copying. ``forms`` are submitted ``ActionForms`` by interrupt id, for
        example with errors in a comment.
        """
        decision = item.closing()
        notice = describe_outcome(item, decision, request.user)
        if kept is not None:
            notice = add_not_saved(notice, decision, request.user)
        line = describe_run(item.run, services.worker_health())
        if line.is_problem and item.status == Interrupt.Status.DECIDED and notice.tone == "info":
            notice = replace(notice, tone="warning")
        context = {
            **get_decision_context(item, decision),
            "run_url": self.find_run_url(request, item),
        }
        if line.moves or item.status == Interrupt.Status.DECIDED:
            context["line"] = line
        if decision is not None and decision.by_id == request.user.pk:
            context["recorded"] = decision.key
        if decision is not None:
            context["undo"] = self.undo_button(request, item)
        return self.show_notice(request, item, notice, kept or (), status, forms=forms, **context)

    def show_refusal(
        self, request: HttpRequest, item: Interrupt, kept: Sequence[TypedText], error: Exception
    ) -> TemplateResponse:
        item = self.get_object(request, str(item.pk))
        notice = add_nothing_sent(describe_conflict(error))
        status = 403 if isinstance(error, NotAllowedError) else 409
        return self.show_notice(request, item, notice, kept, status)

    def show_notice(
        self,
        request: HttpRequest,
        item: Interrupt,
        notice: Any,
        kept: Sequence[TypedText],
        status: int,
        *,
        forms: Any = None,
        **context: Any,
    ) -> TemplateResponse:
        return self.page(
            request,
            item,
            "outcome.html",
            status=status,
            notice=notice,
            kept=kept,
            newer=self._newer(request, item),
            list_url=self.url("changelist", request),
            take_url=self.url("next", request),
            may_take=get_policy().may_decide(request.user, item),
            is_pending=item.status == Interrupt.Status.PENDING,
            one=InterruptViewFactory(request, [item], self.url_of(request), forms).make_view(item),
            about=link_subject(item.thread, request),
            sees_runs=can_view_runs(request),
            **context,
        )

    def _newer(self, request: HttpRequest, item: Interrupt) -> Interrupt | None:
        if item.status != Interrupt.Status.SUPERSEDED:
            return None
        waiting = select_visible(ReviewItem.pending.filter(thread=item.thread_id), request.user)
        return waiting.exclude(pk=item.pk).order_by("-created_at", "-id").first()

    def undo_button(self, request: HttpRequest, item: Interrupt) -> str:
        """Return the HTML of the undo button.

        The HTML is empty if the user can't undo the decision.
        """
        return render_undo_button(request, item.pk, self.url("undo", request, item.pk))

    def find_run_url(self, request: HttpRequest, item: Interrupt) -> str:
        """Return the URL of the run or, if the user can't view runs, of the interrupt."""
        found = can_view_runs(request) and find_admin_page(
            Run, "change", item.run_id, request=request
        )
        return found or self.url("change", request, item.pk)

    def url_of(self, request: HttpRequest) -> Any:
        return lambda name, item: self.url(name, request, item.pk)
