"""``include("hitl_django.contrib.prometheus.urls")``: the page for Prometheus, at ``metrics``."""

from __future__ import annotations

from django.urls import path

from .page import MetricsPage

app_name = "hitl_prometheus"
urlpatterns = [path("metrics", MetricsPage.as_view(), name="metrics")]
