"""Access logs of real web servers for review links, and the requests that the servers accept."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlencode

import pytest

from hitl_django import services
from hitl_django.contrib.links.services import create_review_link
from hitl_django.models import Decision, Interrupt
from hitl_django.worker import runner
from tests.api.servers import HOST, PATIENCE, Server
from tests.chaos.graphs import EMPTY

from .conftest import DANA, signature_of

pytestmark = [pytest.mark.crash, pytest.mark.django_db(transaction=True)]
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    started: list[Server] = []

    def start(kind: str) -> Server:
        started.append(Server(kind, tmp_path / "log"))
        return started[-1]

    yield start
    for server in started:
        server.stop()


def new_link() -> str:
    run = services.start("chaos line", EMPTY).id
    runner.advance(str(run))
    return create_review_link(Interrupt.objects.get(run=run).pk, name=DANA).url


def ask(server: Server, method: str, url: str, body: str | None = None) -> tuple[int, str]:
    line = http.client.HTTPConnection(HOST, server.port, timeout=PATIENCE)
    with closing(line):
        headers = {"Referer": f"http://{HOST}{url}", **(FORM if body is not None else {})}
        line.request(method, url, body, headers)
        answer = line.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.promise("P22")
@pytest.mark.parametrize("kind", ["gunicorn with access log", "uvicorn with access log"])
def test_web_server_access_log_contains_a_placeholder_instead_of_the_link_token(
    kind: str, serve: Callable[[str], Server]
) -> None:
    server, url = serve(kind), new_link()
    secret = url.rstrip("/").rpartition("/")[2]
    status, page = ask(server, "GET", url)
    assert status == 200
    assert [
        ask(server, "GET", url.rstrip("/"))[0],
        ask(server, "GET", f"{url}more")[0],
        ask(
            server, "GET", url.replace(secret[:9], "".join(f"%{ord(one):X}" for one in secret[:9]))
        )[0],
        ask(server, "DELETE", url)[0],
        ask(server, "POST", url, "decision=reject")[0],
        ask(
            server, "POST", url, urlencode({"signature": signature_of(page), "decision": "reject"})
        )[0],
    ] == [200, 404, 200, 405, 403, 302]
    assert Decision.objects.count() == 1
    server.wait()  # the only worker has written the earlier lines when it processes this request
    written = server.log.read_text()
    accesses = [line for line in written.splitlines() if "HTTP/1.1" in line]
    assert sum("/hitl/links/hidden" in line for line in accesses) == 7
    assert secret not in written
    assert secret[9:] not in written


@pytest.mark.promise("P21")
def test_link_page_form_above_upload_limit_gets_413_page_from_web_server(
    serve: Callable[[str], Server],
) -> None:
    """A browser reads no response before it has sent the complete form."""
    server, url = serve("gunicorn sync"), new_link()
    for megabytes in (3, 6):
        status, page = ask(server, "POST", url, "reason=" + "x" * (megabytes * 1024 * 1024))
        assert status == 413
        assert "Nothing was saved." in page
