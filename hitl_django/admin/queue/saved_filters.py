"""Saved filters of the review queue: their links, and the form that saves a filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.request import QueryDict
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.base import ReadOnlyAdmin, View
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.permissions import get_policy

#: Name of the field with the list's query string.
QUERY = "query"


class SaveForm(forms.Form):
    """Form for saving a filter under a name, for one user or for all users."""

    name = forms.CharField(label=_("Name"), max_length=services.FILTER_NAME_LENGTH)
    shared = forms.BooleanField(label=_("Share with everyone"), required=False)


@dataclass(frozen=True, slots=True)
class SavedLink:
    """Link to a saved filter.

    ``is_current`` is true if the list currently uses this filter.
    """

    id: int
    name: str
    url: str
    is_current: bool
    shared: bool
    is_removable: bool


class SavedFilterPages(ReadOnlyAdmin):
    """Views that save and delete the filters of a list."""

    def own_pages(self) -> dict[str, tuple[str, View]]:
        return {
            **super().own_pages(),
            "save_filter": ("filters/save/", self.save_filter_view),
            "remove_filter": ("filters/remove/", self.remove_filter_view),
        }

    def saved_context(self, request: HttpRequest) -> dict[str, Any]:
        """Return the context that the list's template needs for saved filters."""
        shown = services.clean_query(request.GET.dict())
        found = services.list_saved_filters(request.user)
        links = [
            SavedLink(
                one.id,
                escape_hidden(one.name),
                f"?{urlencode(one.query)}",
                one.query == shown,
                one.shared,
                one.is_removable,
            )
            for one in found
        ]
        return {
            "saved": links,
            "save_url": self.url("save_filter", request),
            "remove_url": self.url("remove_filter", request),
            # Offer to save the current filter, unless it is already saved.
            "savable": "" if any(one.is_current for one in links) else urlencode(shown),
            "may_share": get_policy().may_share_filters(request.user),
            "name_length": services.FILTER_NAME_LENGTH,
        }

    def save_filter_view(self, request: HttpRequest) -> HttpResponse:
        """Save the current filter of the list."""
        if not self._may_change(request):
            return self._back({})
        form, query = SaveForm(request.POST), self._read_query(request)
        level, text = messages.WARNING, str(_("Not saved: enter a different name."))
        if form.is_valid():
            given = form.cleaned_data
            try:
                services.save_filter(given["name"], query, shared=given["shared"], by=request.user)
            except NotAllowedError as error:
                raise PermissionDenied(str(error)) from None
            except InvalidInputError:
                words = _(
                    "Not saved: no filter is active, or you have reached the limit of "
                    "%(n)d saved filters."
                )
                text = str(words % {"n": services.MAX_FILTERS})
            else:
                level, text = messages.SUCCESS, str(_("Filters saved."))
        self.message_user(request, text, level)
        return self._back(query)

    def remove_filter_view(self, request: HttpRequest) -> HttpResponse:
        """Delete a saved filter."""
        if not self._may_change(request):
            return self._back({})
        number = request.POST.get("filter", "")
        is_key = number.isascii() and number.isdigit() and len(number) < 19
        if is_key and services.remove_filter(int(number), by=request.user):
            self.message_user(request, _("Saved filter deleted."), messages.SUCCESS)
        return self._back(self._read_query(request))

    def _may_change(self, request: HttpRequest) -> bool:
        """Return whether the request is a POST request of a user who can view the list."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        return request.method == "POST"

    def _read_query(self, request: HttpRequest) -> dict[str, str]:
        return services.clean_query(QueryDict(request.POST.get(QUERY, "")).dict())

    def _back(self, query: dict[str, str]) -> HttpResponse:
        # Redirect only to the list's own URL, with known parameters.
        opts = self.opts
        url = reverse(f"{self.admin_site.name}:{opts.app_label}_{opts.model_name}_changelist")
        return HttpResponseRedirect(f"{url}?{urlencode(query)}" if query else url)
