"""Catch-all view for paths of the API without a view."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from .base import Resource


class MissingSlash(NotFound):
    """The path lacks its trailing slash."""

    default_detail = "Not found. URLs end with a slash."


class NotFoundView(Resource):
    """Return a 404 problem instead of the project's HTML page."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # Whether the path with a slash exists is neither checked nor revealed.
        raise Http404 if request.path.endswith("/") else MissingSlash
