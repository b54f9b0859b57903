"""Which addresses a webhook may go to.

An endpoint's address is typed by somebody who may not reach our own network himself. What he gives
is a name, and what a name leads to can change between two looks; so a name is resolved once for
each attempt, every address it leads to is checked, and the connection is made to one of those.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, urlsplit

from hitl_django.conf import hitl

IP = IPv4Address | IPv6Address

MAX_URL = 2000
#: Prefixes under which the last 32 bits of an IPv6 address are an IPv4 address.
_TRANSLATED = (ip_network("64:ff9b::/96"), ip_network("::/96"))
#: What some versions of Python count as public, and hosts of clouds answer under to their own.
_INSIDE = tuple(
    ip_network(known) for known in ("192.0.0.0/24", "168.63.129.16/32", "64:ff9b:1::/48")
)
_VISIBLE = re.compile(r"[\x21-\x7e]+")


class AddressRefused(Exception):
    """The address may not be sent to; the message says why, for whoever looks after it."""


@dataclass(frozen=True, slots=True)
class Target:
    """An address that was taken apart."""

    is_tls: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def check_url(url: str) -> Target:
    """Takes an address apart; AddressRefused where it can't be one of a webhook.

    Names aren't resolved: what they lead to now says nothing about later.
    """
    if len(url) > MAX_URL or not _VISIBLE.fullmatch(url):
        raise AddressRefused(f"It is not 1 to {MAX_URL} visible ASCII characters.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise AddressRefused("It is not an address.") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise AddressRefused("It has to begin with https:// and name a host.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("It must not hold a user name or password.")
    if parts.fragment:
        raise AddressRefused("It must not have a fragment (#…).")
    target = Target(
        is_tls=parts.scheme == "https",
        host=parts.hostname,
        port=port or (443 if parts.scheme == "https" else 80),
        path=_path(parts),
    )
    literal = _literal(target.host)
    if literal is not None:
        _check(literal, target)
    elif not target.is_tls and not hitl.WEBHOOK_NETWORKS:
        raise AddressRefused("It has to begin with https://.")
    return target


def resolve(target: Target, seconds: float) -> Sequence[str]:
    """Returns the addresses of the host, checked; AddressRefused if any of them isn't allowed."""
    # Any, because a name that leads here and there is how somebody would try to get past a check.
    found = _look_up(target, seconds)
    for address in found:
        _check(ip_address(address.partition("%")[0]), target)
    return found


def _look_up(target: Target, seconds: float) -> Sequence[str]:
    """Asks the resolver, which knows no timeout of its own, for so long."""
    answer: dict[str, Any] = {}

    def ask() -> None:
        try:
            answer["found"] = socket.getaddrinfo(
                target.host, target.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
        except (OSError, UnicodeError) as error:
            answer["error"] = error

    thread = threading.Thread(target=ask, name="hitl-resolver", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError("The name was not resolved in time.")
    if not answer.get("found"):
        raise OSError("the name can't be resolved")
    return list(dict.fromkeys(str(info[4][0]) for info in answer["found"]))


def _check(address: IP, target: Target) -> None:
    if any(address in ip_network(network) for network in hitl.WEBHOOK_NETWORKS):
        return
    if not all(_is_public(each) for each in _meanings(address)):
        raise AddressRefused(
            f"It leads to {address}, which is not a public address; WEBHOOK_NETWORKS may allow it."
        )
    if not target.is_tls:
        raise AddressRefused("It has to begin with https://.")


def _meanings(address: IP) -> Iterator[IP]:
    """Gives the address, and the IPv4 addresses that it may be another way of writing."""
    yield address
    if isinstance(address, IPv4Address):
        return
    for inner in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())):
        if inner is not None:
            yield inner
    if any(address in network for network in _TRANSLATED):
        yield IPv4Address(int(address) & 0xFFFFFFFF)


def _is_public(address: IP) -> bool:
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return True  # as much as what it maps to, which is looked at by itself
    if any(address in network for network in _INSIDE):
        return False
    return address.is_global and not (address.is_multicast or address.is_reserved)


def _literal(host: str) -> IP | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _path(parts: SplitResult) -> str:
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path
