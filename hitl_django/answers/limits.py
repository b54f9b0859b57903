"""How large an answer may be."""

from __future__ import annotations

import json
from typing import Any

from hitl_django.conf import hitl
from hitl_django.engine.errors import PayloadLimitError
from hitl_django.engine.payload import check_json

#: Characters of a reason, wherever it is given.
REASON_LENGTH = 10_000


def check_limits(value: Any, what: str = "The answer") -> None:
    """Raises PayloadLimitError for what is too large, UnserializableError for what isn't JSON."""
    depth, items = _extent(value)
    _limit(what, "levels deep", depth, hitl.ANSWER_MAX_DEPTH)
    _limit(what, "values", items, hitl.ANSWER_MAX_ITEMS)
    check_json(value, what)
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    _limit(what, "bytes", size, hitl.ANSWER_MAX_BYTES)


def _limit(what: str, unit: str, found: int, limit: int) -> None:
    if found > limit:
        raise PayloadLimitError(
            f"{what} is {found} {unit}; {limit} are allowed.", limit=limit, found=found
        )


def _extent(value: Any) -> tuple[int, int]:
    """Measures nesting and number of values, level by level, so that no depth overflows a stack."""
    depth = items = 0
    level = [value]
    while level and depth <= hitl.ANSWER_MAX_DEPTH and items <= hitl.ANSWER_MAX_ITEMS:
        items += len(level)
        containers = [part for part in level if isinstance(part, dict | list | tuple)]
        depth += bool(containers)
        level = [
            part
            for container in containers
            for part in (container.values() if isinstance(container, dict) else container)
        ]
    return depth, items
