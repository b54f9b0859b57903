"""The request page: payload and forms of all pending interrupts of a thread."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib.admin.utils import unquote
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.utils.text import get_text_list
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import View, can_view_runs
from hitl_django.admin.display.bulk_buttons import list_bulk_buttons
from hitl_django.admin.display.conversation import read_conversation
from hitl_django.admin.display.history_display import list_steps
from hitl_django.admin.display.live_updates import (
    ShownPage,
    build_updates_url,
    respond_with_updates,
)
from hitl_django.admin.display.payload_files import open_payload_file
from hitl_django.admin.display.run_status import ASKED_AGAIN, describe_refused_answer, describe_run
from hitl_django.admin.display.subject_links import link_subject
from hitl_django.forms.action_forms import make_interrupt_forms
from hitl_django.forms.interrupt_forms import InterruptForms
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, ReviewItem, Thread
from hitl_django.permissions import select_visible
from hitl_django.services.runs.position import draw_position

from .outcome_page import OutcomePage
from .presence import note_viewer
from .queue_position import SPLIT_COOKIE, read_place, shows_list
from .request_actions import ActionForms
from .request_view import ClaimWarning, InterruptViewFactory, find_other_interrupts

#: Seconds between update requests: for the state of the run, and for the interrupts.
FOLLOW_AGAIN, WATCH_AGAIN = 1.5, 10
#: Maximum number of steps shown from the thread's history.
MAX_STEPS = 10

RESUME_TEXTS = {
    "each": _("Decide each request separately. The run resumes after each decision."),
    "all": _("Decide each request separately. The run resumes when all requests are decided."),
}


class RequestPage(OutcomePage):
    """The page of an interrupt, the download of its payload, and its live updates."""

    def rows(self) -> QuerySet[Any]:
        # Include closed interrupts, because their page shows the outcome.
        return ReviewItem.objects.select_related("run", "thread__subject_type", "assignee")

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            **super().own_pages(),
            "file": ("<path:object_id>/file/", self.file_view),
            "payload": ("<path:object_id>/payload/", self.payload_view),
            "split": ("<path:object_id>/split/", self.split_view),
            "status": ("<path:object_id>/status/", self.status_view),
            "watch": ("<path:object_id>/watch/", self.watch_view),
        }

    def show(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        """Show a pending interrupt, or the outcome of a closed one."""
        if item.status != Interrupt.Status.PENDING:
            return self.show_outcome(request, item)
        return self.show_interrupt(request, item, make_interrupt_forms(item))

    def show_interrupt(
        self,
        request: HttpRequest,
        item: Interrupt,
        interrupt_forms: InterruptForms,
        forms: ActionForms | None = None,
        *,
        warning: ClaimWarning | None = None,
        left: Any = None,
        **context: Any,
    ) -> TemplateResponse:
        """Show a pending interrupt with its forms.

        ``interrupt_forms`` are the forms for a decision. ``forms`` are the forms for other actions,
        such as a comment. Both contain the submitted values, if any. ``warning`` is shown if the
        decision needs a confirmation. The user is leaving the interrupt with the id ``left``, so
        the list next to the request omits it.
        """
        item.run.thread = item.thread  # Permission checks read the thread of the run.
        others = find_other_interrupts(request, item)
        if forms is None and request.method == "POST":
            forms = ActionForms.build(request, item, data=request.POST)
        sent = {} if forms is None else {item.pk: forms}
        page = InterruptViewFactory(request, [item, *others], self.url_of(request), sent)
        views = [
            page.make_view(item, interrupt_forms, warning),
            *(page.make_view(one, make_interrupt_forms(one)) for one in others),
        ]
        if others:
            words = _("%(count)d requests from one run")
            context["title"] = words % {"count": len(views)}
            context["together"] = list_bulk_buttons(request.user, [item, *others])
            context["bulk_url"] = self.url("bulk", request)
            context["goes_on"] = RESUME_TEXTS[registry.get_review_policy(item.graph).resume_on]
        return self.page(
            request,
            item,
            "request_page.html",
            status=200 if warning is None else 409,
            interrupts=views,
            decides=any(one.interrupt_forms is not None for one in views),
            about=link_subject(item.thread, request),
            errors=interrupt_forms.has_errors,
            sees_runs=can_view_runs(request),
            place=read_place(
                request,
                item,
                [one.item.pk for one in views],
                partial(self.url, "change", request),
                left,
            ),
            shows_list=shows_list(request),
            conversation=None if others else read_conversation(request.user, item),
            list_url=self.url("changelist", request),
            split_url=self.url("split", request, item.pk),
            watch_url=build_updates_url(
                self.url("watch", request, item.pk), [one.item for one in views]
            ),
            take_url=self.url("next", request),
            # Other requests of the run come before the next one of the queue.
            prefetch_url="" if others else self.url("prefetch", request, item.pk),
            **self._read_thread(request, item),
            **context,
        )

    def _read_thread(self, request: HttpRequest, item: Interrupt) -> dict[str, Any]:
        threads = Thread.objects.filter(pk=item.thread_id)
        if not select_visible(threads, request.user).exists():
            return {}
        return {
            "picture": draw_position(item.thread)[0],
            "history": list_steps(request, item.thread, limit=MAX_STEPS, is_visible=True),
        }

    def payload_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the whole payload as a download."""
        item = self.get_object(request, unquote(object_id))
        text = json.dumps(item.payload, ensure_ascii=False, indent=2)
        response = HttpResponse(text, content_type="text/plain; charset=utf-8")
        response["Content-Disposition"] = f'attachment; filename="request-{item.pk}.json.txt"'
        response["X-Content-Type-Options"] = "nosniff"
        return response

    def file_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Return a file that the payload references, if a display hint allows the download."""
        item = self.get_object(request, unquote(object_id))
        if "at" not in request.GET:
            return HttpResponseRedirect(self.url("change", request, item.pk))
        return open_payload_file(item, request.GET["at"])

    def status_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the state of the interrupt's run, for the status line of the page."""
        item = self.get_object(request, unquote(object_id))
        line = describe_run(item.run, services.worker_health())
        status: dict[str, Any] = {"text": str(line.text)}
        if line.moves:
            status["again"] = FOLLOW_AGAIN
        if line.is_problem:
            status["problem"] = True
        if (refused := item.refused()) is not None:
            status["text"] = describe_refused_answer(refused)
            status["lead"] = {
                "url": self.url("change", request, item.pk),
                "label": str(ASKED_AGAIN),
            }
        return respond_with_updates(**status)

    def watch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return changes of the interrupts on an open page, and the names of other viewers."""
        item = self.get_object(request, unquote(object_id))
        viewers = get_text_list(note_viewer(item.pk, request.user), gettext("and"))
        words = gettext("Also viewing: %(names)s.") % {"names": viewers}
        return respond_with_updates(
            again=WATCH_AGAIN,
            text=words if viewers else "",
            interrupts=ShownPage.read(request).describe_changes(request.user),
        )

    def split_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show or hide the list next to the request, and store the choice in a cookie."""
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
