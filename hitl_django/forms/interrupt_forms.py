"""Forms for the response to an interrupt, and the values that each button sends."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from hitl_django import answers
from hitl_django.answers import AnswerOptions
from hitl_django.conf import hitl
from hitl_django.decision_types import APPROVE, DECISION_TYPES, EDIT, RESPOND, needs_agreement
from hitl_django.dialects import APPROVED, UNSET
from hitl_django.engine.errors import HitlError, InvalidAnswerError, PayloadLimitError
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.display_hints import parse_hints
from hitl_django.json_text.reasons import say
from hitl_django.json_text.sanitize import list_heading_keys
from hitl_django.json_text.text_diff import Span
from hitl_django.models import Interrupt

from .answer_form import AnswerForm
from .custom_form import CustomForm
from .decision_form import Button, DecisionForm, get_button_label, get_consequences
from .json_input import from_json, normalize_newlines, to_json
from .schema_tree import MISSING, SchemaNode, infer_shape, read_shape

JSON = Any
#: Passed as the name of a list to show the submitted values again without validating them.
AS_TYPED = "-"
#: Label, text, and the changes of the text as marked words.
TypedText = tuple[str, str, Sequence[Span]]


UNSENT = _(
    "You made changes, but “%(approve)s” would send the original values. Choose "
    "“%(edit)s”, or revert your changes."
)


class InterruptForms:
    """An interrupt with its response forms.

    ``data`` are the submitted values. ``files`` are only for a form class of the project. ``form``
    is the form for the response or, without a response schema, for an edited payload. ``form`` is
    None if the buttons are sufficient. If the user has pressed a button that adds blank rows to a
    list, ``more`` is the name of the list. In this case, the submitted values are shown again
    without validation.
    """

    #: Actions of the interrupt that are decided individually.
    actions: Sequence[Any] = ()

    def __init__(
        self,
        item: Interrupt,
        data: Mapping[str, Any] | None = None,
        *,
        files: Any = None,
        more: str = "",
    ) -> None:
        self.item, self.data, self.files, self.more = item, data, files, more
        self.options: AnswerOptions = answers.read_options(item)
        self.decisions = self.options.allowed
        # Element ids must be unique on a page with several interrupts.
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
        #: Whether the payload is too large to be edited in a form.
        self.is_too_large = False
        self.form = self._form()
        #: Reason why approving is disabled, if an approval has to send the large payload back.
        self.unsendable = self._too_large_to_approve() if self.is_too_large else ""
        self.consequences = get_consequences(
            item, self.decisions, has_form=self.is_typed and self.form is not None
        )
        self.errors: list[Any] = []
        #: Reason why the user can't approve the interrupt.
        self.barred: Any = ""
        #: Whether no fields are shown, because the user can send neither an edit nor a response.
        self.hides_fields = False
        #: Whether the page folds the form of an edited payload, below the payload.
        self.folds_edit = True

    @property
    def is_typed(self) -> bool:
        """Whether the form is defined by a response schema, and not by the payload format."""
        return self.item.response_schema is not None and not self.options.rules.requests_actions

    @property
    def is_raw(self) -> bool:
        """Whether the payload has an unknown format, so that the response is any JSON value."""
        return self.options.rules.takes_any_json

    @property
    def edits_payload(self) -> bool:
        """Whether the form edits the payload instead of asking for a response."""
        return not self.is_typed and self.form is not None

    @property
    def opens_form(self) -> bool:
        """Whether the form has submitted values or errors and must therefore be visible."""
        form = self.form
        if form is None or not form.is_bound:
            return False
        return bool(self.more) or not form.is_valid() or form.is_edited()

    @property
    def can_change(self) -> bool:
        """Whether an approval may contain changes."""
        return EDIT in self.decisions and self.form is not None

    @property
    def opens_reason(self) -> bool:
        """Whether the reason has an error and must therefore be visible."""
        return bool({"reason", "suggested_reason"}.intersection(self.decision_form.errors))

    @property
    def opens_reply(self) -> bool:
        """Whether the reply has an error or text and must therefore be visible."""
        form = self.decision_form
        return bool("reply" in form.errors or (form.is_bound and form["reply"].data))

    @property
    def takes_reply(self) -> bool:
        """Whether the response may be free text.

        For a payload with an unknown format, the text may be any JSON value.
        """
        return not self.is_typed and RESPOND in self.decisions

    @property
    def most(self) -> int | None:
        """Django's limit for the size of a submitted form in bytes, or None for no limit."""
        return settings.DATA_UPLOAD_MAX_MEMORY_SIZE

    @property
    def edit_label(self) -> Any:
        """The label of the button that sends an edited payload."""
        return self.label(EDIT)

    @property
    def reply_label(self) -> Any:
        """The label of the button that sends a text response."""
        return self.label(RESPOND)

    @property
    def has_errors(self) -> bool:
        """Whether the page shows errors about submitted values."""
        return bool(self.errors or self.decision_form.errors or (self.form and self.form.errors))

    def shown_in_form(self) -> list[str]:
        """Return the payload keys whose values appear in form fields."""
        payload = self.item.payload
        if self.form is None or self.hides_fields or (self.edits_payload and self.folds_edit):
            return []
        if not isinstance(payload, dict):
            return []
        members = [
            name
            for name, value in self.form.original_members().items()
            if name in payload and to_json(value) == to_json(payload[name])
        ]
        return [*members, *self.form.list_shown_currencies()]

    def buttons(self) -> list[Button]:
        """Return the buttons of the button bar, in their order."""
        if self.barred or self.unsendable:
            return [button for button in self._buttons() if not needs_agreement(button.value)]
        return self._buttons()

    def _buttons(self) -> list[Button]:
        # The form and the text response have their own buttons.
        elsewhere = {EDIT, RESPOND} if self.takes_reply else {EDIT}
        types = [
            type_
            for type_ in DECISION_TYPES.values()
            if type_.name in self.decisions and type_.name not in elsewhere
        ]
        # Put decisions that end the run last.
        types.sort(key=lambda type_: not type_.needs_agreement)
        return [
            Button(type_.name, self.label(type_.name), self.consequences[type_.name])
            for type_ in types
        ]

    def label(self, decision: str) -> Any:
        """Return the label of the button for a decision."""
        return get_button_label(self.item, decision)

    def read(self, pressed: str) -> tuple[str, JSON] | None:
        """Return the decision and its value for the service, or None if the values are invalid.

        ``pressed`` is the value of the pressed button. If the values are invalid, the error
        messages are in ``errors`` and in the forms.
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

    def is_stale(self) -> bool:
        """Return whether the interrupt has changed since the submitted page was displayed.

        Submitted values without a version of the interrupt are also stale.
        """
        seen = (self.decision_form["digest"].data, str(self.decision_form["version"].data or ""))
        return seen != (self.item.payload_digest, str(self.item.version))

    def refuse(self, error: HitlError) -> None:
        """Show the errors of a response that the service has rejected, each at its form field."""
        faults = error.faults if isinstance(error, InvalidAnswerError) else ()
        if self.form is not None and faults:
            self.form.add_faults([(self._within(pointer), reason) for pointer, reason in faults])
        else:
            self.errors.append(describe_refusal(error))

    def typed_texts(self) -> list[TypedText]:
        """Return all typed or changed texts with their labels.

        After a failed submission, the page shows these texts for copying.
        """
        kept = self.form.typed_texts() if self.form is not None and self.form.is_bound else []
        for name in ("suggested_reply", "reply", "suggested_reason", "reason"):
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
        if self.form is None or not self.form.is_bound or not self.is_typed:
            return
        try:
            answers.make_resume_value(self.options, pressed, self.form.answer)
        except InvalidAnswerError as error:
            self.form.add_other_faults(error.faults)
        except HitlError:
            pass  # The service reports errors outside of fields once all fields are valid.

    def _read_untyped(self, pressed: str) -> tuple[str, JSON] | None:
        if pressed == RESPOND:
            return self._read_reply()
        form = self.form
        if pressed == EDIT and form is not None:
            return (EDIT, self._edited(form.answer)) if form.is_valid() else None
        if pressed == APPROVE and form is not None:
            if not form.is_valid():
                return None
            if form.is_edited():
                return EDIT, self._edited(form.answer)
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
                pass  # Pressing the button reports the error.
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
            # The buttons decide whether the request is approved.
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
        shape = (
            infer_shape(original, self.item.payload_formats, self._under)
            if schema is None
            else read_shape(schema)
        )
        shape = self._editable(shape, self._under)
        # These texts address the reviewer. They are not part of the reviewed content and stay
        # unchanged.
        heading = {"title", "question", "why"} if self.is_raw else set[str]()
        for name in heading.intersection(list_heading_keys(self.item.payload, self.item.title)):
            shape = shape.without(name)
        if shape.kind == "object" and not shape.properties:
            return None
        own = self._make_own_form(original)
        return own or self.make_form(replace(shape, title=str(_("Edited version"))), original)

    def _make_own_form(self, original: JSON) -> CustomForm | None:
        node = registry.get_present_name(self.item.graph, self.item.node)
        found = registry.get_review_policy(self.item.graph).forms.get(node)
        if found is None:
            return None
        form_class = import_string(found) if isinstance(found, str) else found
        return CustomForm(
            form_class,
            original,
            self.data,
            auto_id=self.auto_id,
            files=self.files,
            more=self.more,
        )

    def make_form(self, shape: SchemaNode, original: JSON, **options: Any) -> AnswerForm:
        """Build a form of the interrupt, bound to the submitted values if there are any."""
        return AnswerForm(
            shape,
            original,
            self.data,
            more=self.more,
            auto_id=self.auto_id,
            hints=parse_hints(registry.get_review_policy(self.item.graph).display),
            payload=self.item.payload,
            **options,
        )

    def _editable(self, shape: SchemaNode, under: str = "") -> SchemaNode:
        free = self.options.editable
        if free is None:
            return shape
        return shape.restrict_to([way if way.startswith("/") else f"/{way}" for way in free], under)

    @property
    def _under(self) -> str:
        member = self.options.rules.arguments_member
        return f"/{member}" if member else ""

    def _edited(self, answer: JSON) -> JSON:
        member = self.options.rules.arguments_member
        return {**self.options.start, member: answer} if member else answer

    def _within(self, pointer: str) -> str:
        return pointer.removeprefix(self._under) if not self.is_typed else pointer


def describe_refusal(error: HitlError) -> str:
    """Return the message for a response that is invalid as a whole, translated if possible."""
    if isinstance(error, InvalidAnswerError) and error.faults:
        return " ".join(say(reason) for _pointer, reason in error.faults)
    return say(error.args[0]) if isinstance(error, PayloadLimitError) else str(error)


def is_too_large(value: JSON) -> bool:
    """Return whether a value exceeds the size limit of a response."""
    return len(to_json(value).encode()) > hitl.RESPONSE_MAX_BYTES
