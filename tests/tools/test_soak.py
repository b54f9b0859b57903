"""The soak test in short: each fault once, with timings of seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models.functions import Now

from hitl_django import services
from hitl_django.models import Interrupt, Run
from hitl_django.worker import runner
from tests.cluster.conftest import ROOT
from tools.soak.watch import Reading, Watch, percentiles

pytestmark = [pytest.mark.promise("P6"), pytest.mark.promise("P7"), pytest.mark.promise("P8")]


@pytest.mark.cluster
@pytest.mark.long
@pytest.mark.django_db(transaction=True)
def test_soak_test_run_with_all_faults_reports_no_findings(
    seed: int, amount: Callable[[int, int], int], figures: Callable[[str], None]
) -> None:
    command = ["-m", "tools.soak", "--quick", "--hours", str(amount(0, 5) / 60)]
    command += ["--seed", str(seed), *(["--sqlite"] if connection.vendor == "sqlite" else [])]
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["All is well."]), (
        done.stdout + done.stderr
    )
    (line,) = (line for line in done.stdout.splitlines() if " faults, " in line)
    figures(line)


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch({}, [], tmp_path / "book", timedelta(0))


@pytest.mark.django_db(transaction=True)
def test_soak_watch_reports_lost_runs_and_missing_decisions(watch: Watch) -> None:
    answered, unanswered = (services.start("approval", {"text": "it"}).id for _ in range(2))
    for run in (answered, unanswered):
        runner.advance(str(run))
    services.decide(Interrupt.objects.get(run=answered).pk, "respond", "yes")
    runner.advance(str(answered))
    lost = uuid4()
    watch.under_way |= {answered: 2, unanswered: 1, lost: 0}
    watch.check()
    assert watch.faults == [
        f"run {lost} is gone",
        f"run {answered} expected 2 decisions, and has 1",
    ]
    assert (watch.under_way, watch.ended) == ({unanswered: 1}, 1)
    assert watch.left() == {"interrupted": 1}


@pytest.mark.django_db(transaction=True)
def test_soak_watch_reports_queued_run_without_recent_message(watch: Watch) -> None:
    run = services.start("approval", {"text": "it"}).id
    Run.objects.update(last_message_at=Now() - timedelta(hours=1))
    watch.bound = timedelta(minutes=5)
    watch.check()
    assert watch.faults == [f"run {run} is queued and left alone"]


def test_soak_watch_reports_steady_growth_of_threads(watch: Watch) -> None:
    watch.readings = [Reading(memory=100, threads=n, messages=0, stored=50) for n in range(1, 41)]
    assert watch.growth() == ["threads grew from 16 to 36"]


def test_soak_watch_counts_responses_in_healthy_periods_only(watch: Watch) -> None:
    watch.book.write_text("10.0 10.5\n20.0 95.0\n30.0 30.25\n")
    watch.calm = [(9, 11), (29, 31)]
    assert watch.answers() == [0.5, 0.25]
    assert percentiles(watch.answers()).startswith("2 answers while all was well, too few")
    assert "half of them were with their node within 1.00 s" in percentiles([1.0] * 100)
