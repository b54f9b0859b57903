"""URLs of the measured project, as in the installation guide."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [path("admin/", admin.site.urls), path("hitl/", include("hitl_django.urls"))]
