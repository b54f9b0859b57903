"""View for requests to unknown paths of the API."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from .base import Resource


class MissingSlash(NotFound):
    """Not-found error for a path without a trailing slash."""

    default_detail = "Not found. URLs end with a slash."


class NotFoundView(Resource):
    """View that returns a 404 problem instead of the project's HTML page."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # The response neither checks nor reveals whether the path with a slash exists.
        raise Http404 if request.path.endswith("/") else MissingSlash
