"""Progress of commands: a bar on a terminal, and occasional lines in a log."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command
from django.core.management.base import OutputWrapper
from django.utils import timezone

from hitl_django.management import progress
from hitl_django.management.progress import Progress
from hitl_django.models import Interrupt, Run
from hitl_django.testing import GraphEnvironment


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def always_time_to_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TERMINAL_INTERVAL", 0.0)


def test_progress_on_a_terminal_shows_bar_and_percentage() -> None:
    stream = Terminal()
    Progress(OutputWrapper(stream), total=200).show(50, "1 started")
    assert stream.getvalue() == "\r[########......................]  25%  1 started"


def test_progress_text_shorter_than_the_previous_text_overwrites_the_whole_line() -> None:
    stream = Terminal()
    bar = Progress(OutputWrapper(stream), total=None)
    bar.show(1, "a long note")
    bar.show(2, "short")
    assert stream.getvalue().endswith("\rshort      ")


def test_progress_cleared_on_a_terminal_leaves_an_empty_line() -> None:
    stream = Terminal()
    bar = Progress(OutputWrapper(stream), total=None)
    bar.show(1, "note")
    bar.clear()
    assert stream.getvalue() == "\rnote\r    \r"


def test_progress_without_total_shows_counts_without_percentage() -> None:
    stream = Terminal()
    Progress(OutputWrapper(stream), total=None).show(50, "1 started")
    assert "%" not in stream.getvalue()
    assert "1 started" in stream.getvalue()


def test_progress_in_a_log_shows_lines_without_bar_or_carriage_return(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "LOG_INTERVAL", 0.0)
    stream = io.StringIO()
    log = Progress(OutputWrapper(stream), total=200)
    log.show(50, "1 started")
    log.clear()
    assert stream.getvalue() == "1 started\n"


def test_progress_count_shows_number_of_rows_in_singular_and_plural() -> None:
    stream = Terminal()
    assert list(Progress(OutputWrapper(stream), total=2).count("ab", "run", "runs")) == ["a", "b"]
    drawn = stream.getvalue().split("\r")
    assert drawn[1].startswith("[###############...............]  50%  1 run")
    assert drawn[2].startswith("[##############################] 100%  2 runs")
    assert drawn[3].strip() == ""


@pytest.fixture
def threads() -> None:
    """Create a waiting thread, a thread with an ended run, and a thread with a failed run."""
    with GraphEnvironment() as hitl:
        for name in ("waits", "ended", "failed"):
            hitl.start("approval", {"text": "long"}, thread_id=name)
        hitl.decide(run=Run.objects.get(thread__thread_id="ended").pk, type="approve")
    failed = Run.objects.filter(thread__thread_id="failed")
    Interrupt.objects.filter(run__in=failed).delete()
    failed.update(state=Run.State.FAILED, finished_at=timezone.now())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["archive", "--older-than", "0"], "1 thread"),
        (["verify-backup"], "3 threads"),
        (["export-audit", "--since", "2020-01-01"], "2 entries"),
        (["preflight"], "1 run"),
        (["purge", "--days", "0", "--yes"], "1 thread"),
        (["retry", "--state", "failed"], "1 run"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_long_running_command_shows_and_clears_its_progress(
    threads: None, arguments: list[str], note: str
) -> None:
    terminal = Terminal()
    call_command("hitl", *arguments, stdout=io.StringIO(), stderr=terminal)
    drawn = [text.strip() for text in terminal.getvalue().split("\r")]
    assert drawn[-2:] == ["", ""], drawn
    assert drawn[-3].endswith(note), drawn
