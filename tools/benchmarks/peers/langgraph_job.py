"""The job with LangGraph's checkpoints, tasks of Celery, and a table of requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, TypedDict

import django

django.setup()

from django.db import connection, transaction  # noqa: E402
from langgraph.graph import END, START, StateGraph  # noqa: E402
from langgraph.types import Command, interrupt  # noqa: E402

from ..worker import signs  # noqa: E402
from .celery_app import app, list_programs  # noqa: E402
from .job import check, get_database_url, make_title, pay  # noqa: E402
from .models import Refund  # noqa: E402


class State(TypedDict, total=False):
    customer: str
    cents: int
    checked: bool
    approved: bool
    outcome: str


def check_refund(state: State) -> State:
    return {"checked": check(state["cents"])}


def review(state: State) -> State:
    decision = interrupt({"title": make_title(state["customer"], state["cents"])})
    return {"approved": decision["approved"]}


def settle(state: State) -> State:
    signs.give("next", "step")
    return {"outcome": pay(approved=state["approved"])}


@cache
def _graph() -> Any:
    graph = StateGraph(State)
    graph.add_node("check", check_refund).add_node(review).add_node(settle)
    graph.add_edge(START, "check").add_edge("check", "review").add_edge("review", "settle")
    return graph.add_edge("settle", END).compile(checkpointer=_open_saver())


def _open_saver() -> Any:
    url = get_database_url()
    if connection.vendor == "postgresql":
        from langgraph.checkpoint.postgres import PostgresSaver
        from psycopg import Connection
        from psycopg.rows import dict_row

        # As in LangGraph's ``from_conn_string``.
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        return PostgresSaver(Connection.connect(url, **options))
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    path = url.removeprefix("sqlite:///")
    return SqliteSaver(sqlite3.connect(path, timeout=30, check_same_thread=False))


def prepare() -> None:
    _open_saver().setup()


def programs() -> Sequence[Sequence[str]]:
    return list_programs(__name__)


def start(key: str) -> None:
    with transaction.atomic():
        refund, is_new = Refund.create(key)
        if is_new:
            transaction.on_commit(lambda: advance.delay(refund.pk))


@app.task
def advance(pk: int) -> None:
    refund = Refund.objects.get(pk=pk)
    config = {"configurable": {"thread_id": str(pk)}}
    given: Any = {"customer": refund.customer, "cents": refund.cents}
    if refund.state == "decided":
        given = Command(resume={"approved": refund.approved})
    result = _graph().invoke(given, config, durability="sync")
    if asked := result.get("__interrupt__"):
        refund.title, refund.state = asked[0].value["title"], "pending"
        refund.save(update_fields=["title", "state"])
        signs.give("asked", "run")
    else:
        refund.outcome, refund.state = result["outcome"], "ended"
        refund.save(update_fields=["outcome", "state"])
        signs.give("ended", "run")


def list_pending() -> list[int]:
    return Refund.list_pending()


def decide(request: int) -> None:
    with transaction.atomic():
        if Refund.approve(request):
            transaction.on_commit(lambda: advance.delay(request))
