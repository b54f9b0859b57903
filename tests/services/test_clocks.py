"""Times from the database and from Python on the same clock, in all time zones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import DEFAULT_DB_ALIAS, connection, connections, models
from django.test import override_settings
from django.utils import timezone

from hitl_django import services
from hitl_django.api.serializers.fields import OffsetDateTimeField
from hitl_django.contrib.links.services import create_review_link
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.schedules.start_due import start_due
from hitl_django.db import clock
from hitl_django.errors import InvalidInputError
from hitl_django.extensions import list_models
from hitl_django.models import Interrupt

from .conftest import asked

pytestmark = pytest.mark.django_db(transaction=True)

ZONES = ("UTC", "America/New_York", "Asia/Kolkata")


def reconnect() -> None:
    connection.close()
    clock.forget()
    for name in ("timezone", "timezone_name"):
        vars(connections[DEFAULT_DB_ALIAS]).pop(name, None)


@pytest.fixture(params=[*ZONES, "DATABASES America/Phoenix"])
def _zone(db: None, request: Any, settings: Any) -> Iterator[None]:
    where, _, zone = request.param.rpartition(" ")
    with override_settings(USE_TZ=bool(where), TIME_ZONE="UTC" if where else zone):
        connection.settings_dict["TIME_ZONE"] = zone if where else None
        reconnect()
        yield
        connection.settings_dict["TIME_ZONE"] = None
    reconnect()


def list_moments() -> Iterator[tuple[str, Any]]:
    for model in list_models():
        fields = [f.attname for f in model._meta.fields if isinstance(f, models.DateTimeField)]
        for row in model._default_manager.values(*fields) if fields else ():
            yield from ((f"{model.__name__}.{name}", at) for name, at in row.items() if at)


@pytest.mark.usefixtures("_zone")
def test_timestamps_of_all_rows_differ_from_python_clock_by_less_than_30_minutes(
    advance: Callable[[], int], reviewer: User
) -> None:
    item = asked("approval", {"text": "x"}, advance)
    services.claim(item.pk, by=reviewer)
    services.comment(item.pk, "Is it due?", by=reviewer)
    services.decide(item.pk, "approve", by=reviewer)
    advance()
    asked("approval", {"text": "y"}, advance)
    services.worker_health()
    found = list(list_moments())
    assert {"Thread.created_at", "Run.finished_at", "Decision.created_at"} <= {
        name for name, _ in found
    }
    now = timezone.now()
    assert [name for name, at in found if abs(at - now) > timedelta(minutes=30)] == []


@pytest.mark.usefixtures("_zone")
def test_aware_datetimes_are_restored_in_utc_in_any_database_time_zone(
    advance: Callable[[], int], reviewer: User
) -> None:
    soon = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    item = asked("reviewed", {"payload": {}, "terms": {"due": soon}}, advance)
    services.snooze(item.pk, until=soon, by=reviewer)
    link = create_review_link(item.pk, name="Guest", expires=soon)
    item.refresh_from_db()
    stored = [item.due_at, item.snoozed_until, link.expires_at]
    assert [OffsetDateTimeField().to_representation(at) for at in stored] == [f"{soon:%FT%TZ}"] * 3
    with pytest.raises(InvalidInputError, match="snooze time must be in the future"):
        services.snooze(item.pk, until=soon - timedelta(hours=1), by=reviewer)


@pytest.mark.usefixtures("_zone")
def test_snooze_schedule_and_expiry_times_given_by_python_are_not_due_before_the_given_time(
    advance: Callable[[], int], reviewer: User
) -> None:
    item = asked("approval", {"text": "x"}, advance)
    soon, hour = timezone.now() + timedelta(minutes=5), timedelta(hours=1)
    services.snooze(item.pk, until=soon, by=reviewer)
    assert Interrupt.objects.get().snoozed_until == soon
    Interrupt.objects.update(snoozed_until=None, expires_at=soon, due_at=soon, warn_at=soon)
    schedule = create_schedule("steps", "0 7 * * *", {"log": []})
    Schedule.objects.update(next_at=soon)
    assert services.expire_due() == 0
    assert start_due() == []
    Schedule.objects.update(next_at=soon - hour)
    assert len(start_due()) == 1
    assert Schedule.objects.get(pk=schedule.id).next_at > timezone.now()
    Interrupt.objects.update(expires_at=soon - hour)
    assert services.expire_due() == 1
