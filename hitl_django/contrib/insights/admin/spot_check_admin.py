"""Pages of spot checks: a sample of approvals that other reviewers check."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.utils.translation import gettext_lazy as _

from hitl_django.admin.base import View, describe_node, format_entry
from hitl_django.admin.display.diff_display import get_decision_context
from hitl_django.admin.display.list_filters import DecidedGraphFilter, ReviewerFilter
from hitl_django.admin.display.payload_display import display_raw
from hitl_django.admin.display.payload_files import open_payload_file
from hitl_django.admin.request.request_view import display_interrupt, display_why, find_template
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import AlreadyDecidedError, NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.permissions import get_policy

from ..models import SpotCheck
from ..spot_checks import match_own, record_spot_check
from .reports_page import ReportPages


class ResultForm(forms.Form):
    """Form for the result of a spot check."""

    result = forms.ChoiceField(
        label=_("Would you have approved this?"),
        choices=(
            (SpotCheck.Result.AGREE, _("Yes")),
            (SpotCheck.Result.DISAGREE, _("No")),
        ),
        widget=forms.RadioSelect,
    )
    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Required if you answer no."),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "hitl-area"}),
    )


class ResultFilter(admin.SimpleListFilter):
    """Filter by result.

    By default, only pending spot checks are listed.
    """

    title = _("result")
    parameter_name = "result"
    #: Value that selects all spot checks with a result.
    GIVEN = "given"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        named = ("waiting", _("pending")), (self.GIVEN, _("completed"))
        return [*named, *SpotCheck.Result.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        if self.value() == self.GIVEN:
            return queryset.exclude(result="")
        return queryset.filter(result="" if self.value() == "waiting" else self.value())


class ApproverFilter(ReviewerFilter):
    """Filter by approver.

    Until a spot check has a result, its approver is hidden.
    """

    title = _("approved by")
    person = "decision__by"

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return super().select(rows).exclude(result="")


class SpotCheckAdmin(ReportPages):
    """Admin of spot checks, newest first, and of the reports.

    A pending spot check shows neither the approver nor the reason. The people who approved an
    interrupt don't see its spot check.
    """

    list_display = ("request", "state", "created_at")
    list_filter = (ResultFilter, DecidedGraphFilter, ApproverFilter)
    linked_lookups = ("created_at__gte", "created_at__lt")
    list_select_related = ("interrupt",)
    visible_through = "interrupt"
    empty_text = _(
        "No spot checks yet. Developers set the share of each graph's approvals that is checked."
    )

    def rows(self) -> QuerySet[Any]:
        return SpotCheck.objects.select_related(
            "interrupt__run", "interrupt__thread", "decision__interrupt"
        )

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        seen = super().visible(request, rows)
        return seen.exclude(Q(result="") & match_own(request.user))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows.defer(*(f"interrupt__{name}" for name in LARGE_COLUMNS))

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {**super().own_pages(), "file": ("<path:object_id>/file/", self.file_view)}

    @admin.display(description=_("request"))
    def request(self, check: SpotCheck) -> str:
        return format_entry(check, check.interrupt.title, describe_node(check.interrupt))

    @admin.display(description=_("result"), ordering="result")
    def state(self, check: SpotCheck) -> str:
        if not check.result:
            return str(_("pending"))
        return f"{check.get_result_display()} ({escape_hidden(check.by_label)})"

    def show(self, request: HttpRequest, check: SpotCheck) -> HttpResponse:
        """Show the interrupt, and store the submitted result.

        The page hides the decision until a result is stored.
        """
        form = ResultForm(request.POST or None, use_required_attribute=False)
        # If the form is submitted twice, only the first result is stored. The page then shows the
        # stored result.
        if request.method == "POST" and check.by_id != request.user.pk and form.is_valid():
            response = self._record(request, check, form)
            if response is not None:
                return response
        item = check.interrupt
        decision = get_decision_context(item, check.decision) if check.result else {}
        return self.page(
            request,
            check,
            "spot_check.html",
            title=item.title,
            list_url=self.url("changelist", request),
            item=item,
            check=check,
            form=form if get_policy().may_decide(request.user, item) else None,
            why=display_why(item, None),
            values=display_interrupt(item, None, self.url("file", request, check.pk)),
            interrupt_template=find_template(item),
            raw=display_raw(item.payload),
            **decision,
        )

    def file_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Return a file that the payload refers to.

        The admin page of the interrupt also serves the file, but shows the approver.
        """
        check = self.get_object(request, unquote(object_id))
        if "at" not in request.GET:
            return HttpResponseRedirect(self.url("change", request, check.pk))
        return open_payload_file(check.interrupt, request.GET["at"])

    def _record(
        self, request: HttpRequest, check: SpotCheck, form: ResultForm
    ) -> HttpResponse | None:
        given = form.cleaned_data
        agrees = given["result"] == SpotCheck.Result.AGREE
        try:
            record_spot_check(
                check.pk, agrees, reason=given["reason"], by=request.user, via="admin"
            )
        except InvalidInputError:
            form.add_error("reason", _("Enter a reason."))
            return None
        except NotAllowedError as error:
            raise PermissionDenied(str(error)) from None
        except AlreadyDecidedError:
            words = _(
                "Another reviewer has already checked this approval. Your result was not stored."
            )
            self.message_user(request, words, messages.WARNING)
        else:
            self.message_user(
                request, _("The result of your spot check was saved."), messages.SUCCESS
            )
        return HttpResponseRedirect(self.url("change", request, check.pk))
