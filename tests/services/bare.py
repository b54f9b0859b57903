"""URLs of a project without those of this package."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path


def home(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


urlpatterns = [path("", home)]
