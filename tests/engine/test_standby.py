"""Tasks that the calling OS thread runs itself, and the driver if one of them blocks."""

from __future__ import annotations

import os
import threading
import time
import warnings
from typing import Any

import pytest

from hitl_django import StateGraph
from hitl_django.engine.drivers import thread_driver
from hitl_django.engine.drivers import watchdog as module
from hitl_django.engine.drivers.thread_driver import SyncDriver
from hitl_django.engine.drivers.thread_pool import TaskThreads
from hitl_django.engine.drivers.watchdog import Watchdog
from hitl_django.engine.savers.checkpoint import Commit
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.types import NodeError

from .graphs import CONFIG, State, saved, says, side_by_side


def here(state: State) -> dict[str, Any]:
    return {"log": [threading.get_ident()]}


def held_up_until(event: threading.Event) -> Any:

    def node(state: State) -> dict[str, Any]:
        return {"log": [event.wait(60)]}

    return node


def test_parallel_short_tasks_all_run_on_the_calling_os_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine a short task may also take long, which doesn't matter here.
    monkeypatch.setattr(SyncDriver, "monitor", lambda driver: None)
    graph = side_by_side(a=here, b=here, c=here).compile()
    assert graph.invoke({"x": 1})["log"] == [threading.get_ident()] * 3


def test_parallel_tasks_with_saver_bound_to_an_os_thread_do_not_run_on_calling_os_thread() -> None:
    saver = InMemorySaver()
    saver.thread_bound = True
    log = saved(side_by_side(a=here, b=here), saver).invoke({"x": 1}, CONFIG)["log"]
    assert threading.get_ident() not in log


def test_queued_task_runs_on_another_os_thread_while_calling_thread_is_blocked() -> None:
    ran = threading.Event()
    graph = side_by_side(a=held_up_until(ran), b=lambda state: ran.set() or {"log": ["b"]})
    for _ in range(20):
        ran.clear()
        assert graph.compile().invoke({"x": 1})["log"] == [True, "b"]


def test_error_handler_runs_on_another_os_thread_while_calling_thread_is_blocked() -> None:
    handled = threading.Event()

    def fails(state: State) -> None:
        raise ValueError("no")

    def handler(state: State, error: NodeError) -> dict[str, Any]:
        handled.set()
        return {"log": ["handled"]}

    graph = StateGraph(State)
    graph.add_node("a", held_up_until(handled)).add_edge("__start__", "a")
    graph.add_node("b", fails, error_handler=handler).add_edge("__start__", "b")
    assert sorted(map(str, saved(graph).invoke({"x": 1}, CONFIG)["log"])) == ["True", "handled"]


def test_run_finishes_if_watchdog_registers_its_started_os_thread_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spawn = TaskThreads.spawn

    def slow(threads: TaskThreads, work: Any) -> Any:
        deputy = spawn(threads, work)
        if threading.current_thread().name == "hitl-watchdog":
            time.sleep(0.2)  # it is under way before anybody knows of it
        return deputy

    monkeypatch.setattr(TaskThreads, "spawn", slow)
    call = threading.Thread(
        target=test_error_handler_runs_on_another_os_thread_while_calling_thread_is_blocked,
        daemon=True,
    )
    call.start()
    call.join(60)
    assert not call.is_alive()


def test_error_handler_runs_for_failed_task_that_blocked_the_calling_os_thread() -> None:
    ran = threading.Event()

    def fails(state: State) -> None:
        ran.wait(60)
        raise ValueError("no")

    def handler(state: State, error: NodeError) -> dict[str, Any]:
        return {"log": ["handled"]}

    graph = StateGraph(State).add_node("a", fails, error_handler=handler)
    graph.add_node("b", lambda state: ran.set() or {"log": ["b"]})
    graph = saved(graph.add_edge("__start__", "a").add_edge("__start__", "b"))
    assert sorted(graph.invoke({"x": 1}, CONFIG)["log"]) == ["b", "handled"]


def test_saver_failure_on_another_os_thread_fails_run_of_blocked_calling_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However long the first task takes: its writes wait until the second one holds up the thread.
    monkeypatch.setattr(thread_driver, "_RUN_SECONDS", 600)
    asked = threading.Event()

    class Broken(InMemorySaver):
        def commit(self, commit: Commit) -> None:
            if threading.current_thread() is not threading.main_thread():
                asked.set()
                raise RuntimeError("the disk is full")
            super().commit(commit)

    graph = saved(side_by_side(fast=says("fast"), slow=held_up_until(asked)), Broken())
    with pytest.raises(RuntimeError, match="the disk is full"):
        graph.invoke({"x": 1}, CONFIG)


def test_system_exit_on_another_os_thread_is_raised_after_blocking_task_is_stored() -> None:
    left = threading.Event()

    def leaves(state: State) -> None:
        left.set()
        raise SystemExit(3)

    graph = saved(side_by_side(a=held_up_until(left), b=leaves))
    with pytest.raises(SystemExit):
        graph.invoke({"x": 1}, CONFIG)
    assert [task.name for task in graph.get_state(CONFIG).tasks if task.result] == ["a"]


def test_task_failure_on_another_os_thread_fails_run_and_stores_blocking_task_result() -> None:
    failed = threading.Event()

    def fails(state: State) -> None:
        failed.set()
        raise ValueError("no")

    graph = saved(side_by_side(a=held_up_until(failed), b=fails))
    with pytest.raises(ValueError, match="no"):
        graph.invoke({"x": 1}, CONFIG)
    assert [task.result for task in graph.get_state(CONFIG).tasks] == [{"log": [True]}, None]


class Looked:
    """Count the checks, and signal the first one."""

    def __init__(self) -> None:
        self.count = 0
        self.seen = threading.Event()

    def monitor(self) -> None:
        self.count += 1
        self.seen.set()


def test_watchdog_os_thread_ends_when_idle_and_restarts_for_next_monitored_os_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_REST", 0.01)
    standby = Watchdog()
    for _ in range(3):
        worker = Looked()
        standby.add(worker)
        assert worker.seen.wait(60)
        thread = standby._thread
        standby.remove(worker)
        assert thread is not None
        thread.join(60)
        assert not thread.is_alive()
        assert standby._thread is None


def test_sleeping_watchdog_wakes_up_when_a_monitored_os_thread_is_added() -> None:
    standby = Watchdog()
    for _ in range(3):
        hasty = Looked()
        standby.add(hasty)
        standby.remove(hasty)  # before the first check
        worker = Looked()
        standby.add(worker)
        assert worker.seen.wait(60)
        standby.remove(worker)
        until = time.monotonic() + 60
        while not standby._asleep and time.monotonic() < until:
            time.sleep(0.001)


def test_watchdog_woken_by_removed_os_thread_still_checks_the_next_os_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_LOOKS", 1)
    monkeypatch.setattr(module, "_REST", 0.02)
    standby = Watchdog()
    for pause in (0.0, 0.001, 0.003, 0.01, 0.03, 0.05):
        hasty = Looked()
        standby.add(hasty)
        standby.remove(hasty)
        time.sleep(pause)
        worker = Looked()
        standby.add(worker)
        assert worker.seen.wait(60)
        standby.remove(worker)


def test_graph_run_in_forked_process_starts_a_new_watchdog() -> None:
    graph = side_by_side(a=here, b=here).compile()
    graph.invoke({"x": 1})
    with warnings.catch_warnings():
        # So that the standby thread may be running.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        ran = threading.Event()
        held = side_by_side(a=held_up_until(ran), b=lambda state: ran.set() or {"log": ["b"]})
        os._exit(0 if held.compile().invoke({"x": 1})["log"] == [True, "b"] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
