"""Responses to arbitrary JSON bodies: documented, and never a 5xx status."""

from __future__ import annotations

import json
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hitl_django.api.problems import PROBLEM_TYPES
from hitl_django.models import Decision, Interrupt

DOCUMENTED = {answer.code for answer in PROBLEM_TYPES.values()}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("approve"),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=15,
)
names = st.sampled_from(["approve", "edit", "reject", "respond"])
decisions = st.fixed_dictionaries(
    {"type": names | values},
    optional={"value": st.fixed_dictionaries({"amount": values}) | values, "reason": values},
) | st.fixed_dictionaries({"resume": values}, optional={"reason": st.text()})
starts = st.fixed_dictionaries(
    {"graph": st.just("invoice") | values, "input": values},
    optional=dict.fromkeys(("key", "thread_id", "metadata", "on_pending", "other"), values),
)
anything = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check(response: Any, good: int) -> None:
    if response.status_code != good:
        assert 400 <= response.status_code < 500, response.content
        assert response.json()["code"] in DOCUMENTED


@pytest.fixture
def post(api: Any) -> Any:
    """Post JSON that may contain NaN and lone surrogates. Half of the requests are chunked."""

    def send(name: str, *args: Any, body: Any) -> Any:
        raw = json.dumps(body).encode()
        return api.post(name, *args, body=raw, in_chunks=bool(crc32(raw) % 2))

    return send


@pytest.mark.promise("P5")
@pytest.mark.promise("P21")
class TestAnyBody:
    @anything
    @given(body=decisions | values)
    def test_decision_with_arbitrary_json_body_returns_a_documented_response(
        self, post: Any, make_interrupt: Any, body: Any
    ) -> None:
        interrupt = make_interrupt()
        response = post("decisions", interrupt.pk, body=body)
        check(response, 202)
        interrupt.refresh_from_db()
        accepted = response.status_code == 202
        assert (interrupt.status == Interrupt.Status.DECIDED) is accepted
        assert Decision.objects.filter(interrupt=interrupt).exists() is accepted

    @anything
    @given(body=decisions)
    def test_decision_validation_with_arbitrary_json_body_returns_a_documented_response(
        self, post: Any, make_interrupt: Any, body: Any
    ) -> None:
        check(post("decision-validate", make_interrupt().pk, body=body), 200)

    @anything
    @given(body=starts | values)
    def test_run_creation_with_arbitrary_json_body_returns_a_documented_response(
        self, post: Any, invoice: str, body: Any
    ) -> None:
        response = post("runs", body=body)
        check(response, 200 if response.status_code == 200 else 202)
