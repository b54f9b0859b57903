"""django-q2's cluster without the main process of qcluster."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from hitl_django.contrib.django_q2 import cluster


@pytest.fixture
def handler() -> Iterator[object]:
    before = signal.getsignal(signal.SIGTERM)
    yield before
    signal.signal(signal.SIGTERM, before)


def test_sigterm_wakes_the_waiting_sentinel_process_of_django_q2(handler: object) -> None:
    stop = cluster._StopEvent()
    stop.install()
    assert not stop.wait(0)
    signal.raise_signal(signal.SIGTERM)
    assert stop.wait(600)
    assert stop.is_set()


def test_process_forked_by_the_sentinel_of_django_q2_has_the_default_sigterm_handler(
    handler: object,
) -> None:
    stop = cluster._StopEvent()
    stop.install()
    stop._uninstall()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    stop._uninstall()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
