"""Process of the queue's benchmark, which fills or measures the database in DATABASE_URL."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

LIST = "/admin/hitl_django/reviewitem/"
API = "/hitl/api/v1/"
PAGES = {
    "list": LIST,
    "page 2": LIST + "?p=2",
    "mine": LIST + "?show=mine",
    "unclaimed": LIST + "?show=unclaimed",
    "claimed by others": LIST + "?show=claimed",
    "overdue": LIST + "?show=overdue",
    "snoozed": LIST + "?show=snoozed",
    "graph": LIST + "?graph=typed",
    "group": LIST + "?group={group}",
    "group, none free": LIST + "?group={group}&show=unclaimed",
    "search, common word": LIST + "?q=refund",
    "search, rare word": LIST + "?q=zebr",
    "search, no match": LIST + "?q=unicorn",
    "search in payloads": LIST + "?q=mountain",
    "search inside words": LIST + "?q=ountai",
    "by age": LIST + "?o=3",
    "normal priority": LIST + "?priority=normal",
    "low priority, none": LIST + "?priority=low",
    "assigned to nobody": LIST + "?assignee=nobody",
    "due this week": LIST + "?due=week",
    "without due date": LIST + "?due=none",
    "request page": LIST + "{item}/change/",
    "API: list": API + "interrupts/",
    "API: graph": API + "interrupts/?graph=typed",
    "API: free": API + "interrupts/?unclaimed=true&page_size=20",
    "API: claimed": API + "interrupts/?claimed=true",
    "API: overdue": API + "interrupts/?overdue=true",
    "API: rare word": API + "interrupts/?search=zebr",
    "API: no match": API + "interrupts/?search=unicorn",
    "API: in payloads": API + "interrupts/?search=ountai",
    "API: statistics": API + "stats/",
}

#: Lists of closed interrupts. They take longer than the queue and have no target, because searches
#: read up to 10,000 rows, and Insights counts all rows.
PAST = {
    "all requests, search": "/admin/hitl_django/interrupt/?q=unicorn",
    "decisions, search": "/admin/hitl_django/decision/?q=unicorn",
    "runs, search": "/admin/hitl_django/run/?q=unicorn",
    "threads, search": "/admin/hitl_django/thread/?q=unicorn",
    "Insights": "/admin/hitl_insights/spotcheck/reports/",
}

#: Lists for which an open page sends update requests.
OPEN_LISTS = ("list", "unclaimed", "group", "search in payloads")

Row = tuple[Callable[[], Any], Callable[[], Any]]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--fill", type=int)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--take", type=int, help="claim so many interrupts after a line of input")
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()

    import django

    django.setup()
    if options.fill:
        fill(options.fill)
    if options.take:
        take(options.take)
    if options.measure:
        measure(options.repeat)


def fill(size: int) -> None:
    """Create the interrupts, unless an earlier run has created them."""
    from django.core.management import call_command

    from tools.benchmarks import queue_rows

    call_command("migrate", verbosity=0)
    if queue_rows.found() is None:
        began = time.perf_counter()
        queue_rows.fill(size)
        print(f"{size:,} stored in {time.perf_counter() - began:.0f} s", file=sys.stderr)


def take(count: int) -> None:
    """Claim interrupts concurrently with other processes.

    The claims are released at the next line of input.
    """
    from hitl_django import services
    from tools.benchmarks import queue_rows

    reviewer, _ = queue_rows.found() or (None, None)
    services.queue_counts(reviewer)  # Warms up imports and connections.
    print("ready", flush=True)
    sys.stdin.readline()
    taken, times = [], []
    for _ in range(count):
        began = time.perf_counter()
        taken.append(services.claim_next(by=reviewer))
        times.append(time.perf_counter() - began)
    print(json.dumps({"taken": [str(key) for key in taken], "times": times}), flush=True)
    sys.stdin.readline()
    for key in filter(None, taken):
        services.release(key, by=reviewer)


def measure(repeat: int) -> None:
    """Print the names of the rows. Then print the times of each row that a line of input names."""
    from django.test import Client, override_settings
    from django.test.utils import setup_test_environment

    from hitl_django.models import ReviewItem
    from tools.benchmarks import queue_rows

    found = queue_rows.found()
    assert found is not None
    reviewer, group = found
    setup_test_environment()
    client = Client()
    client.force_login(reviewer)
    first = ReviewItem.pending.values_list("pk", flat=True)[0]
    rows = {
        name: (_get(client, url.format(group=group.pk, item=first)), _nothing)
        for name, url in (PAGES | PAST).items()
    }
    for name in OPEN_LISTS:
        page = client.get(PAGES[name].format(group=group.pk))
        rows[f"{name}: news"] = _get(client, page.context["cl"].updates_url), _nothing
    rows |= _calls(reviewer)
    with override_settings(ALLOWED_HOSTS=["*"]):
        print(json.dumps(list(rows)), flush=True)
        for line in sys.stdin:
            print(json.dumps(_timed(*rows[line.strip()], repeat)), flush=True)


def _get(client: Any, url: str) -> Callable[[], Any]:
    def get() -> None:
        response = client.get(url)
        assert response.status_code == 200, (url, response.status_code)

    return get


def _nothing() -> None:
    return


def _calls(reviewer: Any) -> dict[str, Row]:
    from hitl_django import services

    taken: list[Any] = []

    def take() -> None:
        taken.append(services.claim_next(by=reviewer))

    def give_back() -> None:
        services.release(taken.pop(), by=reviewer)

    return {
        "counts": (lambda: services.queue_counts(reviewer), _nothing),
        "statistics": (lambda: services.review_stats(reviewer), _nothing),
        "take next": (take, give_back),
        "sweep: overdue": (services.mark_overdue, _nothing),
    }


def _timed(act: Callable[[], Any], undo: Callable[[], Any], repeat: int) -> dict[str, Any]:
    """Return the median time in milliseconds and the number of queries.

    The first call is not measured.
    """
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    times = []
    for _ in range(repeat + 1):
        began = time.perf_counter()
        act()
        times.append(time.perf_counter() - began)
        undo()
    with CaptureQueriesContext(connection) as queries:
        act()
    undo()
    return {"ms": median(times[1:]) * 1000, "queries": len(queries)}


if __name__ == "__main__":
    main()
