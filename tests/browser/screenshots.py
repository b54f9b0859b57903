"""``python -m tests.browser.screenshots DIRECTORY``: screenshots of all admin pages.

The layout tests take the screenshots on desktop and phone, light and dark. The screenshots are for
people and are not part of the repository.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

#: Environment variable that contains the directory for the test.
DIRECTORY = "HITL_PICTURES"


def main(directory: str) -> int:
    Path(directory).mkdir(parents=True, exist_ok=True)
    os.environ[DIRECTORY] = str(Path(directory).resolve())
    made_by = [Path(__file__).with_name(name) for name in ("test_layout.py", "test_every_page.py")]
    return int(pytest.main([*map(str, made_by), "-q"]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tests.browser.screenshots DIRECTORY")
    sys.exit(main(sys.argv[1]))
