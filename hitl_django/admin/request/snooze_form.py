"""Form for the end of a snooze: preset times, or any date and time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.utils import timezone
from django.utils.formats import date_format, time_format
from django.utils.translation import gettext_lazy as _

from hitl_django.forms.local_time import format_moment, to_local

#: Hour at which the presets of later days end.
MORNING = 9
#: Duration of the shortest preset. Its end is rounded down to the full hour.
LATER = timedelta(hours=3)
#: Later years have no time in some time zones.
LAST_YEAR = 9998


@dataclass(frozen=True, slots=True)
class SnoozePreset:
    """A preset: the value of the form field, the name, and the time in the current time zone."""

    name: str
    label: Any
    moment: datetime


def list_presets(now: datetime) -> list[SnoozePreset]:
    """Return all presets for the time ``now``, including those that are already past."""
    local = to_local(now)
    later = (local + LATER).replace(minute=0, second=0, microsecond=0)
    morning = local.replace(hour=MORNING, minute=0, second=0, microsecond=0)
    monday = timedelta(days=7 - local.weekday())
    return [
        SnoozePreset("later", _("Later today"), later),
        SnoozePreset("tomorrow", _("Tomorrow"), morning + timedelta(days=1)),
        SnoozePreset("week", _("Next week"), morning + monday),
    ]


class SnoozeForm(forms.Form):
    """Form for the end of a snooze.

    The date and time takes precedence over the preset. ``due_at`` is the due time of the interrupt.
    The end of a snooze may be after the due time. If so, the label of the
    preset contains a note.
    """

    until = forms.ChoiceField(label=_("Snooze until"), required=False)
    at = forms.DateTimeField(
        label=_("Or date and time"),
        required=False,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def __init__(self, *args: Any, due_at: datetime | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        now = timezone.now()
        self.presets = {preset.name: preset for preset in list_presets(now)}
        today = to_local(now).date()
        # A page that was opened earlier may still submit the first preset late in the evening.
        self.fields["until"].choices = [  # type: ignore[attr-defined]
            (preset.name, _describe(preset, due_at))
            for preset in self.presets.values()
            if self.is_bound or preset.name != "later" or preset.moment.date() == today
        ]
        if due_at is not None:
            self.fields["at"].help_text = _("Due: %(moment)s") % {"moment": format_moment(due_at)}

    def clean_at(self) -> datetime | None:
        moment: datetime | None = self.cleaned_data["at"]
        if moment is None:
            return None
        if moment.year > LAST_YEAR:
            raise forms.ValidationError(self.fields["at"].error_messages["invalid"])
        if not settings.USE_TZ and timezone.is_aware(moment):
            moment = timezone.make_naive(moment)
        if moment <= timezone.now():
            raise forms.ValidationError(_("Enter a time in the future."))
        return moment

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not self.errors and not (cleaned.get("at") or cleaned.get("until")):
            self.add_error("until", _("Select a time."))
        return cleaned

    def moment(self) -> datetime:
        """Return the selected time."""
        at: datetime | None = self.cleaned_data["at"]
        return at or self.presets[self.cleaned_data["until"]].moment


def _describe(preset: SnoozePreset, due_at: datetime | None) -> str:
    time = time_format(preset.moment)
    if preset.name != "later":
        time = f"{date_format(preset.moment, 'D')} {time}"
    words = {"name": preset.label, "time": time}
    if due_at is not None and preset.moment > due_at:
        return _("%(name)s, %(time)s (after the due date)") % words
    return _("%(name)s, %(time)s") % words
