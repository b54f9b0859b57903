"""Allowed addresses of webhooks.

The person who enters a URL may have no access to the internal network, and the addresses of a host
name can change over time. A name is therefore resolved once per attempt, every resolved address is
checked, and the connection uses one of the checked addresses.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import SplitResult, urlsplit

from hitl_django.conf import hitl

IP = IPv4Address | IPv6Address

MAX_URL = 2000
#: Ranges of global unicast addresses.
_UNICAST = (ip_network("0.0.0.0/0"), ip_network("2000::/3"))
#: Exceptions from IANA's registries of special-purpose addresses, whether globally reachable or
#: not. The result of ``is_global`` differs between Python's patch releases.
_SPECIAL = tuple(
    ip_network(known)
    for known in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private use
        "100.64.0.0/10",  # shared address space
        "127.0.0.0/8",  # loopback
        # Not in IANA's registries: the address of Azure's own services for its virtual machines.
        "168.63.129.16/32",
        "169.254.0.0/16",  # link local
        "172.16.0.0/12",  # private use
        "192.0.0.0/24",  # IETF protocol assignments
        "192.0.2.0/24",  # documentation
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # 6to4 relays, deprecated
        "192.168.0.0/16",  # private use
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarking
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "2001::/23",  # IETF protocol assignments, Teredo among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "2620:4f:8000::/48",  # AS112
        "3fff::/20",  # documentation
    )
)
#: Prefix of IPv6 addresses whose last 32 bits are an IPv4 address, as used by NAT64.
_TRANSLATED = ip_network("64:ff9b::/96")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_NAME = re.compile(r"[a-z0-9_](?:[a-z0-9._-]*[a-z0-9_])?\.?")
#: Pattern of a name with a numeric last label. Resolvers read these names as IPv4 addresses, in any
#: base and with one to four parts.
_NUMBER = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")


class AddressRefused(Exception):
    """Raised if the address of a webhook is not allowed.

    The message explains the reason to operators.
    """


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of a webhook's URL that are needed for a request."""

    is_tls: bool
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The host as in the Host header, with the port unless it is the default port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def check_url(url: str) -> Target:
    """Parse the URL of a webhook, without resolving its host.

    Raises:
        AddressRefused: if webhooks can't have this URL.
    """
    if len(url) > MAX_URL or not _VISIBLE.fullmatch(url):
        raise AddressRefused(f"The URL must be 1 to {MAX_URL} visible ASCII characters.")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise AddressRefused("Not a valid URL.") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise AddressRefused("The URL must begin with https:// and contain a host.")
    if parts.username is not None or parts.password is not None:
        raise AddressRefused("The URL must not contain a username or password.")
    if parts.fragment:
        raise AddressRefused("The URL must not contain a fragment (#…).")
    if port == 0:
        raise AddressRefused("The URL must not use port 0.")
    target = Target(
        is_tls=parts.scheme == "https",
        host=parts.hostname,
        port=port or (443 if parts.scheme == "https" else 80),
        path=_path(parts),
    )
    literal = _literal(target.host)
    if literal is not None:
        _check(literal, target)
    elif not _NAME.fullmatch(target.host) or _NUMBER.fullmatch(target.host):
        raise AddressRefused("The URL must contain a valid host name or IP address.")
    elif not target.is_tls and not hitl.WEBHOOK_NETWORKS:
        raise AddressRefused("The URL must begin with https://.")
    return target


def resolve_host(target: Target, seconds: float) -> Sequence[str]:
    """Return the addresses of the host.

    ``seconds`` is the time limit.

    Raises:
        AddressRefused: if any of the addresses is not allowed.
    """
    # Check every address, because a name with allowed and forbidden addresses could bypass the
    # check.
    found = _look_up(target, seconds)
    for address in found:
        _check(ip_address(address.partition("%")[0]), target)
    return found


def _look_up(target: Target, seconds: float) -> Sequence[str]:
    """Resolve a host name within a time limit.

    The operating system's resolver has no time limit.
    """
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
        raise TimeoutError("The host name lookup timed out.")
    if not answer.get("found"):
        raise OSError("the host name can't be resolved")
    return list(dict.fromkeys(str(info[4][0]) for info in answer["found"]))


def _check(address: IP, target: Target) -> None:
    if any(address in ip_network(network) for network in hitl.WEBHOOK_NETWORKS):
        return
    if not _is_public(_to_ipv4(address)):
        raise AddressRefused(
            f"The host resolves to {address}, which is not public. Allow it with WEBHOOK_NETWORKS."
        )
    if not target.is_tls:
        raise AddressRefused("The URL must begin with https://.")


def _to_ipv4(address: IP) -> IP:
    """Return the IPv4 address that is embedded in an IPv6 address.

    Without an embedded address, ``address`` is returned.
    """
    if isinstance(address, IPv4Address):
        return address
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address


def _is_public(address: IP) -> bool:
    return (
        address.is_global  # ``is_global`` knows ranges that were reserved later.
        and any(address in network for network in _UNICAST)
        and not any(address in network for network in _SPECIAL)
    )


def _literal(host: str) -> IP | None:
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _path(parts: SplitResult) -> str:
    path = parts.path or "/"
    return f"{path}?{parts.query}" if parts.query else path
