"""Builds the documentation into ``var/docs``: ``python -m docs``.

A warning is an error: a link that leads nowhere, a page that no table of contents names, a name of
the code that doesn't exist.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parent.parent
SOURCE, OUTPUT = ROOT / "docs", ROOT / "var" / "docs"


def main() -> int:
    """Build the pages, print the address of the first, and return the exit code."""
    code = build_main(
        [
            *("--builder", "html", "--fresh-env", "--quiet"),
            *("--nitpicky", "--fail-on-warning"),
            *("--doctree-dir", str(OUTPUT / ".doctrees")),
            *(str(SOURCE), str(OUTPUT)),
        ]
    )
    if code == 0:
        print((OUTPUT / "index.html").as_uri())
    return code


if __name__ == "__main__":
    sys.exit(main())
