"""Allowed addresses of webhooks, whatever a name resolves to."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from hitl_django.contrib.webhooks import addresses, http_post
from hitl_django.contrib.webhooks import services as webhook_services
from hitl_django.contrib.webhooks.addresses import AddressRefused, check_url
from hitl_django.engine.errors import InvalidInputError

from .receiver import PATIENCE, Receiver

PUBLIC = "93.184.215.14"
#: Rows of IANA's registries of special-purpose addresses, and addresses that are no web servers.
FORBIDDEN_NETWORKS = [
    "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
    "172.16.0.0/12", "192.0.0.0/24", "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32",
    "192.0.0.10/32", "192.0.0.170/32", "192.0.0.171/32", "192.0.2.0/24", "192.31.196.0/24",
    "192.52.193.0/24", "192.88.99.0/24", "192.88.99.2/32", "192.168.0.0/16", "192.175.48.0/24",
    "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32",
    "224.0.0.0/4",
    "::1/128", "::/128", "64:ff9b:1::/48", "100::/64", "100:0:0:1::/64", "2001::/23",
    "2001::/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:2::/48", "2001:3::/32",
    "2001:4:112::/48", "2001:10::/28", "2001:20::/28", "2001:30::/28", "2001:db8::/32",
    "2002::/16", "2620:4f:8000::/48", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
    "fec0::/10", "ff00::/8", "200::/7", "4000::/3", "e000::/4",
]  # fmt: skip
#: Single addresses: those of cloud providers, and those that contain another address.
FORBIDDEN = [
    "168.63.129.16",
    "192.0.0.192",
    "fe80::1%eth0",
    "fd00:ec2::254",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:192.88.99.1",
    "::ffff:0:127.0.0.1",
    "::127.0.0.1",
    "64:ff9b::169.254.169.254",
    "64:ff9b::10.0.0.1",
    "64:ff9b:1::10.0.0.1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:0:0:0:0:80ff:fffe",
    *(str(ip_network(each)[place]) for each in FORBIDDEN_NETWORKS for place in (0, -1)),
]
ALLOWED = [
    PUBLIC,
    "1.1.1.1",
    "192.0.3.1",
    "192.88.98.1",
    "198.20.0.1",
    "223.255.255.255",
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
    "2a00::1",
    f"::ffff:{PUBLIC}",
    f"64:ff9b::{PUBLIC}",
]


def leads_to(monkeypatch: pytest.MonkeyPatch, *found: str) -> list[str]:
    """Resolve all names to these addresses, and return the resolved names."""
    asked: list[str] = []
    really = socket.getaddrinfo

    def resolve(host: str, port: int, *kinds: Any, **options: Any) -> Any:
        if host in found:  # an IP address is used without resolving a name
            return really(host, port, *kinds, **options)
        asked.append(host)
        return [(0, 0, 0, "", (address, port)) for address in found]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", resolve)
    return asked


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the addresses of attempted connections. No address responds."""
    tried: list[tuple[str, int]] = []

    def dial(address: tuple[str, int], timeout: float) -> socket.socket:
        tried.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(http_post.socket, "create_connection", dial)
    return tried


@pytest.mark.parametrize("address", FORBIDDEN)
def test_webhook_to_host_resolving_to_private_address_opens_no_connection(
    address: str,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    dialled: list[Any],
) -> None:
    settings.HITL = {}
    for found in ([address], [PUBLIC, address]):
        leads_to(monkeypatch, *found)
        answer = http_post.post_body("https://inside.example/", {}, b"", 5)
        assert ", which is not public" in answer.fault
    assert dialled == []


@pytest.mark.parametrize("address", FORBIDDEN)
def test_webhook_url_with_private_address_raises_address_refused(
    address: str, settings: Any
) -> None:
    settings.HITL = {}
    host = f"[{address.replace('%', '%25')}]" if ":" in address else address
    with pytest.raises(AddressRefused):
        check_url(f"https://{host}/")


@pytest.mark.parametrize("address", ALLOWED)
def test_webhook_to_public_address_opens_a_connection(
    address: str, settings: Any, monkeypatch: pytest.MonkeyPatch, dialled: list[Any]
) -> None:
    settings.HITL = {}
    leads_to(monkeypatch, address)
    http_post.post_body("https://hooks.example/", {}, b"", 5)
    assert dialled == [(address, 443)]
    assert check_url(f"https://{f'[{address}]' if ':' in address else address}/").port == 443


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1", "localhost"])
def test_webhook_to_alternative_spelling_of_localhost_opens_no_connection(
    host: str, settings: Any, dialled: list[Any]
) -> None:
    settings.HITL = {}
    answer = http_post.post_body(f"https://{host}/", {}, b"", 5)
    assert answer.status is None
    assert dialled == []


def test_webhook_connects_to_the_resolved_and_checked_address_without_second_lookup(
    settings: Any, monkeypatch: pytest.MonkeyPatch, dialled: list[Any]
) -> None:
    settings.HITL = {}
    asked = leads_to(monkeypatch, PUBLIC)
    answer = http_post.post_body("https://rebinding.example:8443/", {}, b"", 5)
    assert answer.fault == "The connection failed: Connection refused."
    # Only once, because a second lookup could return another address.
    assert (asked, dialled) == (["rebinding.example"], [(PUBLIC, 8443)])


def test_webhook_to_host_with_two_addresses_tries_the_second_after_failure(
    settings: Any, monkeypatch: pytest.MonkeyPatch, dialled: list[Any]
) -> None:
    settings.HITL = {}
    leads_to(monkeypatch, "2606:2800:21f:cb07:6820:80da:af6b:8b2c", PUBLIC)
    http_post.post_body("https://two.example/", {}, b"", 5)
    assert [address for address, _ in dialled] == ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", PUBLIC]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "hooks.example/a",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "http://hooks.example/",
        "https://",
        "https:///path",
        "https://user@hooks.example/",
        "https://user:word@hooks.example/",
        "https://hooks.example/#part",
        "https://hooks.example:99999/",
        "https://hooks.example:0/",
        "https://hooks.example:00/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://127.1/",
        "https://127.0.0.1./",
        "https://0177.0.0.1/",
        "https://127.0.0.0x1/",
        "https://%31%32%37.0.0.1/",
        "https://127。0。0。1/",
        "https://①②⑦.0.0.1/",
        "https://hooks.example%00.inside/",
        "https://hooks..example\\@inside/",
        "https://hooks.example/a b",
        "https://hooks.example/\r\nX-Evil: 1",
        "https://hööks.example/",
        "https://[::1/",
        "https://hooks.example/" + "a" * 2000,
    ],
)
def test_webhook_url_invalid_or_unencrypted_raises_address_refused(url: str, settings: Any) -> None:
    settings.HITL = {}
    with pytest.raises(AddressRefused):
        check_url(url)


@pytest.mark.django_db
def test_webhook_creation_with_several_faults_reports_an_error_per_field() -> None:

    with pytest.raises(InvalidInputError) as caught:
        webhook_services.create_webhook(
            "ftp://x", events=["run.started"], graphs=["unheard-of"], description="x" * 300
        )
    assert [name for name, _ in caught.value.faults] == ["url", "events", "graphs", "description"]


def test_webhook_networks_setting_allows_only_private_addresses_of_the_listed_networks(
    settings: Any,
) -> None:
    settings.HITL = {"WEBHOOK_NETWORKS": ["10.1.0.0/16", "fd00::/64"]}
    for host in ("10.1.2.3", "[fd00::1]"):
        assert check_url(f"http://{host}:8080/a").port == 8080
    for host in ("10.2.0.1", "127.0.0.1", "[fd00:1::1]", PUBLIC):
        with pytest.raises(AddressRefused):
            check_url(f"http://{host}/")


def test_webhook_to_host_with_hanging_resolver_times_out(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HITL = {}
    over = threading.Event()
    monkeypatch.setattr(
        addresses.socket, "getaddrinfo", lambda *args, **options: over.wait(PATIENCE)
    )
    answer = http_post.post_body("https://slow.example/", {}, b"", 0.1)
    over.set()
    assert answer.fault == "The receiver timed out."


def test_webhook_to_unknown_host_fails_with_unresolvable_host_name(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HITL = {}

    def unknown(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(addresses.socket, "getaddrinfo", unknown)
    answer = http_post.post_body("https://nobody.example/", {}, b"", 5)
    assert answer.fault == "The connection failed: the host name can't be resolved."


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a certificate for hooks.example, and its key."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=hooks.example", "-addext", "subjectAltName=DNS:hooks.example"]
    subprocess.run(
        [*command, "-keyout", str(path), "-out", str(path) + ".crt"],
        check=True,
        capture_output=True,
    )
    path.write_text(path.read_text() + Path(str(path) + ".crt").read_text())
    return path


@pytest.fixture
def secured(receive: Callable[..., Receiver], certificate: Path) -> Iterator[Receiver]:
    """Return a receiver with TLS, whose certificate is trusted."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    receiver = receive()
    serve = receiver._serve

    def shake_hands(connection: socket.socket, behaviour: Any) -> None:
        try:
            connection.settimeout(PATIENCE)
            serve(context.wrap_socket(connection, server_side=True), behaviour)
        except OSError:
            connection.close()

    receiver._serve = shake_hands  # type: ignore[method-assign]
    return receiver


def test_webhook_to_host_with_certificate_of_another_name_sends_no_request(
    secured: Receiver, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leads_to(monkeypatch, "127.0.0.1")
    trusting = ssl.create_default_context(cafile=str(certificate) + ".crt")
    address = "https://{}.example:" + f"{secured.port}/"

    answer = http_post.post_body(address.format("hooks"), {"A": "b"}, b"{}", PATIENCE)
    assert answer.fault.startswith("Invalid TLS certificate: self")

    monkeypatch.setattr(http_post, "_context", lambda: trusting)
    assert http_post.post_body(address.format("hooks"), {"A": "b"}, b"{}", PATIENCE).status == 204
    assert secured.next().headers["host"] == f"hooks.example:{secured.port}"
    answer = http_post.post_body(address.format("other"), {"A": "b"}, b"{}", PATIENCE)
    assert answer.fault.startswith("Invalid TLS certificate: Hostname mismatch")
    assert secured.all() == []


def test_webhook_attempt_to_https_receiver_without_tls_has_a_fault_and_no_status(
    receive: Callable[..., Receiver],
) -> None:
    receiver = receive()
    answer = http_post.post_body(f"https://127.0.0.1:{receiver.port}/", {}, b"", 1)
    assert answer.status is None
    assert answer.fault
