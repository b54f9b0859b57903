"""Builds the documentation into ``var/docs``: ``python -m docs``.

Warnings are errors: broken links, pages missing from the table of contents, unknown code names.
"""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parent.parent
SOURCE, OUTPUT = ROOT / "docs", ROOT / "var" / "docs"


def main() -> int:
    """Build the pages, print the first page's path, and return the exit code."""
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
