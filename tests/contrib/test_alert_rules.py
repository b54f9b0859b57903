"""The rules of ``alerts.yaml`` and the metrics page, evaluated by Prometheus."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from hitl_django.contrib.prometheus import HitlCollector
from hitl_django.models import WorkerHeartbeat

PROMTOOL = shutil.which("promtool")
RULES = files("hitl_django.contrib.prometheus") / "alerts.yaml"

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.process,
    pytest.mark.skipif(
        PROMTOOL is None, reason="promtool is not installed (Debian's package prometheus)"
    ),
]


def promtool(*arguments: str, given: str = "") -> str:
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


class Case(NamedTuple):
    """Series by minute, and the minutes at which an alert is silent or fires."""

    series: dict[str, str]
    silent: list[int]
    firing: list[int]
    value: str = ""
    labels: Mapping[str, str] = MappingProxyType({})


CASES = {
    # At first no worker is needed, then workers are needed, and then some have started.
    "HitlNoWorker": Case(
        {"hitl_workers": "0x4 0x5 2x5", "hitl_runs_overdue": "0x4 3x5 3x5"},
        [2, 4, 6, 12],
        [8, 9],
        "0",
    ),
    "HitlRunsOverdue": Case(
        {"hitl_runs_overdue": "100x5 101x20 0x5"}, [5, 14, 28], [17, 25], "101"
    ),
    # Some runs have been parked for long, then one more is parked, and two are retried.
    "HitlRunsParked": Case(
        {'hitl_runs{state="parked"}': "2x20 3x30 1x30", 'hitl_runs{state="queued"}': "1+1x80"},
        [10, 20, 45, 52, 60],
        [22, 30],
        labels={"state": "parked"},
    ),
    "HitlInterruptsOverdue": Case(
        {
            'hitl_interrupts_overdue{graph="one"}': "0x5 1x60",
            'hitl_interrupts_overdue{graph="two"}': "0x5 2x60",
        },
        [5, 30],
        [40, 60],
        "3",
    ),
    "HitlScrapeFails": Case({"hitl_workers": "1x5 _x20"}, [5, 11], [17, 20]),
}


def test_every_prometheus_alert_rule_has_a_test_case() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    assert {rule["alert"] for group in groups for rule in group["rules"]} == set(CASES)
    found = promtool("check", "rules", str(RULES))
    assert f"SUCCESS: {len(CASES)} rules found" in found


@pytest.mark.parametrize("name", CASES)
def test_prometheus_alert_rule_fires_only_at_expected_times(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    groups = yaml.safe_load(RULES.read_text())["groups"]
    (rule,) = [one for group in groups for one in group["rules"] if one["alert"] == name]

    def expect(minute: int, fires: bool) -> dict[str, Any]:
        said = {
            key: words.replace("{{ $value }}", case.value)
            for key, words in rule["annotations"].items()
        }
        alert = {"exp_labels": {**rule["labels"], **case.labels}, "exp_annotations": said}
        return {"alertname": name, "eval_time": f"{minute}m", "exp_alerts": [alert] * fires}

    test = {
        "interval": "1m",
        "input_series": [{"series": one, "values": values} for one, values in case.series.items()],
        "alert_rule_test": [
            *(expect(minute, False) for minute in case.silent),
            *(expect(minute, True) for minute in case.firing),
        ],
    }
    (tmp_path / "alerts.yaml").write_text(RULES.read_text())
    tests = {"rule_files": ["alerts.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (tmp_path / "case.yaml").write_text(yaml.safe_dump(tests))
    promtool("test", "rules", str(tmp_path / "case.yaml"))


@pytest.mark.django_db
def test_prometheus_metrics_page_passes_promtool_check() -> None:
    registry = CollectorRegistry()
    registry.register(HitlCollector())
    WorkerHeartbeat.objects.create(owner="host:1", host="host", pid=1, version="1")
    page = generate_latest(registry).decode()
    assert "hitl_runs" in page
    assert promtool("check", "metrics", given=page) == ""
