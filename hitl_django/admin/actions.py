"""A request for several actions: each is decided on its own, and all are sent at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from hitl_django.answers import APPROVE, EDIT, REJECT, RESPOND, UNSET, Action, actions_of
from hitl_django.engine.errors import HitlError, InvalidAnswerError
from hitl_django.forms import AnswerForm, Shape, infer_shape, read_shape
from hitl_django.forms.text import to_json, unix, visible
from hitl_django.models import Interrupt

from .facts import Fact, facts_of
from .sheet import ARGS, UNSENT, Sheet, Typed, is_too_large
from .slip import LARGE, Button

JSON = Any

#: More actions than this are approved or rejected together, and no more fields than that change
#: their arguments: Django reads a thousand fields of a form.
MAX_ACTIONS, MAX_ARGS = 200, 400
#: The button that sends what was chosen for each action.
EACH = "each"
CHOICES: dict[str, Any] = {
    APPROVE: _("Approve"),
    EDIT: _("Approve with the changes below"),
    REJECT: _("Reject"),
    RESPOND: _("Don't carry it out, but answer"),
}
LEADS: dict[str, Any] = {
    EACH: _("Each action is carried out or not as chosen above."),
    APPROVE: _("All are carried out as they stand, whatever is chosen above."),
    REJECT: _("None is carried out, whatever is chosen above."),
}


class ChoiceForm(forms.Form):
    """Asks what is to become of one action."""

    decision = forms.ChoiceField(
        label=_("Decision"),
        widget=forms.RadioSelect,
        error_messages={"required": _("Say what is to become of this one.")},
    )
    message = forms.CharField(
        label=_("Message"),
        help_text=_("For whoever asked: why not, or the answer."),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": LARGE}),
    )

    def __init__(
        self, allowed: Sequence[str], data: Mapping[str, Any] | None, **options: Any
    ) -> None:
        super().__init__(data, use_required_attribute=False, **options)
        choice = self.fields["decision"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [(word, CHOICES[word]) for word in allowed]
        if not {REJECT, RESPOND}.intersection(allowed):
            del self.fields["message"]

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        if cleaned.get("decision") == RESPOND and not cleaned.get("message", "").strip():
            self.add_error("message", _("Write an answer first."))
        return cleaned


class ActionBlock:
    """One of the actions: what it is, and the forms that decide it.

    ``start`` are the arguments that stand there to be decided, which somebody may have changed.
    """

    def __init__(self, sheet: ActionsSheet, number: int, action: Action, start: JSON) -> None:
        self.sheet, self.number, self.action, self.start = sheet, number, action, start
        self.form = self._args_form()
        # Nothing can be changed without a form, so that isn't offered.
        allowed = [word for word in action.allowed if word != EDIT or self.form is not None]
        self.choice = ChoiceForm(
            allowed or action.allowed,
            sheet.data,
            prefix=f"action/{number}",
            auto_id=sheet.auto_id,
        )

    @property
    def title(self) -> str:
        return visible(self.action.name)

    @property
    def facts(self) -> list[Fact]:
        return facts_of(self.start)

    def is_changed(self) -> bool:
        """Says whether the arguments were changed, or can't be read."""
        return self.form is not None and not (self.form.is_valid() and not self.form.is_edited())

    def is_touched(self) -> bool:
        """Says whether anything was chosen, written or changed."""
        return self.choice.has_changed() or self.is_changed()

    def read(self) -> dict[str, JSON] | None:
        """Returns the decision on this action; None where something has to be put right first."""
        if not self.choice.is_valid():
            return None
        word = self.choice.cleaned_data["decision"]
        message = unix(self.choice.cleaned_data.get("message", ""))
        if word in (REJECT, RESPOND):
            return {"type": word, **({"message": message} if message.strip() else {})}
        if word == APPROVE and self.is_changed():
            self.choice.add_error("decision", UNSENT)
            return None
        if self.form is not None and not self.form.is_valid():
            return None
        args = self.start if self.form is None else self.form.answer
        if word == APPROVE and to_json(args) == to_json(self.action.args):
            return {"type": APPROVE}
        return {"type": EDIT, "edited_action": {"name": self.action.name, ARGS: args}}

    def refuse(self, pointer: str, reason: str) -> None:
        """Shows a fault at the field that it is about."""
        below = pointer.removeprefix(f"/edited_action/{ARGS}")
        if below != pointer and self.form is not None:
            self.form.add_faults([(below, reason)])
        elif pointer == "/message" and "message" in self.choice.fields:
            self.choice.add_error("message", reason)
        else:
            self.choice.add_error("decision", reason)

    def typed(self) -> list[Typed]:
        """Returns what a person chose, typed or changed."""
        found = []
        if self.choice.is_bound:
            data = {bound.name: str(bound.data or "") for bound in self.choice}
            said = str(CHOICES.get(data["decision"], ""))
            found = [text for text in (said, data.get("message", "")) if text]
        kept: list[Typed] = [(self.title, text, ()) for text in found]
        return kept + (self.form.typed() if self.form is not None and self.form.is_bound else [])

    def _args_form(self) -> AnswerForm | None:
        if EDIT not in self.action.allowed or is_too_large(self.start):
            return None
        schema = self.action.schema
        shape = infer_shape(self.start) if schema is None else read_shape(schema)
        if shape.kind == "object" and not shape.properties:
            return None
        if not self.sheet.makes_room(shape, self.start):
            return None
        return self.sheet.make_form(shape, self.start, name=f"action/{self.number}/{ARGS}")


class ActionsSheet(Sheet):
    """A question that asks for several actions at once."""

    def __init__(
        self, item: Interrupt, data: Mapping[str, Any] | None = None, *, more: str = ""
    ) -> None:
        super().__init__(item, data, more=more)
        self._room = MAX_ARGS
        start, actions = self.asked.start, actions_of(item.payload)
        self.are_too_many = len(actions) > MAX_ACTIONS
        self.actions = [
            ActionBlock(self, number, action, start[number][ARGS])
            for number, action in enumerate(() if self.are_too_many else actions)
        ]

    @property
    def takes_reply(self) -> bool:
        return False

    def makes_room(self, shape: Shape, start: JSON) -> bool:
        """Says whether there is room for a form, and takes it; the same whatever was posted."""
        self._room -= len(AnswerForm(shape, start).fields)
        return self._room >= 0

    @property
    def has_errors(self) -> bool:
        if super().has_errors:
            return True
        return bool(self.data) and not self.more and any(map(_has_errors, self.actions))

    def _buttons(self) -> list[Button]:
        found = []
        if not self.are_too_many:
            found.append(Button(EACH, _("Send decisions"), "default", LEADS[EACH]))
        if APPROVE in self.decisions:
            found.append(Button(APPROVE, _("Approve all"), "hitl-quiet", LEADS[APPROVE]))
        if REJECT in self.decisions:
            found.append(Button(REJECT, _("Reject all"), "hitl-reject", LEADS[REJECT]))
        return found

    def read(self, pressed: str) -> tuple[str, JSON] | None:
        self.pressed = pressed
        if pressed not in {button.value for button in self._buttons()}:
            self.errors.append(_("Use one of the buttons to say what you decide."))
        elif not self.slip.is_valid():
            pass
        elif pressed == EACH:
            return self._read_each()
        elif pressed == APPROVE and any(block.is_changed() for block in self.actions):
            self.errors.append(UNSENT)
        else:
            return pressed, UNSET
        return None

    def refuse(self, error: HitlError) -> None:
        faults = error.faults if isinstance(error, InvalidAnswerError) else ()
        for pointer, reason in faults:
            number, slash, rest = pointer.removeprefix("/").partition("/")
            if number.isdecimal() and int(number) < len(self.actions):
                self.actions[int(number)].refuse(slash + rest, reason)
            else:
                self.errors.append(reason)
        if not faults:
            self.errors.append(str(error))

    def typed(self) -> list[Typed]:
        return [line for block in self.actions for line in block.typed()] + super().typed()

    def _form(self) -> AnswerForm | None:
        return None

    def _read_each(self) -> tuple[str, JSON] | None:
        made = [block.read() for block in self.actions]
        decided = [one for one in made if one is not None]
        if len(decided) < len(made):
            return None
        words = {one["type"] for one in decided}
        if words == {APPROVE} and APPROVE in self.decisions:
            return APPROVE, UNSET
        if words <= {APPROVE, EDIT} and EDIT in self.decisions:
            return EDIT, decided
        return RESPOND, decided


def _has_errors(block: ActionBlock) -> bool:
    return bool(block.choice.errors or (block.form is not None and block.form.errors))


def sheet_of(item: Interrupt, data: Mapping[str, Any] | None = None, *, more: str = "") -> Sheet:
    """Returns the sheet for a question."""
    several = item.dialect == "hitl_request" and len(actions_of(item.payload)) > 1
    kind: type[Sheet] = ActionsSheet if several else Sheet
    return kind(item, data, more=more)
