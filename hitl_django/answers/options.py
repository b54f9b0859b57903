"""The decision types that an interrupt allows, and the resume value of each type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext_lazy as _

from hitl_django.decision_types import APPROVE, DECISION_TYPES, EDIT, REJECT
from hitl_django.dialects import DIALECTS, RAW, Dialect, plain_json
from hitl_django.dialects.value_checks import UNSET, invalid_answer
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.graph_registry import registry
from hitl_django.json_text import json_patch, json_schema
from hitl_django.json_text.reasons import ValidationMessage
from hitl_django.json_text.secret_values import HIDDEN, mask_patch, mask_quotes, mask_secrets
from hitl_django.models import Interrupt

from .limits import REPETITION, check_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerOptions:
    """The parts of an interrupt that determine the responses it accepts.

    Attributes:
        decisions: the allowed decision types. If empty, all possible types are allowed.
        editable: the members of the edited value that an edit may change, as names or JSON
            pointers. None means all members.
        policy_answers: the resume values that the graph's policy defines for interrupts without a
            response schema.
        proposal: a version proposed for approval, with the keys ``answer``, ``edited`` and
            ``patch``.
    """

    payload: Any
    schema: dict[str, Any] | None = None
    kind: str = "interrupt"
    dialect: str = RAW
    decisions: Sequence[str] = ()
    editable: Sequence[str] | None = None
    policy_answers: Mapping[str, Any] = field(default_factory=dict)
    proposal: Mapping[str, Any] | None = None

    @property
    def rules(self) -> Dialect:
        """The rules of the interrupt's dialect, i.e. of its payload format."""
        return DIALECTS[self.dialect]

    @property
    def possible(self) -> tuple[str, ...]:
        """The decision types that are possible for the interrupt, in the order of display."""
        return self.rules.decisions(self)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The decision types that reviewers may use.

        Approving a proposal is always allowed.
        """
        types = self.decisions or self.possible
        if self.proposal is None or APPROVE in types:
            return tuple(types)
        return (APPROVE, *types)

    @property
    def start(self) -> Any:
        """The initial value of a form, and the value that an edit changes.

        This is the proposal's edited value or, without a proposal, ``original``.
        """
        if self.proposal is not None:
            return self.proposal["edited"]
        return self.original

    @property
    def original(self) -> Any:
        """The value that an edit changes if there is no proposal. The dialect computes it."""
        return self.rules.prefill(self)

    def mask_answer(self, answer: Any) -> Any:
        """Return a resume value with its secrets replaced."""
        return mask_secrets(self.rules.answer_schema(self), answer)

    def mask_quotes(self, answer: Any, text: str) -> str:
        """Return ``text`` with all secrets of the resume value ``answer`` replaced.

        The text quotes the resume value, for example in an error message.
        """
        return mask_quotes(self.rules.answer_schema(self), answer, text)

    def mask_edited(self, edited: Any, hidden: str = HIDDEN) -> Any:
        """Return the edited value with its secrets replaced by ``hidden``."""
        return mask_secrets(self.rules.edited_schema(self), edited, hidden)

    def mask_patch(self, patch: Any) -> Any:
        """Return the JSON Patch of an edit with its secrets replaced."""
        return mask_patch(self.rules.edited_schema(self), patch)

    def mask_proposal(self) -> dict[str, Any] | None:
        """Return the proposal with its secrets replaced, or None if there is no proposal."""
        if self.proposal is None:
            return None
        return {
            "answer": self.mask_answer(self.proposal["answer"]),
            "edited": self.mask_edited(self.proposal["edited"]),
            "patch": self.mask_patch(self.proposal["patch"]),
        }

    @property
    def policy_values(self) -> Mapping[str, Any]:
        """The resume values in the graph's policy. Empty if they don't apply to this interrupt."""
        return {} if self.schema is not None or self.kind != "interrupt" else self.policy_answers


def read_options(interrupt: Interrupt) -> AnswerOptions:
    """Return the options of an interrupt, from its row and its graph's policy."""
    return AnswerOptions(
        payload=interrupt.payload,
        schema=interrupt.response_schema,
        kind=interrupt.kind,
        dialect=interrupt.dialect,
        decisions=interrupt.allowed_decisions,
        editable=interrupt.editable,
        policy_answers=registry.get_review_policy(interrupt.graph).answers,
        proposal=interrupt.proposal,
    )


def choose_decisions(options: AnswerOptions, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Return those of the ``wanted`` decision types that are possible for the interrupt.

    If none of the wanted types is possible, return all possible decision types.
    """
    possible = options.possible
    if options.editable is not None and not options.editable:
        possible = tuple(type_ for type_ in possible if type_ != EDIT) or possible
    if wanted is None:
        return possible
    chosen = (type_ for type_ in DECISION_TYPES if type_ in wanted and type_ in possible)
    return tuple(chosen) or possible


def make_resume_value(options: AnswerOptions, type: str, value: Any = UNSET) -> Any:  # noqa: A002
    """Return the resume value of a decision, checked against limits and the response schema.

    Raises:
        InvalidAnswerError: the value is not valid. The error contains JSON pointers to the
            faults.
        UnserializableError: the value is not JSON.
        PayloadLimitError: the value is too large.
    """
    answer = compose_resume_value(options, type, value)
    validate_resume_value(options, answer)
    return answer


def validate_resume_value(options: AnswerOptions, answer: Any) -> None:
    """Raise InvalidAnswerError if a resume value doesn't fit the response schema."""
    faults = [] if options.schema is None else json_schema.find_faults(options.schema, answer)
    if faults:
        raise InvalidAnswerError(describe_faults(faults), faults)


def compose_resume_value(options: AnswerOptions, type: str, value: Any = UNSET) -> Any:  # noqa: A002
    """Return the resume value of a decision, without a check of the response schema."""
    allowed = options.allowed
    if type not in allowed:
        raise InvalidAnswerError(
            f"The decision {type!r} is not allowed for this interrupt. Allowed: "
            f"{', '.join(allowed)}."
        )
    if value is not UNSET:
        check_limits(value)
    if type == APPROVE and value is UNSET and options.proposal is not None:
        return options.proposal["answer"]
    answer = options.rules.compose(options, type, value)
    if value is UNSET and type != REJECT and not isinstance(answer, bool):
        # The value repeats the payload, which may exceed the limits of a response. A rejection must
        # always be possible.
        check_limits(answer, REPETITION)
    if options.editable is not None and value is not UNSET and _may_edit(options, type, value):
        _refuse_if_fixed(options, type, value)
    return answer


def add_reason(options: AnswerOptions, type: str, value: Any, reason: str) -> Any:  # noqa: A002
    """Return the value of a decision: ``value`` or, for some rejections, ``reason``.

    The reason is the value if the decision is a rejection, ``value`` is UNSET, the dialect has
    ``rejects_with_reason``, and the reason isn't blank.
    """
    sends_reason = type == REJECT and options.rules.rejects_with_reason
    return reason if sends_reason and value is UNSET and reason.strip() else value


def make_decision_patch(
    options: AnswerOptions,
    type: str,  # noqa: A002
    value: Any,
) -> list[dict[str, Any]] | None:
    """Return the JSON Patch with the changes that a decision makes to the payload.

    Return None for a decision without an edit. For an approved proposal, return the changes of the
    proposal.
    """
    if not DECISION_TYPES[type].may_edit:
        return None
    if value is UNSET:
        return None if options.proposal is None else options.proposal["patch"]
    patch = json_patch.make_patch(options.original, _merge_edit(options, type, value))
    return patch if patch or type == EDIT else None


def make_proposal(options: AnswerOptions, type: str, value: Any, answer: Any) -> dict[str, Any]:  # noqa: A002
    """Return the proposal that a decision creates (the dict in ``AnswerOptions.proposal``).

    ``value`` is the value given with the decision. ``answer`` is the decision's resume value.
    """
    edited = options.original
    if DECISION_TYPES[type].may_edit:
        edited = _merge_edit(options, type, value)
    elif options.schema is not None and not options.rules.requests_actions:
        edited = value
    return {"answer": answer, "edited": edited, "patch": make_decision_patch(options, type, value)}


def _merge_edit(options: AnswerOptions, type: str, value: Any) -> Any:  # noqa: A002
    """Return the payload after the edit ``value``.

    If the interrupt has a response schema and the result is an object, two rules apply. For an
    approval, missing members are added from ``options.start``. The member ``approved`` is copied
    from ``options.original``, because a reviewer approves or rejects instead of editing this
    member.
    """
    edited = options.rules.apply_edit(options.payload, value)
    if options.schema is None or not isinstance(edited, dict):
        return edited
    if type == APPROVE:
        edited = {**options.start, **edited}
    approved = plain_json.APPROVED
    original = options.original if isinstance(options.original, dict) else {}
    kept = {approved: original[approved]} if approved in original else {}
    return {**{key: part for key, part in edited.items() if key != approved}, **kept}


def _may_edit(options: AnswerOptions, type: str, value: Any) -> bool:  # noqa: A002
    return DECISION_TYPES[type].may_edit or options.rules.may_edit_with(type, value)


def _refuse_if_fixed(options: AnswerOptions, type: str, value: Any) -> None:  # noqa: A002
    free = [name if name.startswith("/") else f"/{name}" for name in options.editable or ()]
    changed = json_patch.make_patch(options.original, _merge_edit(options, type, value))
    faults = [
        (step["path"], ValidationMessage.make(_("can’t be changed")))
        for step in changed
        if not any(step["path"] == way or step["path"].startswith(f"{way}/") for way in free)
    ]
    if faults:
        raise invalid_answer("The edit changes fields that are not editable.", *faults)


def describe_faults(faults: list[tuple[str, str]]) -> str:
    """Return a sentence about the first fault of a response."""
    pointer, reason = faults[0]
    more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"Invalid response: {pointer or 'the value'}: {reason}{more}."
