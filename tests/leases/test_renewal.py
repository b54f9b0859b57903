"""The OS thread that renews the leases of a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import OperationalError
from django.test import override_settings

from hitl_django.leases import renewal
from hitl_django.leases.renewal import LeaseRenewal, LeaseRenewer


class Lease:
    """A thread's lease that stores the OS threads that renewed it."""

    def __init__(self) -> None:
        self.thread_id, self.seen, self.again = "t", [], threading.Event()

    def renew(self) -> bool:
        self.seen.append(threading.get_ident())
        self.again.set()
        return True


class Renewal(LeaseRenewal):
    def __init__(self, beat: float | None = None) -> None:
        super().__init__(Lease())
        self.beat = self.beat if beat is None else beat
        self.seen, self.again = self.lease.seen, self.lease.again


@pytest.fixture
def renewals() -> Iterator[LeaseRenewer]:
    with override_settings(HITL={**settings.HITL, "HEARTBEAT_SECONDS": 0.01}):
        yield LeaseRenewer()


def test_one_os_thread_renews_all_leases_and_ends_when_none_is_left(renewals: LeaseRenewer) -> None:
    leases = [Renewal(), Renewal()]
    for lease in leases:
        renewals.add(lease)
    thread = renewals._thread
    assert thread is not None
    for lease in leases:
        assert lease.again.wait(60)
        renewals.remove(lease)
    assert {ident for lease in leases for ident in lease.seen} == {thread.ident}
    thread.join(60)
    assert not thread.is_alive()
    another = Renewal()
    renewals.add(another)
    assert another.again.wait(60)
    renewals.remove(another)


def test_lease_renewals_in_forked_process_start_without_os_thread_and_leases(
    renewals: LeaseRenewer,
) -> None:
    renewals._thread, renewals._leases = threading.current_thread(), {Renewal()}
    renewals.reset()  # called in the child after the fork
    assert (renewals._thread, renewals._leases) == (None, set())


def test_lease_renewal_continues_if_closing_its_connections_fails(
    renewals: LeaseRenewer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OperationalError("the server has gone away")

    monkeypatch.setattr(renewal.connections, "close_all", refuse)
    lease = Renewal()
    renewals.add(lease)
    for _ in range(3):
        assert lease.again.wait(60)
        lease.again.clear()
    renewals.remove(lease)


def test_lease_removed_from_renewals_is_not_renewed_again(renewals: LeaseRenewer) -> None:
    removed, other = Renewal(), Renewal()
    renewals.add(removed)
    renewals.remove(removed)
    count = len(removed.seen)
    renewals.add(other)
    assert other.again.wait(60)
    renewals.remove(other)
    assert len(removed.seen) == count


def test_lease_added_with_earlier_renewal_time_wakes_the_sleeping_renewal_os_thread(
    renewals: LeaseRenewer,
) -> None:
    with override_settings(HITL={**settings.HITL, "HEARTBEAT_SECONDS": 3600}):
        late, soon = Renewal(), Renewal(beat=0)
        renewals.add(late)
        while not renewals._wakes:  # until the renewing thread sleeps
            soon.again.wait(0.001)
        renewals.add(soon)
        assert soon.again.wait(20)
    renewals.remove(soon)
    renewals.remove(late)
