"""URLs of a project that has included nothing of ours."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.urls import path


def home(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


urlpatterns = [path("", home)]
