"""A form class of the project, used instead of the form generated from a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.serializers.json import DjangoJSONEncoder

from hitl_django.json_text.json_pointer import parse_pointer
from hitl_django.json_text.reasons import say
from hitl_django.json_text.secret_values import HIDDEN
from hitl_django.json_text.text_diff import Span

from .answer_form import NAME, Row, is_identical
from .json_input import escape_hidden
from .schema_tree import JSON, MISSING


class CustomForm:
    """An adapter that uses a form class of the project as the form for a response.

    The form's fields are named like the members of the response, which is an object. Unchanged
    values, and members without a field, are preserved. Other values are the form's cleaned data as
    JSON. The response is validated against the schema, as with a generated form.
    """

    def __init__(
        self,
        form_class: type[forms.BaseForm],
        original: JSON,
        data: Mapping[str, Any] | None,
        *,
        auto_id: str,
        files: Any = None,
        more: str = "",
    ) -> None:
        self.original: dict[str, JSON] = original if isinstance(original, dict) else {}
        self.form = form_class(
            None if more else data,
            None if more else files,
            initial=self.original,
            prefix=NAME,
            auto_id=auto_id,
            use_required_attribute=False,
        )
        self.more = more

    @property
    def is_bound(self) -> bool:
        """Whether the form has submitted values."""
        return self.form.is_bound

    @property
    def errors(self) -> Any:
        """The errors by field."""
        return self.form.errors

    @property
    def non_field_errors(self) -> Any:
        """Errors that belong to no field, or to several fields."""
        return self.form.non_field_errors()

    @property
    def answer(self) -> JSON:
        """The entered JSON value.

        If the form is invalid, the value lacks the invalid parts.
        """
        cleaned = getattr(self.form, "cleaned_data", {})
        made = {name: self._value(name, value) for name, value in cleaned.items()}
        return {name: value for name, value in {**self.original, **made}.items()
                if value is not MISSING}  # fmt: skip

    def is_valid(self) -> bool:
        return self.form.is_valid()

    def is_edited(self) -> bool:
        """Return whether the user has changed an original value. The form must be valid."""
        answer = self.answer
        return any(not is_identical(answer[name], value) for name, value in self.original.items())

    def typed_texts(self) -> list[tuple[str, str, Sequence[Span]]]:
        """Return the label and text of each field that the user changed.

        Invalid input is included. The word differences are always empty.
        """
        return [
            (str(bound.label), HIDDEN if _is_secret(bound) else str(bound.data or ""), ())
            for bound in map(self.form.__getitem__, self.form.changed_data)
        ]

    def original_members(self) -> dict[str, JSON]:
        """Return the members of the original value that have their own field."""
        shown = {field.name for field in self.form.visible_fields()}
        return {name: value for name, value in self.original.items() if name in shown}

    def list_shown_currencies(self) -> set[str]:
        """Return an empty set, because the form's fields have no units."""
        return set()

    def add_faults(self, faults: Sequence[tuple[str, str]]) -> None:
        """Show errors of a response at their fields. Errors are (JSON pointer, reason) pairs."""
        for pointer, reason in faults:
            name = (parse_pointer(pointer) or [""])[0]
            if name in self.form.fields:
                self.form.add_error(name, say(reason))
            else:
                where = escape_hidden(f"{name}: ") if name else ""
                self.form.add_error(None, where + say(reason))

    def add_other_faults(self, faults: Sequence[tuple[str, str]]) -> None:
        """Show errors of a partly invalid response at fields that have no error yet."""
        self.add_faults(
            [
                (pointer, reason)
                for pointer, reason in faults
                if (parse_pointer(pointer) or [""])[0] not in self.errors
            ]
        )

    def rows(self) -> list[Row]:
        """Return the rows of the page."""
        return [
            Row(
                bound=bound,
                is_secret=_is_secret(bound),
                changed=self.is_bound and bound.name in self.form.changed_data,
            )
            for bound in self.form
        ]

    def _value(self, name: str, value: Any) -> JSON:
        if value in (None, "") and name in self.original and _is_secret(self.form[name]):
            # Secrets are never shown, so an empty value means that the secret is unchanged.
            return self.original[name]
        touched = name not in self.form.fields or name in self.form.changed_data
        if not touched and name in self.original:
            return self.original[name]
        if not touched and value in (None, "", [], ()):
            return MISSING
        return json.loads(json.dumps(value, cls=DjangoJSONEncoder))


def _is_secret(bound: forms.BoundField) -> bool:
    return isinstance(bound.field.widget, forms.PasswordInput)
