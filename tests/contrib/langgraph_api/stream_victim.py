"""Processes that execute streamed runs until they are killed."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from typing import Annotated, Any

from typing_extensions import TypedDict

from hitl_django import END, START, StateGraph, register
from hitl_django.contrib.langchain import message_buffer
from hitl_django.engine.task.node_api import get_stream_writer
from hitl_django.worker import runner
from tests.contrib import agent_victim
from tests.contrib.test_message_events import Speaker

PIECES = ["one ", "two ", "three"]


class Talk(TypedDict, total=False):
    said: Annotated[list[str], operator.add]


def build_talk() -> Any:
    """Return a graph with two concurrent nodes, which emit custom events while a model streams."""

    def say(name: str) -> Callable[[Talk], Talk]:
        def node(state: Talk) -> Talk:
            write = get_stream_writer()
            write({"node": name, "number": 1})
            text = Speaker(pieces=PIECES).invoke("speak").text
            write({"node": name, "number": 2})
            return {"said": [f"{name} says {text}"]}

        return node

    graph = StateGraph(Talk)
    for name in ("first", "left", "right", "last"):
        graph.add_node(name, say(name))
    graph.add_edge(START, "first").add_edge("first", "left").add_edge("first", "right")
    return graph.add_edge(["left", "right"], "last").add_edge("last", END).compile()


def register_talk() -> None:
    """Register the graph as `talk`."""
    register("talk")(build_talk)


def die_in_each(runs: Sequence[str], told: Any, *, after: bool) -> None:
    """Kill one process per run at a commit.

    Each process is killed at a later commit than the process before it. The number of processes is
    reported.
    """
    register_talk()
    message_buffer.SECONDS = 0
    killed = 0
    for number, run in enumerate(runs, 1):
        child = os.fork()
        if child == 0:
            agent_victim.kill_at_commit(number, run, after=after)
            runner.advance(run)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status)
    told.send(killed)
