"""The forms that answer a question: its fields and buttons, and what each button sends."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from hitl_django import answers
from hitl_django.admin.display.diff_display import (
    Difference,
    list_differences,
    list_patch_differences,
)
from hitl_django.admin.display.payload_display import (
    DisplayedValue,
    display_answer,
    list_heading_keys,
)
from hitl_django.answers import AnswerOptions
from hitl_django.conf import hitl
from hitl_django.decision_types import APPROVE, DECISION_TYPES, EDIT, RESPOND, needs_agreement
from hitl_django.dialects import APPROVED, UNSET
from hitl_django.engine.errors import HitlError, InvalidAnswerError, PayloadLimitError
from hitl_django.forms import MISSING, AnswerForm, CustomForm, SchemaNode, infer_shape, read_shape
from hitl_django.forms.json_input import from_json, normalize_newlines, to_json
from hitl_django.graph_registry import registry
from hitl_django.json_text.reasons import say
from hitl_django.json_text.text_diff import Span
from hitl_django.models import Decision, Interrupt
from hitl_django.services import DecisionInfo

from .decision_form import Button, DecisionForm, get_button_label
from .decision_texts import get_consequences

JSON = Any
#: Stands for the name of a list, to show again what was posted and find no fault with it yet.
AS_TYPED = "-"
#: A label, a text, and what was changed of it word by word.
TypedText = tuple[str, str, Sequence[Span]]


@dataclass(frozen=True)
class Preview:
    """What a decision would change of what was asked, and what the graph would get."""

    changed: Sequence[Difference]
    answer: Sequence[DisplayedValue] = ()


UNSENT = _(
    "You made changes, but “%(approve)s” would send the original values. Choose "
    "“%(edit)s”, or revert your changes."
)


class InterruptForms:
    """A question with the forms that answer it; ``data`` is what came back of them.

    ``form`` asks for the typed answer, or for the edited version of what was asked where the
    question has no schema; it is None where a button says it all. ``more`` names a list in the
    form that is to have more blank rows: the page is then shown again as it was sent.
    """

    #: The actions of a request that are decided one by one.
    actions: Sequence[Any] = ()

    def __init__(
        self, item: Interrupt, data: Mapping[str, Any] | None = None, *, more: str = ""
    ) -> None:
        self.item, self.data, self.more = item, data, more
        self.options: AnswerOptions = answers.read_options(item)
        self.decisions = self.options.allowed
        #: Several questions stand on one page, and no two of their fields have the same id.
        self.auto_id = f"q{item.pk.hex}-%s"
        first = {
            "digest": item.payload_digest,
            "version": item.version,
            "key": uuid.uuid4().hex,
        }
        self.decision_form = DecisionForm(
            data,
            initial=first,
            use_required_attribute=False,
            auto_id=self.auto_id,
            policy=registry.get_review_policy(item.graph),
        )
        #: Whether there is no form, because nobody could edit that much in a browser.
        self.is_too_large = False
        self.form = self._form()
        #: Why it can't be approved either, where that repeats what was asked.
        self.unsendable = self._too_large_to_approve() if self.is_too_large else ""
        self.consequences = get_consequences(
            item, self.decisions, has_form=self.is_typed and self.form is not None
        )
        self.errors: list[Any] = []
        #: What a decision would send, where that was asked for.
        self.preview: Preview | None = None
        #: Why the user can't approve it, and has no button to.
        self.barred: Any = ""
        #: Whether the user can send no version and no words of their own, so that none are asked.
        self.hides_fields = False

    @property
    def is_typed(self) -> bool:
        """Return whether a schema says what the answer is, and not what a dialect makes of one."""
        return self.item.response_schema is not None and not self.options.rules.requests_actions

    @property
    def is_raw(self) -> bool:
        """Return whether it is asked as plain JSON, so that any JSON answers it."""
        return self.options.rules.takes_any_json

    @property
    def edits_payload(self) -> bool:
        """Return whether the form edits what was asked, and not the answer to it."""
        return not self.is_typed and self.form is not None

    @property
    def opens_form(self) -> bool:
        """Return whether the form came back with something in it that is to be looked at."""
        form = self.form
        if form is None or not form.is_bound:
            return False
        return bool(self.more) or not form.is_valid() or form.is_edited()

    @property
    def takes_reply(self) -> bool:
        """Return whether it may be answered in words, or raw JSON by any JSON."""
        return not self.is_typed and RESPOND in self.decisions

    @property
    def most(self) -> int | None:
        """Return how many bytes Django reads of a form."""
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE

    @property
    def edit_label(self) -> Any:
        """The label of the button that sends an edit."""
        return self.label(EDIT)

    @property
    def reply_label(self) -> Any:
        """The label of the button that sends an answer in words."""
        return self.label(RESPOND)

    @property
    def has_errors(self) -> bool:
        """Return whether the page came back because something has to be put right."""
        return bool(self.errors or self.decision_form.errors or (self.form and self.form.errors))

    def shown_in_form(self) -> list[str]:
        """Name the values of the payload that the form shows anyway, in fields that hold them."""
        payload = self.item.payload
        if self.form is None or self.edits_payload or self.hides_fields:
            return []
        if not isinstance(payload, dict):
            return []
        return [
            name
            for name, value in self.form.original_members().items()
            if name in payload and to_json(value) == to_json(payload[name])
        ]

    def buttons(self) -> list[Button]:
        """Return the decisions that have a button in the bar, in its order."""
        if self.barred or self.unsendable:
            return [button for button in self._buttons() if not needs_agreement(button.value)]
        return self._buttons()

    def _buttons(self) -> list[Button]:
        # The form has a button of its own to send an edit, and the field of a reply one to reply.
        elsewhere = {EDIT, RESPOND} if self.takes_reply else {EDIT}
        types = [
            type_
            for type_ in DECISION_TYPES.values()
            if type_.name in self.decisions and type_.name not in elsewhere
        ]
        types.sort(key=lambda type_: not type_.needs_agreement)  # what ends it comes last
        return [
            Button(
                type_.name, self.label(type_.name), type_.css_class, self.consequences[type_.name]
            )
            for type_ in types
        ]

    def label(self, decision: str) -> Any:
        """Return what a button says."""
        return get_button_label(self.item, decision)

    def read(self, pressed: str) -> tuple[str, JSON] | None:
        """Return the decision and its value as they go to the service.

        None where something has to be put right first; then ``errors`` and the forms say what.
        """
        if pressed not in self.decisions:
            self.errors.append(_("Choose a decision to submit."))
            return None
        goes_along = self.decision_form.is_valid()
        read = self._read_typed(pressed) if self.is_typed else self._read_untyped(pressed)
        if not goes_along or read is None:
            self._find_other_faults(pressed)
            return None
        return read

    def make_preview(self) -> None:
        """Says what would be sent, or what has to be put right first; sends nothing."""
        wanted = (APPROVE, RESPOND, EDIT) if self.is_typed else (EDIT,)
        pressed = next((type_ for type_ in wanted if type_ in self.decisions), "")
        read = self.read(pressed)
        if read is None:
            return
        type_, value = read
        try:
            resume_value = answers.make_resume_value(self.options, type_, value)
        except HitlError as error:
            self.refuse(error)
            return
        patch = answers.make_decision_patch(self.options, type_, value)
        changed = list_patch_differences(self.item, patch)
        if type_ == RESPOND:
            mask = self.options.mask_edited
            changed = list_differences(mask(self.options.start), mask(value))
        shown = self.options.mask_answer(resume_value)
        self.preview = Preview(changed, display_answer(self.item, shown))

    def is_stale(self) -> bool:
        """Return whether what came back was made of another version, or doesn't say of which."""
        seen = (self.decision_form["digest"].data, str(self.decision_form["version"].data or ""))
        return seen != (self.item.payload_digest, str(self.item.version))

    def recorded(self, user: Any) -> DecisionInfo | None:
        """Return what was recorded when the same page was sent before."""
        key = self.decision_form["key"].data
        if not key:
            return None
        made = Decision.objects.filter(interrupt=self.item, key=str(key)[:255], by=user)
        made = made.filter(undone_at=None)
        found = made.order_by("version").first()
        return (
            None if found is None else DecisionInfo.from_row(found, self.item.run_id, repeated=True)
        )

    def refuse(self, error: HitlError) -> None:
        """Show what the service found wrong with the answer."""
        faults = error.faults if isinstance(error, InvalidAnswerError) else ()
        if self.form is not None and faults:
            self.form.add_faults([(self._within(pointer), reason) for pointer, reason in faults])
        else:
            self.errors.append(describe_refusal(error))

    def typed_texts(self) -> list[TypedText]:
        """Return what a person typed or changed, with its label: nothing of it may be lost."""
        kept = self.form.typed_texts() if self.form is not None and self.form.is_bound else []
        for name in ("usual_reply", "reply", "usual_reason", "reason"):
            if name not in self.decision_form.fields:
                continue
            text = self.decision_form[name].data if self.decision_form.is_bound else ""
            if text:
                kept.append((str(self.decision_form[name].label), str(text), ()))
        return kept

    def _read_typed(self, pressed: str) -> tuple[str, JSON] | None:
        if self.form is None:
            return pressed, UNSET
        if not self.form.is_valid():
            return None
        edited = pressed == APPROVE and self.form.is_edited()
        return (EDIT if edited else pressed), self.form.answer

    def _find_other_faults(self, pressed: str) -> None:
        """Show what else the service would refuse, so that all of it is put right at once."""
        if self.form is None or not self.form.is_bound or not self.is_typed:
            return
        try:
            answers.make_resume_value(self.options, pressed, self.form.answer)
        except InvalidAnswerError as error:
            self.form.add_other_faults(error.faults)
        except HitlError:
            pass  # of what is said in no field, the service says it when the rest is right

    def _read_untyped(self, pressed: str) -> tuple[str, JSON] | None:
        if pressed == RESPOND:
            return self._read_reply()
        form = self.form
        if pressed == EDIT and form is not None:
            return (EDIT, self._edited(form.answer)) if form.is_valid() else None
        if (
            pressed == APPROVE
            and form is not None
            and not (form.is_valid() and not form.is_edited())
        ):
            # Approving sends a plain yes; what was changed would be lost without a word.
            self.errors.append(UNSENT % {"approve": self.label(APPROVE), "edit": self.label(EDIT)})
            return None
        return pressed, UNSET

    def _read_reply(self) -> tuple[str, JSON] | None:
        sent = self.decision_form.cleaned_data
        reply = normalize_newlines(sent.get("reply", ""))
        try:
            if not reply.strip():
                raise ValidationError(_("Enter a response."))
            if not (self.is_raw and sent["reply_is_json"]):
                return RESPOND, reply
            return RESPOND, from_json(reply)
        except ValidationError as error:
            self.decision_form.add_error("reply", error)
        except ValueError as error:
            self.decision_form.add_error(
                "reply", _("Enter valid JSON: %(error)s.") % {"error": error}
            )
        return None

    def _too_large_to_approve(self) -> str:
        if APPROVE in self.decisions:
            try:
                answers.compose_resume_value(self.options, APPROVE)
            except PayloadLimitError as error:
                return describe_refusal(error)
            except HitlError:
                pass  # that is for whoever presses the button to be told
        return ""

    def _form(self) -> AnswerForm | CustomForm | None:
        if self.is_typed:
            return self._typed_form()
        return self._edit_form() if EDIT in self.decisions else None

    def _typed_form(self) -> AnswerForm | CustomForm | None:
        schema = self.item.response_schema
        if EDIT not in self.decisions and RESPOND not in self.decisions:
            return None
        assert schema is not None
        shape, original = self._editable(read_shape(schema)), self.options.start
        if EDIT in self.decisions:
            # The buttons say whether it is approved.
            shape = shape.without(APPROVED)
            original = {key: value for key, value in original.items() if key != APPROVED}
        elif original is None and "default" not in schema:
            original = MISSING
        if shape.kind == "object" and not shape.properties and not original:
            return None
        if original is not MISSING and is_too_large(original):
            self.is_too_large = True
            if RESPOND not in self.decisions:
                return None
            original = MISSING
        return self._make_own_form(original) or self.make_form(shape, original)

    def _edit_form(self) -> AnswerForm | CustomForm | None:
        start = self.options.start
        member = self.options.rules.arguments_member
        original = start[member] if member else start
        if is_too_large(original):
            self.is_too_large = True
            return None
        schema = self.options.rules.arguments_schema(self.options)
        shape = infer_shape(original) if schema is None else read_shape(schema)
        shape = self._editable(shape, self._under)
        # What addresses the reviewer isn't what is reviewed. It comes back as it was.
        heading = {"title", "question", "why"} if self.is_raw else set[str]()
        for name in heading.intersection(list_heading_keys(self.item.payload, self.item.title)):
            shape = shape.without(name)
        if shape.kind == "object" and not shape.properties:
            return None
        own = self._make_own_form(original)
        return own or self.make_form(replace(shape, title=str(_("Edited version"))), original)

    def _make_own_form(self, original: JSON) -> CustomForm | None:
        """Make the form that the graph's policy has for the node, if it has one."""
        node = registry.get_present_name(self.item.graph, self.item.node)
        found = registry.get_review_policy(self.item.graph).forms.get(node)
        if found is None:
            return None
        form_class = import_string(found) if isinstance(found, str) else found
        return CustomForm(form_class, original, self.data, auto_id=self.auto_id, more=self.more)

    def make_form(self, shape: SchemaNode, original: JSON, **options: Any) -> AnswerForm:
        """Make a form of the question, from what came back if anything did."""
        return AnswerForm(
            shape, original, self.data, more=self.more, auto_id=self.auto_id, **options
        )

    def _editable(self, shape: SchemaNode, under: str = "") -> SchemaNode:
        """Leave out what nobody may change; it goes back as it was."""
        free = self.options.editable
        if free is None:
            return shape
        return shape.restrict_to([way if way.startswith("/") else f"/{way}" for way in free], under)

    @property
    def _under(self) -> str:
        """Where the form's value stands in what is sent, as a JSON pointer."""
        member = self.options.rules.arguments_member
        return f"/{member}" if member else ""

    def _edited(self, answer: JSON) -> JSON:
        """Return what the form's value makes of what an edit edits."""
        member = self.options.rules.arguments_member
        return {**self.options.start, member: answer} if member else answer

    def _within(self, pointer: str) -> str:
        return pointer.removeprefix(self._under) if not self.is_typed else pointer


def describe_refusal(error: HitlError) -> str:
    """Return what is wrong with an answer as a whole, in the reader's language where it can."""
    if isinstance(error, InvalidAnswerError) and error.faults:
        return " ".join(say(reason) for _pointer, reason in error.faults)
    return say(error.args[0]) if isinstance(error, PayloadLimitError) else str(error)


def is_too_large(value: JSON) -> bool:
    """Return whether a value is more than an answer may be."""
    return len(to_json(value).encode()) > hitl.RESPONSE_MAX_BYTES
