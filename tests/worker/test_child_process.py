"""Programs that are started and stopped together."""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from django.core.management.base import CommandError

from hitl_django.task_queue import parent_death
from hitl_django.worker import child_process
from hitl_django.worker.child_process import (
    ForkedChild,
    Program,
    Stopped,
    StopSignals,
    can_fork,
    run_programs,
)
from project.management.commands.demo import check_port

SLEEPS = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(600)"
)


def program(folder: Path, code: str, name: str = "one") -> Program:
    return Program(name, [sys.executable, "-c", code], folder / f"{name}.log")


def wait_until_up(*programs: Program) -> None:
    deadline = time.monotonic() + 120
    while not all(
        each.log and each.log.exists() and "up" in each.log.read_text() for each in programs
    ):
        assert time.monotonic() < deadline, "the programs did not start"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_run_programs_terminates_its_child_processes_at_the_end_of_the_with_block(
    tmp_path: Path,
) -> None:
    programs = [program(tmp_path, SLEEPS, "one"), program(tmp_path, SLEEPS, "two")]
    with run_programs(programs, StopSignals()) as children:
        wait_until_up(*programs)
        assert [child.exit_code() for child in children] == [None, None]
    assert [child.exit_code() for child in children] == [-signal.SIGTERM, -signal.SIGTERM]


def test_started_child_process_is_terminated_if_the_next_program_cannot_start(
    tmp_path: Path,
) -> None:
    log = tmp_path / "pid.log"
    writes = f"import os; open({str(log)!r}, 'w').write(str(os.getpid())); {SLEEPS}"
    first = program(tmp_path, writes)
    missing = Program("two", [str(tmp_path / "no such program")], tmp_path / "two.log")
    with pytest.raises(FileNotFoundError), run_programs([first, missing], StopSignals()):
        pass
    if log.exists() and log.read_text():
        assert not alive(int(log.read_text()))


def test_child_process_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "STOP_SECONDS", 0.2)
    stubborn = program(tmp_path, STUBBORN)
    with run_programs([stubborn], StopSignals()) as (child,):
        wait_until_up(stubborn)
    assert child.exit_code() == -signal.SIGKILL


def test_child_process_is_started_in_a_separate_session(tmp_path: Path) -> None:
    with run_programs([program(tmp_path, SLEEPS)], StopSignals()) as (child,):
        assert os.getsid(child.process.pid) == child.process.pid


def test_read_log_tail_of_ended_child_process_returns_its_last_output_lines(tmp_path: Path) -> None:
    code = "[print(number) for number in range(100)]; raise SystemExit(3)"
    with run_programs([program(tmp_path, code)], StopSignals()) as (child,):
        child.process.wait(60)
        assert child.exit_code() == 3
        assert child.read_log_tail(2) == "98\n99"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stop_signal_raises_stopped_and_restores_previous_handler(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Stopped, match=number.name), StopSignals().installed():
        signal.raise_signal(number)
    assert signal.getsignal(number) is before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_stop_signal_received_in_finalizer_raises_stopped_at_next_sleep() -> None:
    class Resource:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    listener = StopSignals()
    with listener.installed():
        Resource()  # an error in a destructor is printed and ignored
        with pytest.raises(Stopped, match="SIGTERM"):
            listener.sleep(600)


def test_stop_signal_during_deferred_block_raises_stopped_after_the_block() -> None:
    listener, noted = StopSignals(), []

    def start() -> None:
        with listener.deferred():
            signal.raise_signal(signal.SIGTERM)
            noted.append("child")

    with listener.installed(), pytest.raises(Stopped):
        start()
    assert noted == ["child"]


def test_child_process_started_with_stop_signals_installed_ends_on_sigterm(tmp_path: Path) -> None:
    listener = StopSignals()
    with listener.installed():
        sleeper = program(tmp_path, SLEEPS)
        with run_programs([sleeper], listener) as (child,):
            wait_until_up(sleeper)
    assert child.exit_code() == -signal.SIGTERM


@pytest.mark.skipif(not parent_death.is_supported, reason="only Linux ends one with its parent")
def test_program_whose_parent_is_already_dead_kills_itself(tmp_path: Path) -> None:
    code = (
        "from hitl_django.task_queue import parent_death as p; p.follow_parent(); print('lived on')"
    )
    orphan = Program(
        "one", [sys.executable, "-c", code], tmp_path / "log", {parent_death.VARIABLE: "4194305"}
    )
    with run_programs([orphan], StopSignals()) as (child,):
        assert child.process.wait(60) == 128 + signal.SIGKILL
        assert child.read_log_tail() == ""


def test_follow_parent_removes_its_environment_variable_for_grandchildren(tmp_path: Path) -> None:
    code = (
        "from hitl_django.task_queue import parent_death as p; import os; p.follow_parent(); "
        "print(os.environ.get(p.VARIABLE))"
    )
    with run_programs([program(tmp_path, code)], StopSignals()) as (child,):
        child.process.wait(60)
        assert child.read_log_tail() == "None"


#: Other tests of this process may have left OS threads.
multi_threaded = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


@contextmanager
def forked(function: Callable[[Any], object]) -> Iterator[tuple[ForkedChild, Any]]:
    """Call a function in a fork, with a connection to which the fork can send objects."""
    receiver, sender = Pipe(duplex=False)
    with closing(receiver), closing(sender):
        # Other tests look for the objects that the collector tracks.
        with patch.object(gc, "freeze"):
            child = ForkedChild(lambda: function(sender))
        try:
            yield child, receiver
        finally:
            child.wait(0)


def send_state(sender: Any) -> None:
    sender.send((os.getpid(), os.getsid(0), os.getppid(), os.read(0, 1)))
    signal.pause()


@multi_threaded
def test_forked_child_process_has_a_separate_session_and_no_standard_input() -> None:
    with forked(send_state) as (child, receiver):
        assert receiver.recv() == (child.pid, child.pid, os.getpid(), b"")
        assert child.exit_code() is None
        child.terminate()
        child.wait(time.monotonic() + 60)
        assert child.exit_code() == -signal.SIGTERM


@multi_threaded
def test_forked_child_ends_by_sigterm_that_directly_follows_the_fork() -> None:
    # The handlers of this process must not receive the signal in the fork.
    with StopSignals().installed(), forked(lambda sender: signal.pause()) as (child, _):
        child.terminate()
        child.wait(time.monotonic() + 60)
        assert child.exit_code() == -signal.SIGTERM


@multi_threaded
def test_forked_child_that_ignores_sigterm_is_killed_after_the_deadline() -> None:
    def ignore(sender: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        send_state(sender)

    with forked(ignore) as (child, receiver):
        assert receiver.poll(60)
        child.terminate()
        child.wait(time.monotonic() + 0.1)
        assert child.exit_code() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("platform", "threads", "connection", "expected"),
    [
        ("linux", 1, None, True),
        ("linux", 2, None, False),
        ("linux", 1, "open", False),
        ("darwin", 1, None, False),
    ],
)
def test_process_can_fork_on_linux_if_it_has_no_other_os_threads_and_no_open_connections(
    platform: str,
    threads: int,
    connection: str | None,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = SimpleNamespace(all=lambda **options: [SimpleNamespace(connection=connection)])
    monkeypatch.setattr(child_process, "sys", SimpleNamespace(platform=platform))
    monkeypatch.setattr(child_process, "threading", SimpleNamespace(active_count=lambda: threads))
    monkeypatch.setattr(child_process, "connections", known)
    assert can_fork() is expected


def test_check_port_in_use_raises_command_error_naming_the_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(CommandError, match=rf"Can't use port {port} of 127\.0\.0\.1: "):
            check_port(port)


def test_check_port_above_65535_raises_command_error() -> None:
    with pytest.raises(CommandError, match="1 to 65535"):
        check_port(70_000)
