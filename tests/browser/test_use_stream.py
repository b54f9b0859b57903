"""LangGraph's React hook ``useStream`` in a page, with a graph that interrupts while it streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from threading import Semaphore
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.cache import cache
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from hitl_django import register
from hitl_django.contrib.langchain import message_buffer
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.graph_registry.registry import hide_graphs
from hitl_django.models import Interrupt, Run
from tests.compat.engines import LANGGRAPH, OURS, Engine
from tests.npm_packages import bundle_page

from .conftest import PASSWORD, POLICY, leads_on
from .test_reviewing import button

pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

SOURCE = Path(__file__).parent / "use_stream"
ADDRESS = "/use-stream/"
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Chat</title>
<div id="root"></div><script src="chat.js"></script></html>"""
READS = ("view_interrupt", "view_run", "view_thread", "view_thread_state", "start_run")

INTERRUPT = "Is the offer all right?"
OFFER, THANKS = "A lamp, perhaps?", "It is ordered."
SAID = ["Hello.", OFFER, THANKS]


class Speaker(GenericFakeChatModel):
    """Model that sends its first word immediately, and each further piece when allowed."""

    pieces: Any

    def _stream(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        for piece in super()._stream(*args, **kwargs):
            yield piece
            assert self.pieces.acquire(timeout=20)


class Speech:
    """Lets the graph's model continue: the words of a response and the spaces between them."""

    def __init__(self) -> None:
        self.pieces = Semaphore(0)

    def go_on(self, pieces: int) -> None:
        self.pieces.release(pieces)


@pytest.fixture
def speech(monkeypatch: pytest.MonkeyPatch) -> Speech:
    monkeypatch.setattr(message_buffer, "SECONDS", 0)  # each word is stored immediately
    return Speech()


@pytest.fixture(params=[OURS, LANGGRAPH], ids=["ours", "LangGraph's"])
def chat(request: Any, settings: Any, speech: Speech, db: None) -> Iterator[None]:
    """Register a graph, for each of the two engines, that streams text and interrupts."""
    cache.clear()
    settings.HITL = {
        "DISPATCH": "hitl_django.testing.CollectingDispatcher",
        "EVENT_POLL_SECONDS": 0.02,
        # After a reload, the old request still occupies a thread of the server until the server
        # notices the disconnection.
        "EVENT_MAX_WAITING_THREADS": 16,
    }
    engine: Engine = request.param
    model = Speaker(messages=iter([AIMessage(OFFER), AIMessage(THANKS)]), pieces=speech.pieces)

    def speak(state: Any) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    def ask(state: Any) -> None:
        engine.interrupt({"title": INTERRUPT})

    def build() -> Any:
        graph = engine.StateGraph(engine.MessagesState)
        graph.add_node("offer", speak).add_node("ask", ask).add_node("thank", speak)
        graph.add_edge(engine.START, "offer").add_edge("offer", "ask")
        graph.add_edge("ask", "thank").add_edge("thank", engine.END)
        return graph

    with hide_graphs():
        (register if engine is OURS else register_langgraph)("chat")(build)
        yield


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copytree(SOURCE, tmp_path_factory.mktemp("page") / "use_stream")
    bundle_page(folder, "chat.jsx")
    return folder / "chat.js"


@pytest.fixture
def open_chat(
    bundle: Path, log_in: Callable[..., Any], site: str, chat: None
) -> Iterator[Callable[..., Any]]:
    """Open the page for a new user. An error in its console fails the test."""
    errors: list[str] = []
    headers = {"Content-Security-Policy": POLICY}

    def serve(route: Any) -> None:
        if route.request.url.endswith(".js"):
            route.fulfill(path=bundle, headers=headers, content_type="text/javascript")
        else:
            route.fulfill(body=PAGE, headers=headers, content_type="text/html")

    def open_page(name: str, *permissions: str) -> Any:
        user = get_user_model().objects.create_user(name, password=PASSWORD, is_staff=True)
        user.user_permissions.set(
            Permission.objects.filter(
                content_type__app_label__startswith="hitl_", codename__in=(*READS, *permissions)
            )
        )
        page = log_in(name)
        page.set_default_timeout(12_000)
        page.on(
            "console",
            lambda message: message.type in ("error", "warning") and errors.append(message.text),
        )
        page.route(f"{site}{ADDRESS}*", serve)
        page.goto(ADDRESS)
        return page

    yield open_page
    assert errors == []


def press(page: Any, name: str, work: Callable[[], None]) -> None:
    with page.expect_response(lambda response: response.url.endswith("/runs/stream")):
        button(page, name).click()
    work()


def await_text(page: Any, text: str) -> None:
    page.get_by_text(text, exact=True).wait_for()


def await_interrupt(page: Any, speech: Speech) -> None:
    """Check that the words of the offer arrive one by one, followed by the interrupt."""
    await_text(page, "A")
    speech.go_on(2)
    await_text(page, "A lamp,")
    assert page.locator("#state").inner_text() == "at work"
    speech.go_on(3)
    await_text(page, INTERRUPT)
    await_text(page, "at rest")
    assert page.locator("li").all_inner_texts() == SAID[:2]


def await_thanks(page: Any, speech: Speech) -> None:
    """Check the last message without the interrupt, and the whole conversation in a new page."""
    await_text(page, "It")
    assert page.locator("#question").count() == 0
    speech.go_on(2)
    await_text(page, "It is")
    speech.go_on(3)
    await_text(page, THANKS)
    await_text(page, "at rest")
    assert page.locator("li").all_inner_texts() == SAID
    page.reload()
    await_text(page, THANKS)
    assert page.locator("li").all_inner_texts() == SAID
    assert page.locator("#question").count() == 0


def test_chat_page_streams_the_graph_and_resumes_after_an_interrupt(
    open_chat: Callable[..., Any], speech: Speech, work: Callable[[], None]
) -> None:
    page = open_chat("olga", "decide_interrupt")
    press(page, "Begin", work)
    await_interrupt(page, speech)
    press(page, "Continue", work)
    await_thanks(page, speech)
    assert Run.objects.get().state == Run.State.SUCCEEDED


def test_chat_page_reloaded_during_a_run_continues_the_stream(
    open_chat: Callable[..., Any], speech: Speech, work: Callable[[], None]
) -> None:
    page = open_chat("olga", "decide_interrupt")
    press(page, "Begin", work)
    await_text(page, "A")
    page.reload()
    await_interrupt(page, speech)
    page.reload()
    await_text(page, INTERRUPT)
    press(page, "Continue", work)
    await_text(page, "It")
    page.reload()
    await_thanks(page, speech)


def test_chat_page_continues_after_approval_in_the_admin(
    open_chat: Callable[..., Any],
    log_in: Callable[..., Any],
    speech: Speech,
    work: Callable[[], None],
) -> None:
    page = open_chat("olga")
    press(page, "Begin", work)
    await_interrupt(page, speech)
    reviewer = log_in("rita")
    reviewer.goto(f"/admin/hitl_django/reviewitem/{Interrupt.objects.get().pk}/change/")
    with leads_on(reviewer):
        button(reviewer, "Approve").click()
    work()
    await_thanks(page, speech)
