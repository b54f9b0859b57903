"""Catalogue of exceptions: recorded failures, propagated crashes, and no losses."""

from __future__ import annotations

import asyncio
import locale
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hitl_django import Command, interrupt
from hitl_django.engine.errors import NodeCancelledError

from .faults import PLACES, Trial, said_of
from .graphs import CONFIG, line, log_of, saved, says

in_each_place = pytest.mark.parametrize("place", PLACES)


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Unpicklable(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(one)
        self.lock = threading.Lock()


def fall() -> Any:
    return fall()


def raising(make: Callable[[], BaseException]) -> Callable[[Any], Any]:
    def node(state: Any) -> Any:
        raise make()

    return node


FAILURES: dict[str, tuple[Callable[[Any], Any], type[Exception]]] = {
    "endless recursion": (lambda state: fall(), RecursionError),
    "no memory": (raising(MemoryError), MemoryError),
    "unprintable": (raising(Unprintable), Unprintable),
    "unpicklable": (raising(lambda: Unpicklable("a", "b")), Unpicklable),
    "group": (raising(lambda: ExceptionGroup("many", [ValueError("one")])), ExceptionGroup),
    "end of an async iteration": (raising(StopAsyncIteration), StopAsyncIteration),
    "long": (raising(lambda: ValueError("x" * 20_000_000)), ValueError),
    "NUL and half a character": (raising(lambda: ValueError("a\0b\ud800")), ValueError),
    "nobody's cancellation": (raising(asyncio.CancelledError), NodeCancelledError),
}


@in_each_place
@pytest.mark.parametrize("name", FAILURES)
def test_error_of_failed_node_names_the_node_and_run_continues_after_fix(
    name: str, place: str
) -> None:
    fault, kind = FAILURES[name]
    trial = Trial(fault, place)
    error = trial.failure()
    assert type(error) is kind
    assert any("'bad'" in note for note in error.__notes__)
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


@pytest.mark.parametrize("name", FAILURES)
def test_failed_node_in_async_run_raises_original_error_and_run_continues_after_fix(
    name: str,
) -> None:
    fault, kind = FAILURES[name]
    trial = Trial(fault, "beside")
    assert type(asyncio.run(trial.afailure())) is kind
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


def test_exception_without_printable_text_is_stored_with_its_type_name() -> None:
    trial = Trial(raising(Unprintable))
    trial.failure()
    [task] = trial.graph.get_state(CONFIG).tasks
    assert "Unprintable" in str(task.error)


def test_stored_error_of_node_failing_with_huge_message_is_truncated() -> None:
    trial = Trial(raising(lambda: ValueError("begins " + "x" * 20_000_000)))
    trial.failure()
    [task] = trial.graph.get_state(CONFIG).tasks
    assert "begins" in str(task.error)
    assert len(str(task.error)) < 100_000


def test_node_exception_with_null_character_in_repr_is_raised_with_unchanged_type() -> None:
    class Odd(Exception):
        def __repr__(self) -> str:
            return "a\0b"

    trial = Trial(raising(Odd))
    assert type(trial.failure()) is Odd
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()


CRASHES = [KeyboardInterrupt, GeneratorExit]


@in_each_place
@pytest.mark.parametrize("kind", CRASHES)
def test_crash_exception_in_node_is_raised_and_not_stored_as_task_error(
    kind: Any, place: str
) -> None:
    trial = Trial(raising(kind), place)
    with pytest.raises(kind):
        trial.advance()
    seen = trial.graph.get_state(CONFIG)
    assert "bad" in seen.next
    assert [task.error for task in seen.tasks if task.name == "bad"] == [None]
    trial.mend()
    assert trial.advance().status == "finished"
    assert sorted(log_of(trial.graph)) == ["able", "after", "fine"]


# State that a node leaves behind.


@in_each_place
def test_os_thread_writing_after_its_node_ended_gets_runtime_error(place: str) -> None:
    leave = threading.Event()
    left: list[threading.Thread] = []
    raised: list[BaseException] = []

    def node(state: Any) -> dict[str, Any]:
        def linger() -> None:
            leave.wait(60)
            state["x"] = 99
            try:
                interrupt("too late?")
            except BaseException as error:
                raised.append(error)

        left.append(threading.Thread(target=linger))
        left[0].start()
        return {"log": ["bad"]}

    trial = Trial(node, place)
    outcome = trial.advance()
    leave.set()
    left[0].join(60)
    assert outcome.status == "finished"
    assert [type(error) for error in raised] == [RuntimeError]
    assert trial.graph.get_state(CONFIG).values["x"] == 1


@in_each_place
def test_run_finishes_if_node_changes_locale_and_removes_working_directory(place: str) -> None:
    folder, rules = Path.cwd(), locale.setlocale(locale.LC_ALL)
    try:
        with tempfile.TemporaryDirectory() as gone:

            def node(state: Any) -> dict[str, Any]:
                os.chdir(gone)
                locale.setlocale(locale.LC_ALL, "C")
                Path(gone).rmdir()
                return {"log": ["bad"]}

            trial = Trial(node, place)
            assert trial.advance().status == "finished"
            assert sorted(log_of(trial.graph)) == ["able", "after", "bad"]
            os.chdir(folder)
            Path(gone).mkdir()
    finally:
        os.chdir(folder)
        locale.setlocale(locale.LC_ALL, rules)


def test_node_failing_after_its_response_reuses_response_when_run_again() -> None:
    broken = [True]

    def node(state: Any) -> dict[str, Any]:
        given = interrupt("go on?")
        if broken:
            raise RuntimeError("after the answer")
        return {"log": [given]}

    graph = saved(line(a=node, b=says("b")))
    graph.invoke({"x": 1}, CONFIG)
    with pytest.raises(RuntimeError, match="after the answer") as raised:
        graph.invoke(Command(resume="yes"), CONFIG)
    assert "'a'" in said_of(raised.value)
    broken.clear()
    assert graph.advance(CONFIG).status == "finished"
    assert log_of(graph) == ["yes", "b"]


@pytest.mark.parametrize("kind", CRASHES)
def test_crash_in_parallel_node_preserves_writes_of_finished_sibling(kind: Any) -> None:
    trial = Trial(raising(kind), "beside")
    with pytest.raises(kind):
        trial.advance()
    seen = trial.graph.get_state(CONFIG)
    assert (seen.next, seen.values["log"]) == (("bad",), ["able"])
    trial.assert_goes_on()


@in_each_place
def test_node_exception_that_rejects_notes_is_raised_with_unchanged_type(place: str) -> None:
    class Deaf(Exception):
        def add_note(self, note: str) -> None:
            raise TypeError("no notes")

    trial = Trial(raising(Deaf), place)
    assert type(trial.failure()) is Deaf
    trial.assert_waits_at_the_fault()
    trial.assert_goes_on()
