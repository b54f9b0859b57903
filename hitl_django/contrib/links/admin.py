"""Admin pages of review links: create, view, revoke."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.text import get_text_list
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from hitl_django import answers
from hitl_django.admin import add_pages
from hitl_django.admin.base import (
    ERASED,
    LinkedChangeList,
    ReadOnlyAdmin,
    format_entry,
    format_status,
)
from hitl_django.audit import label_user
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import AlreadyDecidedError, NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.forms.local_time import to_local
from hitl_django.models import Decision, Interrupt
from hitl_django.permissions import find_row, get_policy, select_visible

from . import services
from .errors import LinkUnusableError
from .models import ReviewLink

#: Maximum length of the title in the draft of an email.
MAIL_TITLE = 150

STATES: dict[str, Any] = {
    services.LinkState.OPEN: _("active"),
    services.LinkState.USED: _("used"),
    services.LinkState.EXPIRED: _("expired"),
    services.LinkState.REVOKED: _("revoked"),
    services.LinkState.INVALID: _("invalid: the creator no longer has permission"),
    services.LinkState.STALE: _("invalid: the request has changed"),
    services.LinkState.DECIDED: _("decided by someone else"),
    services.LinkState.CLOSED: _("request closed"),
    services.LinkState.WAITING: _("run stopped"),
    services.LinkState.CLAIMED: _("claimed by someone else"),
}
#: Meaning of the states of links, which gives the pill of a state its colour.
TONES = {
    services.LinkState.OPEN: "is-ok",
    services.LinkState.INVALID: "is-warn",
    services.LinkState.STALE: "is-warn",
}


class LinkForm(forms.Form):
    """Form for a new review link."""

    name = forms.CharField(
        label=_("Recipient"),
        max_length=255,
        help_text=_("Recorded as the decision maker's name."),
        widget=forms.TextInput(attrs={"class": "hitl-input"}),
    )
    email = forms.EmailField(
        label=_("Email"),
        required=False,
        help_text=_(
            "Recipient of the draft that you can open in your email program. The email is not sent "
            "automatically."
        ),
        widget=forms.EmailInput(attrs={"class": "hitl-input"}),
    )
    days = forms.IntegerField(
        label=_("Valid for (days)"),
        min_value=1,
        max_value=365,
        initial=7,
        widget=forms.NumberInput(attrs={"class": "hitl-input"}),
    )
    decisions = forms.MultipleChoiceField(
        label=_("Decisions"),
        widget=forms.CheckboxSelectMultiple(attrs={"class": "hitl-check"}),
    )

    def __init__(self, pending: Interrupt, data: Any = None) -> None:
        allowed = answers.read_options(pending).allowed
        super().__init__(data, initial={"decisions": list(allowed)})
        decisions: Any = self.fields["decisions"]
        decisions.choices = [(one, Decision.Type(one).label) for one in allowed]


class LinkChangeList(LinkedChangeList):
    """Change list of review links, with the state of each link."""

    def complete_rows(self, request: HttpRequest) -> None:
        super().complete_rows(request)
        states = services.get_link_states([row.pk for row in self.result_list])
        for row in self.result_list:
            row.found = states[row.pk]


class ReviewLinkAdmin(ReadOnlyAdmin):
    """Admin of review links, newest first.

    The URLs of the links are not shown.
    """

    list_display = ("link", "state", "creator", "expires_at")
    list_select_related = ("interrupt__run", "interrupt__thread", "created_by")
    empty_text = _("No review links yet. Create one from a request's page.")
    actions = ("revoke",)
    visible_through = "interrupt"

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        if not get_policy().has_permission(request.user, services.PERMISSION):
            return rows.none()
        return super().visible(request, rows)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return LinkChangeList

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # Every link belongs to an interrupt, so "Add" is available only together with an interrupt.
        return "interrupt" in request.GET and self.has_view_permission(request)

    def get_model_perms(self, request: HttpRequest) -> dict[str, bool]:
        # Pages that don't belong to an interrupt, such as the index and the menu, offer no "Add".
        return {**super().get_model_perms(request), "add": False}

    @admin.display(description=_("recipient"), ordering="name")
    def link(self, row: ReviewLink) -> str:
        return format_entry(row, row.name, escape_hidden(row.interrupt.title) or ERASED)

    @admin.display(description=_("state"))
    def state(self, row: Any) -> str:
        return _format_state(row.found)

    @admin.display(description=_("created by"), ordering="created_by_label")
    def creator(self, row: ReviewLink) -> str:
        return escape_hidden(row.created_by_label)

    @admin.action(description=_("Revoke selected links"), permissions=["revoke"])
    def revoke(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        done, spent = 0, 0
        for row in rows:
            try:
                services.revoke_link(row.pk, by=request.user, via="admin")
                done += 1
            except (LinkUnusableError, NotAllowedError):
                spent += 1
        message = ngettext("%(n)d link revoked.", "%(n)d links revoked.", done)
        self.message_user(request, message % {"n": done}, messages.SUCCESS)
        if spent:
            left = ngettext(
                "%(n)d link could not be revoked.", "%(n)d links could not be revoked.", spent
            )
            self.message_user(request, left % {"n": spent}, messages.WARNING)

    def show(self, request: HttpRequest, row: ReviewLink) -> HttpResponse:
        state = services.get_link_states([row.pk])[row.pk]
        title = format_html(str(_("Link for {}")), escape_hidden(row.name))
        labels: list[Any] = [Decision.Type(word).label for word in row.decisions]
        return self.page(
            request,
            row,
            "link.html",
            title=title,
            list_url=self.url("changelist", request),
            pill=_format_state(state),
            item=row.interrupt,
            decisions=get_text_list(labels, _("or")),
        )

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Create a link to an interrupt, and show its URL once."""
        pending = self._interrupt(request)
        form = LinkForm(pending, request.POST if request.method == "POST" else None)
        if form.is_valid():
            response = self._make(request, pending, form)
            if response is not None:
                return response
        title = _("Create review link")
        return self.page(request, pending, "link_form.html", title=title, form=form, item=pending)

    def _make(
        self, request: HttpRequest, pending: Interrupt, form: LinkForm
    ) -> HttpResponse | None:
        given = form.cleaned_data
        try:
            made = services.create_review_link(
                pending.pk,
                name=given["name"],
                email=given["email"],
                decisions=given["decisions"],
                expires=timedelta(days=given["days"]),
                by=request.user,
                via="admin",
            )
        except InvalidInputError as error:
            for name, reason in error.faults:
                form.add_error(name if name in form.fields else None, reason)
            return None
        except (AlreadyDecidedError, NotAllowedError, ImproperlyConfigured) as error:
            form.add_error(None, str(error))
            return None
        url = request.build_absolute_uri(made.url)
        title = _("Review link")
        context: dict[str, Any] = {
            "url": url,
            "mail_url": _make_mail_url(request, pending, made, url),
        }
        response = self.page(request, pending, "link.html", title=title, item=pending, **context)
        response.headers["Cache-Control"] = "no-store"
        return response

    def _interrupt(self, request: HttpRequest) -> Interrupt:
        rows = select_visible(Interrupt.objects.select_related("run", "thread"), request.user)
        pending = find_row(rows, Http404, pk=request.GET.get("interrupt", ""))
        if not services.may_create_link(request.user, pending):
            raise Http404
        return pending


def _format_state(state: services.LinkState) -> str:
    return format_status(STATES[state], TONES.get(state, ""))


def _make_mail_url(
    request: HttpRequest, pending: Interrupt, made: services.LinkInfo, url: str
) -> str:
    """Return a mailto: URL that opens a draft with the link in the user's email program."""
    sender: Any = request.user
    title = escape_hidden(pending.title)[:MAIL_TITLE]
    lines = [
        gettext("Hello %(name)s,") % {"name": made.name},
        gettext("please decide: %(title)s") % {"title": title},
        url,
        gettext("The link is only for you. Until %(when)s, it works once.")
        % {"when": date_format(to_local(made.expires_at), "DATETIME_FORMAT")},
        escape_hidden(label_user(sender)),
    ]
    fields = {"subject": title, "body": "\r\n\r\n".join(lines)}
    query = urlencode(fields, quote_via=quote)
    return f"mailto:{quote(made.email, safe='@')}?{query}"


add_pages({ReviewLink: ReviewLinkAdmin})
