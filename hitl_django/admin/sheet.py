"""What a question takes to be answered: which buttons, which fields, and what each button sends."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _

from hitl_django import answers
from hitl_django.answers import APPROVE, APPROVED, EDIT, REJECT, RESPOND, UNSET
from hitl_django.conf import hitl
from hitl_django.engine.errors import HitlError, InvalidAnswerError
from hitl_django.forms import MISSING, AnswerForm, Shape, infer_shape, read_shape
from hitl_django.forms.text import from_json, to_json, unix
from hitl_django.models import Interrupt

from .facts import told_elsewhere
from .leads import leads_of

JSON = Any


class Slip(forms.Form):
    """What goes along with every decision, whatever it is.

    ``digest`` and ``version`` name the question as it was shown, ``key`` makes a second click on
    the same page the same decision and not another one.
    """

    digest = forms.CharField(widget=forms.HiddenInput, required=False)
    version = forms.IntegerField(widget=forms.HiddenInput, required=False)
    key = forms.CharField(widget=forms.HiddenInput, required=False, max_length=64)
    reason = forms.CharField(
        label=_("Reason"),
        help_text=_("Kept with your decision. Say why, above all when you reject."),
        required=False,
        max_length=5000,
        widget=forms.Textarea(attrs={"rows": 2, "class": "vLargeTextField"}),
    )
    reply = forms.CharField(
        label=_("Your answer"),
        help_text=_("Sent to the graph instead of a yes or no."),
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "vLargeTextField"}),
    )
    reply_is_json = forms.BooleanField(label=_("This is JSON, not text"), required=False)


@dataclass(frozen=True)
class Button:
    """A decision that can be sent, and what it leads to."""

    value: str
    label: Any
    style: str = ""
    leads: Any = ""


LABELS = {
    APPROVE: _("Approve"),
    EDIT: _("Send edited version"),
    REJECT: _("Reject"),
    RESPOND: _("Send answer"),
}


class Sheet:
    """A question with the forms that answer it; ``data`` is what came back of them.

    ``form`` asks for the typed answer, or for the edited payload where the question has no
    schema; it is None where a button says it all. ``more`` names a list in the form that is to
    have more blank rows: the sheet is then shown again as it was sent.
    """

    def __init__(
        self, item: Interrupt, data: Mapping[str, Any] | None = None, *, more: str = ""
    ) -> None:
        self.item, self.more = item, more
        #: Several questions stand on one page, and no two of their fields have the same id.
        self.auto_id = f"q{item.pk.hex}-%s"
        self.decisions = answers.asked_of(item).allowed
        first = {
            "digest": item.payload_digest,
            "version": item.version,
            "key": uuid.uuid4().hex,
        }
        self.slip = Slip(data, initial=first, use_required_attribute=False, auto_id=self.auto_id)
        self.form = self._form(data)
        typed = self.form is not None and not self.edits_payload
        self.leads = leads_of(item, self.decisions, typed=typed)
        self.errors: list[Any] = []

    @property
    def edits_payload(self) -> bool:
        """Says whether the form edits what was asked, and not the answer to it."""
        return self.item.response_schema is None and self.form is not None

    @property
    def takes_reply(self) -> bool:
        """Says whether anything at all may be answered."""
        return self.item.response_schema is None and RESPOND in self.decisions

    @property
    def has_errors(self) -> bool:
        """Says whether the page came back because something has to be put right."""
        return bool(self.errors or self.slip.errors or (self.form and self.form.errors))

    def shown_in_form(self) -> list[str]:
        """Names the long texts of the payload that the form holds anyway."""
        if self.form is None or self.edits_payload or not isinstance(self.item.payload, dict):
            return []
        return [name for name in self.form.long_texts() if name in self.item.payload]

    def buttons(self) -> list[Button]:
        """Returns the decisions that have a button in the bar, in its order."""
        found = []
        if APPROVE in self.decisions:
            going_on = self.item.kind == Interrupt.Kind.BREAKPOINT
            label = _("Go on") if going_on else LABELS[APPROVE]
            found.append(Button(APPROVE, label, "default", self.leads[APPROVE]))
        if RESPOND in self.decisions and not self.takes_reply:
            found.append(Button(RESPOND, LABELS[RESPOND], "default", self.leads[RESPOND]))
        if REJECT in self.decisions:
            found.append(Button(REJECT, LABELS[REJECT], "hitl-reject", self.leads[REJECT]))
        return found

    def read(self, pressed: str) -> tuple[str, JSON] | None:
        """Returns the decision and its value as they go to the service.

        None where something has to be put right first; then ``errors`` and the forms say what.
        """
        if pressed not in self.decisions:
            self.errors.append(_("Use one of the buttons to say what you decide."))
        elif not self.slip.is_valid():
            pass
        elif self.edits_payload or self.takes_reply:
            return self._read_without_schema(pressed)
        elif self.form is None:
            return pressed, UNSET
        elif self.form.is_valid():
            edited = pressed == APPROVE and self.form.is_edited()
            return (EDIT if edited else pressed), self.form.answer
        return None

    def refuse(self, error: HitlError) -> None:
        """Shows what the service found wrong with the answer."""
        faults = error.faults if isinstance(error, InvalidAnswerError) else ()
        if self.form is not None and faults:
            self.form.add_faults(faults)
        else:
            self.errors.append(str(error))

    def typed(self) -> list[tuple[str, str]]:
        """Returns what a person typed or changed, with its label: nothing of it may be lost."""
        kept = self.form.typed() if self.form is not None and self.form.is_bound else []
        for name in ("reply", "reason"):
            text = self.slip[name].data if self.slip.is_bound else ""
            if text:
                kept.append((str(self.slip[name].label), str(text)))
        return kept

    def _read_without_schema(self, pressed: str) -> tuple[str, JSON] | None:
        if pressed == RESPOND:
            return self._read_reply()
        changed = self.form is not None and not (self.form.is_valid() and not self.form.is_edited())
        if pressed == EDIT and self.form is not None:
            return (EDIT, self.form.answer) if self.form.is_valid() else None
        if pressed == APPROVE and changed:
            # Approving sends a plain yes; what was changed would be lost without a word.
            self.errors.append(
                _(
                    "You changed something, and “Approve” would send what was asked instead. "
                    "Send the edited version, or undo your changes first."
                )
            )
            return None
        return pressed, UNSET

    def _read_reply(self) -> tuple[str, JSON] | None:
        reply = unix(self.slip.cleaned_data["reply"])
        try:
            if not reply.strip():
                raise ValidationError(_("Write an answer first."))
            if not self.slip.cleaned_data["reply_is_json"]:
                return RESPOND, reply
            return RESPOND, from_json(reply)
        except ValidationError as error:
            self.slip.add_error("reply", error)
        except ValueError as error:
            self.slip.add_error("reply", _("This is not JSON: %(error)s.") % {"error": error})
        return None

    def _form(self, data: Mapping[str, Any] | None) -> AnswerForm | None:
        schema = self.item.response_schema
        if schema is None:
            return self._payload_form(data) if EDIT in self.decisions else None
        if EDIT not in self.decisions and RESPOND not in self.decisions:
            return None
        shape, original = read_shape(schema), answers.prefill(self.item.payload, schema)
        if EDIT in self.decisions:
            # The buttons say whether it is approved.
            shape = shape.without(APPROVED)
            original = {key: value for key, value in original.items() if key != APPROVED}
        elif original is None and "default" not in schema:
            original = MISSING
        if shape.kind == "object" and not shape.properties and not original:
            return None
        if original is not MISSING and _is_too_large(original):
            # Nobody edits that in a browser. Approved, it is sent as it stands.
            if RESPOND not in self.decisions:
                return None
            original = MISSING
        return self._answer_form(shape, original, data)

    def _payload_form(self, data: Mapping[str, Any] | None) -> AnswerForm | None:
        payload = self.item.payload
        if _is_too_large(payload):
            return None
        shape = infer_shape(payload)
        # What addresses the reviewer isn't what is reviewed. It comes back as it was.
        spoken = {"title", "question", "why"}
        for name in spoken.intersection(told_elsewhere(payload, self.item.title)):
            shape = shape.without(name)
        if shape.kind == "object" and not shape.properties:
            return None
        return self._answer_form(shape, payload, data)

    def _answer_form(
        self, shape: Shape, original: JSON, data: Mapping[str, Any] | None
    ) -> AnswerForm:
        return AnswerForm(shape, original, data, more=self.more, auto_id=self.auto_id)


def _is_too_large(value: JSON) -> bool:
    return len(to_json(value).encode()) > hitl.ANSWER_MAX_BYTES
