"""Features of LangGraph's server that return 501 here."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import APIException
from rest_framework.request import Request

from .resource import AgentResource


class NotSupported(APIException):
    """Known to the clients, but not supported here."""

    status_code = 501
    default_code = "not_supported"


class NotOfferedView(AgentResource):
    """Any request to a URL that only LangGraph's server supports."""

    what = ""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotSupported(f"Not supported by this server: {self.what}.")
