"""View for pages of your project on which users decide interrupts."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.mixins import LoginRequiredMixin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.generic.base import ContextMixin, TemplateResponseMixin, View

from hitl_django import services
from hitl_django.admin.display.payload_files import open_payload_file
from hitl_django.admin.display.refusal_messages import (
    Notice,
    add_not_saved,
    add_nothing_sent,
    describe_conflict,
    describe_outcome,
)
from hitl_django.db.alias import write_alias
from hitl_django.engine.errors import HitlError, InvalidAnswerError, PayloadError
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
)
from hitl_django.forms import ResponseForm, form_for, submission
from hitl_django.models import Interrupt
from hitl_django.permissions import find_row, get_policy, select_visible
from hitl_django.public_pages.brand import read_brand

#: Errors after which the page shows the current state of the request.
CONFLICTS = (
    AlreadyApprovedError,
    AlreadyDecidedError,
    ClaimedError,
    ClaimRequiredError,
    IdempotencyKeyReusedError,
    NotAllowedError,
    RunStateError,
    StaleInterruptError,
)


@method_decorator(never_cache, name="dispatch")
class ResponseView(LoginRequiredMixin, TemplateResponseMixin, ContextMixin, View):
    """The page of a project on which a user decides an interrupt.

    The URL has the interrupt's id as ``pk``. The user must be logged in, but needs no access to the
    admin. By default, the permission policy determines the interrupts that the user can view and
    decide. For another rule, set ``skip_permission_checks`` and override ``get_queryset``: the user
    can then decide all interrupts of this queryset.

    The template receives ``interrupt``, ``form`` (None if the interrupt can't be decided),
    ``notice`` (a message about a conflict or the outcome, or None), and ``kept``, the texts that
    the user typed for an outdated version.
    """

    template_name = "hitl_django/response.html"
    #: The URL after a decision. None: this page, which then shows the outcome.
    success_url: Any = None
    #: Whether ``get_queryset`` contains only interrupts that the user may decide.
    skip_permission_checks = False
    pk_url_kwarg = "pk"
    #: The source of the decision in the audit log.
    via = "page"

    #: The stored decision, in ``form_valid``.
    decision: services.DecisionInfo

    def get_queryset(self) -> QuerySet[Interrupt]:
        """Return the interrupts that the user can view on this page."""
        return select_visible(Interrupt.objects.using(write_alias()), self.request.user)

    def get_interrupt(self) -> Interrupt:
        """Return the interrupt of the URL.

        Raises:
            Http404: if the interrupt isn't in ``get_queryset``.
            PermissionDenied: if the user can view the interrupt, but may not decide it.
        """
        rows = self.get_queryset().select_related("run", "thread")
        interrupt = find_row(rows, Http404, pk=self.kwargs[self.pk_url_kwarg])
        user = self.request.user
        if not self.skip_permission_checks and not get_policy().may_decide(user, interrupt):
            raise PermissionDenied
        return interrupt

    def get_form(self, *, bound: bool = False) -> ResponseForm:
        """Return the form of the interrupt, with the submitted values if ``bound`` is true."""
        if bound:
            return form_for(self.interrupt, self.request.POST, self.request.FILES)
        return form_for(self.interrupt)

    def get_success_url(self) -> str:
        return self.request.path if self.success_url is None else str(self.success_url)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context: dict[str, Any] = {"interrupt": self.interrupt, "form": None, "notice": None}
        context |= {"kept": (), "brand": read_brand(), "file_url": self.request.path}
        return super().get_context_data(**{**context, **kwargs})

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Show the form, the outcome of a closed interrupt, or a file of the payload."""
        self.interrupt = self.get_interrupt()
        if "at" in request.GET:
            return open_payload_file(self.interrupt, request.GET["at"])
        if self.interrupt.status != Interrupt.Status.PENDING:
            return self.render_to_response(self.get_context_data(notice=self._describe_outcome()))
        return self.render_to_response(self.get_context_data(form=self.get_form()))

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Decide the interrupt, or show the form with its errors."""
        submission.hide_from_reports(request)
        self.interrupt = self.get_interrupt()
        form = self.get_form(bound=True)
        is_closed = self.interrupt.status != Interrupt.Status.PENDING
        if not form.is_valid():
            if is_closed or form.is_stale():
                return self.show_conflict(form, StaleInterruptError())
            return self.form_invalid(form)
        try:
            self.decision = self.decide(form)
        except InterruptNotFound:
            raise Http404 from None
        except CONFLICTS as error:
            return self.show_conflict(form, error)
        except (InvalidAnswerError, PayloadError) as error:
            form.refuse(error)
            return self.form_invalid(form)
        return self.form_valid(form)

    def decide(self, form: ResponseForm) -> services.DecisionInfo:
        """Store the decision of a valid form."""
        values: dict[str, Any] = {
            **form.cleaned_data,
            "by": self.request.user,
            "via": self.via,
            "skip_permission_checks": self.skip_permission_checks,
        }
        try:
            return services.decide(self.interrupt.pk, **values)
        except ClaimRequiredError:
            if self.skip_permission_checks:
                raise
        services.claim(self.interrupt.pk, by=self.request.user, via=self.via)
        return services.decide(self.interrupt.pk, **values)

    def form_valid(self, form: ResponseForm) -> HttpResponse:
        """Redirect to the success URL.

        The decision has already been stored and is in ``self.decision``.
        """
        return HttpResponseRedirect(self.get_success_url())

    def form_invalid(self, form: ResponseForm) -> HttpResponse:
        """Show the form with its errors."""
        return self.render_to_response(self.get_context_data(form=form))

    def show_conflict(self, form: ResponseForm, error: HitlError) -> HttpResponse:
        """Show why the decision could not be stored, and the current version of the interrupt."""
        self.interrupt = self.get_interrupt()
        context: dict[str, Any] = {"kept": form.typed_texts()}
        if self.interrupt.status != Interrupt.Status.PENDING:
            decision = self.interrupt.closing()
            notice = self._describe_outcome()
            context["notice"] = add_not_saved(notice, decision, self.request.user)
        elif form.is_stale() or isinstance(error, IdempotencyKeyReusedError):
            # Values submitted for another version must not appear in this version's form.
            context["notice"] = add_nothing_sent(describe_conflict(StaleInterruptError()))
            context["form"] = self.get_form()
        else:
            context |= {"notice": add_nothing_sent(describe_conflict(error)), "form": form}
        status = 403 if isinstance(error, NotAllowedError) else 409
        return self.render_to_response(self.get_context_data(**context), status=status)

    def _describe_outcome(self) -> Notice:
        return describe_outcome(self.interrupt, self.interrupt.closing(), self.request.user)
