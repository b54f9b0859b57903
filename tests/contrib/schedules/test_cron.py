"""Due times of cron expressions in the local time of a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from hitl_django.contrib.schedules import cron, schedule
from hitl_django.contrib.schedules.cron import Cron
from hitl_django.contrib.schedules.registered import list_registered
from hitl_django.errors import GraphDefinitionError

BERLIN = "Europe/Berlin"
#: The days around a clock change, and the effect of the change on an hour.
SPRING, AUTUMN = datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC)


def first(rule: Cron, after: datetime, count: int) -> list[str]:
    return [f"{each:%d %H:%M}" for each in islice(rule.iterate(after), count)]


def test_cron_daily_time_stays_at_local_time_when_clocks_go_forward() -> None:
    assert first(Cron("0 7 * * *", BERLIN), SPRING, 4) == [
        "27 06:00", "28 06:00", "29 05:00", "30 05:00"
    ]  # fmt: skip


def test_cron_time_in_hour_skipped_by_clock_change_is_due_at_the_end_of_the_hour() -> None:
    assert first(Cron("30 2 * * *", BERLIN), SPRING, 4) == [
        "27 01:30", "28 01:30", "29 01:00", "30 00:30"
    ]  # fmt: skip


def test_cron_time_in_hour_repeated_by_clock_change_is_due_once() -> None:
    assert first(Cron("30 2 * * *", BERLIN), AUTUMN, 4) == [
        "23 00:30", "24 00:30", "25 00:30", "26 01:30"
    ]  # fmt: skip


def test_cron_ten_minute_interval_is_constant_over_clock_changes() -> None:
    moments = list(islice(Cron("*/10 * * * *", BERLIN).iterate(AUTUMN), 6 * 24 * 4))
    gaps = {after - before for before, after in pairwise(moments)}
    assert gaps == {timedelta(minutes=10)}


@pytest.mark.parametrize("begin", [SPRING, AUTUMN], ids=["spring", "autumn"])
@pytest.mark.parametrize(
    "expression", ["0 7 * * *", "30 2 * * *", "0,30 2,3 * * *", "*/20 * * * *"]
)
def test_cron_due_times_do_not_depend_on_the_start_time(expression: str, begin: datetime) -> None:
    rule = Cron(expression, BERLIN)
    moments = list(islice(rule.iterate(begin - timedelta(days=1)), 400))
    for minutes in range(0, 4 * 24 * 60, 7):
        now = begin + timedelta(minutes=minutes, seconds=13)
        assert rule.find_next(now) == next(each for each in moments if each > now)
        assert rule.find_newest(now) == [each for each in moments if each <= now][-1]


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("", "five fields"),
        ("0 7 * *", "five fields"),
        ("0 0 7 * * *", "five fields"),
        ("@daily", "five fields"),
        ("61 7 * * *", "bad minute"),
        ("0 7 * * MOO", "bad day-of-week"),
        ("0 7 */0 * *", "bad day-of-month"),
        ("0 7 30 2 *", "bad day-of-month"),
        ("* * */20 * 1L", "never matches"),
        (f"{'0,' * 60}0 7 * * *", "longer"),
    ],
)
def test_cron_fault_of_invalid_expression_names_the_invalid_part(
    expression: str, fault: str
) -> None:
    assert fault in cron.find_expression_fault(expression)


@pytest.mark.parametrize("zone", ["", "Berlin", "../etc/passwd", "/etc", "Europe", "Europe/\0"])
def test_find_timezone_fault_returns_a_message_for_unknown_time_zone(zone: str) -> None:
    assert cron.find_timezone_fault(zone)
    assert not cron.find_timezone_fault("Europe/Berlin")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"expression": "0 25 * * *"}, "bad hour"),
        ({"expression": 60}, "not 60"),
        ({"timezone": "Mars/Base"}, "is not a known time zone"),
        ({"overlap": "queue"}, "skip, allow"),
        ({"input": {"at": datetime(2026, 1, 1)}}, "JSON value"),
        ({"context": {"share": float("nan")}}, "JSON value"),
    ],
)
def test_schedule_decorator_with_invalid_argument_raises_graph_definition_error(
    options: dict[str, object], words: str
) -> None:
    with pytest.raises(GraphDefinitionError, match="'daily'") as refused:
        schedule("daily", **{"expression": "0 7 * * *", **options})  # type: ignore[arg-type]
    assert words in str(refused.value)
    assert "daily" not in list_registered()
