"""Size limits for responses."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from django.utils.translation import gettext_lazy as _

from hitl_django.conf import hitl
from hitl_django.engine.errors import PayloadLimitError
from hitl_django.engine.payload import check_json
from hitl_django.json_text.reasons import ValidationMessage

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

#: The maximum number of characters of a reason.
REASON_LENGTH = 10_000


class LimitMessages(NamedTuple):
    """Messages for a value that is too large.

    ``subject`` is the name of the value in the message about a value that isn't JSON.
    """

    subject: str
    levels: Any
    values: Any
    size: Any


ANSWER = LimitMessages(
    "The response",
    _("The response has %(found)s levels of nesting; the limit is %(limit)s."),
    _("The response contains %(found)s values; the limit is %(limit)s."),
    _("The response is %(found)s bytes; the limit is %(limit)s."),
)
#: For a response that repeats the payload.
REPETITION = LimitMessages(
    "The response together with the original request",
    _(
        "The response and the original request together have %(found)s levels of nesting; the "
        "limit is %(limit)s."
    ),
    _(
        "The response and the original request together contain %(found)s values; the limit is "
        "%(limit)s."
    ),
    _(
        "The response and the original request together are %(found)s bytes; the limit is "
        "%(limit)s."
    ),
)


def check_limits(value: Any, messages: LimitMessages = ANSWER) -> None:
    """Check a value against the size limits.

    The error message for a limit is a ValidationMessage, which can be translated.

    Raises:
        PayloadLimitError: the value is too large.
        UnserializableError: the value isn't JSON.
    """
    depth, items = _measure(value)
    _limit(messages.levels, depth, hitl.RESPONSE_MAX_DEPTH)
    _limit(messages.values, items, hitl.RESPONSE_MAX_ITEMS)
    check_json(value, messages.subject)
    size = len(_encode(value).encode())
    _limit(messages.size, size, hitl.RESPONSE_MAX_BYTES)


def _limit(message: Any, found: int, limit: int) -> None:
    if found > limit:
        reason = ValidationMessage.make(message, found=found, limit=limit)
        raise PayloadLimitError(reason, limit=limit, found=found)


def _measure(value: Any) -> tuple[int, int]:
    """Return the nesting depth of a value and the number of nested values, without recursion."""
    depth = items = 0
    level = [value]
    while level and depth <= hitl.RESPONSE_MAX_DEPTH and items <= hitl.RESPONSE_MAX_ITEMS:
        items += len(level)
        containers = [part for part in level if isinstance(part, dict | list | tuple)]
        depth += bool(containers)
        level = [
            part
            for container in containers
            for part in (container.values() if isinstance(container, dict) else container)
        ]
    return depth, items
