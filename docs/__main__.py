"""Builds the documentation into ``var/docs``: ``python -m docs``.

Warnings are errors: broken links, pages missing from the table of contents, unknown code names.
``python -m docs --write`` updates the committed parts of the reference instead.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import django
from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parent.parent
SOURCE, OUTPUT = ROOT / "docs", ROOT / "var" / "docs"


def main() -> int:
    """Build the pages or update the reference, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m docs", description="Build the documentation.")
    parser.add_argument(
        "--write", action="store_true", help="update the committed parts of the reference"
    )
    is_writing = parser.parse_args().write
    os.environ["DJANGO_SETTINGS_MODULE"] = "docs.settings"
    django.setup()
    from docs.extension import committed

    for page, current in committed.find_outdated():
        if not is_writing:
            print(f"{page} is not current. Run: python -m docs --write", file=sys.stderr)
            return 1
        page.write_text(current)
        print(page)
    return 0 if is_writing else build()


def build() -> int:
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
