"""What every address beneath ours answers that leads nowhere."""

from __future__ import annotations

from typing import Any

from django.http import Http404
from rest_framework.request import Request

from ..faults import Fault
from ..resource import Resource


class NothingThere(Resource):
    """A problem like all others, in place of the host's page for people."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise Http404

    def parameter_faults(self, request: Request) -> list[Fault]:
        return []
