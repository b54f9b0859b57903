"""URL patterns of notifications, which ``hitl_django.urls`` includes."""

from __future__ import annotations

from django.urls import path

from .unsubscribe_page import UnsubscribeView

urlpatterns = [
    path("notifications/unsubscribe/<str:token>/", UnsubscribeView.as_view(), name="unsubscribe")
]
