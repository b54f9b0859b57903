"""A question as far as its answer goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.graph_registry import registry
from hitl_django.json_text import json_patch, json_schema
from hitl_django.models import Interrupt

from .decision_types import APPROVE, DECISIONS, EDIT, REJECT, RESPOND, UNSET, refuse
from .dialects import NAMED, RAW, plain_json
from .limits import check_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What decides which answers a question can be given, and what they look like.

    ``decisions`` are those that are offered; without any, all that it can be given. ``editable``
    names the members, or JSON pointers, that an edit may change; None is all. ``instead`` are
    other resume values for decisions on raw JSON. ``proposal`` is what somebody has made of it,
    for the others of a quorum to approve: the ``answer``, what was ``edited``, and the ``patch``.
    """

    payload: Any
    schema: dict[str, Any] | None = None
    kind: str = "interrupt"
    dialect: str = RAW
    decisions: Sequence[str] = ()
    editable: Sequence[str] | None = None
    instead: Mapping[str, Any] = field(default_factory=dict)
    proposal: Mapping[str, Any] | None = None

    @property
    def possible(self) -> tuple[str, ...]:
        """The decisions that it can be given at all, in the order to offer them."""
        if self.dialect == RAW:
            return plain_json.decisions(self.payload, self.schema, self.kind)
        return NAMED[self.dialect].decisions(self.payload)

    @property
    def allowed(self) -> tuple[str, ...]:
        """The decisions that are offered.

        Where somebody has proposed an answer it can be approved, whatever else can be done.
        """
        words = self.decisions or self.possible
        if self.proposal is None or APPROVE in words:
            return tuple(words)
        return (APPROVE, *words)

    @property
    def start(self) -> Any:
        """What a form starts with and an edit edits: what was asked, or what was proposed."""
        if self.proposal is not None:
            return self.proposal["edited"]
        return self.original

    @property
    def original(self) -> Any:
        """What an edit edits as it was asked."""
        if self.dialect == RAW:
            return plain_json.prefill(self.payload, self.schema)
        return NAMED[self.dialect].start(self.payload)

    @property
    def replaced(self) -> Mapping[str, Any]:
        """The other resume values that hold for it."""
        return {} if self.schema is not None or self.kind != "interrupt" else self.instead

    def edited(self, value: Any) -> Any:
        """Returns what a value makes of the original, for the record of what was changed."""
        if self.dialect == RAW:
            return value
        return NAMED[self.dialect].edited(self.payload, value)


def asked_of(interrupt: Interrupt) -> Asked:
    """Returns a question as its row and the policy of its graph have it."""
    return Asked(
        payload=interrupt.payload,
        schema=interrupt.response_schema,
        kind=interrupt.kind,
        dialect=interrupt.dialect,
        decisions=interrupt.allowed_decisions,
        editable=interrupt.editable,
        instead=registry.policy_of(interrupt.graph).answers,
        proposal=interrupt.proposal,
    )


def compose(asked: Asked, type: str, value: Any = UNSET) -> Any:  # noqa: A002
    """Returns the resume value of a decision, checked against limits and the response schema.

    Raises InvalidAnswerError with a JSON pointer to each fault, UnserializableError for what isn't
    JSON and PayloadLimitError for what is too large.
    """
    answer = resume_value(asked, type, value)
    validate(asked, answer)
    return answer


def validate(asked: Asked, answer: Any) -> None:
    """Raises InvalidAnswerError where a resume value doesn't fit the response schema."""
    faults = [] if asked.schema is None else json_schema.faults(asked.schema, answer)
    if faults:
        raise InvalidAnswerError(sentence(faults), faults)


def resume_value(asked: Asked, type: str, value: Any = UNSET) -> Any:  # noqa: A002
    """Returns what ``compose`` does, not yet checked against the response schema."""
    allowed = asked.allowed
    if type not in allowed:
        raise InvalidAnswerError(
            f"This question can't be answered by {type!r}. It takes {', '.join(allowed)}."
        )
    if value is not UNSET:
        check_limits(value)
    if type == APPROVE and value is UNSET and asked.proposal is not None:
        return asked.proposal["answer"]
    answer = _answer(asked, type, value)
    if value is UNSET and type != REJECT and not isinstance(answer, bool):
        # It repeats what was asked, which may be more than an answer may be. Somebody has to be
        # able to say no all the same.
        check_limits(answer, "The answer, which repeats what was asked,")
    if asked.editable is not None and value is not UNSET and _may_edit(asked, type, value):
        _refuse_if_fixed(asked, type, value)
    return answer


def offered(asked: Asked, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """Returns the wanted ones of the decisions that are possible; all where that leaves none."""
    possible = asked.possible
    if asked.editable is not None and not asked.editable:
        possible = tuple(word for word in possible if word != EDIT) or possible
    if wanted is None:
        return possible
    return tuple(word for word in DECISIONS if word in wanted and word in possible) or possible


def said(asked: Asked, type: str, value: Any, reason: str) -> Any:  # noqa: A002
    """Returns the value of a decision: of a rejection that takes a message, why it was rejected."""
    takes_message = type == REJECT and asked.dialect == "hitl_request"
    return reason if takes_message and value is UNSET and reason.strip() else value


def changes_of(asked: Asked, type: str, value: Any) -> list[dict[str, Any]] | None:  # noqa: A002
    """Returns what a decision changes of what was asked, as a JSON Patch.

    None for a decision that edits nothing; of a proposal that is approved, what that changed.
    """
    if type not in (APPROVE, EDIT):
        return None
    if value is UNSET:
        return None if asked.proposal is None else asked.proposal["patch"]
    patch = json_patch.diff(asked.original, _merged(asked, type, value))
    return patch if patch or type == EDIT else None


def proposal_of(asked: Asked, type: str, value: Any, answer: Any) -> dict[str, Any]:  # noqa: A002
    """Returns what a decision puts up for the approval of others (Asked.proposal)."""
    edited = asked.original
    if type in (APPROVE, EDIT):
        edited = _merged(asked, type, value)
    elif asked.dialect == RAW and asked.schema is not None:
        edited = value
    return {"answer": answer, "edited": edited, "patch": changes_of(asked, type, value)}


def _merged(asked: Asked, type: str, value: Any) -> Any:  # noqa: A002
    """Returns what the value makes of what was asked, without what the buttons say."""
    edited = asked.edited(value)
    if asked.schema is None or not isinstance(edited, dict):
        return edited
    if type == APPROVE:
        edited = {**asked.start, **edited}
    kept = asked.original if isinstance(asked.original, dict) else {}
    said = {plain_json.APPROVED: kept[plain_json.APPROVED]} if plain_json.APPROVED in kept else {}
    return {**{key: part for key, part in edited.items() if key != plain_json.APPROVED}, **said}


def _answer(asked: Asked, type: str, value: Any) -> Any:  # noqa: A002
    if asked.dialect != RAW:
        return NAMED[asked.dialect].compose(asked.payload, type, value)
    return plain_json.compose(asked.start, asked.schema, asked.replaced, type, value)


def _may_edit(asked: Asked, type: str, value: Any) -> bool:  # noqa: A002
    # To decide each of several actions on its own, some of them may be edited.
    return type in (APPROVE, EDIT) or (
        type == RESPOND and asked.dialect == "hitl_request" and isinstance(value, list)
    )


def _refuse_if_fixed(asked: Asked, type: str, value: Any) -> None:  # noqa: A002
    free = [name if name.startswith("/") else f"/{name}" for name in asked.editable or ()]
    changed = json_patch.diff(asked.original, _merged(asked, type, value))
    faults = [
        (step["path"], "may not be changed")
        for step in changed
        if not any(step["path"] == way or step["path"].startswith(f"{way}/") for way in free)
    ]
    if faults:
        raise refuse("The edit changes what may not be changed.", *faults)


def sentence(faults: list[tuple[str, str]]) -> str:
    """Says in a line what the response schema has against an answer."""
    pointer, reason = faults[0]
    more = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"The answer doesn't fit: {pointer or 'the value'}: {reason}{more}."
