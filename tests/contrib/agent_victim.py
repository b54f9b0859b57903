"""Processes that work for an agent until they are killed, and what they leave word of."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langchain_core.tools import tool
from langgraph.types import interrupt

from hitl_django import decide, services
from hitl_django.checkpoints import DjangoSaver
from hitl_django.contrib.langgraph import register_langgraph
from hitl_django.engine.savers.checkpoint import Commit
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner

from . import agents

#: Where the tools of this process leave their marks, and whose run it is.
marks: list[Path] = []


def mark(word: str, key: str) -> None:
    """Adds a line that survives its process."""
    opened = os.open(marks[0], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(opened, f"{word} {key}\n".encode())
    os.close(opened)


@tool
def pay(order: str) -> str:
    """Pays an order."""
    mark("ran", order)
    return f"paid {order}"


@tool
def ask_and_pay(order: str, part: int) -> str:
    """Pays a part of an order if a person says so."""
    answer = interrupt({"order": order, "part": part})
    mark(f"ran-{part}", order)
    return f"{part} {answer}"


def _call_pay(messages: Any) -> list[agents.Call]:
    return [("pay", {"order": messages[0].text})]


def _call_parts(messages: Any) -> list[agents.Call]:
    return [("ask_and_pay", {"order": messages[0].text, "part": part}) for part in (1, 2)]


def register_agents(path: Path) -> None:
    """Registers an agent whose calls are approved, and one whose tools ask."""
    marks[:] = [path]
    register_langgraph("approved")(lambda: agents.build_approved_agent(_call_pay, pay))
    register_langgraph("asking")(lambda: agents.build_asking_agent(_call_parts, ask_and_pay))


def answer(run: Any = None) -> int:
    """Answers what is open, as a reviewer who may have tried before; returns how much it was."""
    asked = Interrupt.objects.filter(status="pending", run__state__in=Run.ANSWERABLE)
    if run is not None:
        asked = asked.filter(run=run)
    questions = list(asked)
    for question in questions:
        if question.dialect == "hitl_request":
            decide(question.pk, "approve", key="the reviewer's")
        else:
            part = question.payload["part"]
            decide(question.pk, "respond", f"part {part}", key="the reviewer's")
    return len(questions)


def live(graph: str, key: str) -> None:
    """Starts a run, and works and answers until it has ended."""
    run = services.start(graph, {"messages": [("user", key)]}, key=key).id
    runner.advance(str(run))
    while answer(run):
        runner.advance(str(run))


def kill_at_commit(nth: int, key: str, *, after: bool) -> None:
    """Has this process killed at its n-th commit of a run, before or after it is made."""
    count = 0
    commit_all: Callable[..., None] = DjangoSaver.commit_all

    def counted(self: Any, commits: Any) -> None:
        nonlocal count
        count += 1
        if count == nth and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        commit_all(self, commits)
        for part in _list_stored_parts(commits):
            mark(f"stored{part}", key)
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    DjangoSaver.commit_all = counted  # type: ignore[method-assign]


def _list_stored_parts(commits: list[Commit]) -> list[str]:
    """Returns which tools are finished by what was stored: they can't run again."""
    said = [
        message.text
        for commit in commits
        for task in commit.writes
        for name, value in task.writes
        if name == "messages"
        for message in value
        if getattr(message, "type", "") == "tool"
    ]
    return ["" if text.startswith("paid") else f"-{text[0]}" for text in said]


def die_everywhere(graph: str, path: Path, told: Any, *, after: bool) -> None:
    """Has one process after the other killed at each commit; tells how many runs there were.

    They are forked from this one, which has loaded all they need.
    """
    register_agents(path)
    number, survivors = 0, 0
    while survivors < 2:
        number += 1
        child = os.fork()
        if child == 0:
            kill_at_commit(number, str(number), after=after)
            live(graph, str(number))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
        survivors += not os.WIFSIGNALED(status)
    told.send(number)
