"""A browser, users, and a server with a strict Content-Security-Policy."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connections
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from playwright.sync_api import sync_playwright
from pytest_django.live_server_helper import LiveServer

from hitl_django import services
from hitl_django.models import Run
from hitl_django.worker import runner

POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self'; script-src 'self'; style-src 'self'"
)
PASSWORD = "a long password for tests"
PERMISSIONS = ("view_interrupt", "view_run", "view_thread", "decide_interrupt")


@contextmanager
def leads_on(page: Any) -> Iterator[None]:
    """Wait until the block has led to another page, and the page's script has run.

    A deferred script runs before the page's load event. Earlier clicks would have no effect, and
    content that the script adds wouldn't exist yet.
    """
    with page.expect_navigation(wait_until="load"):
        yield


def wait_until(page: Any, condition: str) -> None:
    """Wait until a JavaScript expression is true.

    Playwright's own function evaluates text within the page repeatedly, which the strict policy
    forbids.
    """
    page.evaluate(
        "new Promise((done) => {"
        f" const look = () => ({condition}) ? done() : requestAnimationFrame(look);"
        " look(); })"
    )


class StrictPolicy:
    """Middleware that sends the strictest policy with which Django's own admin works."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response["Content-Security-Policy"] = POLICY
        return response


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Yield one browser for the tests of a module.

    Playwright's event loop runs on this OS thread until the end of the module. Tests of other
    modules that run an event loop must not find it there.
    """
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    if executable is None:
        pytest.skip("There is no Chromium on the PATH; Debian's package is chromium.")
    # Playwright's event loop runs on this OS thread, so Django would reject every query as a query
    # in an asynchronous context.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-dev-shm-usage",
            ],
        )
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@pytest.fixture(scope="session")
def live_server() -> Iterator[LiveServer]:
    """Yield the server of pytest-django, with the strict policy.

    A server loads its middleware at the start, so later changes of settings have no effect on it.
    """
    with override_settings(MIDDLEWARE=[f"{__name__}.StrictPolicy", *settings.MIDDLEWARE]):
        server = LiveServer("localhost")
    yield server
    server.stop()


@pytest.fixture
def site(live_server: LiveServer) -> str:
    return live_server.url


@pytest.fixture
def log_in(chromium: Any, site: str) -> Iterator[Callable[..., Any]]:
    """Yield a function that opens a window and logs in a reviewer.

    An error on the console of a page fails the test.
    """
    contexts, complaints = [], []

    def complain(message: Any) -> None:
        # Changes that axe makes to a page have no URL, because axe isn't a file of the page.
        if "Content Security Policy" in message.text and message.location["url"]:
            complaints.append(message.text)

    def open_window(name: str = "rita", **options: Any) -> Any:
        users = get_user_model().objects
        if not users.filter(username=name).exists():
            user = users.create_user(name, password=PASSWORD, is_staff=True)
            user.user_permissions.set(
                Permission.objects.filter(
                    content_type__app_label__startswith="hitl_", codename__in=PERMISSIONS
                )
            )
        context = chromium.new_context(base_url=site, **options)
        contexts.append(context)
        context.set_default_timeout(120_000)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("console", complain)
        answer = page.goto("/admin/login/?next=/admin/")
        assert answer.headers["content-security-policy"] == POLICY
        page.fill("#id_username", name)
        page.fill("#id_password", PASSWORD)
        with leads_on(page):
            page.click("[type=submit]")
        return page

    yield open_window
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def start() -> Iterator[Callable[..., Run]]:
    """Yield a function that starts a run and executes it to its interrupt, without a task queue."""
    with override_settings(HITL={"DISPATCH": "hitl_django.testing.CollectingDispatcher"}):

        def start_now(graph: str, **state: Any) -> Run:
            info = services.start(graph, state)
            runner.advance(str(info.id))
            return Run.objects.get(pk=info.id)

        yield start_now


@pytest.fixture
def work() -> Iterator[Callable[[], None]]:
    """Yield a function that executes the only queued run, like a worker."""
    threads = []

    def advance() -> None:
        try:
            runner.advance(str(Run.objects.get(state=Run.State.QUEUED).pk))
        finally:
            connections.close_all()

    def begin() -> None:
        threads.append(threading.Thread(target=advance))
        threads[-1].start()

    yield begin
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
