"""Inference of the decision from a resume value.

A client that knows the value for the graph may send the value directly. The value must be the
result of an allowed decision, so a graph never receives a value that a reviewer couldn't have sent.
"""

from __future__ import annotations

from typing import Any

from hitl_django.decision_types import DECISION_TYPES, REJECT
from hitl_django.dialects.value_checks import Candidate, invalid_answer
from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.json_text import json_patch

from .limits import check_limits
from .options import AnswerOptions, compose_resume_value, make_resume_value, validate_resume_value


def infer_decision(options: AnswerOptions, resume: Any) -> Candidate:
    """Return the decision that results in the given resume value.

    Raises:
        InvalidAnswerError: no allowed decision results in the value. The error contains JSON
            pointers to the faults.
        UnserializableError: the value is not JSON.
        PayloadLimitError: the value is too large.
    """
    check_limits(resume)
    resume = options.rules.normalize_resume(options, resume)
    validate_resume_value(options, resume)
    by_value = options.rules.candidates(options, resume)
    without_value = [
        Candidate(type_.name)
        for type_ in DECISION_TYPES.values()
        if type_.value_in_answer != "required"
    ]
    candidates = [*without_value, *by_value]
    allowed = [candidate for candidate in candidates if candidate.type in options.allowed]
    for candidate in allowed:
        if _makes(options, candidate, resume):
            return candidate
    for candidate in reversed(allowed):
        if candidate.pointer is not None:
            _raise_faults(options, candidate, candidate.pointer)
    takes = f"Allowed decisions: {', '.join(options.allowed)}."
    other = next((one.type for one in by_value if one.type not in options.allowed), None)
    if other is not None:
        raise invalid_answer(
            f"This is the resume value of the decision {other!r}, which is not allowed. {takes}",
            ("", f"is the resume value of {other!r}"),
        )
    raise invalid_answer(
        f"No allowed decision has this resume value. {takes}", ("", "is not a valid response")
    )


def _makes(options: AnswerOptions, candidate: Candidate, resume: Any) -> bool:
    if candidate.type == REJECT and candidate.value is resume:
        return True  # Composing a rejection would add members that are missing in the resume value.
    try:
        # The resume value has been validated, so an equal value needs no validation.
        made = compose_resume_value(options, candidate.type, candidate.value)
    except InvalidAnswerError:
        return False
    return json_patch.is_same_json(made, resume)


def _raise_faults(options: AnswerOptions, candidate: Candidate, root: str) -> None:
    """Raise InvalidAnswerError if the value of a candidate decision has faults.

    ``root`` is the JSON pointer to the value.
    """
    try:
        make_resume_value(options, candidate.type, candidate.value)
    except InvalidAnswerError as error:
        faults = [(root + pointer, reason) for pointer, reason in error.faults]
        raise InvalidAnswerError(str(error), faults) from None
