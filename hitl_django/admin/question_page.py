"""The page of one question: where it is looked at and decided, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.forms import Textarea
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    QueryDict,
)
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.text import get_text_list
from django.utils.translation import gettext
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
    UndoRefusedError,
)
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, ReviewItem, Run
from hitl_django.page_urls import find_admin_page
from hitl_django.permissions import get_policy, select_visible

from .answer_forms import AS_TYPED, QuestionForms, TypedText
from .base import ReadOnlyAdmin, View, can_view_runs
from .decision_messages import format_confirmation, format_recorded, format_undone
from .diff_display import get_decision_context
from .filters import ListFilters
from .multi_action import make_question_forms
from .page_news import ShownPage, answer_news, build_news_url
from .payload_files import open_payload_file
from .presence import note_viewer
from .question_status import link_subject
from .question_view import (
    ClaimWarning,
    QuestionViewFactory,
    find_other_questions,
)
from .queue_actions import ActionForms, get_part, is_action, run_action
from .queue_place import SPLIT_COOKIE, read_place, shows_list
from .refusal_messages import (
    add_nothing_sent,
    describe_claim,
    describe_conflict,
    describe_other_decision,
    describe_outcome,
    describe_undo_refusal,
)
from .run_status import ASKED_AGAIN, describe_refused_answer, describe_run
from .thread_admin import list_steps
from .together import list_together_buttons
from .undo_button import render_undo_button

#: Seconds after which a page asks again where a run is, and what has become of its questions.
FOLLOW_AGAIN, WATCH_AGAIN = 1.5, 10
#: Steps of the thread's history that stand below its questions.
MAX_STEPS = 10

#: What can be decided later, or by somebody else: the question stays open.
REFUSALS = (
    AlreadyApprovedError,
    ClaimRequiredError,
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
            "file": ("<path:object_id>/file/", self.file_view),
            "handling": ("<path:object_id>/handling/", self.handling_view),
            "payload": ("<path:object_id>/payload/", self.payload_view),
            "split": ("<path:object_id>/split/", self.split_view),
            "status": ("<path:object_id>/status/", self.status_view),
            "undo": ("<path:object_id>/undo/", self.undo_view),
            "watch": ("<path:object_id>/watch/", self.watch_view),
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

    def file_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Hands out a file that the payload names, where a hint has it served."""
        item = self.get_object(request, unquote(object_id))
        if "at" not in request.GET:
            return HttpResponseRedirect(self.url("change", request, item.pk))
        return open_payload_file(item, request.GET["at"])

    def status_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Says where the question's run is, for the line that follows it."""
        item = self.get_object(request, unquote(object_id))
        line = describe_run(item.run, services.worker_health())
        status: dict[str, Any] = {"text": str(line.text)}
        if line.moves:
            status["again"] = FOLLOW_AGAIN
        if (refused := item.refused()) is not None:
            status["text"] = describe_refused_answer(refused)
            status["lead"] = {
                "url": self.url("change", request, item.pk),
                "label": str(ASKED_AGAIN),
            }
        return answer_news(**status)

    def watch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Says what has become of the questions of an open page, and who else looks at it."""
        item = self.get_object(request, unquote(object_id))
        viewers = get_text_list(note_viewer(item.pk, request.user), gettext("and"))
        words = gettext("Also looking at this: %(names)s.") % {"names": viewers}
        return answer_news(
            again=WATCH_AGAIN,
            text=words if viewers else "",
            questions=ShownPage.read(request).describe_changes(request.user),
        )

    def split_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Shows or hides the list beside a question, in this browser from now on."""
        item = self.get_object(request, unquote(object_id))
        response = HttpResponseRedirect(self.url("change", request, item.pk))
        if request.method == "POST":
            response.set_cookie(
                SPLIT_COOKIE,
                "0" if request.POST.get("list") == "hide" else "1",
                max_age=timedelta(days=365),
                path=self.url("changelist", HttpRequest()),
                secure=request.is_secure(),
                httponly=True,
                samesite="Lax",
            )
        return response

    def undo_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Undoes the decision on a question, and leads back to it."""
        item = self.get_object(request, unquote(object_id))
        here = HttpResponseRedirect(self.url("change", request, item.pk))
        if request.method != "POST":
            return here
        try:
            services.undo(
                item.pk, by=request.user, via="admin", decision_id=request.POST.get("made")
            )
        except InterruptNotFound:
            raise Http404 from None
        except (NotAllowedError, UndoRefusedError) as error:
            item = self.get_object(request, str(item.pk))
            if item.status == Interrupt.Status.PENDING:
                return here  # by a click before this one, or by somebody else
            status = 403 if isinstance(error, NotAllowedError) else 409
            return self._show_notice(request, item, describe_undo_refusal(error), (), status)
        self.message_user(request, format_undone(item), level=messages.SUCCESS)
        return here

    def undo_button(self, request: HttpRequest, item: Interrupt) -> str:
        """Returns the button with which the user undoes the decision on a question, if they can."""
        info = services.find_undo(item.pk, by=request.user)
        return render_undo_button(request, info, self.url("undo", request, item.pk))

    def handling_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Perform an action beside the decision, such as a claim, a comment or one of a panel."""
        item = self.get_object(request, unquote(object_id))
        verb = request.POST.get("verb", "")
        here = self.url("change", request, item.pk)
        if request.method != "POST" or not is_action(verb):
            return HttpResponseRedirect(here)
        forms = ActionForms.build(request, item, verb=verb, data=request.POST)
        form = forms.find_form(verb)
        typed = _read_typed(item, request.POST)
        kept = [*_kept(form), *(() if typed is None else typed.typed_texts())]
        try:
            message = run_action(request, item, verb, form)
        except InterruptNotFound:
            raise Http404 from None
        except (NotAllowedError, HeldError) as error:
            return self._refuse(request, item, kept, error)
        except AlreadyDecidedError:
            if not kept:
                return HttpResponseRedirect(here)
            item = self.get_object(request, str(item.pk))
            return self._outcome(request, item, kept=kept, status=409)
        if message is not None:
            message = format_recorded(message, request.POST.get("key", ""), get_part(verb))
            self.message_user(request, message, level=messages.SUCCESS)
            item = self.get_object(request, str(item.pk))
            forms = ActionForms.build(request, item, data=request.POST, done=verb)
            if typed is None and not forms.has_text:
                if verb == "snooze":
                    return self._go_on(request, item)
                return HttpResponseRedirect(here)
        if item.status != Interrupt.Status.PENDING:
            return self._outcome(request, item, forms={item.pk: forms})
        if typed is not None and typed.is_stale():
            return self._refuse(request, item, kept, StaleQuestionError())
        return self._ask(request, item, typed or make_question_forms(item), forms)

    def _decide(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        more = "" if "decision" in request.POST else request.POST.get("more", "")
        question_forms = make_question_forms(item, request.POST, more=more)
        if item.status == Interrupt.Status.PENDING:
            # What came back of another version was never typed into this one's form.
            if question_forms.is_stale():
                return self._stale(request, item, question_forms)
            if more:
                return self._ask(request, item, question_forms)
            if "preview" in request.POST and "decision" not in request.POST:
                question_forms.make_preview()
                return self._ask(request, item, question_forms)
        decision = question_forms.read(request.POST.get("decision", ""))
        if item.status != Interrupt.Status.PENDING and decision is None:
            kept = question_forms.typed_texts()
            return self._outcome(request, item, kept=kept, status=409)
        if decision is None:
            return self._ask(request, item, question_forms)
        try:
            made = self._record(request, item, question_forms, *decision)
        except InterruptNotFound:
            raise Http404 from None
        except HeldError as error:
            if not item.claim_required:
                item = self.get_object(request, str(item.pk))
                if item.status != Interrupt.Status.PENDING:
                    # Who held it has decided it meanwhile.
                    kept = question_forms.typed_texts()
                    return self._outcome(request, item, kept=kept, status=409)
                warning = ClaimWarning(describe_claim(error), str(item.claimed_by_id))
                return self._ask(request, item, question_forms, warning=warning)
            return self._refuse(request, item, question_forms.typed_texts(), error)
        except REFUSALS as error:
            return self._refuse(request, item, question_forms.typed_texts(), error)
        except (AlreadyDecidedError, IdempotencyKeyReusedError):
            item = self.get_object(request, str(item.pk))
            if item.status == Interrupt.Status.PENDING:
                return self._stale(request, item, question_forms)
            kept = question_forms.typed_texts()
            return self._outcome(request, item, kept=kept, status=409)
        except (InvalidAnswerError, PayloadError) as error:
            question_forms.refuse(error)
            return self._ask(request, item, question_forms)
        self._confirm(request, item, made, question_forms)
        return self._go_on(request, item)

    def _stale(
        self, request: HttpRequest, item: Interrupt, question_forms: QuestionForms
    ) -> HttpResponse:
        """Refuses what was meant for another version, unless it is what made this one."""
        made = question_forms.recorded(request.user)
        if made is None:
            return self._refuse(request, item, question_forms.typed_texts(), StaleQuestionError())
        self._confirm(request, item, made, question_forms)
        return self._go_on(request, item)

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
            # Whoever holds it by now may be somebody else than was named to them.
            over_claim=request.POST.get("over_claim_of") == str(item.claimed_by_id),
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

    def _confirm(
        self,
        request: HttpRequest,
        item: Interrupt,
        made: services.DecisionInfo,
        question_forms: QuestionForms,
    ) -> None:
        item.run.refresh_from_db(fields=["state", "resumes_at"])
        message = format_confirmation(
            item,
            made,
            describe_run(item.run, services.worker_health()),
            status_url=self.url("status", request, item.pk),
            run_url=self._run_url(request, item),
            undo=self.undo_button(request, item),
        )
        message = format_recorded(message, question_forms.decision_form["key"].data or "")
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
        forms: ActionForms | None = None,
        *,
        warning: ClaimWarning | None = None,
    ) -> TemplateResponse:
        """Shows a question; what was sent and isn't done yet stands in its forms.

        ``warning`` is what to ask before that is decided.
        """
        others = find_other_questions(request, item)
        if forms is None and request.method == "POST":
            forms = ActionForms.build(request, item, data=request.POST)
        sent = {} if forms is None else {item.pk: forms}
        page = QuestionViewFactory(request, [item, *others], self._url_of(request), sent)
        views = [
            page.make_view(item, question_forms, warning),
            *(page.make_view(one, make_question_forms(one)) for one in others),
        ]
        context: dict[str, Any] = {}
        if others:
            words = _("%(count)d questions of one run")
            context["title"] = words % {"count": len(views)}
            context["together"] = list_together_buttons(request.user, [item, *others])
            context["bulk_url"] = self.url("bulk", request)
            context["goes_on"] = GOES_ON[registry.get_review_policy(item.graph).goes_on]
        return self.page(
            request,
            item,
            "question_page.html",
            status=200 if warning is None else 409,
            questions=views,
            decides=any(one.question_forms is not None for one in views),
            about=link_subject(item.thread, request),
            errors=question_forms.has_errors,
            sees_runs=can_view_runs(request),
            place=read_place(
                request,
                item,
                [one.item.pk for one in views],
                partial(self.url, "change", request),
            ),
            shows_list=shows_list(request),
            split_url=self.url("split", request, item.pk),
            watch_url=build_news_url(
                self.url("watch", request, item.pk), [one.item for one in views]
            ),
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
        kept: Sequence[TypedText] | None = None,
        status: int = 200,
        forms: Any = None,
    ) -> TemplateResponse:
        """Says what became of a question, and keeps what somebody wanted to answer."""
        decision = item.closing()
        notice = describe_outcome(item, decision, request.user)
        if kept is not None:
            notice = describe_other_decision(notice, decision, request.user)
        line = describe_run(item.run, services.worker_health())
        context = {**get_decision_context(item, decision), "run_url": self._run_url(request, item)}
        if line.moves or item.status == Interrupt.Status.DECIDED:
            context["line"] = line
        if decision is not None and decision.by_id == request.user.pk:
            context["recorded"] = decision.key
        if decision is not None:
            context["undo"] = self.undo_button(request, item)
        return self._show_notice(request, item, notice, kept or (), status, forms=forms, **context)

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
            take_url=self.url("next", request),
            may_take=get_policy().may_decide(request.user, item),
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

    def take_next(self, request: HttpRequest, after: UUID | str | None) -> HttpResponse | None:
        """Claims the next question and leads to it; None where there is none for the user.

        ``after`` is the one that they come from. The list's own filters narrow the choice.
        """
        chosen = ListFilters.read(request)
        taken = services.take_next(
            by=request.user, via="admin", graph=chosen.graph, group=chosen.group, after=after
        )
        return None if taken is None else HttpResponseRedirect(self.url("change", request, taken))

    def _go_on(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        """Leads on from a question: to the next one, which they hold then, or to the list."""
        to_list = HttpResponseRedirect(self.url("changelist", request))
        return self.take_next(request, item.pk) or to_list


def _read_typed(item: Interrupt, data: QueryDict) -> QuestionForms | None:
    """Returns the form of the answer as it came along with something else; None if untouched."""
    if "digest" not in data:
        return None
    question_forms = make_question_forms(item, data, more=AS_TYPED)
    return question_forms if question_forms.typed_texts() else None


def _kept(form: Any) -> list[TypedText]:
    """Returns what was written into a form that isn't the answer."""
    return [
        (str(field.label), str(field.data or ""), ())
        for field in form or ()
        if isinstance(field.field.widget, Textarea)
    ]
