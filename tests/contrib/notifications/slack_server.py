"""A server that responds like Slack's Web API."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl


class SlackServer:
    """Slack's Web API on a port of this machine.

    ``calls`` are the received calls, each with its method and fields. ``answers`` are responses by
    method. The default response is ``{"ok": true}``.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, str]]] = []
        self.answers: dict[str, Any] = {
            "auth.test": {"ok": True, "team_id": "T1"},
            "chat.postMessage": {"ok": True, "channel": "C0123ABCD", "ts": "1700000000.000100"},
        }
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                fields = dict(parse_qsl(self.rfile.read(size).decode()))
                method = self.path.removeprefix("/api/")
                outer.calls.append((method, {**fields, "token": self.headers["Authorization"]}))
                body = json.dumps(outer.answers.get(method, {"ok": True})).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/api/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def know(self, slack_user: str, email: str, **values: Any) -> None:
        user = {"id": slack_user, "team_id": "T1", "is_email_confirmed": True, **values}
        self.answers["users.info"] = {"ok": True, "user": {**user, "profile": {"email": email}}}

    def of(self, method: str) -> list[dict[str, str]]:
        return [fields for name, fields in self.calls if name == method]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
