"""Processes that execute an agent until they are killed, and their marks in a file."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from hitl_django import decide, once, review, services, transact
from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.engine.constants import ONCE, RETURN
from hitl_django.engine.savers.checkpoint import Commit
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner

from . import scripted_agents as agents

#: The file for marks of the tools in this process, and the key of the current run.
marks: list[Path] = []


def mark(word: str, key: str) -> None:
    """Append a line that outlives its process."""
    opened = os.open(marks[0], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(opened, f"{word} {key}\n".encode())
    os.close(opened)


def do_part(part: int, key: str, said: str) -> str:
    """Do a part of the work of a run, leave a mark, and return a text."""
    mark(f"ran-{part}", key)
    return f"{part} {said}"


def ask_for(part: int, key: str) -> str:
    """Request a response for a part."""
    return str(interrupt({"order": key, "part": part}))


@tool
def pay(order: str, part: int) -> str:
    """Pay a part of an order."""
    return do_part(part, order, "paid")


@tool
def ask_and_pay(order: str, part: int) -> str:
    """Pay a part of an order if a person says so."""
    answer = ask_for(part, order)
    return do_part(part, order, answer)


def book(name: str) -> str:
    return Group.objects.create(name=name).name


@tool
def book_and_pay(order: str, part: int) -> str:
    """Book and pay a part of an order, each exactly once, before a person confirms."""
    transact("book", book, f"{order}-{part}")
    said = once("pay", do_part, part, order, "paid")
    review({"order": order, "part": part}, due=timedelta(hours=1))
    return said


def call(name: str, *parts: int) -> Callable[[Any], list[agents.Call]]:
    """Return a model's calls of a tool for each of the parts."""
    return lambda messages: [(name, {"order": messages[0].text, "part": one}) for one in parts]


def build_desk() -> Any:
    """Return a supervisor with two concurrent agents: a subgraph, and a graph that a node calls."""

    def supervise(state: agents.Desk) -> agents.Desk:
        said = do_part(1, state["messages"][0].text, "supervised")
        return {"messages": [HumanMessage(said)]}

    def second(state: agents.Desk) -> agents.Desk:
        agent = agents.build_asking_agent(call("ask_and_pay", 3), ask_and_pay)
        return {"messages": agent.invoke({"messages": state["messages"][:1]})["messages"]}

    graph = StateGraph(agents.Desk).add_node("supervise", supervise)
    graph.add_node("first", agents.build_approved_agent(call("pay", 2), pay))
    graph.add_node("second", second).add_edge(START, "supervise")
    return graph.add_edge("supervise", "first").add_edge("supervise", "second").compile()


def build_sale() -> Any:
    """Return a functional graph with two concurrent tasks, one of which interrupts."""

    @task
    def price(key: str) -> str:
        return do_part(1, key, "priced")

    @task
    def sign(key: str) -> str:
        answer = ask_for(2, key)
        return do_part(2, key, answer)

    @task
    def ship(key: str) -> str:
        return do_part(4, key, "shipped")

    @entrypoint()
    def sell(given: dict[str, Any]) -> dict[str, Any]:
        key = given["messages"][0][1]
        both = [price(key), sign(key)]
        said = [one.result() for one in both]
        said.append(f"3 {ask_for(3, key)}")
        said.append(ship(key).result())
        return {"messages": [HumanMessage(one) for one in said]}

    return sell


def register_agents(path: Path) -> None:
    """Register agents and LangGraph graphs with different kinds of interrupts."""
    marks[:] = [path]
    for name, parts in (("approved", [1]), ("decided", [1, 2, 3, 4])):
        model = call("pay", *parts)
        register_langgraph(name)(partial(agents.build_approved_agent, model, pay))
    asking = call("ask_and_pay", 1, 2)
    register_langgraph("asking")(lambda: agents.build_asking_agent(asking, ask_and_pay))
    booking = call("book_and_pay", 1)
    register_langgraph("effects")(lambda: agents.build_asking_agent(booking, book_and_pay))
    register_langgraph("desk")(build_desk)
    register_langgraph("sale")(build_sale)


def answer(run: Any = None) -> int:
    """Answer the pending interrupts like a repeating reviewer; return their number."""
    asked = Interrupt.objects.filter(status="pending", run__state__in=Run.ANSWERABLE)
    if run is not None:
        asked = asked.filter(run=run)
    pending_interrupts = list(asked)
    for pending in pending_interrupts:
        if pending.dialect == "hitl_request":
            answered = decide_calls(pending.payload["action_requests"])
            decide(pending.pk, resume=answered, key="the reviewer's")
        else:
            part = pending.payload["part"]
            decide(pending.pk, "respond", f"part {part}", key="the reviewer's")
    return len(pending_interrupts)


def last_line(text: Any) -> str:
    """Return a tool's message without the middleware's note on an edited call."""
    return str(text).rpartition("\n")[2]


def decide_calls(calls: list[dict[str, Any]]) -> dict[str, Any]:
    """Return another decision for each call, as the middleware of an agent takes them."""
    given = {"name": "pay", "args": {**calls[0]["args"], "part": 5}}
    decisions: list[dict[str, Any]] = [
        {"type": "approve"},
        {"type": "edit", "edited_action": given},
        {"type": "reject", "message": "3 refused"},
        {"type": "respond", "message": "4 answered"},
    ]
    return {"decisions": decisions[: len(calls)]}


def live(graph: str, key: str) -> None:
    """Start a run, and work and respond until the run has ended."""
    run = services.start(graph, {"messages": [("user", key)]}, key=key).id
    runner.advance(str(run))
    while answer(run):
        runner.advance(str(run))


def kill_at_commit(nth: int, key: str, *, after: bool) -> None:
    """Kill this process before or after its n-th commit of a run."""
    count = 0
    commit_all: Callable[..., None] = DjangoSaver.commit_all

    def counted(self: Any, commits: Any) -> None:
        nonlocal count
        count += 1
        if count == nth and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        commit_all(self, commits)
        for part in _list_stored_parts(commits):
            mark(f"stored-{part}", key)
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    DjangoSaver.commit_all = counted  # type: ignore[method-assign]


def _list_stored_parts(commits: list[Commit]) -> list[str]:
    """Return the parts whose results are stored, so that they can't be done again."""
    writes = [write for commit in commits for task in commit.writes for write in task.writes]
    lines = [last_line(text) for name, value in writes for text in _list_texts(name, value)]
    return [line[0] for line in lines if line[1:2] == " "]


def _list_texts(name: str, value: Any) -> list[Any]:
    """Return the texts of tools, nodes, tasks and results of once() in a write."""
    if name == RETURN:
        return [value]
    if name == ONCE:
        return [one for one in value.values() if isinstance(one, str)]
    messages = value if name == "messages" else []
    return [one.text for one in messages if getattr(one, "type", "") in ("tool", "human")]


def die_everywhere(graph: str, path: Path, told: Any, *, after: bool) -> None:
    """Kill one process after the other at each commit, and report their number.

    The processes are forked from this process, which has loaded all modules.
    """
    register_agents(path)

    def begin(number: int) -> None:
        kill_at_commit(number, str(number), after=after)
        live(graph, str(number))

    told.send(count_children(begin, survivors=2))


def count_children(begin: Callable[[int], None], *, survivors: int = 1) -> int:
    """Let one child after the other do the work until ``survivors`` children have finished, and
    return their number.
    """
    number, ended = 0, 0
    while ended < survivors:
        number += 1
        child = os.fork()
        if child == 0:
            begin(number)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
        ended += not os.WIFSIGNALED(status)
    return number
