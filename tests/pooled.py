"""Database tests behind PgBouncer in transaction mode.

    python -m tests.pooled [arguments for pytest]

With ``pool_mode=transaction``, settings, prepared statements and cursors of a session don't outlive
a transaction. By default, these are the tests of the worker, the services, the stores, the races,
the chaos and the cluster. ``pgbouncer`` must be on the PATH.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from . import databases
from .__main__ import database, run

WORKING = ("worker", "services", "stores", "races", "chaos", "cluster")
HOST, PATIENCE = "127.0.0.1", 60

INI = """
[databases]
* = host={host} port={port} user={user}

[pgbouncer]
listen_addr = {address}
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 500
default_pool_size = 60
"""


def main(arguments: Sequence[str]) -> int:
    if shutil.which("pgbouncer") is None:
        print("There is no pgbouncer on the PATH; Debian's package has that name.")
        return 1
    paths = [argument for argument in arguments if argument.startswith("tests")]
    more = [*([] if paths else [f"tests/{name}" for name in WORKING]), *arguments]
    # The test databases are deleted with their server, because a pool keeps sessions open.
    more = ["--database-only", "--reuse-db", "-m", "not sessions", *more]
    with database("") as url, pooled(url) as found:
        return run("PgBouncer", more, {**os.environ, "DATABASE_URL": found})


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """Yield the URL of the same databases behind a pooler, which ends after the block."""
    server = databases.from_url(url)
    with closing(socket.socket()) as free:
        free.bind((HOST, 0))
        listen = free.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="hitl-pgbouncer-"))
    ini = folder / "pgbouncer.ini"
    ini.write_text(
        INI.format(
            host=server["HOST"] or "localhost",
            port=server["PORT"] or 5432,
            user=server["USER"],
            address=HOST,
            listen=listen,
        )
    )
    command = ["pgbouncer", "--quiet", str(ini)]
    # The pooler doesn't run as root. The owner of the server's socket may connect to it.
    if os.getuid() == 0:
        owner = Path(server["HOST"]).owner() if server["HOST"].startswith("/") else "nobody"
        shutil.chown(folder, owner)
        shutil.chown(ini, owner)
        command[1:1] = ["--user", pwd.getpwnam(owner).pw_name]
    process = subprocess.Popen(command)
    try:
        wait_for(listen, process)
        yield (
            f"postgresql://{server['USER']}@{HOST}:{listen}/{server['NAME']}?disable_cursors=true"
        )
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(20 * PATIENCE):
        assert process.poll() is None, "pgbouncer has ended"
        try:
            socket.create_connection((HOST, port), PATIENCE).close()
            return
        except OSError:
            threading.Event().wait(0.05)
    raise AssertionError("pgbouncer takes no connections")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
