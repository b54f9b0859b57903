"""Calls of Slack's Web API with the bot token.

The standard library is enough: a call is one POST request with a form, and a small JSON response.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

from hitl_django.conf import hitl

#: Base URL of the methods. Tests use a server of this machine.
API_URL = "https://slack.com/api/"
MAX_BYTES = 512 * 1024
#: Errors after which the same call can succeed later.
TEMPORARY = frozenset(
    {"fatal_error", "internal_error", "request_timeout", "service_unavailable", "team_added_to_org"}
)
#: Errors of the token, which concern all calls.
TOKEN_ERRORS = frozenset(
    {"account_inactive", "invalid_auth", "missing_scope", "not_authed", "token_expired"}
    | {"token_revoked"}
)


class SlackError(Exception):
    """Raised if a call of Slack's API failed.

    ``code`` is Slack's error code, or another reason such as "timeout". ``status`` is the HTTP
    status of the response, or None without a response.
    """

    def __init__(self, code: str, status: int | None = None, retry_after: str = "") -> None:
        super().__init__(code)
        self.code, self.status, self.retry_after = code, status, retry_after


def call(method: str, values: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Call a method of Slack's Web API, and return the response.

    ``values`` are the arguments of the method. ``seconds`` is the time limit.

    Raises:
        SlackError: if the call failed.
    """
    base = urlsplit(API_URL)
    made = HTTPSConnection if base.scheme == "https" else HTTPConnection
    fields = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in values.items()
    }
    headers = {
        "Authorization": f"Bearer {hitl.SLACK_BOT_TOKEN}",
        "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
        "User-Agent": "hitl-django",
    }
    connection = made(base.netloc, timeout=max(seconds, 0.1))
    try:
        connection.request("POST", base.path + method, urlencode(fields), headers)
        response = connection.getresponse()
        if response.status != 200:
            retry_after = response.headers.get("Retry-After", "")
            raise SlackError(f"status {response.status}", response.status, retry_after)
        answer = json.loads(response.read(MAX_BYTES))
    except TimeoutError:
        raise SlackError("timeout") from None
    except (HTTPException, OSError, ValueError) as error:
        raise SlackError(type(error).__name__) from None
    finally:
        connection.close()
    if not isinstance(answer, dict) or answer.get("ok") is not True:
        code = answer.get("error") if isinstance(answer, dict) else ""
        raise SlackError(str(code or "invalid response"), 200)
    return answer


def find_email(slack_user: str, seconds: float) -> str:
    """Return the confirmed email address of a member of the bot's workspace, or "".

    The result is "" for members of other workspaces in a shared channel, because the administrators
    of those workspaces choose their members' addresses.

    Raises:
        SlackError: if a call failed.
    """
    found = call("users.info", {"user": slack_user}, seconds).get("user") or {}
    is_member = not found.get("deleted") and not found.get("is_bot")
    is_ours = found.get("team_id") == _find_team(str(hitl.SLACK_BOT_TOKEN), seconds)
    if not (is_member and is_ours and found.get("is_email_confirmed") is True):
        return ""
    return str((found.get("profile") or {}).get("email") or "")


@lru_cache(maxsize=4)
def _find_team(token: str, seconds: float) -> str:
    return str(call("auth.test", {}, seconds)["team_id"])
