"""Extension members of problems (RFC 9457, section 3.2), with their JSON Schemas."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hitl_django import errors
from hitl_django.models import Interrupt, Run

from .invalid_params import MAX_FAULTS, InvalidParam, convert_path, list_errors
from .serializers.interrupts import DecisionSerializer

_FAULTS: dict[str, Any] = {
    "errors": {
        "type": "array",
        "maxItems": MAX_FAULTS,
        "description": "Validation errors, each with its location: a JSON pointer into "
        "the body, or the name of a query parameter or header.",
        "items": {"$ref": "#/components/schemas/Fault"},
    }
}
_TEXT = {"type": "string"}


@dataclass(frozen=True, slots=True)
class ProblemExtensions:
    """Extension members of one problem type.

    The function ``read`` returns the members for an error. The second argument of ``read`` is a
    JSON pointer to the part of the body that the service received. ``schema`` contains the JSON
    Schema of each member. Instead of a ``$ref``, such a schema may contain a serializer class.
    Members in ``sometimes`` are optional.
    """

    read: Callable[[Any, str], dict[str, Any]]
    schema: dict[str, Any]
    sometimes: frozenset[str] = frozenset()


def _body_faults(error: Any, root: str) -> dict[str, Any]:
    return {"errors": list_errors(error.faults)}


def _input_faults(error: errors.InvalidInputError, root: str) -> dict[str, Any]:
    found = (
        InvalidParam("invalid", reason, pointer=convert_path(path, root))
        for path, reason in error.faults
    )
    return {"errors": list_errors(found)}


def _answer_faults(error: errors.InvalidAnswerError, root: str) -> dict[str, Any]:
    if not error.faults:  # The decision type itself is not allowed, independent of the value.
        at = f"{root.rpartition('/')[0]}/type"
        return {"errors": [InvalidParam("not_allowed", str(error), pointer=at).as_json()]}
    found = (
        InvalidParam("invalid", reason, pointer=root + pointer) for pointer, reason in error.faults
    )
    return {"errors": list_errors(found)}


def _unserializable(error: errors.UnserializableError, root: str) -> dict[str, Any]:
    pointer = convert_path(error.path, root)
    return {"errors": list_errors([InvalidParam("unserializable", str(error), pointer)])}


def _winning_decision(error: errors.AlreadyDecidedError, root: str) -> dict[str, Any]:
    decision = error.decision
    shown = None if decision is None else DecisionSerializer(decision).data
    return {"interrupt_status": error.status, "decision": shown}


NO_EXTENSIONS = ProblemExtensions(lambda error, root: {}, {})
BODY_FAULTS = ProblemExtensions(_body_faults, _FAULTS)
INPUT_FAULTS = ProblemExtensions(_input_faults, _FAULTS, sometimes=frozenset({"errors"}))
ANSWER_FAULTS = ProblemExtensions(_answer_faults, _FAULTS)
UNSERIALIZABLE = ProblemExtensions(_unserializable, _FAULTS)
LIMIT = ProblemExtensions(
    lambda error, root: {"limit": error.limit, "found": error.found},
    {"limit": {"type": "integer"}, "found": {"type": "integer"}},
    sometimes=frozenset({"limit", "found"}),  # A limit that the project set may have no details.
)
OPEN_INTERRUPTS = ProblemExtensions(
    lambda error, root: {"pending": list(error.pending_ids)},
    {
        "pending": {
            "type": "array",
            "description": "The thread's pending interrupts.",
            "items": {"type": "string", "format": "uuid"},
        }
    },
)
WINNING_DECISION = ProblemExtensions(
    _winning_decision,
    {
        "interrupt_status": {"type": "string", "enum": list(Interrupt.Status.values)},
        "decision": {
            "description": "The decision that closed the interrupt; null if it was closed "
            "without one.",
            "anyOf": [DecisionSerializer, {"type": "null"}],
        },
    },
)
CLAIMED = ProblemExtensions(
    lambda error, root: {"claimed_by": error.claimed_by_label, "until": error.until},
    {"claimed_by": {"type": "string"}, "until": {"type": "string", "format": "date-time"}},
)
LAST_EVENT = ProblemExtensions(
    lambda error, root: {"last": error.last},
    {
        "last": {
            "type": "integer",
            "description": "Number of the run's last event. Continue from there.",
        }
    },
)
RUN_STATE = ProblemExtensions(
    lambda error, root: {"run_state": error.state, "allowed": list(error.allowed)},
    {
        "run_state": {"type": "string", "enum": list(Run.State.values)},
        "allowed": {"type": "array", "items": {"type": "string", "enum": list(Run.State.values)}},
    },
)
