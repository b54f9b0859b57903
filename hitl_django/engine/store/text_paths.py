"""Paths that select the texts of an item for embedding.

A path consists of names separated by periods (``a.b``), list indexes (``a[0]``, ``a[-1]``,
``a[*]``), ``*`` for all members, and ``{a,b.c}`` for several fields. ``$`` and an empty path select
the whole item.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_CLOSING = {"[": "]", "{": "}"}
_BREAKS = ".[{"


def tokenize_path(path: str) -> list[str]:
    """Return the parts of a path: names, indexes in brackets, and lists of fields in braces."""
    tokens, at = [], 0
    while at < len(path):
        if path[at] == ".":
            at += 1
            continue
        end = _find_bracket_end(path, at) if path[at] in _CLOSING else _find_name_end(path, at)
        tokens.append(path[at:end])
        at = end
    return tokens


def _find_bracket_end(path: str, start: int) -> int:
    opening, closing = path[start], _CLOSING[path[start]]
    depth = 0
    for at in range(start, len(path)):
        depth += (path[at] == opening) - (path[at] == closing)
        if not depth:
            return at + 1
    return len(path)


def _find_name_end(path: str, start: int) -> int:
    return next((at for at in range(start, len(path)) if path[at] in _BREAKS), len(path))


def get_text_at_path(obj: Any, path: str | Sequence[str]) -> list[str]:
    """Return the texts of ``obj`` at ``path``. A path is a str, or a sequence of parts of a path.

    Lists and dicts are converted to JSON with sorted keys. A missing value and None have no text.
    """
    if isinstance(obj, Mapping):
        obj = dict(obj)
    if not path or path == "$":
        return [_write_json(obj)]
    return list(_find_texts(obj, tokenize_path(path) if isinstance(path, str) else path))


def _find_texts(found: Any, tokens: Sequence[str]) -> Iterator[str]:
    if not tokens:
        yield from _read_texts(found)
        return
    token, *rest = tokens
    if token.startswith("{") and token.endswith("}"):
        for field in token[1:-1].split(","):  # The part of the path after the braces is ignored.
            yield from _read_texts(_follow_names(found, tokenize_path(field.strip())))
        return
    for member in _find_members(found, token):
        yield from _find_texts(member, rest)


def _find_members(found: Any, token: str) -> Sequence[Any]:
    if token.startswith("[") and token.endswith("]"):
        return _find_items(found, token[1:-1]) if isinstance(found, list) else ()
    if isinstance(found, dict):
        if token == "*":
            return list(found.values())
        return (found[token],) if token in found else ()
    return found if token == "*" and isinstance(found, list) else ()


def _find_items(items: list[Any], index: str) -> Sequence[Any]:
    if index == "*":
        return items
    try:
        return (items[int(index)],)
    except (ValueError, IndexError):
        return ()


def _follow_names(found: Any, names: Sequence[str]) -> Any:
    if not names:
        return None
    for name in names:
        if not isinstance(found, dict):
            return None
        found = found.get(name)
    return found


def _read_texts(found: Any) -> Iterator[str]:
    if isinstance(found, (str, int, float)):
        yield str(found)
    elif isinstance(found, (list, dict)):
        yield _write_json(found)


def _write_json(found: Any) -> str:
    return json.dumps(found, sort_keys=True, ensure_ascii=False)
