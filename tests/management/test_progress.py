"""A bar on a terminal, a line now and then in a log."""

from __future__ import annotations

import io

import pytest
from django.core.management.base import OutputWrapper

from hitl_django.management import progress
from hitl_django.management.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def always_time_to_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TERMINAL_INTERVAL", 0.0)


def test_a_terminal_shows_the_share_that_is_read() -> None:
    stream = Terminal()
    Progress(OutputWrapper(stream), total=200).show(50, "1 started")
    assert stream.getvalue() == "\r[########......................]  25%  1 started"


def test_a_shorter_text_leaves_nothing_of_a_longer_one() -> None:
    stream = Terminal()
    bar = Progress(OutputWrapper(stream), total=None)
    bar.show(1, "a long note")
    bar.show(2, "short")
    assert stream.getvalue().endswith("\rshort      ")


def test_a_cleared_bar_leaves_an_empty_line() -> None:
    stream = Terminal()
    bar = Progress(OutputWrapper(stream), total=None)
    bar.show(1, "note")
    bar.clear()
    assert stream.getvalue() == "\rnote\r    \r"


def test_a_pipe_has_no_share_but_counts() -> None:
    stream = Terminal()
    Progress(OutputWrapper(stream), total=None).show(50, "1 started")
    assert "%" not in stream.getvalue()
    assert "1 started" in stream.getvalue()


def test_a_log_gets_no_bar_and_no_carriage_return(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    stream = io.StringIO()
    log = Progress(OutputWrapper(stream), total=200)
    log.show(50, "1 started")
    log.clear()
    assert stream.getvalue() == "1 started\n"
