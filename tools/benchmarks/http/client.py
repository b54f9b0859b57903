"""Measuring process of the API. The environment names its database."""

from __future__ import annotations

import argparse
import gc
import json
import logging
import sys
import time
from collections.abc import Callable
from io import BytesIO
from itertools import count
from statistics import median
from typing import Any

import django

django.setup()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.core.handlers.wsgi import WSGIHandler  # noqa: E402
from django.test import Client, RequestFactory  # noqa: E402

from hitl_django import services  # noqa: E402
from hitl_django.models import Interrupt  # noqa: E402
from hitl_django.models.review import get_cleared_claim  # noqa: E402
from hitl_django.testing import inline  # noqa: E402

from ..counts import counting  # noqa: E402
from ..jobs import graphs  # noqa: E402

API, BARE = "/hitl/api/v1/interrupts/", "/bare/"
#: Number of rows in a list.
LISTED = 25
#: Number of requests before a measurement. In these requests, the process imports modules.
WARM = 5

numbers = count()


def fill(number: int) -> None:
    """Start runs until each has a pending interrupt."""
    with inline() as advance:
        for _ in range(number):
            given = {"customer": f"Customer {next(numbers)}", "cents": 12000}
            services.start(graphs.GRAPH, given)
        advance()


def log_in() -> str:
    """Return the session cookie of a reviewer who belongs to a group."""
    reviewer = User.objects.create_user("rita", is_staff=True)
    reviewer.groups.add(Group.objects.create(name="Refund desk"))
    wanted = ("view_interrupt", "decide_interrupt", "view_run", "view_thread")
    reviewer.user_permissions.set(Permission.objects.filter(codename__in=wanted))
    client = Client()
    client.force_login(reviewer)
    return client.cookies.output(header="", attrs=[])


class Caller:
    """Caller of the project's WSGI application, without a network."""

    def __init__(self) -> None:
        self.handler = WSGIHandler()
        self.cookie = log_in()
        self.factory = RequestFactory()

    def prepare(self, url: str, body: Any = None) -> Callable[[], Any]:
        """Return a function that sends a request and returns the response's content."""
        token = "a" * 32
        headers = {"HTTP_COOKIE": f"{self.cookie}; csrftoken={token}", "HTTP_X_CSRFTOKEN": token}
        sent = b"" if body is None else json.dumps(body).encode()
        environ = {
            **self.factory._base_environ(),  # type: ignore[attr-defined]
            **headers,
            "REQUEST_METHOD": "GET" if body is None else "POST",
            "PATH_INFO": url.partition("?")[0],
            "QUERY_STRING": url.partition("?")[2],
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(sent)),
        }

        def call() -> Any:
            statuses: list[str] = []

            def start(status: str, *headers: Any) -> Any:
                statuses.append(status)

            response = self.handler({**environ, "wsgi.input": BytesIO(sent)}, start)
            content = b"".join(response)
            response.close()
            assert statuses[0][0] == "2", (url, statuses, content)
            return json.loads(content)

        return call


def measure(prepare: Callable[[], Callable[[], Any]], repeat: int) -> dict[str, float]:
    """Return the cost of one request: processor milliseconds, Python calls and statements."""
    for _ in range(WARM):
        prepare()()
    times = []
    for _ in range(repeat):
        call = prepare()
        gc.collect()
        began = time.process_time()
        call()
        times.append(time.process_time() - began)
    call, calls = prepare(), 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    with counting() as counts:
        prepare()()
    return {"ms": median(times) * 1000, "calls": calls, "statements": counts.statements}


def find_requests(caller: Caller) -> dict[str, Callable[[], Callable[[], Any]]]:
    """Return functions that prepare a request, by its name and by the name of its bare view."""
    pending = iter(list(Interrupt.objects.values_list("pk", flat=True)))

    def take(url: str) -> Callable[[], Any]:
        Interrupt.objects.exclude(claimed_until=None).update(**get_cleared_claim())
        return caller.prepare(url, {})

    def decide(url: str) -> Callable[[], Any]:
        return caller.prepare(f"{url}{next(pending)}/decisions/", {"type": "approve"})

    return {
        "list": lambda: caller.prepare(f"{API}?page_size={LISTED}"),
        "list, bare": lambda: caller.prepare(BARE),
        "take next": lambda: take(f"{API}next/"),
        "take next, bare": lambda: take(f"{BARE}next/"),
        "decide": lambda: decide(API),
        "decide, bare": lambda: decide(BARE),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, required=True)
    options = parser.parse_args()
    logging.disable(logging.INFO)  # django-q2 logs every message.
    fill(2 * LISTED + 2 * (WARM + options.repeat + 2))
    requests = find_requests(Caller())
    print(json.dumps({name: measure(each, options.repeat) for name, each in requests.items()}))


if __name__ == "__main__":
    main()
