"""An interrupt, a visitor with a review link, and captured log records."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from hitl_django import services, testing
from hitl_django.contrib.links.services import create_review_link
from hitl_django.models import Interrupt

DANA = "Dana K."


@pytest.fixture(autouse=True)
def advance(db: None) -> Iterator[Callable[[], int]]:
    cache.clear()
    with testing.inline() as advance_all:
        yield advance_all


@pytest.fixture
def asked(advance: Callable[[], int]) -> Callable[..., Interrupt]:
    def ask(graph: str = "approval", **state: Any) -> Interrupt:
        first = {"typed": {"amount": 12.5, "customer": "Dana"}, "approval": {"text": "the news"}}
        run = services.start(graph, {**first.get(graph, {}), **state})
        advance()
        return Interrupt.objects.get(run=run.id)

    return ask


@pytest.fixture
def visitor() -> Client:
    return Client(enforce_csrf_checks=True)


@pytest.fixture
def records() -> Iterator[list[logging.LogRecord]]:
    """Yield a list of all log records, of all loggers and levels."""
    found: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record not in found:
                found.append(record)

    keeper = Keeper(level=1)
    names = ("", "django", "django.request", "django.security", "django.server", "hitl_django")
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(keeper)
        logger.setLevel(1)
    yield found
    for logger, level in zip(loggers, levels, strict=True):
        logger.removeHandler(keeper)
        logger.setLevel(level)


def link_to(interrupt: Interrupt, **options: Any) -> str:
    return create_review_link(interrupt.pk, name=DANA, **options).url


def signature_of(page: str) -> str:
    found = re.search(r'name="signature" value="([^"]+)"', page)
    return found[1] if found else ""


def send(visitor: Client, url: str, **fields: Any) -> Any:
    signature = signature_of(visitor.get(url).content.decode())
    return visitor.post(url, {"signature": signature, **fields})
