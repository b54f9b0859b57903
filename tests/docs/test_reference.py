"""Completeness of the generated reference."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path
from pkgutil import ModuleInfo, iter_modules

import pytest

import hitl_django
from docs.extension import (
    checks,
    commands,
    committed,
    errors,
    markdown,
    models,
    names,
    operations,
    permissions,
    settings,
    sources,
    states,
)
from hitl_django import contrib
from hitl_django.api.urls import urlpatterns
from hitl_django.conf import list_settings

from .pages import PAGES, ROOT

REFERENCE = "\n".join(page.text for page in PAGES if page.name.startswith("docs/reference/"))


def test_every_reference_directive_is_used_exactly_once() -> None:
    tree = ast.parse((ROOT / "docs/extension/directives.py").read_text())
    parts = {
        ast.literal_eval(key)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict)
        for key in node.value.keys
        if key is not None
    }
    used = re.findall(r"(?m)^```\{(hitl-[\w-]+)\}(.*)$", committed.insert_directives(REFERENCE))
    assert len(used) == len(set(used))
    assert {name for name, _ in used} == parts


def test_committed_parts_of_the_reference_are_current() -> None:
    assert {*committed.list_names(REFERENCE)} == committed.PARTS.keys()
    outdated = [path.name for path, _ in committed.find_outdated()]
    assert outdated == [], "Run: python -m docs --write"


def test_outdated_part_of_a_page_is_found_and_updated(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "settings.md"
    begin = "<!-- hitl-settings: written by python -m docs --write -->"
    page.write_text(f"Before.\n\n{begin}\nOld.\n<!-- end of hitl-settings -->\n\nAfter.\n")
    monkeypatch.setattr(committed, "REFERENCE", tmp_path)
    ((path, current),) = committed.find_outdated()
    assert path == page
    assert current.startswith(f"Before.\n\n{begin}\n\n### `POLICY`\n")
    assert current.endswith("<!-- end of hitl-settings -->\n\nAfter.\n")
    assert "Old." not in current
    page.write_text(current)
    assert list(committed.find_outdated()) == []


def test_committed_reference_contains_only_plain_markdown() -> None:
    for make in committed.PARTS.values():
        text = markdown.to_plain(make())
        assert not re.search(r"\{[\w-]+(:\w+)?\}[` ]|^\([\w-]+\)=$", text, re.MULTILINE)


def test_settings_reference_shows_type_default_and_meaning_of_every_setting() -> None:
    page = settings.page()
    for key in list_settings():
        entry = f"```{{confval}} {key.name}\n:type: `{key.type}`\n:default: `{key.default!r}`\n"
        assert f"{entry}\n{key.metadata['doc']}\n" in page


def test_models_reference_gives_a_meaning_of_every_field() -> None:
    for path in sources.MODELS:
        model = sources.load(path)
        meanings = models.read_meanings(model)
        fields = {field.name for field in model._meta.concrete_fields}
        assert fields - meanings.keys() == set(), path


def test_names_reference_lists_every_public_name_once() -> None:
    grouped = names.list_grouped()
    assert len(grouped) == len({*grouped})
    assert hitl_django.LAZY_MODULES.keys() <= {*grouped}
    used = re.findall(r"\{hitl-group\} (\w+)", REFERENCE)
    assert sorted(used) == sorted(names.GROUPS)
    words = set(re.findall(r"\w+", names.index()))
    assert {*grouped} <= words


def test_states_reference_gives_a_reason_for_every_transition() -> None:
    assert set(states.transitions()) == states.REASONS.keys()


def test_commands_reference_documents_every_hitl_command() -> None:
    used = re.findall(r"\{hitl-command\} ([\w-]+)", REFERENCE)
    assert sorted(used) == sorted(commands.verbs())
    assert "--grace SECONDS" in commands.section("worker")


def test_endpoints_reference_documents_every_endpoint() -> None:
    routes = {"/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(each.pattern)) for each in urlpatterns}
    assert {address for _, address, _ in operations.operations()} == routes


def test_errors_reference_documents_every_error_with_its_http_response() -> None:
    page = errors.tree()
    for error in errors.classes():
        assert f".. autoexception:: {errors.public_path(error)}\n" in page
    assert "Over HTTP: 409 Conflict, ``claimed``." in page
    assert "`claimed`" in errors.problems()


def test_checks_reference_documents_every_system_check_with_its_severity() -> None:
    severities = {"E": ("Error", "Critical"), "W": ("Warning",), "I": ("Info",)}
    found = checks.messages()
    assert len({message.id for message in found}) > 20
    for message in found:
        assert message.severity in severities[message.id.rpartition(".")[2][0]], message
        assert message.words, message


def test_permissions_reference_lists_permissions_checked_by_the_policy() -> None:
    asked = permissions.interrupts_of_the_policy()
    assert permissions.labels().keys() <= asked.keys()
    assert "view_interrupt" in asked


@pytest.mark.parametrize(
    "path", [value for name, value in vars(sources).items() if name.isupper()], ids=str
)
def test_reference_directive_source_object_is_importable(path: str | tuple[str, ...]) -> None:
    for each in [path] if isinstance(path, str) else path:
        sources.load(each)


def test_dispatchers_reference_documents_every_dispatcher() -> None:
    brought = {f"{each.name}.Dispatcher" for each in find_queues()}
    assert brought == set(sources.DISPATCHERS)
    assert all(path in names.dispatchers() for path in brought)


def find_queues() -> list[ModuleInfo]:
    return [
        each
        for each in iter_modules(contrib.__path__, "hitl_django.contrib.")
        if each.ispkg and find_spec(f"{each.name}.dispatcher") is not None
    ]
