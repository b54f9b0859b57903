"""Panels: parts of the request page added by optional apps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from django import forms
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.utils.module_loading import import_string

from hitl_django.extensions import list_extensions
from hitl_django.models import Interrupt


@dataclass(frozen=True)
class PanelForm:
    """The form of a panel. ``form`` is None for a panel without a form.

    ``has_text`` is true if the form contains unsaved text.
    """

    form: forms.Form | None = None
    has_text: bool = False


class Panel:
    """Part of the request page, below the decision form of each interrupt.

    A panel is inside the ``<form>`` of its interrupt and contains no other form, so that typed text
    is submitted with any button. A button in the template performs an action::

        <button type="submit" formaction="{{ action_url }}" name="verb" value="{{ name }}.rate">

    Attributes:
        name: the name under which the app registers the panel. The names of the form's fields in
            the HTML start with this name.
        template_name: the template. Its context has ``name``, ``interrupt``, ``form``,
            ``action_url``, ``element_id``, and the values that ``get_context()`` returns.
        form_class: the form, or None.
        actions: the names of the actions.
    """

    template_name = ""
    form_class: type[forms.Form] | None = None
    actions: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.name = name

    def get_context(self, request: HttpRequest, interrupt: Interrupt) -> Mapping[str, Any] | None:
        """Return values for the template, or None to hide the panel."""
        return {}

    def get_initial(self, request: HttpRequest, interrupt: Interrupt) -> Mapping[str, Any]:
        """Return the initial values of the panel's form."""
        return {}

    def perform(self, request: HttpRequest, interrupt: Interrupt, action: str, form: Any) -> str:
        """Perform an action and return the confirmation message.

        ``form`` is the submitted form after successful validation, or None if the panel has no
        form.

        Raises:
            NotAllowedError: if the user has no permission.
            InvalidInputError: if values are invalid. The form shows the errors by field.
        """
        raise NotImplementedError

    def make_form(
        self,
        request: HttpRequest,
        interrupt: Interrupt,
        data: Mapping[str, Any] | None,
        typed: Mapping[str, Any],
    ) -> PanelForm:
        """Return the panel's form.

        If the user pressed a button of this panel, ``data`` contains the submitted values, and the
        form is bound to them. Otherwise, ``data`` is None. If the user pressed another button,
        ``typed`` contains the submitted values, and the form shows them as initial values.
        """
        if self.form_class is None:
            return PanelForm()
        initial = {**self.get_initial(request, interrupt)}
        has_text = False
        for name, field in self.form_class.base_fields.items():
            prefixed = f"{self.name}-{name}"
            if prefixed in typed:
                value = field.widget.value_from_datadict(typed, {}, prefixed)
                if isinstance(field.widget, forms.Textarea) and value != initial.get(name, ""):
                    has_text = True
                initial[name] = value
        form = self.form_class(
            data,
            prefix=self.name,
            auto_id=f"q{interrupt.pk.hex}-%s",
            use_required_attribute=False,
            initial=initial,
        )
        return PanelForm(form, has_text)

    def render(
        self, request: HttpRequest, interrupt: Interrupt, form: forms.Form | None, action_url: str
    ) -> str:
        """Return the HTML of the panel, or an empty string if the panel is hidden from the user."""
        context = self.get_context(request, interrupt)
        if context is None:
            return ""
        own = {
            "request": request,
            "name": self.name,
            "interrupt": interrupt,
            "form": form,
            "action_url": action_url,
            "element_id": f"q{interrupt.pk.hex}-{self.name}",
        }
        return render_to_string(self.template_name, {**context, **own}, request)


def list_panels() -> list[Panel]:
    """Return the panels of all optional apps, in the order of their registration."""
    return [_load(name, path) for each in list_extensions() for name, path in each.panels.items()]


def find_panel(verb: str) -> tuple[Panel, str] | None:
    """Return the panel and the action named by a button's value, or None if they don't exist."""
    name, _, action = verb.partition(".")
    for panel in list_panels():
        if panel.name == name and action in panel.actions:
            return panel, action
    return None


@cache
def _load(name: str, path: str) -> Panel:
    panel: Panel = import_string(path)(name)
    return panel
