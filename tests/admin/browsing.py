"""Reading and submitting HTML forms like a browser without JavaScript."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from django.contrib.messages import get_messages
from django.http import HttpResponse
from django.test import Client

from hitl_django.models import Interrupt

from .conftest import page_of

Controls = list[tuple[str, str]]


class FormReader(HTMLParser):
    """HTML parser that collects the form fields that a browser would submit."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.controls: Controls = []
        self.buttons: dict[str, str] = {}
        self._textarea: str | None = None
        self._text = ""
        self._select: str | None = None
        self._options: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {key: value or "" for key, value in attrs}
        if tag == "input":
            self._input(found)
        elif tag == "textarea":
            self._textarea, self._text = found["name"], ""
        elif tag == "select":
            self._select, self._options = found["name"], []
        elif tag == "option":
            self._options.append((found["value"], "selected" in found))

    def handle_data(self, data: str) -> None:
        self._text += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea" and self._textarea is not None:
            text = line_feeds(self._text).removeprefix("\n")
            self.controls.append((self._textarea, text.replace("\n", "\r\n")))
            self._textarea = None
        elif tag == "select" and self._select is not None:
            chosen = [value for value, selected in self._options if selected]
            first = [value for value, _ in self._options[:1]]
            self.controls.extend((self._select, value) for value in chosen or first)
            self._select = None

    def _input(self, found: dict[str, str]) -> None:
        kind = found.get("type", "text")
        value = found.get("value", "on" if kind in ("checkbox", "radio") else "")
        if kind in ("checkbox", "radio") and "checked" not in found:
            return
        if kind == "text":
            value = line_feeds(value).replace("\n", "")
        elif kind in ("time", "datetime-local"):
            value = value.removesuffix(":00") if value.count(":") == 2 else value
        self.controls.append((found["name"], value))


def line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def post_of(html: str) -> dict[str, list[str]]:
    reader = FormReader()
    reader.feed(line_feeds(html))
    reader.close()
    posted: dict[str, list[str]] = {}
    for name, value in reader.controls:
        posted.setdefault(name, []).append(value)
    return posted


def sheet_of(client: Client, item: Interrupt) -> dict[str, list[str]]:
    response = client.get(page_of(item))
    assert response.status_code == 200
    form = re.search(r"<form [^>]*data-hitl-sheet.*?</form>", text_of(response), re.S)
    assert form is not None
    return post_of(form[0])


def press(
    client: Client, item: Interrupt, button: str, sheet: Any = None, **typed: Any
) -> HttpResponse:
    posted = {**(sheet or sheet_of(client, item)), "decision": [button]}
    for name, value in typed.items():
        own = name in ("reason", "reply", "reply_is_json", "digest", "version", "key")
        posted[name if own else f"answer/{name}"] = [value]
    return client.post(page_of(item), posted)


def text_of(response: HttpResponse) -> str:
    return response.content.decode()


def told(response: HttpResponse) -> list[str]:
    return [str(message) for message in get_messages(response.wsgi_request)]
