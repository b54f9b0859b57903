"""Second looks: approvals that another reviewer judges, and what they said."""

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

from hitl_django import services
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import AlreadyDecidedError, NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import SecondLook
from hitl_django.models.review import LARGE_COLUMNS
from hitl_django.permissions import get_policy
from hitl_django.services.reviews import second_look

from .base import ReadOnlyAdmin, View, describe_place, format_entry
from .diff_display import get_decision_context
from .figures_page import DecidedGraphFilter, ReviewerFilter
from .payload_display import display_raw
from .payload_files import open_payload_file
from .question_view import display_question, display_why, find_template


class VerdictForm(forms.Form):
    """Asks whether somebody would have approved as well."""

    verdict = forms.ChoiceField(
        label=_("Would you have approved this?"),
        choices=(
            (SecondLook.Verdict.AGREE, _("Yes")),
            (SecondLook.Verdict.DISAGREE, _("No")),
        ),
        widget=forms.RadioSelect,
    )
    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Needed with a no. It is kept with your verdict."),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField"}),
    )


class VerdictFilter(admin.SimpleListFilter):
    """Filters by whether there is a verdict; what waits comes first."""

    title = _("verdict")
    parameter_name = "verdict"
    #: Stands for any of them.
    GIVEN = "given"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        named = ("waiting", _("waits for one")), (self.GIVEN, _("given"))
        return [*named, *SecondLook.Verdict.choices]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is None:
            return queryset
        if self.value() == self.GIVEN:
            return queryset.exclude(verdict="")
        return queryset.filter(verdict="" if self.value() == "waiting" else self.value())


class ApproverFilter(ReviewerFilter):
    """Filters by who approved, which is known once there is a verdict."""

    title = _("approved by")
    person = "decision__by"

    def select(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        return super().select(rows).exclude(verdict="")


class SecondLookAdmin(ReadOnlyAdmin):
    """Approvals of which a sample is judged by another reviewer, newest first.

    What waits says nothing of who approved and why, and isn't shown to those who did.
    """

    list_display = ("question", "state", "created_at")
    list_filter = (VerdictFilter, DecidedGraphFilter, ApproverFilter)
    linked_lookups = ("created_at__gte", "created_at__lt")
    list_select_related = ("interrupt",)
    visible_through = "interrupt"
    empty_text = _(
        "No approval was drawn for a second look yet. A graph's review policy says how many are."
    )

    def rows(self) -> QuerySet[Any]:
        return SecondLook.objects.select_related(
            "interrupt__run", "interrupt__thread", "decision__interrupt"
        )

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        seen = super().visible(request, rows)
        return seen.exclude(Q(verdict="") & second_look.match_own(request.user))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        return rows.defer(*(f"interrupt__{name}" for name in LARGE_COLUMNS))

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {**super().own_pages(), "file": ("<path:object_id>/file/", self.file_view)}

    @admin.display(description=_("question"))
    def question(self, look: SecondLook) -> str:
        return format_entry(look, look.interrupt.title, describe_place(look.interrupt))

    @admin.display(description=_("verdict"), ordering="verdict")
    def state(self, look: SecondLook) -> str:
        if not look.verdict:
            return str(_("waits for one"))
        return f"{look.get_verdict_display()} ({escape_hidden(look.by_label)})"

    def show(self, request: HttpRequest, look: SecondLook) -> HttpResponse:
        """Shows what was asked and takes the verdict; then what was decided, and by whom."""
        form = VerdictForm(request.POST or None, use_required_attribute=False)
        # What they have sent twice was recorded once, and that is what the page shows.
        if request.method == "POST" and look.by_id != request.user.pk and form.is_valid():
            response = self._judge(request, look, form)
            if response is not None:
                return response
        item = look.interrupt
        decision = get_decision_context(item, look.decision) if look.verdict else {}
        return self.page(
            request,
            look,
            "second_look.html",
            title=item.title,
            item=item,
            look=look,
            form=form if get_policy().may_decide(request.user, item) else None,
            why=display_why(item, None),
            values=display_question(item, None, self.url("file", request, look.pk)),
            question_template=find_template(item),
            raw=display_raw(item.payload),
            **decision,
        )

    def file_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Hands out a file that the payload names, as the question's own page does.

        The way to that page would lead by who approved.
        """
        look = self.get_object(request, unquote(object_id))
        if "at" not in request.GET:
            return HttpResponseRedirect(self.url("change", request, look.pk))
        return open_payload_file(look.interrupt, request.GET["at"])

    def _judge(
        self, request: HttpRequest, look: SecondLook, form: VerdictForm
    ) -> HttpResponse | None:
        given = form.cleaned_data
        agrees = given["verdict"] == SecondLook.Verdict.AGREE
        try:
            services.judge_second_look(
                look.pk, agrees, reason=given["reason"], by=request.user, via="admin"
            )
        except InvalidInputError:
            form.add_error("reason", _("Say why you would not have."))
            return None
        except NotAllowedError as error:
            raise PermissionDenied(str(error)) from None
        except AlreadyDecidedError:
            words = _("Somebody else has judged this meanwhile. Yours was not recorded.")
            self.message_user(request, words, messages.WARNING)
        else:
            self.message_user(request, _("Your verdict is recorded."), messages.SUCCESS)
        return HttpResponseRedirect(self.url("change", request, look.pk))
