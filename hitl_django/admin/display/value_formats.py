"""Display formats of values: text, links, files, images, code, dates and units.

A value that doesn't match the format of its display hint is shown as plain text. Links and images
appear only on pages that enable them.
"""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.urls import get_script_prefix
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.formats import date_format

from hitl_django.conf import hitl
from hitl_django.dialects import DIALECTS
from hitl_django.forms import list_hints, read_shape
from hitl_django.forms.units import Money, Unit, find_unit
from hitl_django.graph_registry import registry
from hitl_django.graph_registry.display_hints import (
    Hint,
    Names,
    Path,
    follow,
    get_names,
    parse_hints,
    resolve,
    to_currency,
)
from hitl_django.json_text.json_pointer import format_pointer, parse_pointer
from hitl_django.json_text.text_formats import is_uri
from hitl_django.models import Interrupt

from .markdown import render_markdown

logger = logging.getLogger("hitl_django")

JSON = Any

#: Image types that browsers display, except for types that may contain scripts.
IMAGES = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".webp": "image/webp",
}
#: Formats that are safe for hints of a payload, because they only change the text of a value.
PLAIN_FORMATS = frozenset({"date", "duration", "money", "percent"})
#: The member of an action with its arguments.
ARGUMENTS = "args"


@dataclass(frozen=True)
class Presentation:
    """Display hints of a payload, and the URL that serves its files.

    Without ``file_url``, values contain no links, and the page loads no images. The currency of an
    amount is looked up in the values in ``roots``, one after the other. ``arguments_member`` is the
    name of the member that contains the arguments of an action. The path of a hint may also begin
    at these arguments instead of the payload.
    """

    hints: Mapping[Names, Hint] = field(default_factory=dict)
    file_url: str = ""
    roots: tuple[JSON, ...] = ()
    arguments_member: str = ""

    def at(self, *roots: JSON) -> Presentation:
        """Return a copy that first looks in ``roots`` for the currency of an amount."""
        return replace(self, roots=(*roots, *self.roots)) if self.hints else self

    def at_arguments(self, arguments: JSON, schema: JSON) -> Presentation:
        """Return a copy for the arguments of one action, using the schema of the arguments."""
        own = {} if schema is None else list_hints(read_shape(schema))
        safe = {names: hint for names, hint in own.items() if hint.format in PLAIN_FORMATS}
        return replace(self, hints={**safe, **self.hints}).at(arguments)

    def find_hint(self, path: Path) -> Hint | None:
        """Return the display hint of the value at a path, or None."""
        hint = self.hints.get(get_names(path))
        if hint is not None or self.arguments_member not in path:
            return hint
        hint = self.hints.get(get_names(self._split(path)[1]))
        return hint if hint is not None and hint.format in PLAIN_FORMATS else None

    def find_unit(self, hint: Hint, path: Path) -> Unit | None:
        """Return the unit that ``hint`` gives the value at ``path``, or None if unknown."""
        start, below = self._split(path)
        roots = tuple(follow(root, start) for root in self.roots) if start else ()
        return find_unit(hint, below, (*roots, *self.roots))

    def list_shown_currencies(self, value: JSON, skip: Collection[str] = ()) -> set[str]:
        """Return the names of the members of ``value`` that contain the currency of an amount.

        Amounts are shown with their currency, so the caller doesn't show these members separately.
        ``skip`` contains the names of amounts that the caller doesn't show. Their currencies are
        not in the result.
        """
        if not isinstance(value, dict):
            return set()
        return {
            hint.currency_names[0]
            for names, hint in self.hints.items()
            if len(names) == 1 and len(hint.currency_names) == 1 and names[0] not in skip
            if to_currency(value.get(hint.currency_names[0]))
            and Money().accepts(value.get(names[0]))
        }

    def _split(self, path: Path) -> tuple[Path, Path]:
        """Split a path at the arguments of an action.

        Returns the path to the arguments, and the path from there to the value. The first path is
        empty if the value isn't in the arguments of an action.
        """
        at = 0
        if self.arguments_member and self.arguments_member in path:
            at = path.index(self.arguments_member) + 1
        return path[:at], path[at:]


@dataclass(frozen=True)
class Rendered:
    """A formatted value: its text and, depending on the format, its URL or HTML."""

    style: str
    text: str
    url: str = ""
    html: str = ""


def read_hints(graph: str, schema: JSON) -> dict[Names, Hint]:
    """Return the display hints from a response schema and from the graph's review policy.

    ``schema`` is None for an interrupt without a response schema.
    """
    found = {} if schema is None else list_hints(read_shape(schema))
    return {**found, **parse_hints(registry.get_review_policy(graph).display)}


def present(item: Interrupt, file_url: str = "") -> Presentation:
    """Return the presentation of an interrupt's payload."""
    hints = read_hints(item.graph, item.response_schema)
    member = ARGUMENTS if DIALECTS[item.dialect].requests_actions else ""
    return Presentation(hints, file_url, (item.payload,), member)


def render_value(
    hint: Hint, value: JSON, path: Path, presentation: Presentation
) -> Rendered | None:
    """Return a value in the format of its display hint, or None if the value doesn't match.

    Payloads are untrusted: if a renderer raises an error, the page shows the value as plain text.
    """
    try:
        return _RENDERERS[hint.format](hint, value, path, presentation)
    except Exception as error:
        # Log only the error's type, because its text may quote the value.
        logger.warning("a value can't be shown as %s: %s", hint.format, type(error).__name__)
        return None


def find_file_name(hint: Hint, value: JSON) -> str:
    """Return the storage name of the file to which a value refers.

    The name is empty if the value isn't a valid name, or if the hint doesn't allow serving the
    file.
    """
    if hint.format not in ("file", "image") or not isinstance(value, str) or not value:
        return ""
    folder = hint.argument.strip("/")
    is_plain = value == posixpath.normpath(value) and not value.startswith(("/", "."))
    if not is_plain or "\\" in value or "://" in value or "\x00" in value:
        return ""
    return value if not folder or value.startswith(f"{folder}/") else ""


def find_file(item: Interrupt, pointer: str) -> tuple[str, bool]:
    """Return the name of the file at a JSON pointer, and whether the file is an image.

    The name is empty if no display hint allows serving the file.
    """
    try:
        value, path = resolve(item.payload, parse_pointer(pointer))
    except LookupError:
        return "", False
    hint = read_hints(item.graph, item.response_schema).get(get_names(path))
    return ("", False) if hint is None else (find_file_name(hint, value), hint.format == "image")


def get_image_type(name: str) -> str:
    """Return the media type of a safe image, or an empty string for any other file."""
    return IMAGES.get(posixpath.splitext(name)[1].lower(), "")


def _render_code(hint: Hint, value: JSON, path: Path, page: Presentation) -> Rendered | None:
    return Rendered("code", value) if isinstance(value, str) else None


def _render_date(hint: Hint, value: JSON, path: Path, page: Presentation) -> Rendered | None:
    if not isinstance(value, str):
        return None
    try:
        day, moment = parse_date(value), parse_datetime(value)
    except ValueError:
        return None
    if day is not None:
        return Rendered("text", date_format(day, "DATE_FORMAT"))
    if moment is None:
        return None
    local = timezone.localtime(moment) if timezone.is_aware(moment) else moment
    return Rendered("text", date_format(local, "DATETIME_FORMAT"))


def _render_file(hint: Hint, value: JSON, path: Path, page: Presentation) -> Rendered | None:
    name = find_file_name(hint, value)
    if not (name and page.file_url):
        return None
    return Rendered("file", posixpath.basename(name), _file_url(page, path))


def _render_image(hint: Hint, value: JSON, path: Path, page: Presentation) -> Rendered | None:
    if not page.file_url or not isinstance(value, str):
        return None
    if _is_allowed_image(value):
        return Rendered("image", value, value)
    name = find_file_name(hint, value)
    return Rendered("image", name, _file_url(page, path)) if get_image_type(name) else None


def _is_allowed_image(address: str) -> bool:
    """Return whether the URL is a static or media file of the site, or on an allowed image host."""
    if ".." in address or "%" in address or "\\" in address:
        return False
    # An empty setting would match the whole site.
    files = settings.MEDIA_URL, settings.STATIC_URL
    own = [url for url in files if url not in ("", get_script_prefix())]
    if address.startswith(tuple(own)) and is_uri(f"https://x{address}"):
        return True
    found = urlsplit(address) if is_uri(address) else None
    return found is not None and found.scheme == "https" and found.netloc in hitl.IMAGE_HOSTS


def _render_link(hint: Hint, value: JSON, path: Path, page: Presentation) -> Rendered | None:
    if not page.file_url or not isinstance(value, str) or not is_uri(value):
        return None
    found = urlsplit(value)
    # A user name before the host could be mistaken for the host.
    if found.scheme not in ("http", "https", "mailto") or "@" in found.netloc:
        return None
    return Rendered("link", value, value)


def _render_markdown(hint: Hint, value: JSON, path: Path, page: Presentation) -> Rendered | None:
    html = render_markdown(value, links=bool(page.file_url)) if isinstance(value, str) else None
    return None if html is None else Rendered("markdown", value, html=html)


def _render_unit(hint: Hint, value: JSON, path: Path, page: Presentation) -> Rendered | None:
    unit = page.find_unit(hint, path)
    if unit is None or not unit.accepts(value):
        return None
    return Rendered("text" if hint.format == "duration" else "number", unit.show(value))


def _file_url(page: Presentation, path: Path) -> str:
    return f"{page.file_url}?{urlencode({'at': format_pointer(path)})}"


_RENDERERS: dict[str, Callable[[Hint, JSON, Path, Presentation], Rendered | None]] = {
    "code": _render_code,
    "date": _render_date,
    "duration": _render_unit,
    "file": _render_file,
    "image": _render_image,
    "link": _render_link,
    "markdown": _render_markdown,
    "money": _render_unit,
    "percent": _render_unit,
}
