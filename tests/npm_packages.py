"""Installation of npm packages for JavaScript tests, if npm and its registry are available."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

PATIENCE = 300
_INSTALL = ("install", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")


def install_packages(folder: Path) -> None:
    """Install the packages in a folder's package.json, or skip the test if this isn't possible."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("npm here does not exist")
    made = subprocess.run(
        [npm, *_INSTALL], cwd=folder, capture_output=True, text=True, timeout=PATIENCE
    )
    if made.returncode:
        pytest.skip(f"npm gets nothing from its registry: {made.stderr[-300:]}")


def bundle_page(folder: Path, entry: str, *options: str) -> None:
    """Install the packages in a folder, and bundle ``entry`` as ``chat.js`` with esbuild."""
    install_packages(folder)
    command = [
        "node_modules/.bin/esbuild",
        entry,
        "--bundle",
        "--format=iife",
        "--jsx=automatic",
        '--define:process.env.NODE_ENV="production"',
        "--outfile=chat.js",
        *options,
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=PATIENCE)
