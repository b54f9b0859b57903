"""URL patterns of schedules, below ``api/v1/``."""

from __future__ import annotations

from django.urls import path

from . import views

urlpatterns = [
    path("schedules/", views.ScheduleList.as_view(), name="schedules"),
    path("schedules/<uuid:schedule_id>/", views.ScheduleDetail.as_view(), name="schedule"),
]
