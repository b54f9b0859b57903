"""What LangGraph's server has and this one hasn't: answered with 501, which says so."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import APIException
from rest_framework.request import Request

from .resource import AgentResource


class NotSupported(APIException):
    """The clients know it, and there is nothing here that does it."""

    status_code = 501
    default_code = "not_supported"


class NotOfferedView(AgentResource):
    """An address at which LangGraph's server would do something."""

    what = ""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotSupported(f"Not supported by this server: {self.what}.")
