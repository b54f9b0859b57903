"""django-q2's signals in processes that are not its workers."""

from __future__ import annotations

import multiprocessing
import os
import signal

import pytest
from django_q.conf import Conf
from django_q.signals import post_execute_in_worker, post_spawn, pre_execute

from hitl_django.contrib.django_q2 import worker_process
from hitl_django.task_queue import dispatcher, heartbeat, supervisor_pipe
from hitl_django.worker import runner


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGURG)]


def test_process_executing_django_q2_tasks_in_sync_mode_preserves_its_signal_handlers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[object] = []
    monkeypatch.setattr(heartbeat, "report_work", lambda: said.append("report"))
    monkeypatch.setattr(supervisor_pipe, "report_status", lambda *words: said.append(words))
    before = handlers()
    post_spawn.send("django_q", proc_name="one")
    pre_execute.send("django_q", func=None, task={"func": "f"})
    post_execute_in_worker.send("django_q", func=None, task={"func": "f"})
    assert (handlers(), said) == (before, [])


@pytest.mark.parametrize("other", ["sync", "handled"])
def test_forked_process_in_sync_mode_or_with_sigterm_handler_is_not_a_worker_process(
    monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: "some process")
    monkeypatch.setattr(Conf, "SYNC", other == "sync")
    before = signal.signal(
        signal.SIGTERM, signal.SIG_DFL if other == "sync" else lambda number, frame: None
    )
    try:
        assert not worker_process._needs_handlers()
        if other == "sync":
            monkeypatch.setattr(Conf, "SYNC", False)
            assert worker_process._needs_handlers()
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_worker_process_with_sigterm_during_finalizer_exits_after_its_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Connection:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    left_behind = [Connection()]
    monkeypatch.setattr(heartbeat, "report_work", left_behind.clear)
    monkeypatch.setattr(runner, "drain", lambda reason: None)
    for name, value in {"pid": os.getpid(), "task": None, "until": 0.0, "is_ending": False}.items():
        monkeypatch.setattr(worker_process._Process, name, value)
    before = signal.signal(signal.SIGTERM, worker_process._terminate)
    try:
        worker_process._begins(task={"func": dispatcher.ADVANCE})
        with pytest.raises(SystemExit):
            worker_process._ends()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_worker_process_reports_busy_without_deadline_for_tasks_of_the_project(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[object] = []
    monkeypatch.setattr(supervisor_pipe, "report_status", lambda *words: said.append(words))
    for name, value in {"pid": os.getpid(), "task": None, "until": 0.0}.items():
        monkeypatch.setattr(worker_process._Process, name, value)
    # A task may have a timeout of its own, and the signal doesn't show which timeout ended.
    worker_process._begins(task={"func": "shop.mails.send_all"})
    worker_process._begins(task={"func": dispatcher.ADVANCE})
    assert said == [("busy", 0.0), ("busy", float(Conf.TIMEOUT))]
