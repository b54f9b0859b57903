"""once() called concurrently by several OS threads or coroutines of one node."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hitl_django import once
from hitl_django.engine.constants import ONCE
from hitl_django.engine.errors import ConcurrentOnceError
from hitl_django.engine.savers.checkpoint import Commit
from hitl_django.engine.savers.memory import InMemorySaver

from .crashing import Crash
from .graphs import CONFIG, State, line


def begun(function: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=contextvars.copy_context().run, args=[function])
    thread.start()
    return thread


class Slow(InMemorySaver):
    """Stores a result that is the only one when it was overtaken by another, if that can be."""

    def __init__(self) -> None:
        super().__init__()
        self.begins, self.overtaken = threading.Event(), threading.Event()

    def commit(self, commit: Commit) -> None:
        stored = [value for task in commit.writes for name, value in task.writes if name == ONCE]
        if [[*results] for results in stored] == [["first"]]:
            self.begins.set()
            self.overtaken.wait(0.2)
        super().commit(commit)


def test_once_results_of_concurrent_os_threads_in_one_node_are_all_stored() -> None:
    saver, calls, tried = Slow(), list[str](), list[int]()

    def second() -> None:
        saver.begins.wait()
        once("second", calls.append, "second")
        saver.overtaken.set()

    def node(state: State) -> dict[str, Any]:
        threads = [begun(lambda: once("first", calls.append, "first")), begun(second)]
        for thread in threads:
            thread.join()
        tried.append(1)
        if len(tried) == 1:
            raise Crash
        return {"log": ["done"]}

    graph = line(a=node).compile(saver)
    with pytest.raises(Crash):
        graph.invoke({"x": 1}, CONFIG)
    assert graph.invoke(None, CONFIG)["log"] == ["done"]
    assert calls == ["first", "second"]


def test_once_called_while_same_key_is_running_raises_concurrent_once_error() -> None:
    calls, told = list[str](), list[str]()

    def node(state: State) -> dict[str, Any]:
        def second() -> None:
            with pytest.raises(ConcurrentOnceError) as refused:
                once("mail", calls.append, "second")
            told.append(str(refused.value))

        def first() -> str:
            begun(second).join()
            return "sent"

        sent = [once("mail", first), once("mail", calls.append, "third")]
        return {"log": sent}

    assert line(a=node).compile(InMemorySaver()).invoke({"x": 1}, CONFIG)["log"] == ["sent"] * 2
    assert calls == []
    message = (
        "Node 'a' called once('mail') while a call with that key is still running. Use a "
        "different key."
    )
    assert told == [message]


def test_once_calls_with_same_key_in_asyncio_gather_raise_concurrent_once_error() -> None:
    calls: list[str] = []

    async def send(name: str) -> str:
        await asyncio.sleep(0)
        calls.append(name)
        return name

    async def node(state: State) -> dict[str, Any]:
        two = [once("mail", send, "one"), once("mail", send, "two"), once("other", send, "three")]
        got = await asyncio.gather(*two, return_exceptions=True)
        assert isinstance(got[1], ConcurrentOnceError)
        return {"log": [got[0], got[2], await once("mail", send, "four")]}

    graph = line(a=node).compile(InMemorySaver())
    assert asyncio.run(graph.ainvoke({"x": 1}, CONFIG))["log"] == ["one", "three", "one"]
    assert calls == ["one", "three"]


def test_once_called_again_after_its_function_failed_returns_new_result() -> None:
    def fails() -> None:
        raise ConnectionError

    def node(state: State) -> dict[str, Any]:
        with pytest.raises(ConnectionError):
            once("mail", fails)
        return {"log": [once("mail", str, "sent")]}

    assert line(a=node).compile(InMemorySaver()).invoke({"x": 1}, CONFIG)["log"] == ["sent"]
