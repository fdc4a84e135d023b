"""Who has which machine at the seats of a workspace, kept with the machines in the cluster itself.

The cluster is asked for what is so, and nothing of it is on this machine's disk: operators on several machines may fill
and claim from the same pool. Each step is one write of one machine's configuration with the digest of what was read:
Proxmox VE compares it under the lock of that configuration, on the node that has the machine, and refuses the write if
somebody was faster (qemu-server 8.4.10 and 9.2.6, PVE/API2/Qemu.pm, update_vm_api: `$load_and_check_config` within
`PVE::QemuConfig->lock_config`). What was written is in /etc/pve of all nodes; without quorum nothing is.
"""

import re
import secrets
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from deskyard.errors import SiteError
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.plan.names import short_id
from deskyard.plan.pool.seat import Claim, Entry, Event, Seated, State
from deskyard.plan.proxmox import seat_words
from deskyard.plan.proxmox.seat_words import GONE, NEVER, UNKNOWN, Words
from deskyard.plan.proxmox.view import SeenMachine, read_view, tags_of
from deskyard.site.proxmox.client import ApiError, Client
from deskyard.site.proxmox.each import ask_each
from deskyard.site.proxmox.machine import vm_path

WRITES = 8
CHANGED = "checksum mismatch"
# What a node says of a machine that is gone.
ABSENT = re.compile(r"does not exist", re.I)
# From what was read to what is to be written: the same if it is so already, None if it must not be.
Judge = Callable[[Words | None], Words | None]


class ClusterRecord:
    """The machines at the seats of one workspace. Who decides by what it reads holds `alone` meanwhile."""

    def __init__(self, client: Client, site: str, workspace: str) -> None:
        self._client, self._site, self._workspace = client, site, workspace
        self.host = this_host()
        self.begun: dict[str, Words] = {}
        # As it was read last, so that a write that follows from it is one of what was judged.
        self.seen: dict[str, Words | None] = {}

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep others of this machine from deciding; those of other machines are told when they write."""
        with alone(f"seats-{self._site}-{self._workspace}"):
            yield

    def found(self) -> dict[str, SeenMachine]:
        """The machines at seats, by the names of these; the youngest have neither tags nor name in the list yet."""
        view = read_view(self._client.get("cluster/resources", type="vm"), (), {})
        found = {}
        for machine in view.machines_of(self._site, self._workspace):
            if not machine.tags and not machine.name and not machine.template:
                machine = replace(machine, name=str(self._config(machine).get("name", "")))
            if (seat := seat_words.seat_at(machine, self._site, self._workspace)) is not None:
                found[seat] = machine
        return found

    def machines(self) -> dict[str, Seated]:
        """The machines at seats, by the names of these; one that is made here and is not in the cluster yet, too."""
        asked = ask_each(self.found().items(), lambda item: self._words(*item))
        self.seen = {seat: words for (seat, _), words in asked}
        written = {seat: words for seat, words in self.seen.items() if words is not None}
        return {seat: words.seated() for seat, words in {**self.begun, **written}.items()}

    def note(self, entry: Entry) -> bool:
        """Write what happened; False if it cannot happen any more, because somebody was faster."""
        if entry.event is Event.BEGUN:
            words = Words(entry.seat, entry.machine, State.MAKING, entry.at, entry.wiring, entry.image, self.host)
            self.begun[entry.seat] = _with(words, entry.claim) if entry.claim else words
            return True
        machine = self.found().get(entry.seat)
        gone = entry.event is Event.GONE
        # Without a machine: it was never made, or is gone already.
        written = gone if machine is None else self._write(machine, entry.seat, self._judge(entry))
        if written:
            # From now on it is only what the cluster says.
            self.begun.pop(entry.seat, None)
        return written

    def tidy(self) -> None:
        """Nothing: what is gone took its words along."""

    def _judge(self, entry: Entry) -> Judge:
        token, seen = secrets.token_hex(8), self.seen.get(entry.seat)

        def judged(now: Words | None) -> Words | None:
            if entry.event is Event.GONE:
                gone = now or Words(entry.seat, entry.machine, GONE, entry.at)
                gone = replace(gone, state=GONE, host=self.host)
                own = entry.seat in self.begun and self.begun[entry.seat].machine == gone.machine
                return gone if own or now in (None, seen, gone) else None
            if now is None or now.machine != entry.machine:
                return None
            if entry.event is Event.READY:
                state = State.CLAIMED if now.by else State.WAITING
                return replace(now, state=state, since=entry.at) if now.state == State.MAKING else None
            if now.token == token:
                return now
            assert entry.claim is not None
            taken = replace(_with(now, entry.claim), state=State.CLAIMED, host=self.host, token=token)
            return taken if now.state == State.WAITING else None

        return judged

    def _write(self, machine: SeenMachine, seat: str, judge: Judge) -> bool:
        """Compare and set: what was judged is written only if it is still so; else it is judged anew."""
        path = f"{vm_path(machine.node, machine.vm_id)}/config"
        for _ in range(WRITES):
            config = self._client.get(path)
            now = seat_words.read(config, seat)
            wanted = judge(now)
            if wanted is None or wanted == now:
                return wanted is not None
            try:
                self._client.put(path, **seat_words.written(wanted, tags_of(config)), digest=config["digest"])
            except ApiError as error:
                # Without an answer it may have been written, or not: both are seen in what is there.
                if CHANGED not in error.reason and not error.unsure:
                    raise
            else:
                return True
        reason = f"somebody else changed its configuration {WRITES} times in a row"
        raise SiteError("machine", machine.vm_id, reason, "run the command again")

    def _words(self, seat: str, machine: SeenMachine) -> Words | None:
        """The words of a machine on itself; one of which nothing can be read is somebody's, until that can be."""
        try:
            config = self._config(machine)
        except ApiError as error:
            if ABSENT.search(error.reason):
                return None
            return Words(seat, UNKNOWN, State.CLAIMED, 0.0, by=f"node {machine.node} does not answer", until=NEVER)
        return seat_words.read(config, seat)

    def _config(self, machine: SeenMachine) -> dict[str, object]:
        found: dict[str, object] = self._client.get(f"{vm_path(machine.node, machine.vm_id)}/config")
        return found


def this_host() -> str:
    """Tells this operator's machine, with its own locks, from another's."""
    return short_id(socket.gethostname(), str(places().state))


def _with(words: Words, claim: Claim) -> Words:
    return replace(words, by=claim.by, until=claim.until, run=claim.run)
