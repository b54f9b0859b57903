"""LangChain's agent-chat-ui, which contains Agent Inbox's request view, in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.cache import cache
from langchain_core.messages import AIMessage

from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.graph_registry.registry import hide_graphs
from hitl_django.models import Decision, Interrupt, Run
from tests.compat.engines import LANGGRAPH as ENGINE
from tests.npm_packages import bundle_page

from .test_reviewing import button

pytestmark = [
    pytest.mark.browser,
    pytest.mark.process,
    pytest.mark.any_database,
    pytest.mark.django_db(transaction=True),
]

SOURCE = Path(__file__).parent / "agent_chat"
PAGES = "./node_modules/create-agent-chat-app/templates/nextjs/src"
UNSET = ("API_URL", "ASSISTANT_ID", "LANGSMITH_API_KEY")
OPTIONS = (
    f"--alias:@={PAGES}",
    *(f"--define:process.env.NEXT_PUBLIC_{name}=undefined" for name in UNSET),
    *(f"--loader:.{font}=empty" for font in ("woff2", "woff", "ttf")),
)
ADDRESS = "/agent-chat/"
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Chat</title><link rel="stylesheet" href="chat.css">
<div id="root"></div><script src="chat.js"></script></html>"""
PERMISSIONS = (
    "view_interrupt", "view_run", "view_thread", "view_thread_state", "start_run", "operate_run",
    "decide_interrupt",
)  # fmt: skip

REQUEST, OFFER = "Write to Anna.", "Here is the letter."
LETTER = {"to": "anna", "text": "Dear Anna"}
PAYLOAD = {
    "action_request": {"action": "send_letter", "args": LETTER},
    "config": dict.fromkeys(("allow_accept", "allow_edit", "allow_respond", "allow_ignore"), True),
    "description": "The assistant wants to send a letter.",
}


def find_user(key: str) -> Any:
    return get_user_model().objects.filter(username=key).first()


@pytest.fixture(autouse=True)
def graph(settings: Any, db: None) -> Iterator[None]:
    """Register a graph that offers a letter, asks for a review, and reports the response."""
    cache.clear()
    settings.HITL = {
        "DISPATCH": "hitl_django.testing.CollectingDispatcher",
        "EVENT_POLL_SECONDS": 0.02,
        "API_KEY_USER_RESOLVER": f"{__name__}.find_user",
    }

    def offer(state: Any) -> Any:
        return {"messages": [AIMessage(OFFER)]}

    def ask(state: Any) -> Any:
        [response] = ENGINE.interrupt([PAYLOAD])
        args = response["args"]
        text = args["args"]["text"] if isinstance(args, dict) else args
        return {"messages": [AIMessage(": ".join(filter(None, (response["type"], text))))]}

    def build() -> Any:
        graph = ENGINE.StateGraph(ENGINE.MessagesState)
        graph.add_node("offer", offer).add_node("ask", ask)
        graph.add_edge(ENGINE.START, "offer").add_edge("offer", "ask").add_edge("ask", ENGINE.END)
        return graph

    with hide_graphs():
        register_langgraph("letters")(build)
        yield


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copytree(SOURCE, tmp_path_factory.mktemp("page") / "agent_chat")
    bundle_page(folder, "main.tsx", *OPTIONS)
    return folder


@pytest.fixture
def chat(bundle: Path, chromium: Any, site: str) -> Iterator[Any]:
    """Open the chat as a user with an API key. An error in its console fails the test."""
    user = get_user_model().objects.create_user("olga")
    user.user_permissions.set(
        Permission.objects.filter(
            content_type__app_label__startswith="hitl_", codename__in=PERMISSIONS
        )
    )
    errors: list[str] = []

    def serve(route: Any) -> None:
        name = route.request.url.partition("?")[0].rpartition("/")[2]
        if name:
            route.fulfill(path=bundle / name)
        else:
            route.fulfill(body=PAGE, content_type="text/html")

    def complain(message: Any) -> None:
        if message.type == "error":
            errors.append(message.text)

    context = chromium.new_context(base_url=site, viewport={"width": 1280, "height": 1400})
    context.set_default_timeout(12_000)
    page = context.new_page()
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", complain)
    page.route(lambda url: ADDRESS in url, serve)
    page.goto(ADDRESS)
    page.fill("#apiUrl", f"{site}/agent")
    page.fill("#assistantId", "letters")
    page.fill("#apiKey", "olga")
    button(page, "Continue").click()
    yield page
    context.close()
    assert errors == []


def press(page: Any, name: str, work: Callable[[], None]) -> None:
    with page.expect_response(lambda response: response.url.endswith("/runs/stream")):
        button(page, name).click()
    work()


def ask(page: Any, work: Callable[[], None]) -> None:
    page.get_by_placeholder("Type your message...").fill(REQUEST)
    press(page, "Send", work)
    page.get_by_text("send_letter", exact=True).wait_for()


def edit(page: Any) -> str:
    page.get_by_role("textbox").nth(1).fill("Hello Anna")
    return "Submit"


def respond(page: Any) -> str:
    page.get_by_placeholder("Your response here...").fill("Call her.")
    return "Send Response"


@pytest.mark.parametrize(
    ("answer", "reported"),
    [
        (lambda _page: "Accept", "accept"),
        (edit, "edit: Hello Anna"),
        (respond, "response: Call her."),
        (lambda _page: "Ignore", "ignore"),
    ],
    ids=["accept", "edit", "response", "ignore"],
)
def test_agent_chat_ui_answer_resumes_the_run_and_stays_after_reload(
    answer: Callable[[Any], str], reported: str, chat: Any, work: Callable[[], None]
) -> None:
    ask(chat, work)
    press(chat, answer(chat), work)
    for _ in range(2):
        chat.get_by_text(reported, exact=True).wait_for()
        assert chat.get_by_text("send_letter", exact=True).count() == 0
        chat.reload()
    assert Run.objects.get().state == Run.State.SUCCEEDED
    assert Decision.objects.get().by_label == "olga"


def test_agent_chat_ui_mark_as_resolved_ends_the_thread(
    chat: Any, work: Callable[[], None]
) -> None:
    ask(chat, work)
    press(chat, "Mark as Resolved", work)
    chat.get_by_text("send_letter", exact=True).wait_for(state="detached")
    chat.reload()
    chat.get_by_text(OFFER, exact=True).wait_for()
    assert chat.get_by_text("send_letter", exact=True).count() == 0
    assert not Interrupt.objects.filter(status=Interrupt.Status.PENDING).exists()


def test_agent_chat_ui_refresh_runs_the_graph_again_from_the_checkpoint(
    chat: Any, work: Callable[[], None]
) -> None:
    ask(chat, work)
    chat.get_by_text(OFFER).hover()
    press(chat, "Refresh", work)
    chat.get_by_text("2 / 2").wait_for()
    chat.get_by_text("send_letter", exact=True).wait_for()
