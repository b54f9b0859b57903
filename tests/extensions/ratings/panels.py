"""The panel in which a reviewer rates an interrupt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.http import HttpRequest

from hitl_django.admin.panels import Panel
from hitl_django.audit import label_user
from hitl_django.conf import hitl
from hitl_django.errors import InvalidInputError
from hitl_django.models import Interrupt
from hitl_django.permissions import get_policy

from .models import Rating


class RatingForm(forms.Form):
    stars = forms.IntegerField(min_value=1)
    remark = forms.CharField(required=False, widget=forms.Textarea)

    def clean_stars(self) -> int:
        stars: int = self.cleaned_data["stars"]
        if stars > hitl.RATING_MAX_STARS:
            raise forms.ValidationError(f"At most {hitl.RATING_MAX_STARS} stars.")
        return stars


class RatingPanel(Panel):
    template_name = "ratings/panel.html"
    form_class = RatingForm
    actions = ("rate",)

    def get_context(self, request: HttpRequest, interrupt: Interrupt) -> Mapping[str, Any] | None:
        may = get_policy().has_permission(request.user, "ratings.add_rating")
        return {"count": interrupt.ratings.count()} if may else None

    def get_initial(self, request: HttpRequest, interrupt: Interrupt) -> Mapping[str, Any]:
        return interrupt.ratings.filter(rater=request.user).values("stars", "remark").first() or {}

    def perform(
        self, request: HttpRequest, interrupt: Interrupt, action: str, form: forms.Form | None
    ) -> str:
        assert form is not None
        if form.cleaned_data["stars"] == 1 and not form.cleaned_data["remark"]:
            raise InvalidInputError("A single star needs a remark.", [("remark", "is missing")])
        Rating.objects.update_or_create(
            interrupt=interrupt,
            rater=request.user,
            defaults={**form.cleaned_data, "rater_label": label_user(request.user)},
        )
        return "Your rating was stored."
