"""What earlier versions saved is loaded, gone on with and finished."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db.models.functions import Now

from hitl_django import audit, testing
from hitl_django.models import Run, Thread
from hitl_django.worker.sweeper import sweep
from tests.chaos import invariants
from tests.reading import values_of

from . import graphs
from .__main__ import HERE
from .stages import answer, ended, make

SAVED = sorted(HERE.glob("*.json"))


@pytest.fixture(autouse=True)
def registered(db: None) -> Iterator[None]:
    graphs.register()
    yield
    graphs.unregister()


def content_of(message: Any) -> str:
    """Returns a message's text: what was stored as a dict becomes a LangChain message later."""
    return str(message["content"] if isinstance(message, dict) else message.content)


def finish() -> None:
    """Lets every thread come to its end."""
    with testing.inline() as advance:
        Run.objects.update(hinted_at=Now() - timedelta(days=1))
        sweep()
        advance()
        for thread_id in Thread.objects.values_list("thread_id", flat=True):
            answer(thread_id, advance, most=99)


@pytest.mark.promise("P16")
@pytest.mark.parametrize("path", SAVED, ids=[path.stem for path in SAVED])
def test_a_thread_saved_by_a_version_is_resumed_and_finished(path: Path) -> None:
    call_command("loaddata", path, verbosity=0, ignorenonexistent=True)
    threads = {thread.thread_id: thread for thread in Thread.objects.all()}
    assert {"paused", "queued", "decided", "under-way", "finished"} <= threads.keys()
    assert ended() == {"finished"}
    assert not any(audit.find_first_fault(thread) for thread in Thread.objects.all())

    finish()
    assert dict(Run.objects.values_list("thread__thread_id", "error")) == dict.fromkeys(threads, "")
    assert ended() == threads.keys()
    done = values_of(threads["finished"])
    for name in ("paused", "queued", "decided", "under-way"):
        found = values_of(threads[name])
        assert sorted(map(str, found["log"])) == sorted(map(str, done["log"])), name
        assert found["values"] == done["values"] == graphs.VALUES
        assert [content_of(message) for message in found["messages"]] == ["Good morning"]
    assert values_of(threads["gated-at-its-breakpoint"])["log"] == ["worked"]
    assert not any(audit.find_first_fault(thread) for thread in Thread.objects.all())
    assert invariants.faults() == []


def test_there_is_something_saved() -> None:
    assert SAVED


@pytest.mark.promise("P16")
def test_what_this_version_saves_it_can_finish() -> None:
    make()
    finish()
    assert ended() == set(Thread.objects.values_list("thread_id", flat=True))
