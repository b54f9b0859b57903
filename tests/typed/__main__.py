"""Check the types of the documentation's Python snippets with pyright in strict mode.

    python -m tests.typed

Each page is one module, in which a snippet has the line numbers of its page. The files of the
tutorial's project are checked as a project of their own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import PAGES, ROOT, Page

#: The app of a page, for its relative imports.
APPS = {"docs/guides/extensions.md": ROOT / "tests" / "extensions" / "ratings"}
TUTORIAL = "docs/tutorial.md"
#: Rules that are off for a page because types of other packages are incomplete.
RULES_OFF = {
    # LangGraph and LangChain leave type parameters of their own generic classes out.
    "docs/guides/agents.md": ["reportUnknownVariableType"],
    "docs/guides/langgraph.md": [
        "reportMissingTypeStubs",
        "reportUnknownMemberType",
        "reportUnknownVariableType",
    ],
    # smolagents has no complete annotations.
    "docs/guides/agent-frameworks.md": [
        "reportMissingTypeStubs",
        "reportUnknownMemberType",
        "reportUnknownVariableType",
    ],
    # Columns and reverse relations of a model without annotations have types only in mypy, by the
    # plugin of django-stubs. ModelAdmin has a type parameter that Django itself doesn't accept.
    "docs/guides/models.md": ["reportMissingTypeArgument"],
    "docs/guides/extensions.md": ["reportAttributeAccessIssue", "reportUnknownMemberType"],
    TUTORIAL: [
        "reportMissingTypeArgument",
        "reportUnknownArgumentType",
        "reportUnknownMemberType",
        "reportUnknownVariableType",
    ],
}


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="hitl-snippets-") as name:
        folder = Path(name)
        for app in APPS.values():
            shutil.copytree(app, folder / app.name)
        options = {
            "include": [str(path.relative_to(folder)) for path in _write_pages(folder)],
            "typeCheckingMode": "strict",
            "pythonVersion": "3.11",
            "venvPath": str(ROOT),
            "venv": ".venv",
            # The tutorial's project has absolute imports of its own apps.
            "extraPaths": [str(ROOT), str(folder / "tutorial")],
            # A page shows several values of the same setting.
            "reportConstantRedefinition": False,
        }
        (folder / "pyrightconfig.json").write_text(json.dumps(options))
        pyright = Path(sys.executable).with_name("pyright")
        return subprocess.call([str(pyright), "--project", str(folder)])


def _write_pages(folder: Path) -> Iterator[Path]:
    for page in PAGES:
        rules = ", ".join(f"{rule}=false" for rule in RULES_OFF.get(page.name, []))
        end = f"# pyright: {rules}\n" if rules else ""
        for name, text in _read_modules(page):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n{end}")
            yield path


def _read_modules(page: Page) -> Iterator[tuple[str, str]]:
    """Yield the name and the source of each module on a page."""
    for snippet in page.snippets:
        language, _, name = snippet.info.partition(" file=")
        if language == "python" and name:
            yield f"tutorial/{name}", snippet.code
    lines: list[str] = []
    for snippet in page.programs:
        lines += [""] * (snippet.above - len(lines))
        lines += snippet.code.splitlines()
    if lines:
        module = re.sub(r"\W", "_", page.name.removesuffix(".md"))
        app = APPS.get(page.name)
        yield f"{app.name}/{module}.py" if app else f"{module}.py", "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
