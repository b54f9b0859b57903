"""URLs of the measured project."""

from __future__ import annotations

import os

from django.urls import include, path

from .job import PRODUCT

urlpatterns = (
    [path("hitl/", include("hitl_django.urls"))] if os.environ[PRODUCT] == "hitl_django_job" else []
)
