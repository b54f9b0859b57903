"""The page of one question: where it is looked at and decided, and what became of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.engine.errors import (
    AlreadyDecidedError,
    IdempotencyKeyReusedError,
    InterruptNotFound,
    InvalidAnswerError,
    NotAllowedError,
    PayloadError,
    RunStateError,
    StaleQuestionError,
)
from hitl_django.forms.text import visible
from hitl_django.models import Decision, Interrupt, ReviewItem
from hitl_django.policy import get_policy

from .facts import decided, facts_of, is_its_own_title, raw, told_elsewhere, why_of
from .notices import CONFLICTS, decided_elsewhere, not_sent, outcome_of
from .readonly import ReadOnlyAdmin, ago, sees_runs, visible_interrupts
from .sheet import Sheet

DONE = {
    Decision.Type.APPROVE: _("Recorded: you approved “{title}”. The worker goes on with {run}."),
    Decision.Type.EDIT: _(
        "Recorded: you approved “{title}” with changes. The worker goes on with {run}."
    ),
    Decision.Type.REJECT: _("Recorded: you rejected “{title}”. The worker goes on with {run}."),
    Decision.Type.RESPOND: _("Recorded: you answered “{title}”. The worker goes on with {run}."),
}


class ItemPages(ReadOnlyAdmin):
    """A question's own page, its payload as a file, and the decision on it."""

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return visible_interrupts(request, rows)

    def rows(self) -> QuerySet[Any]:
        # A question that is closed keeps its page, which says what became of it.
        return ReviewItem.objects.select_related("run", "thread")

    def get_urls(self) -> list[Any]:
        payload = path(
            "<path:object_id>/payload/",
            self.admin_site.admin_view(self.payload_view),
            name="hitl_django_reviewitem_payload",
        )
        return [payload, *super().get_urls()]

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Shows a question and takes the decision on it."""
        item = self.get_object(request, unquote(object_id))
        if request.method == "POST":
            return self._decide(request, item)
        if item.status != Interrupt.Status.PENDING:
            return self._outcome(request, item)
        return self._ask(request, item, Sheet(item))

    def payload_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Hands the whole payload out as a file that no browser opens."""
        item = self.get_object(request, unquote(object_id))
        text = json.dumps(item.payload, ensure_ascii=False, indent=2)
        response = HttpResponse(text, content_type="text/plain; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="question-{item.pk}.json.txt"'
        response["X-Content-Type-Options"] = "nosniff"
        return response

    def _decide(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        sheet = Sheet(item, request.POST)
        decision = sheet.read(request.POST.get("decision", ""))
        if item.status != Interrupt.Status.PENDING and decision is None:
            return self._outcome(request, item, sheet=sheet, status=409)
        if decision is None:
            return self._ask(request, item, sheet)
        try:
            made = self._record(request, item, sheet, *decision)
        except InterruptNotFound:
            raise Http404 from None
        except NotAllowedError:
            return self._refuse(request, item, sheet, NotAllowedError, status=403)
        except (StaleQuestionError, RunStateError) as error:
            return self._refuse(request, item, sheet, type(error), status=409)
        except (AlreadyDecidedError, IdempotencyKeyReusedError):
            item = self.get_object(request, str(item.pk))
            return self._outcome(request, item, sheet=sheet, status=409)
        except (InvalidAnswerError, PayloadError) as error:
            sheet.refuse(error)
            return self._ask(request, item, sheet)
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
        return services.decide(
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

    def _confirm(self, request: HttpRequest, item: Interrupt, made: services.DecisionInfo) -> None:
        run: Any = _("the run")
        if sees_runs(request):
            url = reverse("admin:hitl_django_run_change", args=[item.run_id])
            run = format_html('<a href="{}">{}</a>', url, run)
        # Only the sentence is ours to format; the title goes in as it is, escaped.
        said = format_html(str(DONE[Decision.Type(made.type)]), title=visible(item.title), run=run)
        self.message_user(request, said, level=messages.SUCCESS)

    def _ask(self, request: HttpRequest, item: Interrupt, sheet: Sheet) -> TemplateResponse:
        may_decide = get_policy().may_decide(request.user, item)
        told = sheet.shown_in_form() if may_decide else ()
        return self.page(
            request,
            item,
            "item.html",
            sheet=sheet if may_decide else None,
            errors=sheet.has_errors,
            refused=item.refused(),
            **self._question(request, item, told),
        )

    def _outcome(
        self,
        request: HttpRequest,
        item: Interrupt,
        *,
        sheet: Sheet | None = None,
        status: int = 200,
    ) -> TemplateResponse:
        """Says what became of a question, and keeps what somebody wanted to answer."""
        decision = item.closing()
        notice = outcome_of(item, decision, request.user)
        if sheet is not None:
            notice = decided_elsewhere(notice, decision, request.user)
        return self._told(request, item, notice, sheet, status, **decided(decision))

    def _refuse(
        self,
        request: HttpRequest,
        item: Interrupt,
        sheet: Sheet,
        error: type[Exception],
        *,
        status: int,
    ) -> TemplateResponse:
        item = self.get_object(request, str(item.pk))
        return self._told(request, item, not_sent(CONFLICTS[error]), sheet, status)

    def _told(
        self,
        request: HttpRequest,
        item: Interrupt,
        notice: Any,
        sheet: Sheet | None,
        status: int,
        **context: Any,
    ) -> TemplateResponse:
        return self.page(
            request,
            item,
            "outcome.html",
            status=status,
            notice=notice,
            kept=sheet.typed() if sheet is not None else [],
            newer=self._newer(request, item),
            next_url=self._next_url(request, item),
            is_pending=item.status == Interrupt.Status.PENDING,
            **self._question(request, item),
            **context,
        )

    def _question(
        self, request: HttpRequest, item: Interrupt, told_in_form: Sequence[str] = ()
    ) -> dict[str, Any]:
        skip = [*told_elsewhere(item.payload, item.title), *told_in_form]
        own_title = is_its_own_title(item.payload, item.title)
        return {
            "why": why_of(item.payload),
            "facts": [] if own_title else facts_of(item.payload, skip=skip),
            "raw": raw(item.payload),
            "sees_runs": sees_runs(request),
            "asked_ago": ago(item.created_at),
        }

    def _newer(self, request: HttpRequest, item: Interrupt) -> Interrupt | None:
        """Returns the open question that took the place of one that was superseded."""
        if item.status != Interrupt.Status.SUPERSEDED:
            return None
        waiting = visible_interrupts(request, ReviewItem.pending.filter(thread=item.thread_id))
        return waiting.exclude(pk=item.pk).order_by("-created_at", "-id").first()

    def _next_url(self, request: HttpRequest, item: Interrupt) -> str:
        """Returns the page of the question that waits longest, or the list where none does."""
        filters = request.GET.get("_changelist_filters", "")
        waiting = visible_interrupts(request, ReviewItem.pending.exclude(pk=item.pk))
        if graph := QueryDict(filters).get("graph"):
            waiting = waiting.filter(graph=graph)
        found = waiting.order_by("created_at", "id").values_list("pk", flat=True).first()
        if found is None:
            return self.url("changelist", request)
        return self.url("change", request, found)
