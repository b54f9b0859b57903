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
from hitl_django.permissions import select_visible
from hitl_django.services.reviews import queue_filters

from .answer_forms import QuestionForms, TypedText
from .base import ReadOnlyAdmin, View, can_view_runs
from .decision_messages import format_confirmation
from .diff_display import get_decision_context
from .multi_action import make_question_forms
from .question_status import link_subject
from .question_view import QuestionViewFactory, find_other_questions
from .queue_actions import FORM_VERBS, VERBS, ActionForms, run_action
from .refusal_messages import (
    add_nothing_sent,
    describe_conflict,
    describe_other_decision,
    describe_outcome,
)
from .run_status import describe_run
from .thread_admin import list_steps

#: Steps of the thread's history that stand below its questions.
MAX_STEPS = 10

#: What can be decided later, or by somebody else: the question stays open.
REFUSALS = (
    AlreadyApprovedError,
    ClaimRequiredError,
    HeldError,
    NotAllowedError,
    RunStateError,
    StaleQuestionError,
)
GOES_ON = {
    "each": _("Each is answered on its own, and the run goes on with each answer."),
    "all": _("Each is answered on its own, and the run goes on when all are answered."),
}


class QuestionPages(ReadOnlyAdmin):
    """A question's own page, its payload as a file, and the decision on it."""

    def rows(self) -> QuerySet[Any]:
        # A question that is closed keeps its page, which says what became of it.
        return ReviewItem.objects.select_related("run", "thread__subject_type", "assignee")

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            **super().own_pages(),
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
        return self._ask(request, item, make_question_forms(item))

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
        line = describe_run(item.run, services.worker_health())
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
        forms = ActionForms.build(item, verb=verb, data=request.POST)
        form = getattr(forms, verb) if verb in FORM_VERBS else None
        kept = _kept(form)
        try:
            message = run_action(item, verb, request.user, form)
        except InterruptNotFound:
            raise Http404 from None
        except (NotAllowedError, HeldError) as error:
            return self._refuse(request, item, kept, error)
        except AlreadyDecidedError:
            return HttpResponseRedirect(here)
        if message is not None:
            self.message_user(request, message, level=messages.SUCCESS)
            return HttpResponseRedirect(self._next_url(request, item) if verb == "snooze" else here)
        if item.status != Interrupt.Status.PENDING:
            return self._outcome(request, item, forms={item.pk: forms})
        return self._ask(request, item, make_question_forms(item), {item.pk: forms})

    def _decide(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        more = "" if "decision" in request.POST else request.POST.get("more", "")
        question_forms = make_question_forms(item, request.POST, more=more)
        if item.status == Interrupt.Status.PENDING:
            # What came back of another version was never typed into this one's form.
            if question_forms.is_stale():
                return self._stale(request, item, question_forms)
            if more:
                return self._ask(request, item, question_forms)
        decision = question_forms.read(request.POST.get("decision", ""))
        if item.status != Interrupt.Status.PENDING and decision is None:
            return self._outcome(request, item, question_forms=question_forms, status=409)
        if decision is None:
            return self._ask(request, item, question_forms)
        try:
            made = self._record(request, item, question_forms, *decision)
        except InterruptNotFound:
            raise Http404 from None
        except REFUSALS as error:
            return self._refuse(request, item, question_forms.typed_texts(), error)
        except (AlreadyDecidedError, IdempotencyKeyReusedError):
            item = self.get_object(request, str(item.pk))
            if item.status == Interrupt.Status.PENDING:
                return self._stale(request, item, question_forms)
            return self._outcome(request, item, question_forms=question_forms, status=409)
        except (InvalidAnswerError, PayloadError) as error:
            question_forms.refuse(error)
            return self._ask(request, item, question_forms)
        self._confirm(request, item, made)
        return HttpResponseRedirect(self._next_url(request, item))

    def _stale(
        self, request: HttpRequest, item: Interrupt, question_forms: QuestionForms
    ) -> HttpResponse:
        """Refuses what was meant for another version, unless it is what made this one."""
        made = question_forms.recorded(request.user)
        if made is None:
            return self._refuse(request, item, question_forms.typed_texts(), StaleQuestionError())
        self._confirm(request, item, made)
        return HttpResponseRedirect(self._next_url(request, item))

    def _record(
        self,
        request: HttpRequest,
        item: Interrupt,
        question_forms: QuestionForms,
        pressed: str,
        value: Any,
    ) -> services.DecisionInfo:
        sent = question_forms.decision_form.cleaned_data
        decide = partial(
            services.decide,
            item.pk,
            pressed,
            value,
            by=request.user,
            via="admin",
            reason=sent["reason"],
            key=sent["key"],
            # A post that doesn't say what was seen has seen something else.
            digest=sent["digest"],
            version=sent["version"] or 0,
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
        message = format_confirmation(
            item,
            made,
            describe_run(item.run, services.worker_health()),
            status_url=self.url("status", request, item.pk),
            run_url=self._run_url(request, item),
        )
        self.message_user(request, message, level=messages.SUCCESS)

    def _run_url(self, request: HttpRequest, item: Interrupt) -> str:
        """Returns the page of the run, or of the question for who may not see runs."""
        found = can_view_runs(request) and find_admin_page(
            Run, "change", item.run_id, request=request
        )
        return found or self.url("change", request, item.pk)

    def _ask(
        self,
        request: HttpRequest,
        item: Interrupt,
        question_forms: QuestionForms,
        forms: Any = None,
    ) -> TemplateResponse:
        others = find_other_questions(request, item)
        page = QuestionViewFactory(request, [item, *others], self._url_of(request), forms)
        views = [
            page.make_view(item, question_forms),
            *(page.make_view(one, make_question_forms(one)) for one in others),
        ]
        context: dict[str, Any] = {}
        if others:
            words = _("%(count)d questions of one run")
            context["title"] = words % {"count": len(views)}
            context["goes_on"] = GOES_ON[registry.get_review_policy(item.graph).goes_on]
        return self.page(
            request,
            item,
            "question_page.html",
            questions=views,
            decides=any(one.question_forms is not None for one in views),
            about=link_subject(item.thread, request),
            errors=question_forms.has_errors,
            sees_runs=can_view_runs(request),
            next_url=self._next_url(request, item),
            take_url=self.url("next", request),
            picture=self._picture(request, item),
            history=list_steps(request, item.thread, limit=MAX_STEPS),
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
        question_forms: QuestionForms | None = None,
        status: int = 200,
        forms: Any = None,
    ) -> TemplateResponse:
        """Says what became of a question, and keeps what somebody wanted to answer."""
        decision = item.closing()
        notice = describe_outcome(item, decision, request.user)
        if question_forms is not None:
            notice = describe_other_decision(notice, decision, request.user)
        line = describe_run(item.run, services.worker_health())
        context = {**get_decision_context(item, decision), "run_url": self._run_url(request, item)}
        if line.moves or item.status == Interrupt.Status.DECIDED:
            context["line"] = line
        kept = question_forms.typed_texts() if question_forms is not None else []
        return self._show_notice(request, item, notice, kept, status, forms=forms, **context)

    def _refuse(
        self, request: HttpRequest, item: Interrupt, kept: Sequence[TypedText], error: Exception
    ) -> TemplateResponse:
        item = self.get_object(request, str(item.pk))
        notice = add_nothing_sent(describe_conflict(error))
        status = 403 if isinstance(error, NotAllowedError) else 409
        return self._show_notice(request, item, notice, kept, status)

    def _show_notice(
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
            next_url=self._next_url(request, item),
            is_pending=item.status == Interrupt.Status.PENDING,
            one=QuestionViewFactory(request, [item], self._url_of(request), forms).make_view(item),
            about=link_subject(item.thread, request),
            sees_runs=can_view_runs(request),
            **context,
        )

    def _newer(self, request: HttpRequest, item: Interrupt) -> Interrupt | None:
        """Returns the open question that took the place of one that was superseded."""
        if item.status != Interrupt.Status.SUPERSEDED:
            return None
        waiting = select_visible(ReviewItem.pending.filter(thread=item.thread_id), request.user)
        return waiting.exclude(pk=item.pk).order_by("-created_at", "-id").first()

    def _next_url(self, request: HttpRequest, item: Interrupt) -> str:
        """Returns the page of the next question, or the list where there is none for the user.

        What the same thread asks besides comes first, and then the first in the queue's order that
        is theirs or free.
        """
        filters = request.GET.get("_changelist_filters", "")
        waiting = select_visible(ReviewItem.pending.exclude(pk=item.pk), request.user)
        others = waiting.filter(thread=item.thread_id).order_by("created_at", "index", "id")
        if beside := others.values_list("pk", flat=True).first():
            return self.url("change", request, beside)
        if graph := QueryDict(filters).get("graph"):
            waiting = waiting.filter(graph=graph)
        user = request.user
        mine = queue_filters.match_own(user) & queue_filters.AWAKE & queue_filters.ANSWERABLE
        free = queue_filters.split_free(user, queue_filters.list_group_keys(user))
        rows = queue_filters.read_first(waiting, [mine, *free], 1)
        found = rows.values_list("pk", flat=True).first()
        if found is None:
            return self.url("changelist", request)
        return self.url("change", request, found)


def _kept(form: Any) -> list[TypedText]:
    """Returns what was written into a form that isn't the answer."""
    if form is None or "text" not in form.fields:
        return []
    return [(str(form["text"].label), str(form["text"].data or ""), ())]
