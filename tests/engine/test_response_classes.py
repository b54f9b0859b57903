"""Responses converted by response_schema: stored as state, and readable by any process."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timezone
from typing import Any

import pydantic

from hitl_django import Command, StateGraph, interrupt
from hitl_django.engine.savers.memory import InMemorySaver
from hitl_django.engine.serde import Codec

from .response_classes import BUILDER, Grade, Note, Verdict

CONFIG = {"configurable": {"thread_id": "1"}}
READ = """
import sys
from hitl_django.engine.errors import UnknownTagError
from hitl_django.engine.serde import Codec

data = bytes.fromhex(sys.argv[1])
try:
    Codec().decode(data)
except UnknownTagError:
    assert "tests.engine.response_classes" not in sys.modules
    print("unknown")
import tests.engine.response_classes
print(Codec().decode(data))
"""


def answer_all() -> list[object]:
    graph = BUILDER.compile(checkpointer=InMemorySaver())
    graph.invoke({}, CONFIG)
    graph.invoke(Command(resume={"grade": "good"}), CONFIG)
    graph.invoke(Command(resume={"text": "because"}), CONFIG)
    found: list[object] = graph.get_state(CONFIG).values["found"]
    return found


def test_response_converted_by_schema_class_is_restored_as_instance_of_that_class() -> None:
    assert answer_all() == [Verdict(Grade.GOOD), Note(text="because")]


def test_stored_response_class_is_decodable_only_after_its_graph_is_built() -> None:
    stored = Codec().encode(answer_all())
    found = subprocess.run(
        [sys.executable, "-c", READ, stored.hex()], capture_output=True, text=True, check=True
    )
    unknown, read = found.stdout.splitlines()
    assert unknown == "unknown"
    assert read == repr(answer_all())


class Appointment(pydantic.BaseModel):
    at: datetime


def test_datetime_in_response_model_is_restored_with_its_utc_offset() -> None:
    def ask(state: dict[str, Any]) -> dict[str, Any]:
        return {"at": interrupt("When?", response_schema=Appointment).at}

    graph = StateGraph(dict).add_node(ask).set_entry_point("ask").compile(InMemorySaver())
    graph.invoke({}, CONFIG)
    graph.invoke(Command(resume={"at": "2026-07-01T10:00:00+02:00"}), CONFIG)
    found = graph.get_state(CONFIG).values["at"]
    assert found.isoformat() == "2026-07-01T10:00:00+02:00"
    assert type(found.tzinfo) is timezone
