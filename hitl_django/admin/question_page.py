"""The page of one question: where it is looked at and decided, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
    QueryDict,
)
from django.template.response import TemplateResponse
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.engine.errors import InvalidAnswerError, PayloadError, ThreadNotFound
from hitl_django.errors import (
    AlreadyApprovedError,
    AlreadyDecidedError,
    ClaimRequiredError,
    HeldError,
    IdempotencyKeyReusedError,
    InterruptNotFound,
    NotAllowedError,
    RunStateError,
    StaleQuestionError,
)
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, ReviewItem, Run
from hitl_django.page_urls import find_admin_page
from hitl_django.services.reviews import queue_filters

from .answer_forms import Sheet, Typed
from .base import ReadOnlyAdmin, View, sees_runs, visible_interrupts
from .decision_messages import confirmation_of
from .diff_display import decided
from .multi_action import sheet_of
from .question_status import about_of
from .question_view import Page, beside
from .queue_actions import FORM_VERBS, VERBS, Forms, carry_out
from .refusal_messages import conflict_of, decided_elsewhere, not_sent, outcome_of
from .run_status import line_of
from .thread_admin import steps_of

#: Steps of the thread's history that stand below its questions.
MAX_STEPS = 10

#: What can be decided later, or by somebody else: the question stays open.
REFUSALS = (
    AlreadyApprovedError,
    ClaimRequiredError,
    HeldError,
    RunStateError,
    StaleQuestionError,
)
GOES_ON = {
    "each": _("Each is answered on its own, and the run goes on with each answer."),
    "all": _("Each is answered on its own, and the run goes on when all are answered."),
}


class ItemPages(ReadOnlyAdmin):
    """A question's own page, its payload as a file, and the decision on it."""

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return visible_interrupts(request, rows)

    def rows(self) -> QuerySet[Any]:
        # A question that is closed keeps its page, which says what became of it.
        return ReviewItem.objects.select_related("run", "thread__subject_type", "assignee")

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            "handling": ("<path:object_id>/handling/", self.handling_view),
            "payload": ("<path:object_id>/payload/", self.payload_view),
            "status": ("<path:object_id>/status/", self.status_view),
        }

    def show(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        """Shows a question and takes the decision on it."""
        if request.method == "POST":
            return self._decide(request, item)
        if item.status != Interrupt.Status.PENDING:
            return self._outcome(request, item)
        return self._ask(request, item, sheet_of(item))

    def payload_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Hands the whole payload out as a file that no browser opens."""
        item = self.get_object(request, unquote(object_id))
        text = json.dumps(item.payload, ensure_ascii=False, indent=2)
        response = HttpResponse(text, content_type="text/plain; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="question-{item.pk}.json.txt"'
        response["X-Content-Type-Options"] = "nosniff"
        return response

    def status_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Says where the question's run is, for the line that follows it."""
        item = self.get_object(request, unquote(object_id))
        line = line_of(item.run, services.worker_health())
        response = JsonResponse({"text": str(line.text), "moves": line.moves})
        response["Cache-Control"] = "no-store"
        return response

    def handling_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Claims, releases, takes over, assigns, puts off, wakes or comments on a question."""
        item = self.get_object(request, unquote(object_id))
        verb = request.POST.get("verb", "")
        here = self.url("change", request, item.pk)
        if request.method != "POST" or verb not in {*VERBS, *FORM_VERBS}:
            return HttpResponseRedirect(here)
        forms = Forms.of(item, verb=verb, data=request.POST)
        form = getattr(forms, verb) if verb in FORM_VERBS else None
        kept = _kept(form)
        try:
            said = carry_out(item, verb, request.user, form)
        except InterruptNotFound:
            raise Http404 from None
        except NotAllowedError as error:
            return self._refuse(request, item, kept, error, status=403)
        except HeldError as error:
            return self._refuse(request, item, kept, error, status=409)
        except AlreadyDecidedError:
            return HttpResponseRedirect(here)
        if said is not None:
            self.message_user(request, said, level=messages.SUCCESS)
            return HttpResponseRedirect(self._next_url(request, item) if verb == "snooze" else here)
        if item.status != Interrupt.Status.PENDING:
            return self._outcome(request, item, forms={item.pk: forms})
        return self._ask(request, item, sheet_of(item), {item.pk: forms})

    def _decide(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        more = "" if "decision" in request.POST else request.POST.get("more", "")
        sheet = sheet_of(item, request.POST, more=more)
        if item.status == Interrupt.Status.PENDING:
            # What came back of another version was never typed into this one's form.
            if sheet.is_stale():
                return self._stale(request, item, sheet)
            if more:
                return self._ask(request, item, sheet)
        decision = sheet.read(request.POST.get("decision", ""))
        if item.status != Interrupt.Status.PENDING and decision is None:
            return self._outcome(request, item, sheet=sheet, status=409)
        if decision is None:
            return self._ask(request, item, sheet)
        try:
            made = self._record(request, item, sheet, *decision)
        except InterruptNotFound:
            raise Http404 from None
        except NotAllowedError as error:
            return self._refuse(request, item, sheet.typed(), error, status=403)
        except REFUSALS as error:
            return self._refuse(request, item, sheet.typed(), error, status=409)
        except (AlreadyDecidedError, IdempotencyKeyReusedError):
            item = self.get_object(request, str(item.pk))
            if item.status == Interrupt.Status.PENDING:
                return self._stale(request, item, sheet)
            return self._outcome(request, item, sheet=sheet, status=409)
        except (InvalidAnswerError, PayloadError) as error:
            sheet.refuse(error)
            return self._ask(request, item, sheet)
        self._confirm(request, item, made)
        return HttpResponseRedirect(self._next_url(request, item))

    def _stale(self, request: HttpRequest, item: Interrupt, sheet: Sheet) -> HttpResponse:
        """Refuses what was meant for another version, unless it is what made this one."""
        made = sheet.recorded(request.user)
        if made is None:
            return self._refuse(request, item, sheet.typed(), StaleQuestionError(), status=409)
        self._confirm(request, item, made)
        return HttpResponseRedirect(self._next_url(request, item))

    def _record(
        self,
        request: HttpRequest,
        item: Interrupt,
        sheet: Sheet,
        pressed: str,
        value: Any,
    ) -> services.DecisionInfo:
        slip = sheet.slip.cleaned_data
        decide = partial(
            services.decide,
            item.pk,
            pressed,
            value,
            by=request.user,
            via="admin",
            reason=slip["reason"],
            key=slip["key"],
            # A post that doesn't say what was seen has seen something else.
            digest=slip["digest"],
            version=slip["version"] or 0,
        )
        try:
            return decide()
        except ClaimRequiredError:
            if item.claimed_by_id != request.user.pk:
                raise
        # Their own claim ran out while they wrote. Unless somebody else has one by now, they
        # hold it again, and nothing that they wrote is lost.
        services.claim(item.pk, by=request.user, via="admin")
        return decide()

    def _confirm(self, request: HttpRequest, item: Interrupt, made: services.DecisionInfo) -> None:
        item.run.refresh_from_db(fields=["state"])
        said = confirmation_of(
            item,
            made,
            line_of(item.run, services.worker_health()),
            status_url=self.url("status", request, item.pk),
            run_url=self._run_url(request, item),
        )
        self.message_user(request, said, level=messages.SUCCESS)

    def _run_url(self, request: HttpRequest, item: Interrupt) -> str:
        """Returns the run's page, or for who may not see runs the question's, which tells too."""
        found = sees_runs(request) and find_admin_page(Run, "change", item.run_id, request=request)
        return found or self.url("change", request, item.pk)

    def _ask(
        self, request: HttpRequest, item: Interrupt, sheet: Sheet, forms: Any = None
    ) -> TemplateResponse:
        others = beside(request, item)
        page = Page(request, [item, *others], self._url_of(request), forms)
        asked = [page.asked(item, sheet), *(page.asked(one, sheet_of(one)) for one in others)]
        context: dict[str, Any] = {}
        if others:
            words = _("%(count)d questions of one run")
            context["title"] = words % {"count": len(asked)}
            context["goes_on"] = GOES_ON[registry.policy_of(item.graph).goes_on]
        return self.page(
            request,
            item,
            "item.html",
            asked=asked,
            decides=any(one.sheet is not None for one in asked),
            about=about_of(item.thread, request),
            errors=sheet.has_errors,
            sees_runs=sees_runs(request),
            next_url=self._next_url(request, item),
            take_url=self.url("next", request),
            picture=self._picture(request, item),
            history=steps_of(request, item.thread, limit=MAX_STEPS),
            **context,
        )

    def _url_of(self, request: HttpRequest) -> Any:
        return lambda name, item: self.url(name, request, item.pk)

    def _picture(self, request: HttpRequest, item: Interrupt) -> str:
        """Draws where the thread is in its graph, for who may see the thread."""
        try:
            return services.thread_picture(item.thread.thread_id, by=request.user)
        except ThreadNotFound:
            return ""

    def _outcome(
        self,
        request: HttpRequest,
        item: Interrupt,
        *,
        sheet: Sheet | None = None,
        status: int = 200,
        forms: Any = None,
    ) -> TemplateResponse:
        """Says what became of a question, and keeps what somebody wanted to answer."""
        decision = item.closing()
        notice = outcome_of(item, decision, request.user)
        if sheet is not None:
            notice = decided_elsewhere(notice, decision, request.user)
        line = line_of(item.run, services.worker_health())
        told = {**decided(item, decision), "run_url": self._run_url(request, item)}
        if line.moves or item.status == Interrupt.Status.DECIDED:
            told["line"] = line
        kept = sheet.typed() if sheet is not None else []
        return self._told(request, item, notice, kept, status, forms=forms, **told)

    def _refuse(
        self,
        request: HttpRequest,
        item: Interrupt,
        kept: Sequence[Typed],
        error: Exception,
        *,
        status: int,
    ) -> TemplateResponse:
        item = self.get_object(request, str(item.pk))
        return self._told(request, item, not_sent(conflict_of(error)), kept, status)

    def _told(
        self,
        request: HttpRequest,
        item: Interrupt,
        notice: Any,
        kept: Sequence[Typed],
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
            next_url=self._next_url(request, item),
            is_pending=item.status == Interrupt.Status.PENDING,
            one=Page(request, [item], self._url_of(request), forms).asked(item),
            about=about_of(item.thread, request),
            sees_runs=sees_runs(request),
            **context,
        )

    def _newer(self, request: HttpRequest, item: Interrupt) -> Interrupt | None:
        """Returns the open question that took the place of one that was superseded."""
        if item.status != Interrupt.Status.SUPERSEDED:
            return None
        waiting = visible_interrupts(request, ReviewItem.pending.filter(thread=item.thread_id))
        return waiting.exclude(pk=item.pk).order_by("-created_at", "-id").first()

    def _next_url(self, request: HttpRequest, item: Interrupt) -> str:
        """Returns the page of the next question, or the list where there is none for the user.

        What the same thread asks besides comes first, and then the first in the queue's order that
        is theirs or free.
        """
        filters = request.GET.get("_changelist_filters", "")
        waiting = visible_interrupts(request, ReviewItem.pending.exclude(pk=item.pk))
        others = waiting.filter(thread=item.thread_id).order_by("created_at", "index", "id")
        if beside := others.values_list("pk", flat=True).first():
            return self.url("change", request, beside)
        if graph := QueryDict(filters).get("graph"):
            waiting = waiting.filter(graph=graph)
        mine = queue_filters.mine(request.user) & queue_filters.AWAKE & queue_filters.ANSWERABLE
        free = queue_filters.free_parts(request.user, queue_filters.groups_of(request.user))
        found = queue_filters.first(waiting, [mine, *free], 1).values_list("pk", flat=True).first()
        if found is None:
            return self.url("changelist", request)
        return self.url("change", request, found)


def _kept(form: Any) -> list[Typed]:
    """Returns what was written into a form that isn't the answer."""
    if form is None or "text" not in form.fields:
        return []
    return [(str(form["text"].label), str(form["text"].data or ""), ())]
