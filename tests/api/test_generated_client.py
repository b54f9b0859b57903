"""A client that openapi-python-client makes of the document starts, lists and decides."""

from __future__ import annotations

import base64
import importlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth import get_user_model

from .document import document

pytestmark = pytest.mark.process

INLINE = {"DISPATCH": "hitl_django.task_queue.dispatcher.InlineDispatcher"}
NAME = "hitl_made_client"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the package that the generator wrote."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "openapi.json").write_text(json.dumps(document()))
    (folder / "config.yaml").write_text("post_hooks: []\n")  # how it looks is nobody's concern
    command = [
        str(Path(sys.executable).with_name("openapi-python-client")),
        "generate",
        f"--path={folder / 'openapi.json'}",
        f"--config={folder / 'config.yaml'}",
        f"--output-path={folder / NAME}",
        "--meta=none",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # It knows JSON only; what isn't is left out, and nothing else.
    said = done.stdout + done.stderr
    left_out = [line for line in said.splitlines() if line.startswith("WARNING parsing")]
    assert all("diagram.svg" in line or "/events/" in line for line in left_out), said
    sys.path.insert(0, str(folder))
    yield NAME
    sys.path.remove(str(folder))


class Made:
    """The generated client, signed in; an operation is called by its name in the document."""

    def __init__(self, package: str, server: str) -> None:
        self.package = package
        token = base64.b64encode(b"dana:open sesame").decode()
        kind = self.module("client").AuthenticatedClient
        self.client = kind(base_url=f"{server}/hitl/api/v1", token=token, prefix="Basic")

    def module(self, name: str) -> Any:
        return importlib.import_module(f"{self.package}.{name}")

    def model(self, name: str, **fields: Any) -> Any:
        return getattr(self.module("models"), name)(**fields)

    def call(self, tag: str, operation: str, *args: Any, **options: Any) -> Any:
        return self.module(f"api.{tag}.{operation}").sync_detailed(
            *args, client=self.client, **options
        )


@pytest.fixture
def client(made: str, live_server: Any, invoice: str, settings: Any) -> Iterator[Made]:
    settings.HITL = INLINE
    get_user_model().objects.create_superuser("dana", password="open sesame")
    client = Made(made, live_server.url)
    with client.client:
        yield client


def test_generated_client_starts_lists_decides_and_reads_the_result(client: Made) -> None:
    start = client.model("StartBody", graph="invoice", input_={"amount": 12}, key="first")
    started = client.call("runs", "start_run", body=start)
    assert started.status_code == 202
    assert isinstance(started.parsed.id, UUID)
    again = client.call("runs", "start_run", body=start)
    assert (again.status_code, again.parsed.id) == (200, started.parsed.id)

    page = client.call("interrupts", "list_interrupts", graph="invoice", run=started.parsed.id)
    (row,) = page.parsed.results
    shown = client.call("interrupts", "get_interrupt", row.id)
    assert shown.parsed.payload == {"title": "Pay 12 EUR?", "amount": 12}

    types = client.module("models").DecisionBodyByTypeType
    body = client.model("DecisionBodyByType", type_=types.EDIT, value={"amount": 7})
    headers = {"if_match": shown.headers["ETag"], "idempotency_key": "made-1"}
    decided = client.call("interrupts", "decide", row.id, body=body, **headers)
    assert (decided.status_code, decided.parsed.value) == (202, {"amount": 7, "approved": True})
    assert decided.parsed.created_at.tzinfo is not None

    run = client.call("runs", "get_run", started.parsed.id).parsed
    assert (run.state.value, run.interrupts) == ("succeeded", [])
    assert run.result == {"amount": 12, "answer": {"amount": 7, "approved": True}}


def test_generated_api_client_parses_error_responses_as_typed_problem_models(client: Made) -> None:
    models = client.module("models")
    start = client.model("StartBody", graph="invoice", input_={"amount": 12})
    run = client.call("runs", "start_run", body=start).parsed
    (interrupt,) = client.call("interrupts", "list_interrupts", run=run.id).parsed.results
    approve = client.model("DecisionBodyByType", type_=models.DecisionBodyByTypeType.APPROVE)
    first = client.call("interrupts", "decide", interrupt.id, body=approve)

    resume = client.model("DecisionBodyByResume", resume={"approved": True, "amount": 12})
    late = client.call("interrupts", "decide", interrupt.id, body=resume)
    assert isinstance(late.parsed, models.AlreadyDecidedProblem)
    assert late.parsed.decision.id == first.parsed.id

    wrong = client.model("StartBody", graph="invoice", input_={"amount": "twelve"})
    refused = client.call("runs", "start_run", body=wrong)
    assert isinstance(refused.parsed, models.InvalidInputProblem)
    assert refused.parsed.errors[0].pointer == "/input/amount"

    absent = client.call("runs", "get_run", UUID(int=0))
    assert isinstance(absent.parsed, models.NotFoundProblem)
