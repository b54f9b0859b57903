"""The table of error responses, and the errors that it omits."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from rest_framework import exceptions

from hitl_django import errors
from hitl_django.api import invalid_params
from hitl_django.api import problems as answers
from hitl_django.db import outages

#: Errors of the graph, its author or the database, which are handled like the project's exceptions.
NOT_ANSWERED = {
    errors.HitlError,
    errors.GraphError,
    errors.GraphDefinitionError,
    errors.GraphRecursionError,
    errors.GraphDrained,
    errors.NoSaverError,
    errors.ResumeError,
    errors.PayloadError,
    errors.UnknownTagError,
    errors.CorruptPayloadError,
    errors.LeaseError,
    errors.LeaseLostError,
    errors.ConcurrentOnceError,
    errors.AttemptTimedOutError,
    errors.NodeCancelledError,
    errors.InvalidNamespaceError,
    errors.NodeTimeoutError,
    errors.OpenTransactionError,
    errors.TaskNotFound,
    errors.RunTimeoutError,
}
UNTIL = datetime(2026, 1, 2, tzinfo=UTC)
CONTEXT: dict[str, Any] = {"view": SimpleNamespace(input_pointer="/value", request_id="r1")}


def test_every_package_error_has_a_problem_type_or_is_listed_as_never_returned_by_the_api() -> None:
    ours = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.HitlError)
    }
    assert {kind for kind in ours if kind not in answers.PROBLEM_TYPES} == NOT_ANSWERED | {
        errors.NoSuchThread  # like every ThreadNotFound
    }


def test_problem_type_has_4xx_status_and_lower_case_code() -> None:
    for kind, answer in answers.PROBLEM_TYPES.items():
        assert 400 <= answer.status < 500 or kind in outages.ERRORS, kind
        assert answer.code.replace("_", "").isalpha(), kind
        assert answer.code.islower(), kind


@pytest.mark.parametrize(
    ("error", "status", "members"),
    [
        (errors.RunNotFound(), 404, {"code": "not_found", "detail": "Run not found."}),
        (errors.UnknownGraphError("x", ["secret"]), 404, {"code": "unknown_graph"}),
        (
            errors.InvalidAnswerError("No.", [("/a/0", "is odd")]),
            422,
            {
                "code": "invalid_answer",
                "errors": [{"pointer": "/value/a/0", "code": "invalid", "detail": "is odd"}],
            },
        ),
        (
            errors.InvalidInputError("No.", [("$.items[2].price", "is odd")]),
            422,
            {
                "errors": [
                    {"pointer": "/value/items/2/price", "code": "invalid", "detail": "is odd"}
                ]
            },
        ),
        (
            errors.UnserializableError("No.", "$"),
            422,
            {"errors": [{"pointer": "/value", "code": "unserializable", "detail": "No."}]},
        ),
        (
            errors.PayloadLimitError("Too much.", limit=3, found=4),
            413,
            {"code": "too_large", "limit": 3, "found": 4},
        ),
        (errors.PendingInterruptsError("Open.", ["b", "a"]), 409, {"pending": ["a", "b"]}),
        (
            errors.RunStateError("No.", state="failed", allowed=["queued"]),
            409,
            {"code": "run_state", "run_state": "failed", "allowed": ["queued"]},
        ),
        (
            errors.AlreadyDecidedError("Gone.", status="cancelled"),
            409,
            {"code": "already_decided", "interrupt_status": "cancelled", "decision": None},
        ),
        (
            errors.ClaimedError("Held.", claimed_by_label="rita", until=UNTIL),
            409,
            {"code": "claimed", "claimed_by": "rita", "until": UNTIL},
        ),
        (errors.StaleInterruptError(), 412, {"code": "stale_interrupt"}),
        (errors.NotAllowedError(), 403, {"code": "permission_denied"}),
        (exceptions.Throttled(wait=7), 429, {"code": "throttled"}),
        (exceptions.ValidationError({"a": "b"}), 400, {"code": "invalid_request"}),
    ],
)
def test_package_error_is_returned_as_problem_json_with_status_and_members(
    error: Exception, status: int, members: dict[str, Any]
) -> None:
    response = answers.handle_exception(error, CONTEXT)
    assert response is not None
    assert response.content_type == "application/problem+json"
    assert response.data["type"] == "about:blank"
    assert response.data["title"] == HTTPStatus(status).phrase
    assert response.data["status"] == response.status_code == status
    assert isinstance(response.data["detail"], str)
    assert members.items() <= response.data.items()


def test_unknown_graph_problem_does_not_list_registered_graphs() -> None:
    response = answers.handle_exception(errors.UnknownGraphError("x", ["secret"]), CONTEXT)
    assert response is not None
    assert "secret" not in str(response.data)


def test_throttled_problem_has_retry_after_header() -> None:
    response = answers.handle_exception(exceptions.Throttled(wait=7), CONTEXT)
    assert response is not None
    assert response["Retry-After"] == "7"


@pytest.mark.parametrize("error", [RuntimeError("x"), errors.CorruptPayloadError("x")])
def test_api_exception_handler_returns_none_for_errors_without_problem_type(
    error: Exception,
) -> None:
    assert answers.handle_exception(error, CONTEXT) is None


@pytest.mark.parametrize(
    ("path", "pointer"),
    [("$", ""), ("$.a", "/a"), ("$.a[0].b", "/a/0/b"), ("$[3]", "/3"), ("$.a/b", "/a~1b")],
)
def test_engine_value_path_is_converted_to_json_pointer(path: str, pointer: str) -> None:
    assert invalid_params.convert_path(path) == pointer
    assert invalid_params.convert_path(path, "/input") == f"/input{pointer}"


def test_engine_path_naming_a_field_is_converted_to_the_pointer_of_that_field() -> None:
    assert invalid_params.convert_path("thread_id", "/input") == "/thread_id"


def test_problem_lists_at_most_max_faults_errors() -> None:
    found = [invalid_params.InvalidParam("x", "y", pointer=f"/{n}") for n in range(1000)]
    assert len(invalid_params.list_errors(found)) == invalid_params.MAX_FAULTS


def test_json_pointer_part_is_escaped_and_truncated() -> None:
    assert invalid_params.format_part("a/b~c") == "a~1b~0c"
    assert invalid_params.format_part("\x00\ud800") == "\\u0000\\ud800"
    assert len(invalid_params.format_part("x" * 10_000)) == 201
