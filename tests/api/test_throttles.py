"""Rate limits: Retry-After for one user, independence of users, and missing caches."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.cache import cache
from django.core.cache.backends.locmem import LocMemCache
from rest_framework.throttling import UserRateThrottle

from hitl_django.api import throttles
from hitl_django.api.urls import urlpatterns
from hitl_django.conf import Rate
from hitl_django.models import Interrupt, Run
from tests.clock import module_time

from .addresses import arguments

__all__ = ["arguments"]  # a fixture
BODY = {"graph": "invoice", "input": {"amount": 12}}
DUMMY = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}


class BrokenCache(LocMemCache):
    """Cache whose server is unavailable."""

    def add(self, *args: Any, **options: Any) -> bool:
        raise ConnectionError("no cache here")


class HostThrottle(UserRateThrottle):
    """Throttle that a project may have configured for all of its views."""

    rate = "1/day"


@pytest.fixture(autouse=True)
def at_noon(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [60_000_000.0]
    monkeypatch.setattr(throttles, "time", module_time(time=lambda: now[0]))
    cache.clear()
    return now


def test_run_creation_above_throttle_start_returns_429_until_the_next_minute(
    api: Any, as_role: Any, invoice: str, settings: Any, at_noon: list[float]
) -> None:
    settings.HITL = {"THROTTLE_START": "2/min"}
    assert [api.post("runs", body=BODY).status_code for _ in range(2)] == [202, 202]
    at_noon[0] += 20.5
    refused = api.post("runs", body=BODY)
    assert (refused.status_code, refused.json()["code"]) == (429, "throttled")
    assert refused["Content-Type"] == "application/problem+json"
    assert refused["Retry-After"] == "40"
    assert Run.objects.count() == 2

    assert as_role("starter").post("runs", body=BODY).status_code == 202
    assert api.get("runs").status_code == 200
    at_noon[0] += 40
    assert api.post("runs", body=BODY).status_code == 202


def test_decision_above_throttle_decide_returns_429_and_leaves_interrupt_pending(
    api: Any, make_interrupt: Any, settings: Any
) -> None:
    settings.HITL = {"THROTTLE_DECIDE": "1/min"}
    first, second = make_interrupt(), make_interrupt()
    assert api.post("decisions", first.pk, body={"type": "approve"}).status_code == 202
    assert api.post("decisions", second.pk, body={"type": "approve"}).status_code == 429
    second.refresh_from_db()
    assert second.status == Interrupt.Status.PENDING


def test_comment_and_delete_above_throttle_write_return_429(
    api: Any, make_interrupt: Any, settings: Any
) -> None:
    settings.HITL = {"THROTTLE_WRITE": "2/min", "THROTTLE_DECIDE": None}
    interrupt = make_interrupt()
    assert api.post("comments", interrupt.pk, body={"text": "One."}).status_code == 201
    assert api.post("claim", interrupt.pk, body={}).status_code == 200
    assert api.post("comments", interrupt.pk, body={"text": "Two."}).status_code == 429
    assert api.call("DELETE", "webhook", interrupt.pk).status_code == 429
    assert api.get("comments", interrupt.pk).status_code == 200
    assert api.post("decisions", interrupt.pk, body={"type": "approve"}).status_code == 202


def test_read_above_throttle_read_returns_429_for_its_user_only(
    api: Any, as_role: Any, make_interrupt: Any, settings: Any, at_noon: list[float]
) -> None:
    settings.HITL = {"THROTTLE_READ": "3/min"}
    interrupt = make_interrupt()
    assert api.get("runs").status_code == 200
    assert api.call("HEAD", "interrupt", interrupt.pk).status_code == 200
    assert api.get("stats").status_code == 200
    at_noon[0] += 10
    refused = api.get("interrupts")
    assert (refused.status_code, refused.json()["code"]) == (429, "throttled")
    assert refused["Retry-After"] == "50"
    assert api.post("claim", interrupt.pk, body={}).status_code == 200  # has a separate counter
    assert as_role("viewer").get("runs").status_code == 200
    at_noon[0] += 50
    assert api.get("runs").status_code == 200


@pytest.mark.parametrize("pattern", urlpatterns, ids=lambda pattern: pattern.name)
def test_every_endpoint_method_has_a_throttle(
    pattern: Any, api: Any, arguments: dict[str, tuple[Any, ...]], settings: Any
) -> None:
    rates = ("THROTTLE_READ", "THROTTLE_WRITE", "THROTTLE_START", "THROTTLE_DECIDE")
    settings.HITL = dict.fromkeys(rates, "1/min")
    for method in pattern.callback.cls().allowed_methods:
        if method != "OPTIONS":
            cache.clear()
            places = arguments[pattern.name]
            answers = [api.call(method, pattern.name, *places).status_code for _ in range(2)]
            assert (answers[0] == 429, answers[1]) == (False, 429), method


def test_bulk_decision_counts_each_item_toward_throttle_decide(
    api: Any, make_interrupt: Any, settings: Any, at_noon: list[float]
) -> None:
    settings.HITL = {"THROTTLE_DECIDE": "3/min"}

    def decide(count: int) -> Any:
        items = [{"interrupt": str(make_interrupt().pk), "type": "approve"} for _ in range(count)]
        return api.post("decisions-bulk", body={"decisions": items})

    assert decide(2).status_code == 200
    refused = decide(2)
    assert (refused.status_code, refused.json()["code"]) == (429, "throttled")
    assert int(refused["Retry-After"]) > 0
    assert Interrupt.objects.filter(status="decided").count() == 2
    at_noon[0] += 60
    # A single request above the rate must be allowed, because it could never be sent otherwise.
    assert decide(5).status_code == 200
    assert decide(1).status_code == 429


def test_run_creation_without_throttle_rate_does_not_use_the_cache(
    api: Any, invoice: str, settings: Any
) -> None:
    settings.HITL = {"THROTTLE_START": None}
    settings.CACHES = {"default": {"BACKEND": f"{__name__}.BrokenCache"}}
    assert api.post("runs", body=BODY).status_code == 202


@pytest.mark.parametrize("backend", [DUMMY["default"]["BACKEND"], f"{__name__}.BrokenCache"])
def test_run_creation_with_dummy_or_broken_cache_is_not_throttled(
    api: Any, invoice: str, settings: Any, backend: str
) -> None:
    settings.HITL = {"THROTTLE_START": "1/min"}
    settings.CACHES = {"default": {"BACKEND": backend}}
    assert [api.post("runs", body=BODY).status_code for _ in range(3)] == [202] * 3


def test_api_view_applies_throttle_classes_of_the_project(
    api: Any, invoice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hitl_django.api.views.runs import RunList

    monkeypatch.setattr(RunList, "throttle_classes", [HostThrottle])
    assert api.get("runs").status_code == 200
    response = api.get("runs")
    assert response.status_code == 429
    assert int(response["Retry-After"]) > 0


@pytest.mark.parametrize("text", ["", "5", "0/min", "-1/min", "5/week", "5 / min", "5/min ", None])
def test_throttle_rate_in_invalid_format_raises_value_error(text: Any) -> None:
    with pytest.raises(ValueError, match=r"is not a rate\. Use number/period"):
        Rate.parse(text)


def test_response_has_rate_limit_headers_with_remaining_requests(
    api: Any, settings: Any, at_noon: list[float], make_interrupt: Any
) -> None:
    settings.HITL = {"THROTTLE_READ": "2/min", "THROTTLE_DECIDE": "5/hour"}
    at_noon[0] += 20.5
    first, second, third = (api.get("runs") for _ in range(3))
    assert [each["RateLimit-Policy"] for each in (first, third)] == ['"read";q=2;w=60'] * 2
    assert first["RateLimit"] == '"read";r=1;t=40'
    assert second["RateLimit"] == third["RateLimit"] == '"read";r=0;t=40'
    assert (third.status_code, third["Retry-After"]) == (429, "40")
    decisions = [{"interrupt": str(make_interrupt().pk), "type": "approve"} for _ in range(3)]
    many = api.post("decisions-bulk", body={"decisions": decisions})
    assert many["RateLimit"].startswith('"decide";r=2;')


def test_response_without_rate_or_cache_has_no_rate_limit_headers(api: Any, settings: Any) -> None:
    settings.HITL = {"THROTTLE_READ": None}
    assert "RateLimit" not in api.get("runs").headers
    settings.HITL = {}
    settings.CACHES = DUMMY
    assert "RateLimit-Policy" not in api.get("runs").headers
