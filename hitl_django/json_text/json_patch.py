"""JSON Patch (RFC 6902): computed from two documents, and applied to a document.

The library ``jsonpatch`` has no limit for the time of a comparison: for 20 lists of 500 values it
can take 26 s (docs/explanation/decisions.md, section 7).
"""

from __future__ import annotations

import copy
import json
from typing import Any

from .json_pointer import escape_part, parse_pointer, read_index
from .sequence_diff import StepBudget, align_sequences

Patch = list[dict[str, Any]]

#: The maximum number of steps for comparing all lists of a document.
MAX_STEPS = 500_000


def make_patch(old: Any, new: Any) -> Patch:
    """Return the patch that converts ``old`` to ``new``. The patch is empty for equal values.

    The patch contains only add, remove and replace operations, each on the deepest possible path.
    The values true, 1 and 1.0 differ from each other.
    """
    patch: Patch = []
    _compare(old, new, "", patch, StepBudget(MAX_STEPS))
    return patch


def apply_patch(document: Any, patch: Patch) -> Any:
    """Return a copy of the document with the patch applied.

    Raises:
        ValueError: an operation can't be applied, or is of a kind that ``make_patch`` doesn't
            create.
    """
    root = {"": copy.deepcopy(document)}
    for step in patch:
        if step.get("op") not in ("add", "remove", "replace"):
            raise ValueError(f"Unsupported JSON Patch operation {step.get('op')!r}.")
        *way, last = ["", *parse_pointer(step["path"])]
        found: Any = root
        for part in way:
            found = found[_key(found, part, len(found) - 1)]
        _apply_step(found, step, last)
    return root[""]


def is_same_json(one: Any, other: Any) -> bool:
    return _text(one) == _text(other)


def _compare(old: Any, new: Any, path: str, patch: Patch, budget: StepBudget) -> None:
    if isinstance(old, dict) and isinstance(new, dict):
        _compare_objects(old, new, path, patch, budget)
    elif isinstance(old, list) and isinstance(new, list):
        _compare_lists(old, new, path, patch, budget)
    elif not is_same_json(old, new):
        patch.append({"op": "replace", "path": path, "value": new})


def _compare_objects(
    old: dict[str, Any], new: dict[str, Any], path: str, patch: Patch, budget: StepBudget
) -> None:
    for key in old:
        below = f"{path}/{escape_part(key)}"
        if key not in new:
            patch.append({"op": "remove", "path": below})
        else:
            _compare(old[key], new[key], below, patch, budget)
    for key in new:
        if key not in old:
            patch.append({"op": "add", "path": f"{path}/{escape_part(key)}", "value": new[key]})


def _compare_lists(
    old: list[Any], new: list[Any], path: str, patch: Patch, budget: StepBudget
) -> None:
    """Append the operations for the differences of two lists to ``patch``.

    Each path refers to the list after the preceding operations. ``path`` is the pointer to the
    lists, and ``budget`` limits the steps of the comparison.
    """
    for block in align_sequences([*map(_text, old)], [*map(_text, new)], budget):
        if block.same:
            continue
        both = min(block.j - block.i, block.l - block.k)
        for at in range(both):
            _compare(old[block.i + at], new[block.k + at], f"{path}/{block.k + at}", patch, budget)
        gone = {"op": "remove", "path": f"{path}/{block.k + both}"}
        patch += [dict(gone) for _ in range(block.i + both, block.j)]
        patch += [
            {"op": "add", "path": f"{path}/{at}", "value": new[at]}
            for at in range(block.k + both, block.l)
        ]


def _apply_step(found: Any, step: dict[str, Any], last: str) -> None:
    adds = step["op"] == "add"
    if isinstance(found, list):
        at = _key(found, last, len(found) if adds else len(found) - 1)
        found[at : at if adds else at + 1] = [] if step["op"] == "remove" else [step["value"]]
    elif step["op"] == "remove":
        del found[_key(found, last, 0)]
    else:
        found[last if adds and isinstance(found, dict) else _key(found, last, 0)] = step["value"]


def _key(found: Any, part: str, highest: int) -> Any:
    if isinstance(found, dict) and part in found:
        return part
    index = read_index(part)
    if isinstance(found, list) and index is not None and index <= highest:
        return index
    raise ValueError(f"The patch refers to {part!r}, which doesn't exist.")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)
