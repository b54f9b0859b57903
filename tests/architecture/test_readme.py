"""The README is executed: its code runs, its tables and its diagram say what the code says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import get_commands
from django.test import RequestFactory

import hitl_django
from hitl_django.conf import Settings
from hitl_django.graph_registry import registry
from hitl_django.models import Run

from .source import ROOT

README = (ROOT / "README.md").read_text()


def snippets(language: str) -> list[str]:
    """Return the code blocks of a language, in order."""
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```$", README)


@pytest.fixture
def refund() -> Iterator[dict[str, Any]]:
    """The names that the first snippet, the graph, leaves behind."""
    names: dict[str, Any] = {"__name__": "readme"}
    registry.unregister("refund")  # other tests may have imported the demo's
    exec(snippets("python")[0], names)
    yield names
    registry.unregister("refund")


def test_the_graph_is_short(refund: dict[str, Any]) -> None:
    assert len(snippets("python")[0].splitlines()) <= 36


@pytest.mark.django_db
def test_the_code_that_uses_it_runs(refund: dict[str, Any]) -> None:
    # What assigns settings is tried in tests/packaging, in a project of its own.
    uses = [text for text in snippets("python")[1:] if not re.match(r"[A-Z_]+ = ", text)]
    assert len(uses) >= 7
    for text in uses:
        exec(text, refund)
    registry.unregister("letter")
    registry.unregister("invoice")
    assert_view_starts_a_run(refund["return_order"])
    registry.unregister("order")


def assert_view_starts_a_run(view: Callable[..., Any]) -> None:
    request = RequestFactory().post("/orders/7/return")
    request.user = User.objects.create_user("carla")
    assert view(request, cents=700).status_code == 202
    assert Run.objects.get(graph="order").started_by == request.user


def test_its_table_of_settings_is_the_code_s() -> None:
    table = re.findall(r"(?m)^\| `([A-Z_]+)` \| `(.+?)` \| (.+) \|$", README)
    assert table == [
        (field.name, repr(field.default), field.metadata["doc"]) for field in fields(Settings)
    ]


def test_its_diagram_is_the_state_machine() -> None:
    (diagram,) = snippets("mermaid")
    drawn = set(re.findall(r"(?m)^ +([A-Z]+) --> ([A-Z]+)", diagram))
    assert drawn == {
        (str(Run.State(before).name), str(Run.State(after).name))
        for before, following in Run.TRANSITIONS.items()
        for after in following
    }


def test_the_commands_it_names_exist() -> None:
    named = set(re.findall(r"manage\.py (\w+)", README))
    assert "hitl" in named
    # The demo belongs to the project that runs it, which is not installed in the tests.
    assert named <= get_commands().keys() | {"demo"}
    assert (ROOT / "project" / "management" / "commands" / "demo.py").is_file()


def test_its_addresses_are_the_api_s() -> None:
    from hitl_django.api.urls import urlpatterns

    table = re.findall(r"(?m)^\| (`\w+/.+?) \| (?:GET|POST)", README)
    named = {address for row in table for address in re.findall(r"`(.+?)`", row)}
    routes = {re.sub(r"<\w+:(\w+)>", _placeholder, str(each.pattern)) for each in urlpatterns}
    assert named == routes


def _placeholder(found: re.Match[str]) -> str:
    return "{id}" if found[1].endswith("_id") else f"{{{found[1]}}}"


def test_what_it_says_is_not_there_is_not() -> None:
    (sentence,) = re.findall(r"(?m)^Not there yet: (.+?)\. ", README)
    absent = set(re.findall(r"`(\w+)`", sentence))
    assert absent
    assert absent.isdisjoint(hitl_django.__all__)


def test_its_links_lead_somewhere() -> None:
    headings = re.findall(r"(?m)^##+ (.+)$", README)
    anchors = {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}
    for target in re.findall(r"\]\(([^)]+)\)", README):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        elif not target.startswith("http"):
            assert (ROOT / target).exists(), target
