"""Admin pages of webhooks and deliveries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from hitl_django.admin import add_pages
from hitl_django.admin.base import (
    LinkedChangeList,
    ReadOnlyAdmin,
    View,
    format_entry,
    format_status,
    name_graph,
)
from hitl_django.admin.display.payload_display import display_raw
from hitl_django.admin.display.subject_links import SubjectLink, format_subject, link_subjects
from hitl_django.admin.navigation import build_navigation
from hitl_django.engine.errors import InvalidInputError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry

from . import services
from .event_labels import list_labels
from .messages import WEBHOOK, list_events
from .models import Delivery, WebhookEndpoint

#: Meaning of the states of deliveries, which gives the pill of a state its colour.
TONES = {Delivery.State.DELIVERED: "is-ok", Delivery.State.DEAD: "is-bad"}


def _list_choices() -> list[tuple[str, Any]]:
    offered = list_events()
    return [(name, label) for name, label in list_labels().items() if name in offered]


class EndpointForm(forms.ModelForm):
    """Form for the graphs from which an endpoint receives events."""

    graphs = forms.MultipleChoiceField(
        label=_("Graphs"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Leave empty for all graphs."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = dict.fromkeys([*registry.list_names(), *(self.instance.graphs or ())])
        graphs: Any = self.fields["graphs"]
        graphs.choices = [(name, name_graph(name)) for name in known]


class WebhookForm(EndpointForm):
    """Form for a webhook.

    The service validates the values.
    """

    url = forms.CharField(
        label=_("URL"),
        max_length=2000,
        help_text=_(
            "Deliveries are posted to this URL. It must use https and be publicly reachable."
        ),
        widget=forms.URLInput(attrs={"class": "vLargeTextField"}),
    )
    events = forms.MultipleChoiceField(
        label=_("Events"),
        required=False,
        choices=_list_choices,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Leave empty for all events."),
    )

    class Meta:
        model = WebhookEndpoint
        fields = ("url", "description", "events", "graphs", "with_interrupt", "is_active")

    def clean(self) -> dict[str, Any]:
        values: dict[str, Any] = super().clean() or {}
        given = {name: value for name, value in values.items() if name in self.changed_data}
        try:
            services.check_webhook(**given)
        except InvalidInputError as error:
            for name, reason in error.faults:
                self.add_error(name, reason)
        return values


class EndpointAdmin(ReadOnlyAdmin):
    """Admin of the endpoints of one channel, for users with the permission to manage webhooks."""

    actions = ("try_them",)
    add_form_template = change_form_template = "hitl_django/admin/endpoint.html"
    delete_confirmation_template = "hitl_django/admin/endpoint_delete.html"
    delete_selected_confirmation_template = "hitl_django/admin/endpoint_delete.html"
    object_history_template = "hitl_django/admin/endpoint_history.html"
    # Endpoints can be edited, so the page is Django's own form.
    change_view = admin.ModelAdmin.change_view

    def send_test(self, row: Any, user: Any) -> object:
        """Queue a test delivery."""
        raise NotImplementedError

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return services.may_manage(request.user)

    has_change_permission = has_delete_permission = has_add_permission

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **options: Any
    ) -> HttpResponse:
        row = context.get("original")
        title = context["title"] if row is None else escape_hidden(str(row))
        pill = "" if row is None else format_endpoint_state(row)
        context |= self._frame(request, title, pill=pill)
        return super().render_change_form(request, context, *args, **options)

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        title = _("Delete “%(name)s”?") % {"name": context["object"]}
        context |= self._frame(request, title)
        return super().render_delete_form(request, context)

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        found = getattr(response, "context_data", None) or {}
        if "deletable_objects" in found:  # The page that confirms the action.
            title = _("Delete the selected %(names)s?") % {"names": self.opts.verbose_name_plural}
            [names] = found["deletable_objects"]
            found |= self._frame(request, title, names=names)
        return response

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, unquote(object_id))
        frame = {} if row is None else self._frame(request, escape_hidden(str(row)))
        return super().history_view(request, object_id, {**frame, **(extra_context or {})})

    def _frame(self, request: HttpRequest, title: Any, **context: Any) -> dict[str, Any]:
        """Return the template context for one of Django's own pages.

        The context contains the navigation, the back link and the title.
        """
        available_apps = self.admin_site.each_context(request)["available_apps"]
        return {
            "back": self.url("changelist", request),
            "navigation": build_navigation(request, available_apps),
            "subtitle": None,
            "title": title,
            **context,
        }

    @admin.display(description=_("state"), ordering="is_active")
    def state(self, row: WebhookEndpoint) -> str:
        pill = format_endpoint_state(row)
        if row.stopped and not row.is_active:
            reason = escape_hidden(row.stopped)
            return format_html('{}<span class="hitl-sub">{}</span>', pill, reason)
        return pill

    @admin.action(description=_("Send a test event"), permissions=["change"])
    def try_them(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        for row in rows:
            self.send_test(row, request.user)
        self.message_user(request, _("Test event queued."), messages.SUCCESS)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        # The endpoint's deliveries are deleted too. A list of all of them would be useless.
        return [str(row) for row in objs], {}, set(), []


class WebhookEndpointAdmin(EndpointAdmin):
    """Admin of webhooks.

    Webhooks are changed through the services.
    """

    form = WebhookForm
    list_display = ("webhook", "state", "created_at")
    empty_text = _("No webhooks yet.")
    add_form_template = change_form_template = "hitl_django/admin/webhook.html"

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return super().visible(request, rows.filter(channel=WEBHOOK.name))

    @admin.display(description=_("webhook"), ordering="url")
    def webhook(self, row: WebhookEndpoint) -> str:
        return format_entry(row, str(row), escape_hidden(row.url) if row.description else "")

    def send_test(self, row: Any, user: Any) -> object:
        return services.send_test_event(row.pk, by=user)

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {"secret": ("<path:object_id>/secret/", self.secret_view)}

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the values through the service instead of saving the row."""
        values = {name: form.cleaned_data[name] for name in form.fields}
        if change:
            given = {name: values[name] for name in form.changed_data}
            services.change_webhook(obj.pk, by=request.user, **given)
            return
        made = services.create_webhook(values.pop("url"), by=request.user, **values)
        obj.pk, obj.new_secret = made.id, made.secret

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        services.delete_webhook(obj.pk, by=request.user)

    def response_add(
        self, request: HttpRequest, obj: Any, post_url_continue: str | None = None
    ) -> HttpResponse:
        """Show the new webhook's secret in this response, because it is shown only once."""
        return self._secret(request, obj, obj.new_secret)

    def secret_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask to confirm the rotation of the secret, and show the new secret."""
        row = self.get_object(request, unquote(object_id))
        if not self.has_change_permission(request, row):
            return HttpResponse(status=403)
        if request.method != "POST":
            return self._secret(request, row, "")
        rotated = services.rotate_secret(row.pk, by=request.user)
        return self._secret(request, row, rotated.secret)

    def _secret(self, request: HttpRequest, row: Any, secret: str) -> HttpResponse:
        back = self.url("changelist", request)
        response = self.page(request, row, "secret.html", back=back, secret=secret)
        response.headers["Cache-Control"] = "no-store"
        return response


class DeliveryChangeList(LinkedChangeList):
    """Change list of deliveries, which shows their recipients."""

    def complete_rows(self, request: HttpRequest) -> None:
        super().complete_rows(request)
        people = link_recipients(request, self.result_list)
        for row in self.result_list:
            row.subject = people.get(row.pk, SubjectLink(""))


class DeliveryAdmin(ReadOnlyAdmin):
    """Admin of deliveries, newest first.

    Finished deliveries can be redelivered.
    """

    list_display = ("message", "recipient", "outcome", "attempts", "created_at")
    list_filter = ("state", "event")
    linked_lookups = ("endpoint__id__exact",)
    list_select_related = ("endpoint",)
    visible_through = "endpoint"
    empty_text = _("No deliveries yet.")
    actions = ("send_again",)

    def rows(self) -> QuerySet[Any]:
        return Delivery.objects.select_related("endpoint")

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return DeliveryChangeList

    def has_send_permission(self, request: HttpRequest) -> bool:
        return services.may_manage(request.user)

    @admin.display(description=_("delivery"), ordering="event")
    def message(self, row: Delivery) -> str:
        return format_entry(row, row.get_event_display(), escape_hidden(str(row.endpoint)))

    @admin.display(description=_("recipient"))
    def recipient(self, row: Any) -> str:
        return format_subject(row.subject)

    @admin.display(description=_("state"), ordering="state")
    def outcome(self, row: Delivery) -> str:
        pill = format_delivery_state(row)
        return format_html('{}<span class="hitl-sub">{}</span>', pill, escape_hidden(row.fault))

    @admin.action(description=_("Redeliver"), permissions=["send"])
    def send_again(self, request: HttpRequest, rows: QuerySet[Any]) -> None:
        chosen = list(rows.exclude(state=Delivery.State.PENDING).values_list("pk", flat=True))
        for pk in chosen:
            services.redeliver(pk, by=request.user)
        count = ngettext(
            "%(n)d delivery queued again.", "%(n)d deliveries queued again.", len(chosen)
        )
        self.message_user(request, count % {"n": len(chosen)}, messages.SUCCESS)

    def show(self, request: HttpRequest, row: Delivery) -> HttpResponse:
        title = row.get_event_display()
        return self.page(
            request,
            row,
            "delivery.html",
            title=title,
            list_url=self.url("changelist", request),
            pill=format_delivery_state(row),
            raw=display_raw(row.data),
            recipient=link_recipients(request, [row]).get(row.pk),
        )


def format_endpoint_state(row: WebhookEndpoint) -> str:
    """Return the HTML of a badge that shows an endpoint's state."""
    if row.stopped and not row.is_active:
        return format_status(_("stopped"), "is-bad")
    if not row.is_active:
        return format_status(_("inactive"))
    if row.failures:
        count = ngettext("%(n)d consecutive failure", "%(n)d consecutive failures", row.failures)
        return format_status(count % {"n": row.failures}, "is-warn")
    return format_status(_("active"), "is-ok")


def format_delivery_state(row: Delivery) -> str:
    """Return the HTML of a badge that shows a delivery's state."""
    return format_status(row.get_state_display(), TONES.get(Delivery.State(row.state), ""))


def link_recipients(request: HttpRequest, rows: Iterable[Delivery]) -> dict[UUID, SubjectLink]:
    """Return a link to the recipient of each delivery, by delivery id.

    The link contains the recipient's name if the current user may view users. Only deliveries to
    people have a recipient.
    """
    users = get_user_model()._meta
    keys = {
        row.pk: (users.app_label, users.model_name, str(row.data["user"]))
        for row in rows
        if "user" in row.data
    }
    found = link_subjects(request, keys.values())
    return {pk: found[key] for pk, key in keys.items()}


add_pages({Delivery: DeliveryAdmin, WebhookEndpoint: WebhookEndpointAdmin})
