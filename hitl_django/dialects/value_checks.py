"""Checks of the value given with a decision."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, final

from django.utils.translation import gettext_lazy as _

from hitl_django.engine.errors import InvalidAnswerError
from hitl_django.json_text.json_pointer import escape_part
from hitl_django.json_text.reasons import ValidationMessage


@final
class Unset:
    """The type of UNSET, which marks a missing value. None is a valid value."""

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        return False


UNSET: Final = Unset()


class Candidate(NamedTuple):
    """A possible decision for a resume value.

    ``pointer`` is the JSON pointer to the decision's value within the resume value.
    """

    type: str
    value: Any = UNSET
    pointer: str | None = None


def invalid_answer(message: str, *faults: tuple[str, str]) -> InvalidAnswerError:
    """Return the error for an invalid value. Each fault is a (JSON pointer, reason) pair."""
    return InvalidAnswerError(message, faults)


def refuse_value(type: str, value: Any) -> None:  # noqa: A002
    """Raise InvalidAnswerError if a value is given for a type that takes no value."""
    if value is not UNSET:
        raise invalid_answer(
            f"The decision '{type}' takes no value.",
            ("", ValidationMessage.make(_("no value expected"))),
        )


def require_value(type: str, value: Any) -> Any:  # noqa: A002
    """Return the value, or raise InvalidAnswerError if no value is given."""
    if value is UNSET:
        raise invalid_answer(
            f"The decision '{type}' requires a value.",
            ("", ValidationMessage.make(_("a value is required"))),
        )
    return value


def require_object(value: Any, pointer: str = "") -> dict[str, Any]:
    """Return the value. Raise InvalidAnswerError if the value is not an object.

    ``pointer`` is the JSON pointer of the value in the error.
    """
    if not isinstance(value, dict):
        raise invalid_answer(
            "The value must be an object.",
            (pointer, ValidationMessage.make(_("must be an object"))),
        )
    return value


def require_text(value: Any, pointer: str = "") -> str:
    """Return the value. Raise InvalidAnswerError if the value is empty or not a string.

    ``pointer`` is the JSON pointer of the value in the error.
    """
    if not isinstance(value, str) or not value.strip():
        raise invalid_answer(
            "The value must be a string.", (pointer, ValidationMessage.make(_("must be a string")))
        )
    return value


def require_members(value: dict[str, Any], *names: str, pointer: str = "") -> None:
    """Raise InvalidAnswerError if the object's members differ from ``names``.

    ``pointer`` is the JSON pointer of the object in the error.
    """
    missing, unknown = (
        ValidationMessage.make(_("is required")),
        ValidationMessage.make(_("is unexpected")),
    )
    faults = [(f"{pointer}/{escape_part(name)}", missing) for name in names if name not in value]
    faults += [(f"{pointer}/{escape_part(key)}", unknown) for key in value if key not in names]
    if faults:
        raise invalid_answer("The value has unexpected or missing keys.", *faults)
