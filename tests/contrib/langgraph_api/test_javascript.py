"""LangGraph's JavaScript client in Node, if npm and its registry are available."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.npm_packages import PATIENCE, install_packages

from .conftest import sign_in

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.process,
    pytest.mark.any_database,
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program, in a folder with the client that the program imports."""
    folder = tmp_path_factory.mktemp("node")
    for name in ("package.json", "client.mjs"):
        shutil.copy(HERE / name, folder)
    install_packages(folder)
    return folder / "client.mjs"


def test_langgraph_javascript_client_streams_resumes_and_lists_threads(
    program: Path, address: str, admin: Any
) -> None:
    arguments = ["node", str(program), address, sign_in(admin)["Authorization"]]
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["assistants"] == ["chat"]
    assert seen["first"] == [
        "metadata", "values", "updates", "values", "updates", "values", "end",
    ]  # fmt: skip
    assert (seen["resumed"][0], seen["resumed"][-2:]) == ("metadata", ["values", "end"])
    assert seen["joined"] == [
        "metadata", "values", "updates", "values", "updates", "values", "end",
    ]  # fmt: skip
    assert seen["last"]["log"] == ["hello", "greeted", "closed"]
    assert (seen["history"], seen["found"], seen["asks"]) == (5, 1, 1)
    assert (seen["queued"], seen["later"]) == ("pending", ["later", 1])
