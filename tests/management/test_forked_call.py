"""Calls in a forked process."""

from __future__ import annotations

import os
import signal

import pytest
from django.core.management.base import CommandError

from hitl_django.management import forked_call
from hitl_django.management.forked_call import call_in_fork

#: Other tests of this process may have left OS threads.
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")


@pytest.fixture
def forkable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process fork, although other tests may have left connections or OS threads."""
    monkeypatch.setattr(forked_call, "can_fork", lambda: True)


@pytest.mark.usefixtures("forkable")
def test_call_in_fork_returns_result_of_another_process() -> None:
    parent, child = call_in_fork(lambda: (os.getppid(), os.getpid()))
    assert parent == os.getpid() != child


@pytest.mark.usefixtures("forkable")
def test_call_in_fork_raises_command_error_of_its_function() -> None:
    def refuse() -> None:
        raise CommandError("2 migrations aren't applied", returncode=3)

    with pytest.raises(CommandError, match="2 migrations aren't applied"):
        call_in_fork(refuse)


@pytest.mark.usefixtures("forkable")
def test_call_in_fork_of_killed_process_raises_command_error() -> None:
    with pytest.raises(CommandError, match="ended unexpectedly"):
        call_in_fork(lambda: os.kill(os.getpid(), signal.SIGKILL))


def test_call_in_fork_without_fork_calls_function_in_this_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forked_call, "can_fork", lambda: False)
    assert call_in_fork(os.getpid) == os.getpid()
