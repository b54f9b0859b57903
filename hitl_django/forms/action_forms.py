"""Forms for an interrupt with several actions, each with its own decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.forms.utils import ErrorDict
from django.utils.translation import gettext_lazy as _

from hitl_django.answers import describe_call
from hitl_django.decision_types import APPROVE, DECISION_TYPES, EDIT, REJECT, RESPOND
from hitl_django.dialects import DIALECTS, UNSET, RequestedAction, humanise_name
from hitl_django.engine.errors import HitlError, InvalidAnswerError
from hitl_django.graph_registry import registry
from hitl_django.json_text.json_schema import find_faults
from hitl_django.json_text.reasons import say
from hitl_django.models import Interrupt

from .answer_form import AnswerForm
from .decision_form import LARGE_TEXT_CLASS, Button
from .interrupt_forms import UNSENT, InterruptForms, TypedText, describe_refusal, is_too_large
from .json_input import escape_hidden, normalize_newlines, to_json
from .schema_tree import SchemaNode, infer_shape, read_shape

JSON = Any

#: Limits of the form, because Django accepts at most a thousand fields. With more actions, similar
#: actions are decided together. With more arguments, the remaining arguments can't be edited.
MAX_ACTIONS, MAX_ARGS = 200, 400
#: Value of the button that submits a decision for each action.
EACH = "each"
SEND_EACH = _("Submit decisions")
EACH_CONSEQUENCE = _("Runs or skips each action according to your choices above.")
#: Key of the arguments in an edited action.
ARGS = "args"


class ActionDecisionForm(forms.Form):
    """Form for the decision on one action."""

    decision = forms.ChoiceField(
        label=_("Decision"),
        widget=forms.RadioSelect,
        error_messages={"required": _("Choose a decision for this action.")},
    )
    message = forms.CharField(
        label=_("Message"),
        help_text=_("Shown to the requester: the reason for rejecting, or your response."),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": LARGE_TEXT_CLASS}),
    )

    def __init__(
        self, allowed: Sequence[str], data: Mapping[str, Any] | None, more: str, **options: Any
    ) -> None:
        super().__init__(data, use_required_attribute=False, **options)
        self.more = more
        choice = self.fields["decision"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [(word, DECISION_TYPES[word].action_choice) for word in allowed]
        if not {REJECT, RESPOND}.intersection(allowed):
            del self.fields["message"]

    def full_clean(self) -> None:
        # As in response forms, ``more`` shows the form again without validation.
        if not self.more:
            super().full_clean()
            return
        self._errors = ErrorDict()
        self.cleaned_data = {}

    def clean(self) -> dict[str, Any]:
        cleaned = self.cleaned_data
        if cleaned.get("decision") == RESPOND and not cleaned.get("message", "").strip():
            self.add_error("message", _("Enter a response."))
        return cleaned


class ActionBlock:
    """One action, or a group of similar actions, with its decision forms.

    ``members`` are the actions of the block, by position in the payload. A block has one action. If
    the interrupt has too many actions, a block has several similar actions, which get the same
    decision. ``starts`` are the initial arguments of each action, which may contain an earlier
    reviewer's changes.
    """

    def __init__(
        self,
        interrupt_forms: SeparateActionForms,
        number: int,
        members: Mapping[int, RequestedAction],
        starts: list[JSON],
    ) -> None:
        self.interrupt_forms, self.number = interrupt_forms, number
        self.members, self.starts = members, starts
        self.action, self.start = next(iter(members.values())), starts[0]
        self.form = None if interrupt_forms.are_too_many else self._args_form()
        # An action can be edited only if its arguments have a form.
        allowed = [word for word in self.action.allowed if word != EDIT or self.form is not None]
        self.choice = ActionDecisionForm(
            allowed or self.action.allowed,
            interrupt_forms.data,
            interrupt_forms.more,
            prefix=f"action/{number}",
            auto_id=interrupt_forms.auto_id,
        )

    @property
    def label(self) -> str:
        """The name of the tool in words, without underscores."""
        return escape_hidden(humanise_name(self.action.name))

    @property
    def title(self) -> str:
        """The heading of the block: the name of the tool and, for one action, its arguments."""
        if len(self.members) > 1:
            return self.label
        policy = registry.get_review_policy(self.interrupt_forms.item.graph)
        return escape_hidden(describe_call(self.action, policy))

    def is_changed(self) -> bool:
        """Return whether the user changed the arguments or entered invalid values."""
        return self.form is not None and not (self.form.is_valid() and not self.form.is_edited())

    def read(self) -> dict[int, JSON] | None:
        """Return the decision on each member by position, or None if the values are invalid."""
        is_chosen = self.choice.is_valid()
        word = self.choice.cleaned_data.get("decision", "")
        is_readable = not self.sends_arguments() or self.is_readable()
        if not is_chosen:
            return None
        message = normalize_newlines(self.choice.cleaned_data.get("message", ""))
        if word in (REJECT, RESPOND):
            decision = {"type": word, **({"message": message} if message.strip() else {})}
            return dict.fromkeys(self.members, decision)
        if word == APPROVE and self.is_changed():
            labels = {
                "approve": DECISION_TYPES[APPROVE].action_choice,
                "edit": DECISION_TYPES[EDIT].action_choice,
            }
            self.choice.add_error("decision", UNSENT % labels)
            return None
        if not is_readable:
            return None
        sent = self.starts if self.form is None else [self.form.answer]
        return {
            number: _carried_out(word, action, args)
            for (number, action), args in zip(self.members.items(), sent, strict=True)
        }

    def sends_arguments(self) -> bool:
        """Return whether the selected decision uses the arguments entered in the form."""
        return self.choice["decision"].data not in (REJECT, RESPOND)

    def is_readable(self) -> bool:
        """Return whether the entered arguments are valid.

        If the arguments are invalid, error messages are added to the form.
        """
        if self.form is None:
            return True
        if not self.form.is_valid() or self.form.is_edited():
            faults = find_faults(self.action.schema or {}, self.form.answer)
            self.form.add_other_faults(faults)
        return not self.form.errors

    def refuse(self, pointer: str, reason: str) -> None:
        """Show an error at the form field to which a JSON pointer refers."""
        below = pointer.removeprefix(f"/edited_action/{ARGS}")
        if below != pointer and self.form is not None:
            self.form.add_faults([(below, reason)])
        elif pointer == "/message" and "message" in self.choice.fields:
            self.choice.add_error("message", say(reason))
        else:
            self.choice.add_error("decision", say(reason))

    def typed_texts(self) -> list[TypedText]:
        """Return all texts that the user has selected, typed or changed."""
        found = []
        if self.choice.is_bound:
            data = {bound.name: str(bound.data or "") for bound in self.choice}
            chosen = DECISION_TYPES.get(data["decision"])
            choice = "" if chosen is None else str(chosen.action_choice)
            found = [text for text in (choice, data.get("message", "")) if text]
        kept: list[TypedText] = [(self.label, text, ()) for text in found]
        return kept + (
            self.form.typed_texts() if self.form is not None and self.form.is_bound else []
        )

    def _args_form(self) -> AnswerForm | None:
        if EDIT not in self.action.allowed or is_too_large(self.start):
            return None
        schema = self.action.schema
        shape = infer_shape(self.start) if schema is None else read_shape(schema)
        if shape.kind == "object" and not shape.properties:
            return None
        if not self.interrupt_forms.reserve_fields(shape, self.start):
            return None
        return self.interrupt_forms.make_form(
            shape, self.start, name=f"action/{self.number}/{ARGS}"
        )


def _carried_out(word: str, action: RequestedAction, args: JSON) -> dict[str, JSON]:
    if word == APPROVE and to_json(args) == to_json(action.args):
        return {"type": APPROVE}
    return {"type": EDIT, "edited_action": {"name": action.name, ARGS: args}}


def _group_similar(actions: Sequence[RequestedAction]) -> list[dict[int, RequestedAction]]:
    """Group actions with the same tool name and the same allowed decisions.

    Each group maps the position of an action in ``actions`` to the action.
    """
    found: dict[Any, dict[int, RequestedAction]] = {}
    for number, action in enumerate(actions):
        found.setdefault((action.name, action.allowed), {})[number] = action
    return list(found.values())


class SeparateActionForms(InterruptForms):
    """The forms of an interrupt whose actions are decided individually."""

    def __init__(
        self,
        item: Interrupt,
        data: Mapping[str, Any] | None = None,
        *,
        files: Any = None,
        more: str = "",
    ) -> None:
        super().__init__(item, data, files=files, more=more)
        self._room = MAX_ARGS
        start, actions = self.options.start, self.options.rules.actions(item.payload)
        #: Whether similar actions are decided together, because the form would otherwise be too
        #: large.
        self.are_too_many = len(actions) > MAX_ACTIONS
        blocks = [{number: action} for number, action in enumerate(actions)]
        if self.are_too_many:
            blocks = _group_similar(actions)
        self.actions = [
            ActionBlock(self, number, members, [start[member][ARGS] for member in members])
            for number, members in enumerate(blocks if len(blocks) <= MAX_ACTIONS else ())
        ]

    @property
    def takes_reply(self) -> bool:
        return False

    def reserve_fields(self, shape: SchemaNode, start: JSON) -> bool:
        """Reserve form fields for one action. Return whether the page has enough fields left.

        ``shape`` describes the arguments of the action, and ``start`` are their initial values. The
        result doesn't depend on submitted values.
        """
        self._room -= len(AnswerForm(shape, start).fields)
        return self._room >= 0

    @property
    def has_errors(self) -> bool:
        if super().has_errors:
            return True
        return bool(self.data) and not self.more and any(map(_has_errors, self.actions))

    def _buttons(self) -> list[Button]:
        found = []
        if self.actions:
            found.append(Button(EACH, SEND_EACH, EACH_CONSEQUENCE))
        for type_ in DECISION_TYPES.values():
            button = type_.all_actions
            if button is not None and type_.name in self.decisions:
                found.append(Button(type_.name, button.label, button.consequence))
        return found

    def read(self, pressed: str) -> tuple[str, JSON] | None:
        self.pressed = pressed
        if pressed not in {button.value for button in self._buttons()}:
            self.errors.append(_("Choose a decision to submit."))
            return None
        goes_along = self.decision_form.is_valid()
        read = self._read_each() if pressed == EACH else (pressed, UNSET)
        if pressed == APPROVE and any(block.is_changed() for block in self.actions):
            labels = {"approve": self._approve_all_label(), "edit": SEND_EACH}
            self.errors.append(UNSENT % labels)
            return None
        return read if goes_along else None

    def refuse(self, error: HitlError) -> None:
        faults = error.faults if isinstance(error, InvalidAnswerError) else ()
        for pointer, reason in faults:
            number, slash, rest = pointer.removeprefix("/").partition("/")
            about = [block for block in self.actions if number in map(str, block.members)]
            if about:
                about[0].refuse(slash + rest, reason)
            else:
                self.errors.append(say(reason))
        if not faults:
            self.errors.append(describe_refusal(error))

    def typed_texts(self) -> list[TypedText]:
        return [
            line for block in self.actions for line in block.typed_texts()
        ] + super().typed_texts()

    def _form(self) -> AnswerForm | None:
        return None

    def _approve_all_label(self) -> Any:
        button = DECISION_TYPES[APPROVE].all_actions
        assert button is not None
        return button.label

    def _read_each(self) -> tuple[str, JSON] | None:
        made = [block.read() for block in self.actions]
        by_number = {number: one for part in made if part for number, one in part.items()}
        if None in made:
            return None
        decided = [by_number[number] for number in sorted(by_number)]
        words = {one["type"] for one in decided}
        if words == {APPROVE} and APPROVE in self.decisions:
            return APPROVE, UNSET
        if words <= {APPROVE, EDIT} and EDIT in self.decisions:
            return EDIT, decided
        return RESPOND, decided


def _has_errors(block: ActionBlock) -> bool:
    return bool(block.choice.errors or (block.form is not None and block.form.errors))


def make_interrupt_forms(
    item: Interrupt, data: Mapping[str, Any] | None = None, *, files: Any = None, more: str = ""
) -> InterruptForms:
    """Return the forms of an interrupt, bound to submitted values if ``data`` is given.

    ``files`` and ``more`` have the same meaning as in ``InterruptForms``.
    """
    is_separate = DIALECTS[item.dialect].has_separate_actions(item.payload)
    kind: type[InterruptForms] = SeparateActionForms if is_separate else InterruptForms
    return kind(item, data, files=files, more=more)
