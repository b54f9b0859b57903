"""Program that builds the files of a release in ``dist``.

    python -m tools.release v1.2.3

The files are the wheel, the source distribution, ``sbom.cdx.json`` and ``NOTES.md``. The SBOM
(CycloneDX) lists the packages in a new environment with the wheel and all its extras. The notes are
the section of the changelog for this version. Nothing is published. The tag must match the version
in ``pyproject.toml`` and the changelog.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
#: Extras for development, which the SBOM doesn't include.
INNER_EXTRAS = {"test", "docs", "lint", "bench", "release", "dev"}


def main(tag: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = project["version"]
    if tag != f"v{version}":
        sys.exit(f"The tag is {tag}, and pyproject.toml has version {version}.")
    notes = find_notes((ROOT / "CHANGELOG.md").read_text(), version)

    shutil.rmtree(DIST, ignore_errors=True)
    call(sys.executable, "-m", "build", "--outdir", DIST, ROOT)
    (wheel,) = DIST.glob("*.whl")
    extras = sorted(project["optional-dependencies"].keys() - INNER_EXTRAS)
    write_sbom(wheel, extras)
    (DIST / "NOTES.md").write_text(notes)
    print(*sorted(path.name for path in DIST.iterdir()), sep="\n")


def find_notes(changelog: str, version: str) -> str:
    """Return the section of the changelog for a version."""
    section = re.search(rf"(?ms)^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## \[|\Z)", changelog)
    if section is None or not section[1].strip():
        sys.exit(f"CHANGELOG.md has no section of version {version}.")
    return section[1].strip() + "\n"


def write_sbom(wheel: Path, extras: list[str]) -> None:
    """Write the SBOM of an environment that contains only the wheel and its dependencies."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        call(python, "-m", "pip", "install", "--quiet", f"{wheel}[{','.join(extras)}]")
        call(
            *(sys.executable, "-m", "cyclonedx_py", "environment", python),
            *("--output-format", "JSON", "--output-file", DIST / "sbom.cdx.json"),
            *("--pyproject", ROOT / "pyproject.toml"),
        )


def call(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
