"""The view of every path beneath the API's that has no view."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework.exceptions import NotFound
from rest_framework.request import Request

from .base import Resource


class MissingSlash(NotFound):
    """The address may be one of ours, but for its end."""

    default_detail = "Not found. URLs end with a slash."


class NotFoundView(Resource):
    """A problem like all others, in place of the host's page for people."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        # Whether there is anything at the address with its slash isn't looked up, nor shown.
        raise Http404 if request.path.endswith("/") else MissingSlash
