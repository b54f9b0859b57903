"""What is stored when: each step as it ends, or all of it when the run leaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hitl_django import Command, InMemorySaver
from hitl_django.engine.errors import PayloadError

from .graphs import CONFIG, asks, line, log_of, open_questions, saved, says, side_by_side


class Counting(InMemorySaver):
    """Counts commits."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def commit(self, commit: Any) -> None:
        self.count += 1
        super().commit(commit)


def checkpoints(saver: InMemorySaver) -> int:
    return len(list(saver.list(CONFIG)))


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_each_step_is_stored_with_one_commit(durability: str) -> None:
    saver = Counting()
    graph = saved(line(a=says("a"), b=says("b")), saver)
    graph.invoke({"x": 1}, CONFIG, durability=durability)
    assert (saver.count, checkpoints(saver)) == (4, 4)


def test_at_the_exit_only_the_last_checkpoint_is_stored() -> None:
    saver = Counting()
    graph = saved(line(a=says("a"), b=says("b")), saver)
    assert graph.invoke({"x": 1}, CONFIG, durability="exit")["log"] == ["a", "b"]
    assert checkpoints(saver) == 1
    assert log_of(graph) == ["a", "b"]
    assert graph.get_state(CONFIG).metadata["step"] == 2


def test_a_run_that_stores_at_the_exit_goes_on_from_a_question() -> None:
    saver = Counting()
    graph = saved(line(a=says("a"), b=asks("q"), c=says("c")), saver)
    graph.invoke({"x": 1}, CONFIG, durability="exit")
    assert (checkpoints(saver), list(open_questions(graph))) == (1, ["q"])
    assert graph.invoke(Command(resume="yes"), CONFIG, durability="exit")["log"] == [
        "a",
        "yes",
        "c",
    ]
    assert checkpoints(saver) == 2


def test_what_finished_beside_a_question_is_stored_at_the_exit() -> None:
    calls = []

    def node(state: Any) -> dict[str, Any]:
        calls.append(1)
        return {"log": ["b"]}

    graph = saved(side_by_side(a=asks("q"), b=node))
    graph.invoke({"x": 1}, CONFIG, durability="exit")
    graph.invoke(Command(resume="yes"), CONFIG, durability="exit")
    assert (log_of(graph), len(calls)) == (["yes", "b"], 1)


def test_a_failure_is_stored_at_the_exit() -> None:
    calls = []

    def flaky(state: Any) -> dict[str, Any]:
        calls.append(1)
        if len(calls) == 1:
            raise OSError("down")
        return {"log": ["b"]}

    graph = saved(line(a=says("a"), b=flaky))
    with pytest.raises(OSError, match="down"):
        graph.invoke({"x": 1}, CONFIG, durability="exit")
    assert graph.get_state(CONFIG).next == ("b",)
    assert graph.get_state(CONFIG).tasks[0].error == "OSError('down')"
    assert graph.invoke(None, CONFIG)["log"] == ["a", "b"]


def test_a_childs_question_is_stored_at_the_exit() -> None:
    child = line(ca=says("ca"), cb=asks("child?")).compile()
    graph = saved(line(p=says("p"), sub=lambda s: {"log": child.invoke({"log": []})["log"]}))
    graph.invoke({"x": 1}, CONFIG, durability="exit")
    assert list(open_questions(graph)) == ["child?"]
    graph.invoke(Command(resume="yes"), CONFIG, durability="exit")
    assert log_of(graph) == ["p", "ca", "yes"]


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_an_async_run_stores_the_same(durability: str) -> None:
    def stored(run: Any) -> Any:
        saver = InMemorySaver()
        graph = saved(line(a=says("a"), b=asks("q"), c=says("c")), saver)
        run(graph, {"x": 1})
        run(graph, Command(resume="yes"))
        return [(record.values, record.next) for record in graph.get_state_history(CONFIG)]

    def sync_run(graph: Any, value: Any) -> None:
        graph.invoke(value, CONFIG, durability=durability)

    def async_run(graph: Any, value: Any) -> None:
        asyncio.run(graph.ainvoke(value, CONFIG, durability=durability))

    assert stored(sync_run) == stored(async_run)


def test_a_run_without_a_saver_stores_nothing_and_ends_the_same() -> None:
    graph = line(a=says("a"), b=says("b"))
    assert graph.compile().invoke({"x": 1}) == saved(graph).invoke({"x": 1}, CONFIG)


def test_values_are_stored_as_they_were() -> None:
    kept = {"list": [1]}

    def node(state: Any) -> dict[str, Any]:
        return {"x": kept}

    graph = saved(line(a=node, b=says("b")))
    graph.invoke({"x": 1}, CONFIG)
    kept["list"].append(2)
    assert graph.get_state(CONFIG).values["x"] == {"list": [1]}
    graph.get_state(CONFIG).values["x"]["list"].append(3)
    assert graph.get_state(CONFIG).values["x"] == {"list": [1]}


def test_a_deleted_thread_is_gone() -> None:
    saver = InMemorySaver()
    graph = saved(line(a=asks("q")), saver)
    graph.invoke({"x": 1}, CONFIG)
    saver.delete_thread("thread")
    assert graph.get_state(CONFIG).values == {}
    assert checkpoints(saver) == 0
    assert "__interrupt__" in graph.invoke({"x": 1}, CONFIG)


def test_a_subclass_with_a_put_of_its_own_is_called_through_it() -> None:
    put: list[str] = []

    class Watched(InMemorySaver):
        def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
            put.append(metadata["source"])
            return super().put(config, checkpoint, metadata, new_versions)

    graph = saved(line(a=says("a")), Watched())
    assert graph.invoke({"x": 1}, CONFIG)["log"] == ["a"]
    assert put == ["input", "loop", "loop"]


def test_of_input_that_can_not_be_stored_nothing_is() -> None:
    saver = Counting()
    graph = saved(line(a=says("a")), saver)
    with pytest.raises(PayloadError):
        graph.invoke({"x": object()}, CONFIG)
    assert (saver.count, checkpoints(saver)) == (1, 0)


class Elder(InMemorySaver):
    """A saver written when tasks had no path."""

    def put_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        super().put_writes(config, writes, task_id)


class Awaited(InMemorySaver):
    """A saver that has async forms of its own, as LangGraph's for an async driver have."""

    def __init__(self) -> None:
        super().__init__()
        self.awaited: set[str] = set()

    async def aput(self, *args: Any) -> Any:
        self.awaited.add("aput")
        return self.put(*args)

    async def aput_writes(self, config: Any, writes: Any, task_id: str) -> None:  # type: ignore[override]
        self.awaited.add("aput_writes")
        self.put_writes(config, writes, task_id)


def test_a_saver_whose_put_writes_takes_no_path_is_called_without() -> None:
    graph = saved(line(a=says("a"), b=asks("q")), Elder())
    graph.invoke({"x": 1}, CONFIG)
    assert asyncio.run(graph.ainvoke(Command(resume="yes"), CONFIG))["log"] == ["a", "yes"]


def test_an_async_run_stores_by_the_async_forms_that_a_saver_has() -> None:
    saver = Awaited()
    graph = saved(line(a=says("a"), b=asks("q")), saver)
    asyncio.run(graph.ainvoke({"x": 1}, CONFIG))
    assert saver.awaited == {"aput", "aput_writes"}
    assert graph.invoke(Command(resume="yes"), CONFIG)["log"] == ["a", "yes"]
