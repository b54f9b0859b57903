"""Program that records the responses of LangGraph's server to its SDKs and to AG-UI's agent.

    python -m tools.langgraph_recordings

The program installs ``langgraph-cli[inmem]`` and several versions of the Python and JavaScript SDKs
in ``var/langgraph_recordings``, which is reused. It then runs LangGraph's server with the graphs of
``tests/contrib/langgraph_api/recordings/``, makes the calls of ``script.json`` there with each SDK,
and writes ``recording.json``, with each exchange and the SDKs that made it. Requires Python 3.12
and npm.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.contrib.langgraph_api.recordings.exchanges import FOLDER, RECORDING, SCRIPT, normalize
from tools.matrix.__main__ import find_python

from .proxy import open_proxy

HERE = Path(__file__).parent
WORK = HERE.parents[1] / "var" / "langgraph_recordings"
#: The newest version of each SDK, and the last version of the previous series.
PYTHON_VERSIONS = ("0.3.15", "0.4.14")
JAVASCRIPT_VERSIONS = ("1.15.0", "2.0.0")
AG_UI_VERSION = "0.0.43"
#: Seconds until the server responds.
PATIENCE = 90
SERVED = """
from types import SimpleNamespace
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt
from graphs import build_graphs

globals().update(build_graphs(SimpleNamespace(**globals())))
"""
NAMES = (
    "chat", "outer", "sides", "plain", "failing", "inbox", "assistant", "slow", "speaking",
)  # fmt: skip


def main() -> None:
    python = install_server()
    recordings = {}
    for version in PYTHON_VERSIONS:
        folder = install_python_sdk(python, version)
        command = [str(python), str(HERE / "call_methods.py")]
        environment = {"PYTHONPATH": str(folder)}
        recordings[f"Python {version}"] = record(python, command, environment)
    for version in JAVASCRIPT_VERSIONS:
        package = f"@langchain/langgraph-sdk@{version}"
        program = install_javascript(f"javascript-{version}", "call_methods.mjs", package)
        recordings[f"JavaScript {version}"] = record(python, ["node", str(program)], {})
    packages = (f"@ag-ui/langgraph@{AG_UI_VERSION}", "@ag-ui/client", "@ag-ui/core")
    program = install_javascript(f"ag-ui-{AG_UI_VERSION}", "call_agent.mjs", *packages)
    recordings[f"AG-UI {AG_UI_VERSION}"] = record(python, ["node", str(program)], {})
    lines = [json.dumps(each, ensure_ascii=False) for each in merge(recordings)]
    RECORDING.write_text("[\n" + ",\n".join(lines) + "\n]\n", "utf-8")


def install_server() -> Path:
    """Install LangGraph's server if necessary, and return the Python of its environment."""
    folder = WORK / "server"
    python = folder / "bin" / "python"
    if not python.exists():
        base = find_python("3.12")  # With older versions, the server has no schemas of TypedDicts.
        if base is None:
            sys.exit("Python 3.12 is not installed.")
        call(base, "-m", "venv", folder)
        call(python, "-m", "pip", "install", "--quiet", "langgraph-cli[inmem]")
    return python


def install_python_sdk(python: Path, version: str) -> Path:
    folder = WORK / f"python-{version}"
    if not folder.exists():
        target = ("--no-deps", "--target", folder)
        call(python, "-m", "pip", "install", "--quiet", *target, f"langgraph-sdk=={version}")
    return folder


def install_javascript(name: str, program: str, *packages: str) -> Path:
    """Install packages if necessary, and return the program in their folder."""
    folder = WORK / name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules").exists():
        options = ("--no-audit", "--no-fund", "--ignore-scripts")
        call("npm", "install", *options, *packages, cwd=folder)
    return Path(shutil.copy(HERE / program, folder))


def record(python: Path, command: list[str], environment: dict[str, str]) -> list[dict[str, Any]]:
    """Make the calls with one SDK and a new server, and return the exchanges."""
    with run_server(python) as url, open_proxy(url) as proxy:
        call(*command, proxy.url, SCRIPT, environment=environment)
    return normalize(proxy.exchanges)


def merge(recordings: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return the exchanges of all SDKs by call. Equal exchanges are listed once."""
    sdks: dict[tuple[int, int, str], list[str]] = {}
    for sdk, exchanges in recordings.items():
        numbers = Counter[int]()
        for exchange in exchanges:
            numbers[exchange["call"]] += 1
            place = (exchange["call"], numbers[exchange["call"]])
            sdks.setdefault((*place, json.dumps(exchange, sort_keys=True)), []).append(sdk)
    merged = sorted(sdks.items(), key=lambda item: item[0][:2])
    return [{**json.loads(text), "sdks": names} for (_, _, text), names in merged]


@contextmanager
def run_server(python: Path) -> Iterator[str]:
    """Run LangGraph's server without stored data, and yield its URL."""
    folder = WORK / "graphs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(FOLDER / "graphs.py", folder)
    (folder / "served.py").write_text(SERVED)
    graphs = {name: f"./served.py:{name}" for name in NAMES}
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": graphs}))
    port = find_free_port()
    command = [python.parent / "langgraph", "dev", "--port", str(port)]
    command += ["--no-browser", "--no-reload", "--n-jobs-per-worker", "4"]
    with (folder / "server.log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env=clean_environment()
        )
        try:
            wait_for(f"http://127.0.0.1:{port}/ok")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(PATIENCE)


def wait_for(url: str) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            if time.monotonic() > until:
                raise
        time.sleep(0.2)


def find_free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def clean_environment() -> dict[str, str]:
    """Return the environment without the path of this package."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def call(
    *command: str | Path, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    full = clean_environment() | (environment or {})
    subprocess.run([str(part) for part in command], cwd=cwd, env=full, check=True)


if __name__ == "__main__":
    main()
