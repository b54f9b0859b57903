"""Actions on an interrupt that are not decisions: claim, assign, snooze and comment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser, Group
from django.core.exceptions import ObjectDoesNotExist
from django.http import HttpRequest, QueryDict
from django.utils.translation import gettext_lazy as _

from hitl_django import services
from hitl_django.admin.panels import Panel, PanelForm, find_panel, list_panels
from hitl_django.conf import hitl
from hitl_django.engine.errors import InvalidInputError
from hitl_django.errors import NotAllowedError
from hitl_django.forms.json_input import escape_hidden
from hitl_django.forms.local_time import format_moment
from hitl_django.models import Interrupt
from hitl_django.permissions import get_policy

from .snooze_form import SnoozeForm


@dataclass(frozen=True)
class ActionOutcome:
    """Messages about a performed action: a confirmation, and warnings."""

    message: Any
    warnings: Sequence[Any] = ()


class AssignForm(forms.Form):
    """Form for the assignee: a username, a group, both or neither."""

    user = forms.CharField(
        label=_("Username"),
        required=False,
        max_length=255,
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )
    group = forms.ModelChoiceField(
        Group.objects.order_by("name"), label=_("Group"), required=False, empty_label=_("(none)")
    )

    def clean_user(self) -> Any:
        name = self.cleaned_data["user"].strip()
        if not name:
            return None
        try:
            return get_user_model()._default_manager.get_by_natural_key(name)
        except ObjectDoesNotExist:
            raise forms.ValidationError(_("No user with this username.")) from None


class CommentForm(forms.Form):
    """Form for a comment."""

    text = forms.CharField(
        label=_("Comment"),
        help_text=_(
            "Visible to reviewers only, not part of the response. Use @username to mention someone."
        ),
        widget=forms.Textarea(attrs={"rows": 2, "class": "vLargeTextField"}),
        strip=True,
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["text"].widget.attrs["maxlength"] = hitl.COMMENT_MAX_LENGTH


FORMS: dict[str, type[forms.Form]] = {
    "assign": AssignForm,
    "comment": CommentForm,
    "snooze": SnoozeForm,
}


#: Button that lists people instead of performing an action.
FIND_PEOPLE = "people"

#: Field and message for an argument that a service refuses.
FAULTS = {"to": ("user", _("This user can't decide this request."))}

#: Field of each form whose value a button can contain after a colon, as in "snooze:tomorrow".
CHOICES = {"assign": "user", "snooze": "until"}


def read_action(data: QueryDict) -> tuple[str, QueryDict]:
    """Return the action of the pressed button, and the submitted values.

    The value of a button may have the form ``assign:USER`` or ``snooze:PRESET``. The user or preset
    then replaces the submitted value of the form field.
    """
    verb, colon, choice = data.get("verb", "").partition(":")
    if not colon or verb not in CHOICES:
        return data.get("verb", ""), data
    chosen = data.copy()
    chosen[CHOICES[verb]] = choice
    if verb == "snooze":
        chosen["at"] = ""
    return verb, chosen


@dataclass(frozen=True)
class ActionForms:
    """The forms for actions on an interrupt.

    ``open`` is the name of the form that the page shows expanded. ``panels`` are the forms of
    panels, by panel name. ``people`` are the users found for an assignment, or None without a
    search.
    """

    assign: forms.Form
    comment: forms.Form
    snooze: forms.Form
    panels: Mapping[str, PanelForm]
    open: str = ""
    people: Sequence[services.PersonInfo] | None = None

    @classmethod
    def build(
        cls,
        request: HttpRequest,
        item: Interrupt,
        *,
        groups: Sequence[tuple[Any, str]] | None = None,
        verb: str = "",
        data: Mapping[str, Any] | None = None,
        done: str = "",
    ) -> ActionForms:
        """Build the forms.

        ``groups`` are the groups that can be assigned. They are read once per page. ``data`` are
        submitted values. The form of the action ``verb`` validates them. All other forms show them
        as initial values, except for the form of the completed action ``done``.
        """
        own: dict[str, dict[str, Any]] = {"snooze": {"due_at": item.due_at}}
        made = {
            name: form(
                data if name == verb else None,
                auto_id=f"q{item.pk.hex}-{name}-%s",
                use_required_attribute=False,
                initial={
                    **(_get_initial_assignment(item) if name == "assign" else {}),
                    **_typed(form, {} if data is None or name == done else data),
                },
                **own.get(name, {}),
            )
            for name, form in FORMS.items()
        }
        panels = {
            panel.name: panel.make_form(
                request,
                item,
                data if panel.name == get_part(verb) else None,
                {} if data is None or panel.name == get_part(done) else data,
            )
            for panel in list_panels()
        }
        group = made["assign"].fields["group"]
        if groups is not None and isinstance(group, forms.ModelChoiceField):
            group.choices = groups
        found: dict[str, Any] = made
        return cls(**found, panels=panels, open=verb)

    def find_form(self, verb: str) -> forms.Form | None:
        """Return the form of an action, or None if the action has no form."""
        if verb in FORMS:
            form: forms.Form = getattr(self, verb)
            return form
        panel = self.panels.get(get_part(verb))
        return None if panel is None else panel.form

    def suggest_people(self, url: str) -> None:
        """Enable suggestions of people in the fields for the assignee and the comment.

        A script requests the suggestions from ``url``.
        """
        for field in (self.assign.fields["user"], self.comment.fields["text"]):
            field.widget.attrs |= {"data-hitl-people": url, "data-hitl-people-label": _("People")}

    @property
    def has_text(self) -> bool:
        """Return whether the comment form or the form of a panel contains unsaved text."""
        comment = bool(self.comment.initial.get("text", "").strip())
        return comment or any(panel.has_text for panel in self.panels.values())


def list_groups() -> list[tuple[Any, str]]:
    """Return the choices for the assigned group: no group, and the id and name of each group."""
    names = Group.objects.order_by("name").values_list("pk", "name")
    return [("", str(_("(none)"))), *((pk, escape_hidden(name)) for pk, name in names)]


def is_action(verb: str) -> bool:
    """Return whether this app or a panel has an action of this name."""
    return verb in VERBS or verb in FORM_VERBS or find_panel(verb) is not None


def run_action(
    request: HttpRequest, item: Interrupt, verb: str, form: forms.Form | None
) -> ActionOutcome | None:
    """Perform an action by calling a service, and return the messages about it.

    Returns None if the form has errors. Errors of the service are raised.
    """
    user, found = request.user, find_panel(verb)
    if found is not None:
        if found[0].get_context(request, item) is None:
            raise NotAllowedError("You don't have permission to use this panel.")
        perform = partial(_use_panel, found[0], request, item, found[1])
    elif form is None:
        return VERBS[verb](item, user)
    else:
        perform = partial(FORM_VERBS[verb], item, user)
    if verb == "assign" and not get_policy().may_assign(user, item):
        # Users without the permission must not learn which users and groups exist. The service
        # raises the same error for any assignee.
        services.assign(item.pk, to=AnonymousUser(), by=user, via="admin")
    if form is None:
        return perform(None)
    if form.is_valid():
        try:
            return perform(form)
        except InvalidInputError as error:
            for pointer, fault in error.faults:
                name, reason = FAULTS.get(pointer, (pointer, fault))
                form.add_error(name if name in form.fields else None, reason)
    # The reloaded page scrolls to the first field with an error.
    faulty = next((name for name in form.errors if name in form.fields), None)
    if faulty is not None:
        form.fields[faulty].widget.attrs["autofocus"] = True
    return None


def _use_panel(
    panel: Panel, request: HttpRequest, item: Interrupt, action: str, form: forms.Form | None
) -> ActionOutcome:
    return ActionOutcome(panel.perform(request, item, action, form))


def _claim(item: Interrupt, user: Any) -> ActionOutcome:
    services.claim(item.pk, by=user, via="admin")
    return ActionOutcome(
        _("You claimed this request. Other reviewers can see that you are working on it.")
    )


def _take_over(item: Interrupt, user: Any) -> ActionOutcome:
    services.claim(item.pk, by=user, via="admin", take_over=True)
    return ActionOutcome(_("You took over this claim. The takeover is in the audit log."))


def _release(item: Interrupt, user: Any) -> ActionOutcome:
    services.release(item.pk, by=user, via="admin")
    return ActionOutcome(_("Claim released. Others can claim this request."))


def _wake(item: Interrupt, user: Any) -> ActionOutcome:
    services.snooze(item.pk, until=None, by=user, via="admin")
    return ActionOutcome(_("Request is back in the queue."))


def _snooze(item: Interrupt, user: Any, form: Any) -> ActionOutcome:
    until = form.moment()
    services.snooze(item.pk, until=until, by=user, via="admin")
    # The message includes the title, because the next page may show another interrupt.
    texts = {"title": escape_hidden(item.title), "moment": format_moment(until)}
    words = _("“%(title)s” is snoozed until %(moment)s and then returns to the queue.")
    if item.due_at is None or until <= item.due_at:
        return ActionOutcome(words % texts)
    due = {"due": format_moment(item.due_at)}
    late = _("The end of the snooze is after the due date of the request: %(due)s")
    return ActionOutcome(words % texts, (late % due,))


def _assign(item: Interrupt, user: Any, form: Any) -> ActionOutcome:
    to, group = form.cleaned_data["user"], form.cleaned_data["group"]
    services.assign(item.pk, to=to, group=group, by=user, via="admin")
    names = [escape_hidden(str(one)) for one in (to, group) if one is not None]
    if not names:
        return ActionOutcome(_("Unassigned."))
    return ActionOutcome(_("Assigned to %(names)s.") % {"names": ", ".join(names)})


def _comment(item: Interrupt, user: Any, form: Any) -> ActionOutcome:
    made = services.comment(item.pk, form.cleaned_data["text"], by=user, via="admin")
    missed = services.list_unmentioned(made)
    if not missed:
        return ActionOutcome(_("Comment added."))
    # The text must not reveal whether a user with this name exists.
    if get_policy().may_assign(user, item):
        words = _("Not notified: %(names)s. No user with this name can view this request.")
    else:
        words = _("Not notified: %(names)s. You can mention only people named on this page.")
    names = ", ".join(f"@{escape_hidden(name)}" for name in missed)
    return ActionOutcome(_("Comment added."), (words % {"names": names},))


VERBS: dict[str, Callable[[Interrupt, Any], ActionOutcome]] = {
    "claim": _claim,
    "release": _release,
    "take_over": _take_over,
    "wake": _wake,
}
FORM_VERBS: dict[str, Callable[[Interrupt, Any, Any], ActionOutcome]] = {
    "assign": _assign,
    "comment": _comment,
    "snooze": _snooze,
}


def get_part(verb: str) -> str:
    """Return the part of the page that contains an action: the action's form, or its panel."""
    return verb.partition(".")[0]


def _typed(form: type[forms.Form], data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in form.base_fields if name in data}


def _get_initial_assignment(item: Interrupt) -> dict[str, Any]:
    name = item.assignee.get_username() if item.assignee_id and item.assignee else ""
    return {"user": name, "group": item.group_id}
