"""Admin pages of notification settings and Slack channels."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import get_language_info
from django.utils.translation import gettext_lazy as _

from hitl_django.admin import add_pages
from hitl_django.admin.base import ReadOnlyAdmin, format_entry
from hitl_django.contrib.webhooks.admin import EndpointAdmin, EndpointForm
from hitl_django.engine.errors import InvalidInputError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.models import Interrupt
from hitl_django.permissions import select_visible

from . import slack_channel
from .models import NotificationPreferences, SlackChannel
from .preferences import read_preferences, save_preferences
from .topics import NotificationTopic


class PreferencesForm(forms.Form):
    """Form for the frequency of notifications by topic, and for the language."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for topic in NotificationTopic:
            self.fields[str(topic)] = forms.ChoiceField(
                label=topic.label, choices=NotificationPreferences.When.choices
            )
        languages = [
            (code, get_language_info(code)["name_local"]) for code, _ in settings.LANGUAGES
        ]
        self.fields["language"] = forms.ChoiceField(
            label=_("Language"),
            required=False,
            choices=[("", _("Site default")), *languages],
        )


class NotificationPreferencesAdmin(ReadOnlyAdmin):
    """Admin page of the user's own notification settings."""

    def visible(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        return rows.filter(user=request.user.pk)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Return whether the permission policy lets the user view interrupts.

        The result doesn't depend on the existence of interrupts.
        """
        return not select_visible(Interrupt.objects.all(), request.user).query.is_empty()

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show and save the user's own settings.

        This page replaces the list.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        wanted = read_preferences(request.user)
        chosen = {str(topic): wanted.get(topic) for topic in NotificationTopic}
        first = {**chosen, "language": wanted.language}
        form = PreferencesForm(request.POST or None, initial=first, use_required_attribute=False)
        if form.is_valid():
            save_preferences(request.user, form.cleaned_data)
            self.message_user(request, _("Notification settings saved."), messages.SUCCESS)
            return HttpResponseRedirect(request.path)
        user: Any = request.user
        address = escape_hidden(getattr(user, user.get_email_field_name()) or "")
        title = _("Notification settings")
        return self.page(
            request, title, "notification_preferences.html", form=form, address=address, title=title
        )


class SlackChannelForm(EndpointForm):
    """Form for a Slack channel."""

    address = forms.CharField(
        label=_("Incoming webhook URL or channel ID"),
        required=False,
        max_length=2000,
        widget=forms.PasswordInput(attrs={"class": "vLargeTextField", "autocomplete": "off"}),
    )
    description = forms.CharField(
        label=_("Description"),
        max_length=255,
        required=False,
        widget=forms.TextInput(attrs={"class": "vTextField"}),
    )
    group = forms.ModelChoiceField(
        Group.objects.order_by("name"),
        label=_("Group"),
        required=False,
        empty_label=_("All requests, including unassigned ones"),
        to_field_name="name",
    )

    class Meta:
        model = SlackChannel
        fields = ("is_active",)

    field_order = ("address", "description", "group", "graphs", "is_active")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        row, is_new = self.instance, self.instance._state.adding
        self.fields["address"].help_text = (
            _(
                "The URL is a secret and is not shown here again. If you enter a channel ID "
                "instead, such as C0123ABCD, people can decide with buttons in the messages."
            )
            if is_new
            else _("The current value is not shown. Leave empty to keep it.")
        )
        self.fields["address"].required = is_new
        self.initial.update(description=row.description, graphs=row.graphs, group=row.group_label)

    def save_with(self, user: Any) -> None:
        """Save the Slack channel with ``save_channel``, in the name of ``user``.

        Raises:
            InvalidInputError: if the address is neither an incoming webhook nor a channel id.
        """
        values = self.cleaned_data
        slack_channel.save_channel(
            self.instance,
            address=values["address"],
            description=values["description"],
            graphs=values["graphs"],
            group="" if values["group"] is None else values["group"].name,
            is_active=values["is_active"],
            by=user,
        )

    def clean_address(self) -> str:
        address = str(self.cleaned_data["address"])
        if address:
            try:
                slack_channel.check_address(address)
            except InvalidInputError as error:
                raise forms.ValidationError(error.faults[0][1]) from None
        return address


class SlackChannelAdmin(EndpointAdmin):
    """Admin of Slack channels."""

    form = SlackChannelForm
    list_display = ("channel_name", "state", "created_at")
    empty_text = _("No Slack channels yet.")
    fields = SlackChannelForm.field_order

    has_view_permission = EndpointAdmin.has_add_permission

    @admin.display(description=_("Slack channel"), ordering="description")
    def channel_name(self, row: SlackChannel) -> str:
        return format_entry(row, str(row), escape_hidden(row.group_label or row.url))

    def send_test(self, row: Any, user: Any) -> object:
        return slack_channel.try_channel(row, by=user)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        form.save_with(request.user)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        slack_channel.delete_channel(obj, by=request.user)


add_pages({NotificationPreferences: NotificationPreferencesAdmin, SlackChannel: SlackChannelAdmin})
