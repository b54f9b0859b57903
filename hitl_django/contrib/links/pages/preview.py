"""The preview of a decision, before it is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hitl_django import answers
from hitl_django.admin.display.diff_display import (
    Difference,
    list_differences,
    list_patch_differences,
)
from hitl_django.admin.display.payload_display import (
    DisplayedValue,
    display_answer,
    present_arguments,
)
from hitl_django.admin.display.value_formats import present
from hitl_django.decision_types import APPROVE, EDIT, RESPOND
from hitl_django.engine.errors import HitlError
from hitl_django.forms.action_forms import SeparateActionForms
from hitl_django.forms.interrupt_forms import InterruptForms
from hitl_django.json_text.secret_values import mask_secrets


@dataclass(frozen=True)
class Preview:
    """The changes that a decision would make, and the value that the graph would receive."""

    changed: Sequence[Difference]
    answer: Sequence[DisplayedValue] = ()


def make_preview(interrupt_forms: InterruptForms) -> Preview | None:
    """Return a preview of the decision, or None if the submitted values are invalid.

    The forms then show the errors.
    """
    if isinstance(interrupt_forms, SeparateActionForms):
        return _preview_actions(interrupt_forms)
    wanted = (APPROVE, RESPOND, EDIT) if interrupt_forms.is_typed else (EDIT,)
    pressed = next((type_ for type_ in wanted if type_ in interrupt_forms.decisions), "")
    read = interrupt_forms.read(pressed)
    if read is None:
        return None
    (type_, value), options, item = read, interrupt_forms.options, interrupt_forms.item
    try:
        resume_value = answers.make_resume_value(options, type_, value)
    except HitlError as error:
        interrupt_forms.refuse(error)
        return None
    changed = list_patch_differences(item, answers.make_decision_patch(options, type_, value))
    if type_ == RESPOND:
        start, sent = options.mask_edited(options.start), options.mask_edited(value)
        changed = list_differences(start, sent, present(item))
    return Preview(changed, display_answer(item, options.mask_answer(resume_value)))


def _preview_actions(interrupt_forms: SeparateActionForms) -> Preview | None:
    for block in interrupt_forms.actions:
        block.choice.empty_permitted = True  # An action without a decision is not an error yet.
    sent = [block for block in interrupt_forms.actions if block.sends_arguments()]
    # Check all blocks before returning, so that every error is shown.
    readable = [block.is_readable() for block in sent]
    if not all(readable):
        return None
    return Preview(
        [
            replace(one, label=f"{number}. {block.label} ▸ {one.label}")
            for number, block in enumerate(interrupt_forms.actions, start=1)
            if block in sent and block.form is not None
            for one in list_differences(
                mask_secrets(block.action.schema, block.action.args),
                mask_secrets(block.action.schema, block.form.answer),
                present_arguments(block),
            )
        ]
    )
