"""Execution of code in a process with limits of time and memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Limits: seconds of processor time, and bytes of memory.
SECONDS, MEMORY = 30, 2_500_000_000

REFUSED, TAKEN = "refused", "taken"

only_where_bounded = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems don't bound a process's memory"
)

_LIMITS = f"""
import resource
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
"""
_CASE = """
try:
    found = {case}
except PayloadError as refusal:
    print("refused", type(refusal).__name__)
else:
    print("taken", len(found))
"""


def run_bounded(preamble: str, case: str) -> str:
    """Return whether a case was refused or accepted.

    ``preamble`` defines the names that the case uses.
    """
    done = subprocess.run(
        [sys.executable, "-c", _LIMITS + preamble + _CASE.replace("{case}", case)],
        capture_output=True, text=True, check=False, timeout=10 * SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.split()[0]
