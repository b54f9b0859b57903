"""Regular expressions of JSON Schema, matched in linear time.

Python's ``re`` uses backtracking and can take minutes for one text. The regex engine of pydantic
uses no backtracking, but supports neither lookaround nor backreferences. Lookaheads at the
beginning of an anchored pattern (``^(?=.*\\d)(?!.*\\s).{8,}$``) are independent conditions, so each
is matched separately.
"""

from __future__ import annotations

from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

_LOOKAHEADS = ("(?=", "(?!")


class Pattern:
    """A compiled regular expression: parts that must match a text, and parts that must not."""

    def __init__(self, wanted: list[SchemaValidator], unwanted: list[SchemaValidator]) -> None:
        self._wanted, self._unwanted = wanted, unwanted

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches part of the text."""
        return all(each.isinstance_python(text) for each in self._wanted) and not any(
            each.isinstance_python(text) for each in self._unwanted
        )


@lru_cache(maxsize=256)
def compile_pattern(pattern: str) -> Pattern | None:
    """Return the compiled pattern, or None if the pattern is not supported."""
    wanted: list[SchemaValidator] = []
    unwanted: list[SchemaValidator] = []
    rest = pattern
    try:
        if pattern.startswith(tuple(f"^{each}" for each in _LOOKAHEADS)):
            rest = pattern[1:]
            while rest.startswith(_LOOKAHEADS):
                end = _find_end(rest)
                (wanted if rest[2] == "=" else unwanted).append(_compile(f"^(?:{rest[3:end]})"))
                rest = rest[end + 1 :]
            if _has_alternatives(rest):
                return None  # The lookaheads apply only to the first alternative.
            rest = f"^(?:{rest})" if rest else ""
        wanted.append(_compile(rest))
    except (SchemaError, ValueError):
        return None
    return Pattern(wanted, unwanted)


def _compile(expression: str) -> SchemaValidator:
    return SchemaValidator(
        core_schema.str_schema(pattern=expression, regex_engine="rust-regex", strict=True)
    )


def _find_end(group: str) -> int:
    """Return the index of the parenthesis that closes the group at the start of ``group``."""
    depth = 0
    for index, char in _list_syntax(group):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return index
    raise ValueError("the group isn't closed")


def _has_alternatives(expression: str) -> bool:
    depth = 0
    for _, char in _list_syntax(expression):
        depth += (char == "(") - (char == ")")
        if char == "|" and depth == 0:
            return True
    return False


def _list_syntax(expression: str) -> list[tuple[int, str]]:
    """Return the syntax characters of an expression, each with its index.

    Escaped characters and characters in character classes are left out.
    """
    found: list[tuple[int, str]] = []
    escaped = in_class = False
    for index, char in enumerate(expression):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = True
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        else:
            found.append((index, char))
    return found
