"""Features of LangGraph's server that this API doesn't support.

Requests for these features get the status 501.
"""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import APIException
from rest_framework.request import Request

from .resource import AgentResource


class NotSupported(APIException):
    """The requested feature of LangGraph's server is not supported by this API."""

    status_code = 501
    default_code = "not_supported"


class NotSupportedView(AgentResource):
    """View of a URL that only LangGraph's server supports. The response is 501."""

    what = ""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotSupported(f"Not supported by this server: {self.what}.")
