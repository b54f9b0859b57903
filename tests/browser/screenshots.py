"""``python -m tests.browser.screenshots DIRECTORY``: a picture of each page of the review queue.

Each is made at the width of a desk and of a phone, light and dark, by the test that holds the same
pages to fit. The pictures are to be looked at, and no part of the repository.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

#: Names the directory to the test.
DIRECTORY = "HITL_PICTURES"


def main(directory: str) -> int:
    """Makes the pictures; returns what pytest does."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    os.environ[DIRECTORY] = str(Path(directory).resolve())
    return int(pytest.main([str(Path(__file__).with_name("test_looks.py")), "-q"]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.browser.screenshots DIRECTORY")
    sys.exit(main(sys.argv[1]))
