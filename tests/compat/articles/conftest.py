"""Execution of each example with the in-memory saver and with DjangoSaver."""

from __future__ import annotations

from typing import Any

import pytest

from hitl_django.checkpoints import DjangoSaver
from hitl_django.engine.savers.checkpoint import BaseCheckpointSaver
from hitl_django.engine.savers.memory import InMemorySaver

SAVERS = {"memory": InMemorySaver, "django": DjangoSaver}


@pytest.fixture(params=["memory", pytest.param("django", marks=pytest.mark.django_db)])
def checkpointer(request: pytest.FixtureRequest) -> BaseCheckpointSaver:
    return SAVERS[request.param]()


@pytest.fixture
def config() -> dict[str, Any]:
    return {"configurable": {"thread_id": "some_id"}}


@pytest.fixture
def without_langchain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make messages stay dicts."""
    monkeypatch.setattr("hitl_django.engine.state.messages.find_langchain", lambda: None)


class Printed:
    """The lines that an example has printed since the last call."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def lines(self) -> list[str]:
        return self._capsys.readouterr().out.splitlines()


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    return Printed(capsys)
