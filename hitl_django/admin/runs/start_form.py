"""The form that starts a run, with the fields of the graph's input schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from django import forms
from django.utils.translation import gettext_lazy as _

from hitl_django.engine.errors import (
    GraphChangedError,
    HitlError,
    InvalidInputError,
    LeaseTakenError,
    PendingInterruptsError,
    ThreadNotFound,
)
from hitl_django.engine.state.schema import is_model
from hitl_django.errors import IdempotencyKeyReusedError, NotAllowedError, RunStateError
from hitl_django.forms import MISSING, AnswerForm, read_shape
from hitl_django.forms.json_input import from_json
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.registry import RegisteredGraph
from hitl_django.json_text.json_pointer import format_pointer, split_path
from hitl_django.json_text.json_schema import find_faults
from hitl_django.json_text.secret_values import leads_to_secrets
from hitl_django.services import SubjectRef

JSON = Any
NAME_LENGTH = 255


class OptionalJSONField(forms.CharField):
    """A JSON value as text.

    A blank field results in None.
    """

    def __init__(self, **kwargs: Any) -> None:
        attrs = {"class": "vLargeTextField hitl-code", "rows": 2, "spellcheck": "false"}
        super().__init__(required=False, widget=forms.Textarea(attrs=attrs), **kwargs)

    def clean(self, value: Any) -> JSON:
        text = super().clean(value)
        if not text:
            return None
        try:
            return from_json(text)
        except ValueError as error:
            raise forms.ValidationError(
                _("Enter valid JSON: %(error)s."), params={"error": error}
            ) from None


class StartOptionsForm(forms.Form):
    """Options of a run in addition to its input.

    ``subject`` is the related object, if the user opened the form from the object's page. If the
    graph has a context schema, ``StartForm`` replaces the field ``context`` by a form with the
    fields of the schema.
    """

    thread_id = forms.CharField(
        label=_("Thread"),
        required=False,
        max_length=NAME_LENGTH,
        help_text=_("Enter a thread id to continue that thread. Leave empty to create a new one."),
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )
    run_key = forms.CharField(
        label=_("Idempotency key"),
        required=False,
        max_length=NAME_LENGTH,
        help_text=_("The same key never starts a second run."),
        widget=forms.TextInput(attrs={"class": "vTextField", "autocomplete": "off"}),
    )
    context = OptionalJSONField(
        label=_("Context"), help_text=_("A JSON value that nodes get as runtime.context.")
    )
    configurable = OptionalJSONField(
        label=_("Configurable"),
        help_text=_("A JSON object with keys that nodes find in their config."),
    )
    subject = forms.CharField(required=False, max_length=NAME_LENGTH, widget=forms.HiddenInput)

    def clean_configurable(self) -> dict[str, JSON] | None:
        found: dict[str, JSON] | None = self.cleaned_data["configurable"]
        if found is not None and not isinstance(found, dict):
            raise forms.ValidationError(_("Must be a JSON object."))
        return found

    @property
    def has_values(self) -> bool:
        """Return whether a field has a value or an error.

        The page then shows the fields of this form expanded.
        """
        return bool(self.errors) or any(field.value() for field in self.visible_fields())

    def clean_subject(self) -> SubjectRef | None:
        """Parse the related object (``app_label.model/key``), or return None without one."""
        kind, _slash, key = self.cleaned_data["subject"].partition("/")
        return SubjectRef(kind, key) if kind else None


class StartForm:
    """Form for the input, the thread and the idempotency key of a run.

    ``data`` are the submitted values. A button of the form adds blank rows to a list. After a click
    on this button, ``more`` is the name of the list, and the form shows the submitted values again
    without validation. If the user submits the form twice, both requests contain the same
    idempotency key ``key``, so only one run is started.
    """

    def __init__(
        self,
        registered: RegisteredGraph,
        data: Mapping[str, Any] | None = None,
        *,
        subject: str = "",
        more: str = "",
    ) -> None:
        self.schema = read_input_schema(registered)
        shape = read_shape(self.schema)
        if shape.kind != "object":
            shape = replace(shape, title=str(_("Input")))
        self.input = AnswerForm(shape, _get_defaults(self.schema), data, name="input", more=more)
        self.context: AnswerForm | None = None
        context_schema = registry.describe_context(registered.graph)
        if context_schema is not None:
            self.context_schema = context_schema
            self.context = AnswerForm(
                read_shape(self.context_schema),
                _get_defaults(self.context_schema),
                data,
                name="context",
                more=more,
            )
        sent = {"subject": subject} if data is None else data
        self.options = StartOptionsForm(
            None if more else data,
            initial={name: sent.get(name) for name in StartOptionsForm.base_fields},
            use_required_attribute=False,
        )
        if self.context is not None:
            del self.options.fields["context"]
        self.key = str(sent.get("key") or uuid4())
        #: Errors that don't belong to a field.
        self.errors: list[Any] = []

    @property
    def has_errors(self) -> bool:
        """Whether the page shows errors about submitted values."""
        of_context = self.context is not None and self.context.errors
        return bool(self.errors or self.input.errors or of_context or self.options.errors)

    def read(self) -> JSON:
        """Return the entered input, or MISSING if the values are invalid."""
        is_readable, has_options = self.input.is_valid(), self.options.is_valid()
        has_context = self.context is None or self.context.is_valid()
        if is_readable and has_options and has_context:
            return self.input.answer
        # Show the service's errors together with the form's, so that the user can correct all
        # errors at the same time.
        self.input.add_other_faults(find_faults(self.schema, self.input.answer))
        if self.context is not None:
            self.context.add_other_faults(find_faults(self.context_schema, self.context.answer))
        return MISSING

    def read_context(self) -> JSON:
        """Return the entered context, or None if the form has no context.

        Call ``read`` first.
        """
        if self.context is None:
            return self.options.cleaned_data["context"]
        return self.context.answer

    def refuse(self, error: HitlError) -> None:
        """Show the service's error at the form field to which the error belongs."""
        if isinstance(error, InvalidInputError):
            self._show_faults(error)
        elif isinstance(error, IdempotencyKeyReusedError):
            self._refuse_key()
        elif found := [words for kind, words in THREAD_PROBLEMS.items() if isinstance(error, kind)]:
            self.options.add_error("thread_id", found[0])
        else:
            self.errors.append(str(error))

    def _show_faults(self, error: InvalidInputError) -> None:
        inside = [(path, reason) for path, reason in error.faults if path.startswith("$")]
        if inside:
            # Prefer the schema's errors, because they are translated. Other errors are in the
            # language of the graph's author.
            self.input.add_faults(find_faults(self.schema, self.input.answer))
            faults = [(format_pointer(split_path(path)), reason) for path, reason in inside]
            self.input.add_other_faults(faults)
        of_context = [(name, why) for name, why in error.faults if name.startswith("context")]
        if self.context is not None and of_context:
            self.context.add_faults(find_faults(self.context_schema, self.context.answer))
            self.context.add_other_faults(
                [(format_pointer(split_path(f"${name[7:]}")), why) for name, why in of_context]
            )
        for name, reason in error.faults:
            if self.context is not None and (name, reason) in of_context:
                continue
            field = OPTION_FIELDS.get(name.partition(".")[0])
            if field in self.options.fields:
                self.options.add_error(field, f"{name}: {reason}" if "." in name else reason)
            elif not name.startswith("$"):
                self.errors.append(SUBJECT_PROBLEM if name == "subject" else reason)
        if not error.faults:
            self.errors.append(str(error))

    def _refuse_key(self) -> None:
        if self.options.cleaned_data.get("run_key"):
            self.options.add_error("run_key", _("This key was already used for a different run."))
            return
        self.key = str(uuid4())
        self.errors.append(
            _(
                "You already started a run from this page with different input. Submit "
                "again to start another one."
            )
        )


#: Name of the form field by argument of the service.
OPTION_FIELDS = {
    "key": "run_key",
    "thread_id": "thread_id",
    "context": "context",
    "configurable": "configurable",
}
SUBJECT_PROBLEM = _(
    "A run can't be started for this object: it doesn't exist, you don't have permission "
    "to view it, or the thread belongs to another object."
)
#: Reason why a run can't be started on the given thread, by error class.
THREAD_PROBLEMS: dict[type[HitlError], Any] = {
    PendingInterruptsError: _(
        "This thread has pending requests that a new run would withdraw. Decide them or "
        "cancel the run first."
    ),
    # The view has checked the permission to start the graph.
    **dict.fromkeys(
        (NotAllowedError, ThreadNotFound), _("You don’t have permission to continue this thread.")
    ),
    RunStateError: _("This thread has a run that hasn’t ended."),
    LeaseTakenError: _("A worker is using this thread. Try again in a moment."),
    GraphChangedError: _("The graph has changed in a way that is incompatible with this thread."),
}


def read_input_schema(registered: RegisteredGraph) -> dict[str, JSON]:
    """Return the JSON Schema of a graph's input.

    If the input schema is the whole state, no property is required, because nodes set the missing
    properties.
    """
    graph = registered.graph
    schema = graph.get_input_jsonschema()
    if graph.input_type is graph.state_schema and not is_model(graph.input_type):
        return {key: value for key, value in schema.items() if key != "required"}
    return schema


def _get_defaults(schema: dict[str, JSON]) -> JSON:
    """Return an input with the default values of the schema, for the initial form."""
    properties = schema.get("properties", {})
    # pydantic shows the default of a secret as asterisks. If the value is missing, the graph uses
    # the real default.
    found = {name: part["default"] for name, part in properties.items()
             if isinstance(part, dict) and part.get("default") is not None
             and not leads_to_secrets(part, schema)}  # fmt: skip
    return found or schema.get("default", MISSING)
