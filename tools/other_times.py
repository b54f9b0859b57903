"""Program that runs time-dependent tests at other times with libfaketime."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

ROOT = Path(__file__).parents[1]

#: Names, time zones and local times. Each time is shortly before a change of the clock or the date.
MOMENTS = (
    ("night", "America/New_York", "2026-06-10 02:00"),
    ("morning", "Europe/Berlin", "2026-06-10 09:00"),
    ("afternoon", "Asia/Kolkata", "2026-06-10 15:00"),
    ("evening", "America/New_York", "2026-06-10 21:00"),
    ("spring New York, the evening before", "America/New_York", "2026-03-07 23:57"),
    ("spring New York", "America/New_York", "2026-03-08 01:58"),
    ("autumn New York", "America/New_York", "2026-11-01 01:30"),
    ("spring Berlin", "Europe/Berlin", "2026-03-29 01:58"),
    ("autumn Berlin", "Europe/Berlin", "2026-10-25 02:30"),
    ("turn of the year", "America/New_York", "2026-12-31 23:57"),
    ("leap day", "Europe/Berlin", "2028-02-29 12:00"),
)

#: Patterns of test files whose tests depend or may depend on the time.
NAMES = (
    "clock", "clocks", "cron", "deadlines", "expire", "figures", "form", "health",
    "moments", "retention", "review_options", "schedules", "services", "sweep", "sweeper", "undo",
)  # fmt: skip


def list_tests() -> list[str]:
    """Return the paths of the tests that run by default."""
    folders = [
        ROOT / "tests" / name for name in ("admin", "api", "contrib/notifications", "management")
    ]
    folders += [ROOT / "tests" / name for name in ("contrib/links", "services", "worker")]
    files = (folder / f"test_{name}.py" for folder in folders for name in NAMES)
    return [str(file.relative_to(ROOT)) for file in files if file.exists()]


def run_at(zone: str, local: str, paths: list[str]) -> int:
    """Run the tests at a time in a time zone, and return pytest's exit code."""
    moment = datetime.fromisoformat(local).replace(tzinfo=ZoneInfo(zone))
    offset = round((moment - datetime.now(UTC)).total_seconds())
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None:
        raise SystemExit("libfaketime isn't installed.")
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "FAKETIME": f"{offset:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "TEST_TIME_ZONE": zone,
    }
    command = [sys.executable, "-m", "pytest", "-q", *paths]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main() -> None:
    """Run the tests at each time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="*", help="tests, instead of the usual ones")
    parser.add_argument("--only", default="", help="times with this text in their name")
    arguments = parser.parse_args()
    paths = arguments.paths or list_tests()
    failed = []
    for name, zone, local in MOMENTS:
        if arguments.only in name:
            print(f"{name}: {local} {zone}", flush=True)
            if run_at(zone, local, paths):
                failed.append(name)
    if failed:
        raise SystemExit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
