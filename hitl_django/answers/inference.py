"""Which decision a resume value stands for.

Whoever knows what the graph is to receive may give just that. It is a decision of a type all the
same, which has to be one that is offered: a graph receives nothing that a person couldn't have
decided.
"""

from __future__ import annotations

from typing import Any

from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.json_text import json_patch

from .decision_types import APPROVE, REJECT, Meant, refuse
from .dialects import NAMED, RAW, plain_json
from .limits import check_limits
from .options import Asked, compose, resume_value, validate


def infer_decision(asked: Asked, resume: Any) -> Meant:
    """Returns the decision that comes to this resume value.

    Raises InvalidAnswerError where none that is offered does, with a JSON pointer into the resume
    value to each fault; and what ``compose`` raises for what isn't JSON or is too large.
    """
    check_limits(resume)
    validate(asked, resume)
    read = [Meant(APPROVE), Meant(REJECT), *_read(asked, resume)]
    offered = [meant for meant in read if meant.type in asked.allowed]
    for meant in offered:
        if _comes_to(asked, meant, resume):
            return meant
    for meant in reversed(offered):
        if meant.pointer is not None:
            _raise_faults(asked, meant, meant.pointer)
    takes = f"The question takes {', '.join(asked.allowed)}."
    other = next((meant.type for meant in read[2:] if meant.type not in asked.allowed), None)
    if other is not None:
        raise refuse(f"This is what {other!r} comes to. {takes}", ("", f"comes to {other!r}"))
    raise refuse(f"This is what none of the decisions comes to. {takes}", ("", "is no answer"))


def _read(asked: Asked, resume: Any) -> list[Meant]:
    if asked.dialect == RAW:
        return plain_json.read(asked.payload, asked.schema, asked.replaced, resume)
    return NAMED[asked.dialect].read(asked.payload, resume)


def _comes_to(asked: Asked, meant: Meant, resume: Any) -> bool:
    if meant.type == REJECT and meant.value is resume:
        return True  # a rejection by its type would fill in members that this one leaves out
    try:
        # The resume value was validated; what comes to the same needs no second look.
        return json_patch.same(resume_value(asked, meant.type, meant.value), resume)
    except InvalidAnswerError:
        return False


def _raise_faults(asked: Asked, meant: Meant, root: str) -> None:
    """Says what is wrong with a value that was meant to be the value of this decision."""
    try:
        compose(asked, meant.type, meant.value)
    except InvalidAnswerError as error:
        faults = [(root + pointer, reason) for pointer, reason in error.faults]
        raise InvalidAnswerError(str(error), faults) from None
