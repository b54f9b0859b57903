"""Pages outside of the API."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path

from .models import Rating


def count_ratings(request: HttpRequest) -> HttpResponse:
    return HttpResponse(f"{Rating.objects.count()} ratings")


urlpatterns = [path("ratings/", count_ratings, name="rating-count")]
