"""URLs of the measured project: as in the installation guide, and the bare views."""

from __future__ import annotations

from django.urls import path

from ..jobs import urls
from . import bare

urlpatterns = [
    *urls.urlpatterns,
    path("bare/", bare.List.as_view()),
    path("bare/next/", bare.Next.as_view()),
    path("bare/<uuid:pk>/decisions/", bare.Decide.as_view()),
]
