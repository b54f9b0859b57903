"""Differences for display: changed fields, and changed words of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from .json_patch import is_same_json
from .sequence_diff import align_sequences

#: Texts with more words are compared line by line.
MAX_WORDS = 20_000

# A word, whitespace or punctuation mark. For scripts without spaces, a character.
_PIECES = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\s+|[^\W\u3040-\u9fff]+|.", re.S)


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value that was added, removed or changed.

    ``path`` consists of member names and list indexes. ``old`` is not used for an added value,
    ``new`` not for a removed value.
    """

    path: tuple[str | int, ...]
    kind: Literal["added", "removed", "changed"]
    old: Any = None
    new: Any = None


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a text, and whether it is unchanged, removed or added."""

    kind: Literal["same", "removed", "added"]
    text: str


def compare_fields(old: Any, new: Any) -> list[FieldChange]:
    """Return the added, removed and changed members of two values, in the order of ``old``.

    Lists of the same length are compared by position. Lists of different lengths are one
    difference.
    """
    return list(_changed(old, new, ()))


def compare_words(old: str, new: str) -> list[Span]:
    """Return the words of both texts in one list of parts: unchanged, removed and added.

    To limit the time, long texts are compared by lines, and very different texts are replaced as a
    whole.
    """
    spans: list[Span] = []
    one, other = _PIECES.findall(old), _PIECES.findall(new)
    if max(len(one), len(other)) > MAX_WORDS:
        one, other = old.splitlines(keepends=True), new.splitlines(keepends=True)
    for block in align_sequences(one, other):
        before, after = "".join(one[block.i : block.j]), "".join(other[block.k : block.l])
        if block.same:
            spans.append(Span("same", before))
            continue
        spans += [Span("removed", before)] if before else []
        spans += [Span("added", after)] if after else []
    return spans


def _changed(old: Any, new: Any, path: tuple[str | int, ...]) -> Iterator[FieldChange]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old:
            if key not in new:
                yield FieldChange((*path, key), "removed", old=old[key])
            else:
                yield from _changed(old[key], new[key], (*path, key))
        for key in new:
            if key not in old:
                yield FieldChange((*path, key), "added", new=new[key])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for at, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changed(before, after, (*path, at))
    elif not is_same_json(old, new):
        yield FieldChange(path, "changed", old=old, new=new)
