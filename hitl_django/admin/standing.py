"""Where a question stands: what it is about, who holds it, whose it is, and by when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.timesince import timeuntil
from django.utils.translation import gettext_lazy as _

from hitl_django.forms.text import visible
from hitl_django.models import Interrupt, Thread
from hitl_django.policy import get_policy

#: What becomes of a question, or of its run, once its time is up.
EXPIRES: Mapping[str, Any] = {
    "answer": _("then the run goes on with the answer that was named for this case"),
    "cancel": _("then its run is cancelled"),
    "park": _("then its run waits until somebody lets it go on"),
    "keep": _("then it stays open, as overdue"),
    "escalate": _("then it goes to another group"),
}


@dataclass(frozen=True)
class About:
    """The embedding product's own object; ``url`` is its page, for who may see it."""

    label: str
    url: str = ""


@dataclass(frozen=True)
class Standing:
    """What the head of a question says, and which of its buttons the user has."""

    holder: str = ""
    is_mine: bool = False
    held_for: str = ""
    held_until: datetime | None = None
    whose: str = ""
    snoozed_until: datetime | None = None
    is_overdue: bool = False
    expires: Any = ""
    may_take_over: bool = False
    may_assign: bool = False
    may_comment: bool = False

    @property
    def is_held(self) -> bool:
        return self.held_until is not None


def standing_of(item: Interrupt, user: Any) -> Standing:
    """Says where a question stands, to a user who may see it."""
    now, policy = timezone.now(), get_policy()
    until = item.claimed_until
    held = until is not None and until > now
    asleep = item.snoozed_until is not None and item.snoozed_until > now
    return Standing(
        holder=item.claimed_label if held else "",
        is_mine=held and item.claimed_by_id == user.pk,
        held_for=timeuntil(until, now, depth=1) if held and until is not None else "",
        held_until=until if held else None,
        whose=", ".join(filter(None, (item.assignee_label, item.group_label))),
        snoozed_until=item.snoozed_until if asleep else None,
        is_overdue=item.overdue or (item.due_at is not None and item.due_at <= now),
        expires=EXPIRES.get(item.then, "") if item.expires_at is not None else "",
        may_take_over=policy.may_take_over(user, item),
        may_assign=policy.may_assign(user, item),
        may_comment=policy.may_comment(user, item),
    )


def about_of(thread: Thread, request: HttpRequest, site: AdminSite) -> About | None:
    """Returns what a thread is about: nothing to a user who may not see the object."""
    kind = thread.subject_type
    model = kind.model_class() if kind is not None else None
    if kind is None or model is None:
        return None
    if site.is_registered(model):
        shown = site._registry[model]
        if not shown.has_view_or_change_permission(request):
            return None
    elif not request.user.has_perm(f"{kind.app_label}.view_{kind.model}"):
        return None
    subject = thread.subject
    if subject is None:
        words = {"name": kind.name, "id": visible(thread.subject_id)}
        return About(str(_("%(name)s %(id)s, which is no longer there") % words))
    label = visible(str(subject))
    if not site.is_registered(model) or not shown.has_view_or_change_permission(request, subject):
        return About(label) if not site.is_registered(model) else None
    try:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}_change"
        return About(label, reverse(name, args=[subject.pk], current_app=site.name))
    except NoReverseMatch:
        return About(label)
