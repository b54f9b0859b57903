"""Responses to the recorded requests of LangGraph's SDKs, compared with LangGraph's server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from hitl_django.contrib.langchain import message_buffer
from hitl_django.graph_registry import registry
from hitl_django.langgraph.graph import END, START, MessagesState, StateGraph
from hitl_django.langgraph.types import interrupt

from .conftest import INLINE
from .recordings.comparison import Comparison
from .recordings.differences import AGENT, GENERAL, REFUSED, SPECIFIC
from .recordings.exchanges import RECORDING, SCRIPT
from .recordings.graphs import build_graphs

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.any_database]

EXCHANGES = json.loads(RECORDING.read_text())
CALLS = json.loads(SCRIPT.read_text())
SDKS = sorted({sdk for each in EXCHANGES for sdk in each["sdks"]})
LISTED = [*GENERAL, *SPECIFIC]
#: Settings of a call during which an active run must stay active.
QUEUED = {"DISPATCH": "hitl_django.testing.CollectingDispatcher"}


@pytest.fixture
def _recorded_graphs(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(message_buffer, "SECONDS", 0)  # Chunks of messages are not joined.
    names = {"END": END, "START": START, "MessagesState": MessagesState, "StateGraph": StateGraph}
    with registry.hide_graphs():
        for name, graph in build_graphs(SimpleNamespace(**names, interrupt=interrupt)).items():
            registry.register(name)(lambda graph=graph: graph)
        yield


def replay(sdk: str, user: Any, settings: Any) -> Iterator[tuple[str, str]]:
    """Send the recorded requests of an SDK, and yield the methods with their differences."""
    client, comparison = Client(), Comparison()
    client.force_login(user)
    common = dict.fromkeys(("THROTTLE_READ", "THROTTLE_START", "THROTTLE_WRITE"))
    common["POLICY"] = "tests.contrib.langgraph_api.test_store.OwnShelf"
    for exchange in EXCHANGES:
        if sdk in exchange["sdks"]:
            call, sent = CALLS[exchange["call"]], exchange["request"]
            settings.HITL = {**common, **(QUEUED if call.get("queued") else INLINE)}
            body = "" if sent["body"] is None else json.dumps(comparison.fill_in(sent["body"]))
            path = f"/agent{comparison.fill_in(sent['path'])}"
            response = client.generic(sent["method"], path, body, content_type="application/json")
            for difference in comparison.compare(exchange["response"], response):
                yield call["call"], difference


@pytest.mark.usefixtures("_recorded_graphs")
@pytest.mark.parametrize("sdk", SDKS)
def test_responses_to_recorded_requests_of_sdk_have_exactly_the_listed_differences(
    admin: Any, settings: Any, sdk: str
) -> None:
    unlisted, matched = set(), set()
    for method, difference in replay(sdk, admin, settings):
        if method in REFUSED and difference.endswith("here 501"):
            matched.add((method, ""))
            continue
        found = {
            (each, pattern)
            for each in LISTED
            if (pattern := each.find_pattern(method, difference)) is not None
        }
        matched |= found
        if not found:
            unlisted.add((method, difference))
    assert unlisted == set()
    is_agent = sdk.startswith("AG-UI")
    if is_agent or sdk == SDKS[-1]:  # the newest Python SDK, which has all methods
        mine = [each for each in LISTED if is_agent is (AGENT in each.methods)]
        expected = {(each, pattern) for each in mine for pattern in each.patterns}
        recorded = set() if is_agent else {call["call"] for call in CALLS}
        expected |= {(name, "") for name in REFUSED if name in recorded}
        assert expected == {
            (each, text) for each, text in matched if each not in LISTED or each in mine
        }
