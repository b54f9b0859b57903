"""Completeness of message catalogues, and equality of placeholders.

The sources are read with Babel and Django's own template reader, because gettext's tools may not be
installed.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Message
from babel.messages.extract import extract
from babel.messages.mofile import read_mo
from django.utils.translation.template import templatize

from .catalogues import CATALOGUES, catalogue_of, key_of
from .source import PACKAGE, modules, nodes

KEYWORDS: dict[str, Any] = {
    name: spec
    for names, spec in (
        (("_", "gettext", "gettext_lazy", "gettext_noop"), None),
        (("ngettext", "ngettext_lazy"), (1, 2)),
        (("pgettext", "pgettext_lazy"), ((1, "c"), 2)),
        (("npgettext", "npgettext_lazy"), ((1, "c"), 2, 3)),
    )
    for name in names
}
PLACEHOLDER = re.compile(r"%\(\w+\)[a-z]|%[sd%]|\{\w*\}")


def source_of(path: Path) -> str:
    """Return a file's source as parsable Python. A template is reduced to its gettext calls."""
    text = path.read_text()
    if path.suffix == ".py":
        return text
    calls = templatize(text, origin=str(path))
    # Brackets make the indentation of a template's code irrelevant.
    return "(" + re.sub(r"\s*\n\s*", "\n", calls) + "\n)"


def find_app(path: Path) -> Path:
    parts = path.relative_to(PACKAGE).parts
    optional = PACKAGE.joinpath(*parts[:2])
    return optional if parts[0] == "contrib" and (optional / "apps.py").exists() else PACKAGE


def name_catalogue(path: Path) -> str:
    return f"{path.parents[3].name}-{path.parts[-3]}"


@cache
def read_source_messages(app: Path = PACKAGE) -> dict[Any, str]:
    """Return every message in an app's sources, with a file that contains the message."""
    found: dict[Any, str] = {}
    files = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("templates/**/*.html")]
    for path in filter(lambda path: find_app(path) == app, files):
        lines = BytesIO(source_of(path).encode())
        for _, message, _, context in extract("python", lines, KEYWORDS):
            one = message if isinstance(message, str) else tuple(message)
            found[context, one] = str(path.relative_to(PACKAGE))
    return found


def strings(message: Message) -> list[str]:
    return [message.string] if isinstance(message.string, str) else list(message.string)


def test_gettext_functions_are_imported_under_extractable_names() -> None:
    for path, tree in modules().items():
        for node in nodes(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "django.utils.translation":
                for alias in node.names:
                    assert alias.asname in (None, "_"), f"{path}: {alias.name} as {alias.asname}"


def test_german_catalogue_exists_for_more_than_600_messages() -> None:
    assert "de" in {path.parts[-3] for path in CATALOGUES}
    assert len(read_source_messages()) > 600


@pytest.mark.parametrize("path", CATALOGUES, ids=name_catalogue)
def test_catalogue_contains_exactly_the_messages_of_the_sources(path: Path) -> None:
    messages, catalogue = read_source_messages(path.parents[3]), catalogue_of(path)
    # A message with a plural also covers its singular.
    singulars = {(context, one[0]) for context, one in catalogue if isinstance(one, tuple)}
    missing = {one: messages[one] for one in messages.keys() - catalogue.keys() - singulars}
    plurals = {(context, one[0]) for context, one in messages if isinstance(one, tuple)}
    assert missing == {}
    assert catalogue.keys() - messages.keys() - plurals == set()


@pytest.mark.parametrize("path", CATALOGUES, ids=name_catalogue)
def test_catalogue_translates_every_message_without_fuzzy_entries(path: Path) -> None:
    for message in catalogue_of(path).values():
        assert not message.fuzzy, message.id
        assert all(strings(message)), message.id


@pytest.mark.parametrize("path", CATALOGUES, ids=name_catalogue)
def test_catalogue_translations_contain_placeholders_of_their_messages(path: Path) -> None:
    for message in catalogue_of(path).values():
        ids = [message.id] if isinstance(message.id, str) else message.id
        named = sorted(PLACEHOLDER.findall(ids[-1]))
        for string in strings(message):
            assert sorted(PLACEHOLDER.findall(string)) == named, message.id
            assert string[:1].isspace() == ids[0][:1].isspace()


@pytest.mark.parametrize("path", CATALOGUES, ids=name_catalogue)
def test_compiled_catalogue_equals_its_source_catalogue(path: Path) -> None:
    with path.with_suffix(".mo").open("rb") as file:
        compiled = {key_of(message): strings(message) for message in read_mo(file) if message.id}
    assert compiled == {one: strings(message) for one, message in catalogue_of(path).items()}
