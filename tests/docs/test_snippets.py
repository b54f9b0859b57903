"""Execution of every Python snippet of the documentation.

The snippets of a page share one namespace and run from top to bottom. Each page starts without
registered graphs. Blocks that need a server or another project are not marked as ``python``:
``console`` and ``sh`` are for shells, and ``text`` is for all others. Blocks marked ``python
file=…`` and ``python append=…`` are files of the tutorial's project. The test of the tutorial
writes them.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from logging.config import DictConfigurator
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import path

from hitl_django import services
from hitl_django.contrib.insights.sampling import list_graphs, spot_check
from hitl_django.contrib.schedules.registered import list_registered, unschedule
from hitl_django.graph_registry import registry
from hitl_django.models import AuditEntry, Decision, Interrupt, Run
from hitl_django.testing import inline

from .pages import PAGES, Page

Reader = Callable[[Page], dict[str, Any]]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """Run the snippets of a page, and return the resulting names."""

    def run(page: Page) -> dict[str, Any]:
        # Type hints are resolved in the module that a class names as its own.
        module = ModuleType("documentation")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        for snippet in page.programs:
            above = "\n" * snippet.above  # a traceback then shows the line of the page
            exec(compile(above + snippet.code, page.path, "exec"), module.__dict__)
        return module.__dict__

    checked = list_graphs()
    with registry.hide_graphs():
        yield run
    for graph in list_registered():
        unschedule(graph)
    for graph in {*list_graphs()} - {*checked}:
        spot_check(graph, rate=0)


#: The pages with snippets. The first pages are part of the sample, so the page that imports agent
#: frameworks is the last.
EXECUTED = sorted(
    (page for page in PAGES if page.programs), key=lambda page: "agent-frameworks" in page.name
)


@pytest.mark.django_db
@pytest.mark.parametrize("page", EXECUTED, ids=str)
def test_code_snippets_of_each_documentation_page_run_without_error(
    page: Page, read: Reader
) -> None:
    read(page)


@pytest.mark.django_db
def test_documentation_view_example_starts_a_run_as_the_user(read: Reader) -> None:
    (page,) = (page for page in PAGES if "def return_order(" in page.text)
    view = read(page)["return_order"]

    request = RequestFactory().post("/orders/7/return")
    request.user = User.objects.create_user("carla")
    assert view(request, cents=700).status_code == 202
    assert Run.objects.get(graph="order").started_by == request.user


@pytest.mark.django_db
@pytest.mark.parametrize("route", ["DeliveryView", "deliver"])
def test_documented_response_page_lets_a_customer_decide_in_the_layout_of_the_project(
    read: Reader, settings: Any, client: Client, route: str
) -> None:
    (page,) = (page for page in PAGES if "class DeliveryView(" in page.text)
    names = read(page)
    view = names[route]
    names["urlpatterns"][:] = [
        path("<uuid:pk>/", view.as_view() if isinstance(view, type) else view, name="delivery")
    ]
    settings.ROOT_URLCONF = "documentation"
    (template,) = (snippet.code for snippet in page.snippets if snippet.info == "html")
    base = "<title>Shop</title>{% block content %}{% endblock %}"
    templates = {"shop/delivery.html": template, "shop/base.html": base}
    loaders = [
        ("django.template.loaders.locmem.Loader", templates),
        "django.template.loaders.app_directories.Loader",
    ]
    options = {**settings.TEMPLATES[0].get("OPTIONS", {}), "loaders": loaders}
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "APP_DIRS": False, "OPTIONS": options}]
    carla = User.objects.create_user("carla")
    with inline() as advance:
        services.start("delivery", {"number": 7}, by=carla, skip_permission_checks=True)
        advance()
    interrupt = Interrupt.objects.get()
    url = names["find_request_url"](carla, interrupt)
    client.force_login(carla)
    shown = client.get(url).content.decode()
    assert "<title>Shop</title>" in shown
    assert "When may we deliver order 7?" in shown
    values = dict(re.findall(r'name="(digest|version|key)" value="([^"]*)"', shown))
    day = re.findall(r'name="answer/day" value="([^"]*)"|<option value="([^"]*)">Friday', shown)
    values |= {"answer/day": "".join(day[-1])}
    wrong = client.post(url, {**values, "answer/floor": "99"}).content.decode()
    assert 'value="99"' in wrong
    assert 'class="errorlist"' in wrong
    sent = client.post(url, {**values, "answer/floor": "4"})
    assert (sent.status_code, sent["Location"]) == (302, "/orders/")
    assert Decision.objects.get().value == {"day": "Friday", "floor": 4}
    assert AuditEntry.objects.get(verb="decide").actor == carla


def test_documentation_shows_project_files_only_in_the_tutorial_and_the_typescript_guide() -> None:
    shown = [page for page in PAGES for snippet in page.snippets if "=" in snippet.info]
    assert {page.name for page in shown} <= {"docs/tutorial.md", "docs/guides/typescript.md"}


def test_documentation_code_blocks_have_a_known_language() -> None:
    known = {"console", "css", "html", "http", "ini", "json", "nginx", "python", "sh", "sql"}
    known |= {"text", "toml", "xml", "yaml", "javascript", "typescript", "diff"}
    found = {
        (str(page), snippet.language)
        for page in PAGES
        for snippet in page.snippets
        if not snippet.language.startswith("{")
    }
    assert {(page, language) for page, language in found if language not in known} == set()


def test_documentation_log_formatter_writes_run_id_and_graph_as_json(read: Reader) -> None:
    (page,) = (page for page in PAGES if "class JsonFormatter" in page.text)
    settings = read(page)["LOGGING"]
    formatter = DictConfigurator(settings).configure_formatter(settings["formatters"]["json"])
    told = {"name": "hitl_django", "levelname": "INFO", "msg": "run %s left", "args": ("7",)}
    told |= {"run_id": "7", "graph": "order"}
    line = json.loads(formatter.format(logging.makeLogRecord(told)))
    assert line.pop("at")
    assert line == {
        "level": "INFO",
        "logger": "hitl_django",
        "message": "run 7 left",
        "run_id": "7",
        "graph": "order",
    }
