"""URLs of the app, below those of ``hitl_django.urls``."""

from __future__ import annotations

from django.urls import path

from .stop_page import StopPage

urlpatterns = [path("alerts/stop/<str:token>/", StopPage.as_view(), name="alerts-stop")]
