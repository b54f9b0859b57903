"""The example settings for several machines, with two clusters and a reviewer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.__main__ import database

from .conftest import PATIENCE, ROOT, Cluster
from .redis_server import RedisServer

pytestmark = pytest.mark.cluster

RUNS = 50


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Return the environment of all machines: a shared database and a shared queue."""
    server = RedisServer(tmp_path).start()
    with database("") as url:
        yield {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "project.settings_cluster",
            "SECRET_KEY": "for this test only",
            "DATABASE_URL": url,
            "REDIS_URL": server.url,
        }
    server.kill()


def perform(environment: dict[str, str], *command: str) -> str:
    """Run a command to its end, and return its output."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_hosts_complete_fifty_runs_and_both_execute_tasks(
    environment: dict[str, str], tmp_path: Path
) -> None:
    perform(environment, "manage.py", "migrate", "--verbosity", "0")
    perform(environment, "manage.py", "check", "--database", "default", "--fail-level", "WARNING")
    machines = [
        Cluster(["hitl", "worker"], environment, tmp_path / f"machine-{number}.log").ready()
        for number in range(2)
    ]
    try:
        requests = tmp_path / "requests.jsonl"
        requests.write_text(
            "".join(
                json.dumps(
                    {"customer": "Dana K.", "order": f"A-{number}", "amount": 90_000 + number}
                    | {"currency": "EUR", "reason": "Too loud.", "days_since_purchase": 3}
                )
                + "\n"
                for number in range(RUNS)
            )
        )
        families = [
            {each.pid for each in psutil.Process(machine.main()).children(recursive=True)}
            for machine in machines
        ]
        # Fifty runs usually keep both machines busy. A slow machine may get none.
        for count in range(RUNS, 20 * RUNS, RUNS):
            perform(environment, "manage.py", "hitl", "start", "refund", "--input", str(requests))
            told = json.loads(perform(environment, "-m", "tests.cluster.answerer", str(count)))
            assert told["states"] == {"succeeded": count}
            assert told["answered"] == count
            if all(family.intersection(told["workers"]) for family in families):
                break
        else:
            raise AssertionError("one did nothing")

        perform(environment, "manage.py", "hitl", "doctor", "--audit")
        assert [machine.stop() for machine in machines] == [0, 0]
    finally:
        for machine in machines:
            machine.clear_up()
