"""Key facts of requests in lists: a few values of the payload on one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Case, F, QuerySet, TextField, When
from django.db.models.functions import Cast, Length
from django.utils.html import escape, format_html
from django.utils.text import Truncator

from hitl_django.dialects import DIALECTS
from hitl_django.forms.answer_form import make_label
from hitl_django.forms.json_input import escape_hidden
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.display_hints import parse_names
from hitl_django.json_text.sanitize import list_heading_keys
from hitl_django.models import Interrupt

from .payload_display import (
    SHORT,
    DisplayedValue,
    display_payload,
    display_selected,
)
from .value_formats import Presentation, read_hints

#: Styles of values that fit into a line.
STYLES = frozenset({"text", "number", "long"})
#: Maximum number of characters of a stored payload that a list reads for each row.
LARGEST = 8_000
#: Number of facts in a row.
MOST = 3
#: Maximum number of columns of facts, and of characters of a fact in a column.
MAX_COLUMNS, CELL = 5, 60
#: Number of characters before a match of a search, and of a snippet.
BEFORE, SNIPPET = 30, 160


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """Labelled values of a payload on one line.

    ``snippet`` is the HTML of an excerpt from a text of the payload, or empty.
    """

    facts: Sequence[DisplayedValue] = ()
    snippet: str = ""


def with_payload(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Annotate interrupts with their payload and response schema.

    The annotations are ``small_payload`` and ``small_schema``. An annotation is None if the value
    is too large for a list.
    """
    lengths = {
        f"{column}_length": Length(Cast(column, TextField()))
        for column in ("payload", "response_schema")
    }
    return rows.alias(**lengths).annotate(
        small_payload=_limited("payload"), small_schema=_limited("response_schema")
    )


def _limited(column: str) -> Case:
    field: Any = Interrupt._meta.get_field(column)
    fits = {f"{column}_length__lte": LARGEST}
    return Case(When(**fits, then=F(column)), output_field=field)


def list_key_facts(item: Any, search: str = "") -> KeyFacts:
    """Return the key facts of an interrupt.

    The facts are the payload values that the graph's review policy names or, if it names none, the
    first values. Long values and values that the title contains are omitted. The excerpt shows the
    text around the first match of the search or, without a match, the start of the longest text.
    """
    payload, presentation = item.small_payload, _present(item)
    policy = registry.get_review_policy(item.graph)
    if policy.facts:
        paths = [parse_names(fact) for fact in policy.facts]
        values = display_selected(payload, paths, presentation)
    elif DIALECTS[item.dialect].requests_actions:
        actions = DIALECTS[item.dialect].actions(payload) if payload is not None else ()
        values = [
            value
            for action in actions[:1]
            for value in display_payload(
                action.args, presentation=presentation.at_arguments(action.args, action.schema)
            )
        ]
    else:
        skip = list_heading_keys(payload, item.title)
        values = display_payload(payload, skip=skip, presentation=presentation)
    texts = [value for value in values if value.style in STYLES and value.text]
    short = [value for value in texts if _is_fact(value, item.title)]
    long = [str(value.text) for value in texts if len(value.text) > SHORT]
    snippet = _find(search, [item.title, *(str(value.text) for value in short[:MOST])], payload)
    if not snippet and long:
        snippet = escape(Truncator(" ".join(max(long, key=len).split())).chars(SNIPPET))
    return KeyFacts(short[:MOST], snippet)


def _present(item: Any) -> Presentation:
    return Presentation(read_hints(item.graph, item.small_schema), roots=(item.small_payload,))


def list_fact_columns(graph: str) -> list[str]:
    """Return the labels of the facts that the graph's review policy names."""
    facts = registry.get_review_policy(graph).facts[:MAX_COLUMNS]
    return [make_label(parse_names(fact)[-1]) for fact in facts]


def list_cells(item: Any) -> list[DisplayedValue | None]:
    """Return an interrupt's value for each column of ``list_fact_columns``.

    Texts are shortened. If a value is missing or is neither a text nor a number, the list contains
    None. The columns can't be sorted, because no index contains the payload, and the payload may be
    encrypted.
    """
    payload, presentation = item.small_payload, _present(item)
    cells: list[DisplayedValue | None] = []
    for fact in registry.get_review_policy(item.graph).facts[:MAX_COLUMNS]:
        found = display_selected(payload, [parse_names(fact)], presentation)
        value = found[0] if found and found[0].style in STYLES and found[0].text else None
        if value is not None:
            text = Truncator(" ".join(str(value.text).split())).chars(CELL)
            value = replace(value, text=text)
        cells.append(value)
    return cells


def _is_fact(value: DisplayedValue, title: str) -> bool:
    text = str(value.text)
    # A title has plain spaces, but an amount has a no-break space before its currency.
    plain = re.escape(text.replace("\N{NO-BREAK SPACE}", " "))
    is_in_title = re.search(rf"(?<!\w){plain}(?!\w)", title) is not None
    return len(text) <= SHORT and "\n" not in text and not is_in_title


def _find(search: str, shown: Sequence[str], payload: Any) -> str:
    """Return an excerpt from the payload around a searched word, with the word marked.

    If a text in ``shown`` already contains a word, the word is skipped. The result is empty if the
    payload contains none of the other words.
    """
    for word in search.split():
        if any(word.casefold() in text.casefold() for text in shown):
            continue
        pattern = re.compile(re.escape(word), re.IGNORECASE)
        for text in _list_texts(payload):
            match = pattern.search(text)
            if match:
                start, end = max(match.start() - BEFORE, 0), match.end() + SNIPPET
                before, after = text[start : match.start()], text[match.end() : end]
                lead = "\N{HORIZONTAL ELLIPSIS}" if start else ""
                parts = (escape_hidden(part) for part in (lead + before, match[0], after))
                return format_html("{}<mark>{}</mark>{}", *parts)
    return ""


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(part)
    elif isinstance(value, str):
        yield " ".join(value.split())
