"""URL patterns that a project includes with ``path("hitl/", include("hitl_django.urls"))``."""

from __future__ import annotations

from importlib import import_module

from django.urls import URLPattern, URLResolver, include, path, re_path

from hitl_django.api.views.not_found import NotFoundView
from hitl_django.extensions import list_extensions
from hitl_django.public_pages.brand import serve_stylesheet

app_name = "hitl_django"

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include("hitl_django.api.urls")),
    re_path("^api/v1/", NotFoundView.as_view()),
    path("brand.css", serve_stylesheet, name="brand"),
]
for _extension in list_extensions():
    if _extension.urls:
        urlpatterns += import_module(_extension.urls).urlpatterns
