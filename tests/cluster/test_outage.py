"""A database outage longer than any lease, with a running cluster."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.db.models.functions import Now

from hitl_django import services
from hitl_django.models import Checkpoint, Interrupt, Thread
from tests import databases
from tests.chaos import invariants
from tests.chaos.proxy import Proxy

from .conftest import Cluster, all_succeeded, begun, start_laps, states

pytestmark = [pytest.mark.cluster, pytest.mark.django_db(transaction=True)]

Start = Callable[..., Cluster]

WORKERS, RUNS, LAPS = 2, 12, 6


def nobody_holds_anything() -> bool:
    return not Thread.objects.filter(lease_until__gt=Now()).exists()


@pytest.mark.database("postgresql")
@pytest.mark.promise("P7")
@pytest.mark.promise("P8")
@pytest.mark.promise("P10")
def test_repeated_database_outages_store_each_step_of_each_run_once(
    cluster: Start, book: Path, amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    with Proxy(lambda: "pass") as proxy:
        url = databases.to_url(connection, **proxy.settings())
        supervised = cluster("hitl", "worker", DATABASE_URL=url).ready()
        runs = []
        outages = amount(1, 10)
        for number in range(outages):
            asked = services.start("interview", {"log": []})
            supervised.wait_for(lambda run=asked.id: states([run]) == {"interrupted": 1})
            book.write_text("")
            more = start_laps(book, RUNS, laps=LAPS)
            supervised.wait_for(lambda: len(begun(book)) >= 4)
            with proxy.down():
                # Decisions and starts still succeed, and the workers act on them later.
                interrupt = Interrupt.objects.get(run=asked.id, status="pending")
                services.decide(interrupt.pk, "respond", "one")
                supervised.wait_for(nobody_holds_anything)
                threading.Event().wait(0 if number else amount(0, 60))
            supervised.wait_for(all_succeeded(more))
            supervised.wait_for(lambda run=asked.id: states([run]) == {"interrupted": 1})
            assert len(begun(book)) == RUNS * LAPS
            assert begun(book).total() <= RUNS * LAPS + WORKERS + supervised.overtaken()
            runs += more
        told = supervised.log.read_text()
        assert "onnection refused" in told, "no worker noticed the outage"
        assert supervised.stop() == 0
    assert (invariants.faults(), invariants.unfinished()) == ([], [])
    steps = Counter(Checkpoint.objects.filter(thread__runs__in=runs).values_list("thread", "step"))
    assert set(steps.values()) == {1}
    assert len(steps) == len(runs) * (LAPS + 2)
    figures(f"{outages} database outages: {len(runs)} runs finished, each step stored once")
