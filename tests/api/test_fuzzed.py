"""Generated requests, valid and invalid: documented responses, and never a 5xx status.

Schemathesis generates requests for each operation and validates the responses. Half of the requests
contain an error. Every other body is sent in chunks. ``--soak`` generates many more requests.
"""

from __future__ import annotations

import base64
import copy
import io
import socket
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from zlib import crc32

import pytest
import schemathesis
from django.contrib.auth import get_user_model
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

from hitl_django.contrib.webhooks import addresses
from hitl_django.models import Interrupt, Run

from .document import document

#: The check that rejects valid content of requests, such as NUL.
pytestmark = pytest.mark.database("postgresql")


def requests() -> Iterator[Any]:
    """Generate each operation with existing and missing objects, and with and without a fault."""
    for path, methods in document()["paths"].items():
        for method, told in methods.items():
            places = ["there", "not there"] if "{" in path else ["there"]
            for place, mode in product(places, GenerationMode):
                if mode is GenerationMode.POSITIVE or may_be_wrong(told, place):
                    name = f"{told['operationId']}-{place}-{mode.value}"
                    yield pytest.param(path, method.upper(), place == "there", mode, id=name)


def may_be_wrong(told: dict[str, Any], place: str) -> bool:
    free = ({"type": "string"}, {"type": "string", "minLength": 1, "maxLength": 255})
    parameters = [each for each in told["parameters"] if each["schema"] not in free]
    parameters = [each for each in parameters if each["in"] != "path"]
    typed = any(each["schema"].get("format") == "uuid" for each in told["parameters"])
    return bool(parameters) or "requestBody" in told or (place != "there" and typed)


JUDGES = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.allow_header_conformance,
]


def taken(ctx: Any, response: Any, case: Any) -> None:
    """Fail if a request that matches the OpenAPI document is rejected for its form.

    Allowed rejections: values that only the server can check, such as a cursor, and rules that a
    schema can't express, such as equal keys in body and header or the years of a date-time.
    """
    header = (case.headers or {}).get("Idempotency-Key")
    named = case.body.get("key") if isinstance(case.body, dict) else None
    has_two_keys = None not in (header, named) and header != named
    faults = response.json().get("errors", ()) if response.status_code == 400 else ()
    is_out_of_range = bool(faults) and all(fault["code"] == "out_of_range" for fault in faults)
    if "cursor" not in (case.query or {}) and not has_two_keys and not is_out_of_range:
        assert response.status_code not in (400, 413, 415), response.text


def refused(ctx: Any, response: Any, case: Any) -> None:
    if response.status_code != 413:
        checks.negative_data_rejection(ctx, response, case)


VERDICTS = {GenerationMode.POSITIVE: taken, GenerationMode.NEGATIVE: refused}


class HalfInChunks(WSGIHandler):
    """WSGI app that receives half of the bodies in chunks, depending on the content."""

    def __call__(self, environ: Any, start_response: Any) -> Any:
        body = environ["wsgi.input"].read()
        environ["wsgi.input"] = io.BytesIO(body)
        if crc32(body) % 2:
            environ["CONTENT_LENGTH"] = ""
            environ |= {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
        return super().__call__(environ, start_response)


@pytest.fixture
def schema() -> Any:
    """Return the OpenAPI document for Schemathesis. The user is set elsewhere."""
    known = copy.deepcopy(document())
    known["servers"] = [{"url": "/hitl/api/v1"}]
    for methods in known["paths"].values():
        for told in methods.values():
            del told["security"]
    loaded = schemathesis.openapi.from_dict(known)
    loaded.app = HalfInChunks()
    return loaded


@pytest.fixture(autouse=True)
def _one_connection(db: None) -> Iterator[None]:
    """Keep the connection open after a request, because the test's transaction uses it."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:

    def resolve(host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", port))]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", resolve)


@pytest.fixture
def things(asked: Callable[..., Interrupt], make_run: Any) -> dict[str, str]:
    """Create the objects, by the names of URL parameters."""
    interrupt = asked(free=True)
    make_run(state=Run.State.FAILED)
    return {
        "name": "invoice",
        "run_id": str(interrupt.run_id),
        "thread_id": interrupt.thread.thread_id,
        "interrupt_id": str(interrupt.pk),
    }


@pytest.fixture
def authorization(db: None) -> dict[str, str]:
    get_user_model().objects.create_superuser("dana", password="open sesame")
    return {"Authorization": "Basic " + base64.b64encode(b"dana:open sesame").decode()}


@pytest.mark.promise("P21")
@pytest.mark.parametrize(("path", "method", "there", "mode"), list(requests()))
def test_api_operation_with_generated_requests_conforms_to_its_openapi_schema(
    path: str,
    method: str,
    there: bool,
    mode: GenerationMode,
    schema: Any,
    things: dict[str, str],
    authorization: dict[str, str],
    amount: Callable[[int, int], int],
) -> None:
    operation = schema[path][method]
    names = [parameter.name for parameter in operation.path_parameters]
    places = {name: things[name] for name in names if name in things} if there else {}
    judges = [*JUDGES, VERDICTS[mode]]

    @settings(
        max_examples=amount(6, 200),
        derandomize=not amount(0, 1),
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode, path_parameters=places or None))
    def ask(case: Any) -> None:
        with transaction.atomic():
            response = case.call(headers=authorization)
            case.validate_response(response, checks=judges)
            transaction.set_rollback(True)

    ask()
