"""One POST request to one checked address, with a total time limit.

The standard library connects to exactly the checked address. HTTP clients with pools, redirects and
proxies make this difficult. The response's body is never read. Each read of the response's headers
has the remaining time as its timeout, so a slow response can't exceed the time limit.
"""

from __future__ import annotations

import io
import socket
import ssl
from collections.abc import Mapping, Sequence
from functools import cache
from http.client import HTTPException, HTTPResponse, RemoteDisconnected
from time import monotonic
from typing import Any

from . import addresses
from .addresses import AddressRefused
from .channels import AttemptResult


def post_body(url: str, headers: Mapping[str, str], body: bytes, seconds: float) -> AttemptResult:
    """Send the body, and return the status and headers of the response.

    If the request fails, the result's ``fault`` is the reason.
    """
    deadline = monotonic() + seconds
    try:
        target = addresses.check_url(url)
        found = addresses.resolve_host(target, seconds)
        with _connect(target, found, deadline) as connection:
            _send(connection, target, headers, body, deadline)
            return _receive(connection, deadline)
    except AddressRefused as refusal:
        return AttemptResult(fault=str(refusal))
    except TimeoutError:
        return AttemptResult(fault="The receiver timed out.")
    except ssl.SSLCertVerificationError as error:
        return AttemptResult(fault=f"Invalid TLS certificate: {error.verify_message}.")
    except ssl.SSLError as error:
        return AttemptResult(fault=f"TLS failed: {error.reason or 'closed'}.")
    except RemoteDisconnected:
        return AttemptResult(fault="The connection was closed before the response was complete.")
    except HTTPException as error:
        # The error's message may quote received data.
        return AttemptResult(fault=f"The response was not valid HTTP ({type(error).__name__}).")
    except OSError as error:
        return AttemptResult(fault=f"The connection failed: {error.strerror or error}.")


def _connect(target: addresses.Target, found: Sequence[str], deadline: float) -> socket.socket:
    plain = _dial(target, found, deadline)
    if not target.is_tls:
        return plain
    try:
        plain.settimeout(_count_remaining_seconds(deadline))
        # The certificate must match the name, although the connection uses the address.
        return _context().wrap_socket(plain, server_hostname=target.host)
    except BaseException:
        plain.close()
        raise


def _dial(target: addresses.Target, found: Sequence[str], deadline: float) -> socket.socket:
    *others, last = found
    for address in others:
        try:
            return socket.create_connection(
                (address, target.port), timeout=_count_remaining_seconds(deadline) / 2
            )
        except OSError:
            pass  # The network may not support one of the address families.
    return socket.create_connection((last, target.port), timeout=_count_remaining_seconds(deadline))


def _send(
    connection: socket.socket,
    target: addresses.Target,
    headers: Mapping[str, str],
    body: bytes,
    deadline: float,
) -> None:
    lines = [f"POST {target.path} HTTP/1.1", f"Host: {target.authority}", "Connection: close"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    rest = memoryview("\r\n".join(lines).encode("ascii") + body)
    while rest:
        connection.settimeout(_count_remaining_seconds(deadline))
        rest = rest[connection.send(rest) :]


def _receive(connection: socket.socket, deadline: float) -> AttemptResult:
    made: Any = _Readable(connection, deadline)
    response = HTTPResponse(made, method="POST")
    try:
        response.begin()
        return AttemptResult(response.status, response.headers.get("Retry-After", ""))
    finally:
        response.close()


class _Readable:
    """An adapter that gives a connection the method ``makefile``, which HTTPResponse needs."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._raw = _Reading(connection, deadline)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self._raw)


class _Reading(io.RawIOBase):
    """A raw reader. Its reads time out at the deadline of the request."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection, self._deadline = connection, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(_count_remaining_seconds(self._deadline))
        count = self._connection.recv_into(buffer)
        if not count:
            # Only the head is read. http.client would accept a head without an end.
            raise RemoteDisconnected("")
        return count


def _count_remaining_seconds(deadline: float) -> float:
    left = deadline - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


@cache
def _context() -> ssl.SSLContext:
    return ssl.create_default_context()
