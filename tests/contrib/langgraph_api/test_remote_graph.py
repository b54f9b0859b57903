"""LangGraph's RemoteGraph as a node, whose remote graph is served by this API."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import Any

import httpx
import pytest
from django.core.wsgi import get_wsgi_application
from django.test import override_settings
from langgraph.graph import START
from langgraph.graph import StateGraph as ForeignStateGraph
from langgraph.pregel.remote import RemoteGraph
from langgraph_sdk.client import SyncLangGraphClient

from hitl_django import StateGraph, services
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.errors import InvalidAnswerError
from hitl_django.graph_registry import registry
from hitl_django.models import Interrupt, Run, Thread
from hitl_django.testing import GraphEnvironment

from .conftest import INLINE, Chat, sign_in

pytestmark = pytest.mark.django_db(transaction=True)


class Transport(httpx.BaseTransport):
    """Transport that calls the project's WSGI application in this process.

    The response to a request for which ``is_lost`` is true doesn't arrive.
    """

    def __init__(self) -> None:
        self.application = httpx.WSGITransport(get_wsgi_application())
        self.is_lost: Callable[[httpx.Request], bool] = lambda request: False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        # A server has no context of the node, and the workers execute a run before the response.
        with override_settings(HITL=INLINE):
            response = Context().run(self._respond, request)
        if self.is_lost(request):
            raise httpx.ReadError("connection lost", request=request)
        return response

    def _respond(self, request: httpx.Request) -> httpx.Response:
        response = self.application.handle_request(request)
        response.read()
        return httpx.Response(
            response.status_code, headers=response.headers, content=response.content
        )


@pytest.fixture
def transport(graphs: None) -> Transport:
    return Transport()


@pytest.fixture
def remote(transport: Transport, admin: Any) -> RemoteGraph:
    http = httpx.Client(
        transport=transport, base_url="http://testserver/agent/", headers=sign_in(admin)
    )
    return RemoteGraph("chat", sync_client=SyncLangGraphClient(http), name="remote")


def register_calls(kind: Any, remote: RemoteGraph) -> None:
    graph = kind(Chat).add_node("remote", remote).add_edge(START, "remote")
    register: Any = register_langgraph if kind is ForeignStateGraph else registry.register
    register("calls")(lambda: graph)


@pytest.mark.parametrize("kind", [StateGraph, ForeignStateGraph])
def test_interrupt_of_a_remote_graph_is_decided_in_the_calling_run(
    hitl: GraphEnvironment, remote: RemoteGraph, kind: Any
) -> None:
    register_calls(kind, remote)
    run = hitl.start("calls", {"log": ["in"]})
    here, there = hitl.interrupt(graph="calls"), hitl.interrupt(graph="chat")
    assert (here.title, here.response_schema) == (there.title, there.response_schema)
    with pytest.raises(InvalidAnswerError, match="other"):
        hitl.decide(here, "edit", {"other": 1})
    hitl.decide(here, "approve")
    assert hitl.assert_finished(run)["answer"] == {"approved": True}
    there.refresh_from_db()
    assert there.status == Interrupt.Status.DECIDED
    assert Run.objects.get(graph="chat").state == Run.State.SUCCEEDED


def test_retry_after_a_lost_response_takes_over_the_remote_run(
    hitl: GraphEnvironment, remote: RemoteGraph, transport: Transport
) -> None:
    register_calls(StateGraph, remote)
    transport.is_lost = lambda request: request.url.path.endswith("/runs/stream")
    run = hitl.start("calls", {"log": ["in"]})
    assert run.state == Run.State.FAILED
    transport.is_lost = lambda request: False
    services.retry(run.id)
    hitl.advance()
    hitl.decide(hitl.interrupt(graph="calls"), "approve")
    assert hitl.assert_finished(run)["log"] == ["in", "in", "greeted", "closed"]
    assert Thread.objects.exclude(pk=Run.objects.get(pk=run.id).thread_id).count() == 1
