"""Schedules in the admin: list, detail, pause and resume."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import Permission, User
from django.db.models.functions import Now
from django.test import Client
from django.urls import reverse

from hitl_django import services
from hitl_django.contrib.schedules.models import Schedule
from hitl_django.contrib.schedules.services import create_schedule
from hitl_django.contrib.schedules.start_due import start_due
from hitl_django.models import Run
from tests.admin.browsing import text_of

pytestmark = pytest.mark.django_db
LIST = "admin:hitl_schedules_schedule_changelist"


@pytest.fixture
def schedule() -> Schedule:
    made = create_schedule("steps", "0 7 * * *", {"log": ["a"]}, description="Each <b>morning</b>")
    return Schedule.objects.get(pk=made.id)


def press(client: Client, action: str, schedule: Schedule) -> str:
    body = {"action": action, "_selected_action": str(schedule.pk)}
    return text_of(client.post(reverse(LIST), body, follow=True))


def test_schedule_list_shows_escaped_description_and_pauses_and_resumes_schedules(
    admin_client: Client, schedule: Schedule
) -> None:
    text = text_of(admin_client.get(reverse(LIST)))
    assert "Each &lt;b&gt;morning&lt;/b&gt;" in text
    assert "0 7 * * *" in text
    assert "1 schedule is paused." in press(admin_client, "pause", schedule)
    schedule.refresh_from_db()
    assert not schedule.is_active
    assert "1 schedule resumed." in press(admin_client, "resume", schedule)
    schedule.refresh_from_db()
    assert schedule.is_active


def test_schedule_page_shows_last_error_and_links_to_its_runs(
    admin_client: Client, schedule: Schedule
) -> None:
    Schedule.objects.update(next_at=Now())
    [run] = start_due()
    Schedule.objects.update(last_error="It <i>broke</i>.")
    page = reverse("admin:hitl_schedules_schedule_change", args=[schedule.pk])
    text = text_of(admin_client.get(page))
    assert reverse("admin:hitl_django_run_change", args=[run]) in text
    assert "It &lt;i&gt;broke&lt;/i&gt;." in text
    runs = f"{reverse('admin:hitl_django_run_changelist')}?q=schedule%3A{schedule.pk}%3A"
    assert runs in text
    other = services.start("steps", {"log": []})
    shown = text_of(admin_client.get(runs))
    assert str(run) in shown
    assert str(other.id) not in shown
    assert Run.objects.count() == 2


@pytest.mark.parametrize(
    ("is_active", "pill"),
    [
        (True, '<span class="hitl-pill is-ok">Active</span>'),
        (False, '<span class="hitl-pill">Paused</span>'),
    ],
)
def test_schedule_list_and_page_show_the_state_as_a_pill(
    admin_client: Client, schedule: Schedule, is_active: bool, pill: str
) -> None:
    Schedule.objects.update(is_active=is_active)
    page = reverse("admin:hitl_schedules_schedule_change", args=[schedule.pk])
    for url in (reverse(LIST), page):
        assert pill in text_of(admin_client.get(url))


def test_schedule_pause_in_admin_without_manage_permission_leaves_schedule_active(
    client: Client, schedule: Schedule
) -> None:
    person = User.objects.create_user("dana", is_staff=True)
    ours = Permission.objects.filter(content_type__app_label="hitl_schedules")
    person.user_permissions.add(ours.get(codename="view_schedule"))
    client.force_login(person)
    assert "0 7 * * *" in text_of(client.get(reverse(LIST)))
    press(client, "pause", schedule)
    schedule.refresh_from_db()
    assert schedule.is_active
