"""The form for deciding an interrupt, for pages of your project."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django import forms
from django.forms.utils import ErrorDict
from django.utils.translation import gettext_lazy as _

from hitl_django import answers
from hitl_django.decision_types import APPROVE, EDIT, REJECT, RESPOND
from hitl_django.dialects import UNSET
from hitl_django.engine.errors import HitlError
from hitl_django.models import Interrupt

from .action_forms import make_interrupt_forms
from .answer_form import AnswerForm
from .custom_form import CustomForm
from .field_tree import Group, Leaf, Node, OneOf, Rows
from .interrupt_forms import InterruptForms, TypedText

#: Fields of all decisions, in their order on the page.
ALONG = ("suggested_reply", "reply", "reply_is_json", "suggested_reason", "reason")
HIDDEN = ("digest", "version", "key")


class CountField(forms.IntegerField):
    """A hidden field with the number of blank rows of a list."""

    widget = forms.HiddenInput

    def bound_data(self, data: Any, initial: Any) -> Any:
        # The next submission contains the rows that are on the page now.
        return initial


class ResponseForm(forms.Form):
    """A form for the decision on an interrupt, with the fields of the response.

    If several decisions are possible, the field ``decision`` selects one of them. The other fields
    are those of the response schema or of the edited payload, a text response, the reason of a
    rejection, and hidden fields with the version of the interrupt. If the user changes values and
    approves, the decision is an edit.

    After successful validation, ``cleaned_data`` contains the arguments of ``decide``: the type and
    value of the decision, the reason, the idempotency key, and the digest and version of the
    interrupt as it was displayed.
    """

    def __init__(
        self, interrupt: Interrupt, data: Mapping[str, Any] | None = None, files: Any = None
    ) -> None:
        more = "" if data is None else str(data.get("more", ""))
        self.interrupt = interrupt
        self.interrupt_forms = make_interrupt_forms(interrupt, data, files=files, more=more)
        self.interrupt_forms.folds_edit = False
        super().__init__(
            data, files, auto_id=self.interrupt_forms.auto_id, use_required_attribute=False
        )
        #: The form and the name of each field that belongs to another form.
        self._owners: dict[str, tuple[forms.BaseForm, str]] = {}
        #: The lists to which rows can be added, as pairs of name and label. A button with the name
        #: "more" and the name of the list as its value adds rows.
        self.lists: list[tuple[str, str]] = []
        self.decisions = _list_decisions(self.interrupt_forms)
        self._add_fields()

    def __getitem__(self, name: str) -> forms.BoundField:
        if name not in self._owners:
            return super().__getitem__(name)
        form, own_name = self._owners[name]
        bound = form[own_name]
        # The other form may have created the bound field before the label was changed.
        bound.label = self.fields[name].label or bound.label
        return bound

    def is_valid(self) -> bool:
        return super().is_valid() and not self.interrupt_forms.more

    def is_stale(self) -> bool:
        """Return whether the submitted version of the interrupt is outdated or missing."""
        return self.interrupt_forms.is_stale()

    def full_clean(self) -> None:
        self._errors = ErrorDict()
        if not self.is_bound:
            return
        self.cleaned_data: dict[str, Any] = {}
        if not self.interrupt_forms.more and not self._read():
            self._collect_errors()

    def add_error(self, field: str | None, error: Any) -> None:
        if field is None or field not in self._owners:
            super().add_error(field, error)
            return
        form, own_name = self._owners[field]
        form.add_error(own_name, error)
        self._collect_errors()

    def refuse(self, error: HitlError) -> None:
        """Show the errors of a response that ``decide`` has rejected, each at its form field."""
        self.interrupt_forms.refuse(error)
        self._collect_errors()

    def typed_texts(self) -> list[TypedText]:
        """Return the label and text of each field that the user filled in or changed.

        Changed texts also have the word differences from the original text. A page shows the texts
        for copying if it can't show the submitted form again.
        """
        return self.interrupt_forms.typed_texts()

    def _add_fields(self) -> None:
        for form in self._list_forms():
            self._own(form, form.fields)
        self._describe_all()
        if len(self.decisions) > 1:
            self.fields["decision"] = forms.ChoiceField(
                label=_("Your decision"),
                choices=self.decisions,
                widget=forms.RadioSelect,
                error_messages={"required": _("Choose a decision to submit.")},
            )
        along = self.interrupt_forms.decision_form
        shown = set(ALONG) if REJECT in self.interrupt_forms.decisions else set(ALONG[:3])
        if not self.interrupt_forms.takes_reply:
            shown.difference_update(ALONG[:3])
        if not self.interrupt_forms.is_raw:
            shown.discard("reply_is_json")
        self._own(along, [name for name in ALONG if name in shown and name in along.fields])
        self._own(along, HIDDEN)

    def _own(self, form: forms.BaseForm, names: Any) -> None:
        for own_name in names:
            name = form.add_prefix(own_name)
            self.fields[name] = form.fields[own_name]
            self._owners[name] = form, own_name

    def _list_forms(self) -> Iterator[forms.BaseForm]:
        """Yield the forms with the fields of the response."""
        for block in self.interrupt_forms.actions:
            yield block.choice
            if block.form is not None:
                yield block.form
        form = self.interrupt_forms.form
        if form is not None:
            yield form.form if isinstance(form, CustomForm) else form

    def _describe_all(self) -> None:
        for block in self.interrupt_forms.actions:
            for field in block.choice.fields.values():
                field.label = f"{block.label}: {field.label}"
            if block.form is not None:
                self._describe_root(block.form.tree, [block.label])
        if isinstance(self.interrupt_forms.form, AnswerForm):
            self._describe_root(self.interrupt_forms.form.tree, ())

    def _describe_root(self, root: Node, labels: Sequence[str]) -> None:
        # The name of the whole response would only repeat the heading of the form.
        for node in root.members.values() if isinstance(root, Group) else [root]:
            self._describe_fields(node, labels, wanted=True)

    def _describe_fields(self, node: Node, labels: Sequence[str], *, wanted: bool) -> None:
        """Prefix the label of each field with the labels of the objects that contain the field.

        Otherwise, the form wouldn't show the object to which a field belongs. With ``wanted``,
        fields of required values become required.
        """
        if isinstance(node, Leaf):
            node.field.required = wanted and node.field.is_needed
            node.field.label = ": ".join([*labels, str(node.field.label)])
        elif isinstance(node, Group):
            below = [*labels, node.label] if node.label else labels
            if node.absent:
                self._label(node.absent, below)
            for member in node.members.values():
                self._describe_fields(member, below, wanted=wanted and not node.is_optional())
        elif isinstance(node, OneOf):
            self._label(node.choice, labels)
            for alternative in node.alternatives:
                self._describe_fields(alternative, labels, wanted=False)
        elif isinstance(node, Rows):
            self._describe_rows(node, labels)

    def _describe_rows(self, rows: Rows, labels: Sequence[str]) -> None:
        for number, entry in enumerate(rows.entries, start=1):
            below = [*labels, f"{rows.label} {number}"]
            if entry.removed:
                self._label(entry.removed, below)
            self._describe_fields(entry.node, below, wanted=bool(entry.removed))
        self.lists.append((rows.name, ": ".join([*labels, rows.label])))
        self.fields[rows.count] = CountField(initial=rows.blank, required=False)

    def _label(self, name: str, labels: Sequence[str]) -> None:
        field = self.fields[name]
        field.label = ": ".join([*labels, str(field.label)])

    def _read(self) -> bool:
        read = self.interrupt_forms.read(self._find_pressed())
        if read is None:
            return False
        type_, value = read
        try:
            # ``decide`` raises the same errors.
            if value is not UNSET:
                answers.check_limits(value)
            answers.make_resume_value(self.interrupt_forms.options, type_, value)
        except HitlError as error:
            self.interrupt_forms.refuse(error)
            return False
        along = self.interrupt_forms.decision_form.cleaned_data
        self.cleaned_data = {
            "type": type_,
            "value": value,
            "reason": along["reason"],
            "key": along["key"],
            # A form without a version counts as outdated.
            "digest": along["digest"],
            "version": along["version"] or 0,
        }
        return True

    def _find_pressed(self) -> str:
        if len(self.decisions) == 1:
            return str(self.decisions[0][0])
        return str(self.data.get("decision", ""))

    def _collect_errors(self) -> None:
        self._errors = ErrorDict(renderer=self.renderer)
        common: list[Any] = []
        for form in (*self._list_forms(), self.interrupt_forms.decision_form):
            common += form.non_field_errors()
        for name, (form, own_name) in self._owners.items():
            if own_name in form.errors:
                self._errors[name] = form.errors[own_name]
        is_chosen = "decision" not in self.fields or self._find_pressed() in dict(self.decisions)
        for error in self.interrupt_forms.errors:
            super().add_error(None if is_chosen else "decision", error)
        for error in common:
            super().add_error(None, error)


def form_for(
    interrupt: Interrupt, data: Mapping[str, Any] | None = None, files: Any = None
) -> ResponseForm:
    """Return a Django form for the decision on an interrupt.

    The form has the fields that the admin shows for the interrupt's response schema, and checks the
    limits of the schema. If several decisions are possible, the user selects one of them. Store a
    valid form with ``decide(interrupt.pk, **form.cleaned_data, by=user)``. Templates must also
    render the form's hidden fields.

    Args:
        data: the submitted values, or None.
        files: uploaded files, for a form class of the project (``ReviewPolicy.forms``).
    """
    return ResponseForm(interrupt, data, files)


def _list_decisions(interrupt_forms: InterruptForms) -> list[tuple[str, Any]]:
    """Return the choices of the form field ``decision``: pairs of decision type and label."""
    found = [(button.value, button.label) for button in interrupt_forms.buttons()]
    allowed = interrupt_forms.decisions
    # An approval of changed values is an edit, so an edit needs no choice of its own.
    if EDIT in allowed and APPROVE not in allowed and interrupt_forms.form is not None:
        found.append((EDIT, interrupt_forms.edit_label))
    if interrupt_forms.takes_reply:
        found.append((RESPOND, interrupt_forms.reply_label))
    return sorted(found, key=lambda decision: decision[0] == REJECT)
