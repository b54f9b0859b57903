from __future__ import annotations

from claims.pages import HolderPage
from claims.views import ClaimView
from django.contrib import admin
from django.urls import include, path

from .sites import reviews

urlpatterns = [
    path("staff/", admin.site.urls),
    path("reviews/", reviews.urls),
    path("api/review/", include("hitl_django.urls")),
    path("api/claims/<uuid:pk>", ClaimView.as_view()),
    path("fragen/<uuid:pk>", HolderPage.as_view(), name="question"),
]
