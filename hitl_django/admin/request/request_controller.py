"""Submission of decisions and actions on the request page."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.forms import Textarea
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    JsonResponse,
    QueryDict,
)
from django.template.loader import render_to_string
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import View
from hitl_django.admin.display.decision_messages import format_confirmation, format_recorded
from hitl_django.admin.display.list_filters import ListFilters
from hitl_django.admin.display.refusal_messages import describe_claim
from hitl_django.admin.display.run_status import describe_run
from hitl_django.admin.form_tokens import UNSENT
from hitl_django.audit import label_user
from hitl_django.conf import hitl
from hitl_django.decision_types import DecisionName
from hitl_django.engine.errors import InvalidAnswerError, PayloadError
from hitl_django.errors import (
    AlreadyApprovedError,
    AlreadyDecidedError,
    ClaimedError,
    ClaimRequiredError,
    IdempotencyKeyReusedError,
    InterruptNotFound,
    NotAllowedError,
    RunStateError,
    StaleInterruptError,
    UndoRefusedError,
)
from hitl_django.forms.action_forms import make_interrupt_forms
from hitl_django.forms.interrupt_forms import AS_TYPED, InterruptForms, TypedText
from hitl_django.models import Decision, Interrupt, ReviewItem
from hitl_django.permissions import get_policy
from hitl_django.services.reviews.claim import find_next

from .request_actions import (
    FIND_PEOPLE,
    ActionForms,
    get_part,
    is_action,
    read_action,
    run_action,
)
from .request_page import RequestPage
from .request_view import ClaimWarning
from .undo_button import describe_undo_refusal, format_undone

NOT_RECORDED = _("Your decision was not recorded.")
NOT_SAVED = _("Your submission was not saved.")
#: Header with the id and version of the interrupt whose page the script has prefetched.
PREFETCHED = "X-Hitl-Prefetched"
#: Errors after which the interrupt is still pending.
REFUSALS = (
    AlreadyApprovedError,
    ClaimRequiredError,
    NotAllowedError,
    RunStateError,
    StaleInterruptError,
)


class RequestController(RequestPage):
    """Views for decisions on an interrupt, and for actions such as claims or comments."""

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            **super().own_pages(),
            "prefetch": ("<path:object_id>/prefetch/", self.prefetch_view),
            "handling": ("<path:object_id>/handling/", self.handling_view),
            "people": ("<path:object_id>/people/", self.people_view),
            "undo": ("<path:object_id>/undo/", self.undo_view),
        }

    def show(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        """Show an interrupt or, for a POST request, decide it."""
        if request.method == "POST":
            return self._decide(request, item)
        if UNSENT in request.GET:
            self.message_user(request, NOT_RECORDED, level=messages.WARNING)
        return super().show(request, item)

    def _decide(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        more = "" if "decision" in request.POST else request.POST.get("more", "")
        interrupt_forms = make_interrupt_forms(item, request.POST, more=more)
        if item.status == Interrupt.Status.PENDING:
            # Values submitted for another version must not appear in this version's form.
            if interrupt_forms.is_stale():
                return self._stale(request, item, interrupt_forms)
            if more:
                return self.show_interrupt(request, item, interrupt_forms)
        decision = interrupt_forms.read(request.POST.get("decision", ""))
        if item.status != Interrupt.Status.PENDING and decision is None:
            kept = interrupt_forms.typed_texts()
            return self.show_outcome(request, item, kept=kept, status=409)
        if decision is None:
            return self.show_interrupt(request, item, interrupt_forms)
        try:
            made = self._record(request, item, interrupt_forms, *decision)
        except InterruptNotFound:
            raise Http404 from None
        except ClaimedError as error:
            if not item.claim_required:
                item = self.get_object(request, str(item.pk))
                if item.status != Interrupt.Status.PENDING:
                    # The user who had claimed the interrupt has decided it.
                    kept = interrupt_forms.typed_texts()
                    return self.show_outcome(request, item, kept=kept, status=409)
                warning = ClaimWarning(describe_claim(error), str(item.claimed_by_id))
                return self.show_interrupt(request, item, interrupt_forms, warning=warning)
            return self.show_refusal(request, item, interrupt_forms.typed_texts(), error)
        except REFUSALS as error:
            return self.show_refusal(request, item, interrupt_forms.typed_texts(), error)
        except (AlreadyDecidedError, IdempotencyKeyReusedError):
            item = self.get_object(request, str(item.pk))
            if item.status == Interrupt.Status.PENDING:
                return self._stale(request, item, interrupt_forms)
            kept = interrupt_forms.typed_texts()
            return self.show_outcome(request, item, kept=kept, status=409)
        except (InvalidAnswerError, PayloadError) as error:
            interrupt_forms.refuse(error)
            return self.show_interrupt(request, item, interrupt_forms)
        self._confirm(request, item, made, interrupt_forms)
        return self._redirect_to_next(request, item)

    def _stale(
        self, request: HttpRequest, item: Interrupt, interrupt_forms: InterruptForms
    ) -> HttpResponse:
        made = _find_recorded(request.user, item, interrupt_forms)
        if made is None:
            return self.show_refusal(
                request, item, interrupt_forms.typed_texts(), StaleInterruptError()
            )
        self._confirm(request, item, made, interrupt_forms)
        return self._redirect_to_next(request, item)

    def _record(
        self,
        request: HttpRequest,
        item: Interrupt,
        interrupt_forms: InterruptForms,
        pressed: str,
        value: Any,
    ) -> services.DecisionInfo:
        sent = interrupt_forms.decision_form.cleaned_data
        decide = partial(
            services.decide,
            item.pk,
            cast(DecisionName, pressed),
            value,
            by=request.user,
            via="admin",
            reason=sent["reason"],
            key=sent["key"],
            # A form without a version counts as outdated.
            digest=sent["digest"],
            version=sent["version"] or 0,
            # By now, the claim may belong to someone other than the user whom the warning named.
            ignore_claim=request.POST.get("over_claim_of") == str(item.claimed_by_id),
        )
        try:
            return decide()
        except ClaimRequiredError:
            if item.claimed_by_id != request.user.pk:
                raise
        # The user's claim expired while the user was typing. Renew the claim unless someone else
        # has one, so that no text is lost.
        services.claim(item.pk, by=request.user, via="admin")
        return decide()

    def _confirm(
        self,
        request: HttpRequest,
        item: Interrupt,
        made: services.DecisionInfo,
        interrupt_forms: InterruptForms,
    ) -> None:
        item.run.refresh_from_db(fields=["state", "resumes_at"])
        line = describe_run(item.run, services.worker_health())
        message = format_confirmation(
            item,
            made,
            line,
            status_url=self.url("status", request, item.pk),
            run_url=self.find_run_url(request, item),
            undo=self.undo_button(request, item),
        )
        message = format_recorded(message, interrupt_forms.decision_form["key"].data or "")
        level = messages.WARNING if line.is_problem else messages.SUCCESS
        self.message_user(request, message, level=level)

    def handling_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Perform an action that is not a decision, for example a claim or a comment."""
        item = self.get_object(request, unquote(object_id))
        verb, data = read_action(request.POST)
        here = self.url("change", request, item.pk)
        if verb == FIND_PEOPLE:
            return self._find_people(request, item)
        if request.method != "POST":  # The login page redirects here with GET.
            self.message_user(request, NOT_SAVED, level=messages.WARNING)
            return HttpResponseRedirect(here)
        if not is_action(verb):
            return HttpResponseRedirect(here)
        forms = ActionForms.build(request, item, verb=verb, data=data)
        form = forms.find_form(verb)
        typed = _read_typed(item, request.POST)
        kept = [*_read_typed_comment(form), *(() if typed is None else typed.typed_texts())]
        try:
            done = run_action(request, item, verb, form)
        except InterruptNotFound:
            raise Http404 from None
        except (NotAllowedError, ClaimedError) as error:
            return self.show_refusal(request, item, kept, error)
        except AlreadyDecidedError:
            if not kept:
                return HttpResponseRedirect(here)
            item = self.get_object(request, str(item.pk))
            return self.show_outcome(request, item, kept=kept, status=409)
        if done is not None:
            message = format_recorded(done.message, request.POST.get("key", ""), get_part(verb))
            self.message_user(request, message, level=messages.SUCCESS)
            for warning in done.warnings:
                self.message_user(request, warning, level=messages.WARNING)
            item = self.get_object(request, str(item.pk))
            forms = ActionForms.build(request, item, data=request.POST, done=verb)
            if typed is None and not forms.has_text:
                if verb == "snooze":
                    return self._redirect_to_next(request, item)
                return HttpResponseRedirect(here)
        if item.status != Interrupt.Status.PENDING:
            return self.show_outcome(request, item, forms={item.pk: forms})
        if typed is not None and typed.is_stale():
            return self.show_refusal(request, item, kept, StaleInterruptError())
        return self.show_interrupt(request, item, typed or make_interrupt_forms(item), forms)

    def _find_people(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        """Show the request page with the people to whom the interrupt can be assigned."""
        words, typed = request.POST.get("user", ""), _read_typed(item, request.POST)
        if not get_policy().may_assign(request.user, item):
            kept = () if typed is None else typed.typed_texts()
            error = NotAllowedError("You don't have permission to assign this request.")
            return self.show_refusal(request, item, kept, error)
        forms = ActionForms.build(request, item, data=request.POST)
        if item.assignee is not None and words == item.assignee.get_username():
            words = ""  # The form shows the assignee until the user enters another name.
        people = services.find_people(item.pk, words, by=request.user, to_decide=True)
        forms = replace(forms, open="assign", people=people)
        if item.status != Interrupt.Status.PENDING:
            return self.show_outcome(request, item, forms={item.pk: forms})
        if typed is not None and typed.is_stale():
            return self.show_refusal(request, item, typed.typed_texts(), StaleInterruptError())
        return self.show_interrupt(request, item, typed or make_interrupt_forms(item), forms)

    def people_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return suggestions of people as JSON, for the fields that contain usernames.

        The suggestions are people who can view the interrupt or, for an assignment, decide it.
        """
        item = self.get_object(request, unquote(object_id))
        to_decide = "assign" in request.GET
        try:
            found = services.find_people(
                item.pk, request.GET.get("q", ""), by=request.user, to_decide=to_decide
            )
        except NotAllowedError as error:
            raise PermissionDenied from error
        response = JsonResponse({"people": [asdict(person) for person in found]})
        response["Cache-Control"] = "no-store"
        return response

    def undo_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Undo the decision on an interrupt, and redirect to the interrupt's page."""
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
                return here  # An earlier click or another user has already undone the decision.
            status = 403 if isinstance(error, NotAllowedError) else 409
            return self.show_notice(request, item, describe_undo_refusal(error), (), status)
        self.message_user(request, format_undone(item), level=messages.SUCCESS)
        return here

    def prefetch_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Return the page that probably follows the decision on an interrupt.

        A script requests this page in advance and shows it after the decision. No interrupt is
        claimed, and Django's messages remain stored for the page that is shown next.
        """
        left = self.get_object(request, unquote(object_id))
        chosen = ListFilters.read(request).narrowing
        found = find_next(by=request.user, after=left.pk, **chosen)
        if found is None:
            return HttpResponse(status=204)
        item = self.get_object(request, str(found))
        item.claimed_by_id, item.claimed_by_label = request.user.pk, label_user(request.user)
        item.claimed_until = timezone.now() + timedelta(seconds=hitl.CLAIM_SECONDS)
        interrupt_forms = make_interrupt_forms(item)
        return self.show_interrupt(request, item, interrupt_forms, left=left.pk, messages=())

    def claim_next(self, request: HttpRequest, after: UUID | str | None) -> HttpResponse | None:
        """Claim the next interrupt and redirect to its page.

        Returns None if there is no interrupt that the user could claim. ``after`` is the id of the
        interrupt that the user leaves. The list's filters apply.
        """
        taken = self._take_next(request, after)
        return None if taken is None else HttpResponseRedirect(self.url("change", request, taken))

    def _take_next(self, request: HttpRequest, after: UUID | str | None) -> UUID | None:
        chosen = ListFilters.read(request).narrowing
        return services.claim_next(by=request.user, via="admin", after=after, **chosen)

    def _redirect_to_next(self, request: HttpRequest, item: Interrupt) -> HttpResponse:
        taken = self._take_next(request, item.pk)
        if taken is None:
            return HttpResponseRedirect(self.url("changelist", request))
        url = self.url("change", request, taken)
        if not _is_prefetched(request, item, taken):
            return HttpResponseRedirect(url)
        texts = {"messages": messages.get_messages(request)}
        shown = render_to_string("hitl_django/admin/messages.html", texts, request)
        return JsonResponse({"url": url, "messages": shown})


def _is_prefetched(request: HttpRequest, left: Interrupt, taken: UUID) -> bool:
    """Return whether the page that the script has loaded in advance is still correct.

    The page must show the current version of the interrupt ``taken``. The interrupt ``left`` must
    be closed, because the list on the page omits it.
    """
    if PREFETCHED not in request.headers:
        return False
    pending = ReviewItem.pending.filter(pk__in=[left.pk, taken])
    found = [f"{key}.{version}" for key, version in pending.values_list("pk", "version")]
    return found == [request.headers[PREFETCHED]]


def _find_recorded(
    user: Any, item: Interrupt, interrupt_forms: InterruptForms
) -> services.DecisionInfo | None:
    """Return the decision that an earlier submission of the same page stored, or None."""
    key = interrupt_forms.decision_form["key"].data
    if not key:
        return None
    made = Decision.objects.filter(interrupt=item, key=str(key)[:255], by=user, undone_at=None)
    found = made.order_by("version").first()
    if found is None:
        return None
    return services.DecisionInfo.from_row(found, item.run_id, repeated=True)


def _read_typed(item: Interrupt, data: QueryDict) -> InterruptForms | None:
    if "digest" not in data:
        return None
    interrupt_forms = make_interrupt_forms(item, data, more=AS_TYPED)
    return interrupt_forms if interrupt_forms.typed_texts() else None


def _read_typed_comment(form: Any) -> list[TypedText]:
    return [
        (str(field.label), str(field.data or ""), ())
        for field in form or ()
        if isinstance(field.field.widget, Textarea)
    ]
