"""A real Prometheus that authenticates, scrapes the page and loads the rules."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

from hitl_django.testing import GraphEnvironment

PROMETHEUS = shutil.which("prometheus")
RULES = files("hitl_django.contrib.prometheus") / "alerts.yaml"
HOST, SECONDS = "127.0.0.1", 30

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.urls("tests.contrib.prometheus_urls"),
    pytest.mark.process,
    pytest.mark.skipif(PROMETHEUS is None, reason="Debian's package prometheus is not installed"),
]


def find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def ask_until(url: str, ask: Callable[[Any], Any]) -> Any:
    """Return the result of a query, once Prometheus has scraped the page."""
    ends, found = time.monotonic() + SECONDS, None
    while time.monotonic() < ends:
        try:
            with urlopen(url) as response:
                found = ask(json.load(response)["data"])
        except OSError:
            pass  # the server hasn't started yet
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{url}: nothing in {SECONDS} seconds")


def test_prometheus_server_scrapes_the_metrics_page_and_evaluates_the_rules(
    hitl: GraphEnvironment, live_server: Any, django_user_model: Any, tmp_path: Path
) -> None:
    django_user_model.objects.create_superuser("prometheus", password="secret")
    hitl.start("approval", {"text": "A"})
    job = {
        "job_name": "hitl",
        "metrics_path": "/metrics",
        "basic_auth": {"username": "prometheus", "password": "secret"},
        "static_configs": [{"targets": [live_server.url.removeprefix("http://")]}],
    }
    (tmp_path / "prometheus.yaml").write_text(
        yaml.safe_dump(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(RULES)],
                "scrape_configs": [job],
            }
        )
    )
    port = find_free_port()
    assert PROMETHEUS is not None
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={tmp_path / 'prometheus.yaml'}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address={HOST}:{port}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        api = f"http://{HOST}:{port}/api/v1"
        query = quote('hitl_interrupts_waiting{graph="approval"}')
        (waiting,) = ask_until(f"{api}/query?query={query}", lambda data: data["result"])
        assert waiting["value"][1] == "1"
        assert waiting["metric"]["job"] == "hitl"

        def list_evaluated(data: Any) -> list[str]:
            health = [rule["health"] for group in data["groups"] for rule in group["rules"]]
            return [] if "unknown" in health else health

        assert ask_until(f"{api}/rules", list_evaluated) == ["ok"] * 5
    finally:
        process.terminate()
        process.wait(SECONDS)
