"""Lease owners that are known to have ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from hitl_django.leases import lease_owner
from hitl_django.leases.lease_owner import has_ended, name_owner

from .ended import name_ended_owner, running_owner

pytestmark = [
    pytest.mark.any_database,
    pytest.mark.skipif(sys.platform != "linux", reason="processes are identified only on Linux"),
]


def test_lease_owner_has_ended_only_after_its_process_ended() -> None:
    with running_owner() as (name, process):
        assert not has_ended(name)
        process.kill()
        process.wait()
        assert has_ended(name)
    assert not has_ended(name_owner())


def test_killed_lease_owner_has_ended_before_its_parent_process_reads_the_exit_code() -> None:
    with running_owner() as (name, process):
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE
        assert has_ended(name)


def test_lease_owner_has_ended_if_another_process_has_its_process_id() -> None:
    head, _, rest = name_owner().partition("@")
    host, pid, started = head.split(":")
    assert has_ended(f"{host}:{pid}:{int(started) - 1}@{rest}")


def test_lease_owner_on_another_system_or_with_unknown_name_format_has_not_ended() -> None:
    name = name_ended_owner()
    system = str(lease_owner.find_system())
    assert not has_ended(name.replace(system, system[::-1]))
    host, pid, *_, random = name.split(":")
    assert not has_ended(f"{host}:{pid}:{random}")
    assert not has_ended("")


def test_lease_owner_name_omits_start_time_if_proc_file_system_is_not_readable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended = name_ended_owner()
    monkeypatch.setattr(lease_owner, "_PROC", tmp_path)
    for cached in (lease_owner._name_process, lease_owner._find_system):
        cached.cache_clear()
    try:
        assert name_owner().split(":")[1] == str(os.getpid())
        assert "@" not in name_owner()
        assert not has_ended(ended)
    finally:
        for cached in (lease_owner._name_process, lease_owner._find_system):
            cached.cache_clear()
