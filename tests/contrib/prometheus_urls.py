"""URLs of a project with metrics for Prometheus."""

from __future__ import annotations

from django.urls import include, path

urlpatterns = [path("", include("hitl_django.contrib.prometheus.urls"))]
