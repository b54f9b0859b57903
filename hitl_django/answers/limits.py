"""Size limits for responses."""

from __future__ import annotations

import json
from typing import Any

from django.utils.translation import gettext_lazy as _

from hitl_django.conf import hitl
from hitl_django.engine.errors import PayloadLimitError
from hitl_django.engine.payload import check_json
from hitl_django.json_text.reasons import ValidationMessage

#: The maximum number of characters of a reason.
REASON_LENGTH = 10_000


#: Descriptions of the checked value: a response, or a response that includes the payload.
ANSWER = _("The response")
REPETITION = _("The response together with the original request")

_LEVELS = _("%(what)s has %(found)s levels of nesting; the limit is %(limit)s.")
_VALUES = _("%(what)s contains %(found)s values; the limit is %(limit)s.")
_BYTES = _("%(what)s is %(found)s bytes; the limit is %(limit)s.")


def check_limits(value: Any, what: Any = ANSWER) -> None:
    """Check a value against the size limits.

    ``what`` names the value in error messages. The message of a PayloadLimitError is a
    ValidationMessage.

    Raises:
        PayloadLimitError: the value is too large.
        UnserializableError: the value isn't JSON.
    """
    depth, items = _measure(value)
    _limit(_LEVELS, what, depth, hitl.RESPONSE_MAX_DEPTH)
    _limit(_VALUES, what, items, hitl.RESPONSE_MAX_ITEMS)
    check_json(value, ValidationMessage.make(what))
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    _limit(_BYTES, what, size, hitl.RESPONSE_MAX_BYTES)


def _limit(words: Any, what: Any, found: int, limit: int) -> None:
    if found > limit:
        reason = ValidationMessage.make(words, what=what, found=found, limit=limit)
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
