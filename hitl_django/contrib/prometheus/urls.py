"""URL pattern of ``metrics``, for ``include("hitl_django.contrib.prometheus.urls")``."""

from __future__ import annotations

from django.urls import path

from .page import MetricsPage

app_name = "hitl_prometheus"
urlpatterns = [path("metrics", MetricsPage.as_view(), name="metrics")]
