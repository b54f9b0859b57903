"""Run all attacks on each kind of server and both databases, and print the table.

python -m tests.attacks [arguments for pytest]
"""

from __future__ import annotations

import sys

from tests.__main__ import main

sys.exit(main(["tests/attacks", "-p", "no:randomly", *sys.argv[1:]]))
