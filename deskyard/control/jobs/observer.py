"""python -m deskyard.control.jobs.observer: writes down what is declared, and how far each desktop is."""

import argparse
import contextlib
import logging
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from deskyard.access import access
from deskyard.control.ground.reasons import Reasons
from deskyard.control.halting.stops import hearing_stops
from deskyard.control.link import question
from deskyard.control.machines import seen as images
from deskyard.control.store.connection import Link, attend
from deskyard.control.store.pool import pool
from deskyard.control.store.upsert import put
from deskyard.control.tasks import seen as seats
from deskyard.control.tasks.seen import agent_of
from deskyard.control.usage import sight
from deskyard.control.usage.usage import FOLLOWED
from deskyard.control.watch import changes
from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.declaration.stamps import Stamps
from deskyard.engine.backend import machines_of
from deskyard.errors import DeskyardError
from deskyard.host.places import Stamp
from deskyard.life import events
from deskyard.life.stage_news import StageNews, Tell
from deskyard.model.tier import Tier
from deskyard.plan.power import Power
from deskyard.plan.workspace import WorkspacePlan
from deskyard.wire.stages import Stage
from deskyard.workspace import readiness
from deskyard.workspace.ledger import Ledger

# Declarations are files of people: they are looked at that often, machines tell of themselves.
LOOK_SECONDS = 2.0
SEEN_AGAIN = "10 seconds"
RUNS_ON = (Stage.BOOTING, Stage.READY, Stage.STOPPING)
log = logging.getLogger(__name__)


class Observer:
    """The observer that follows each declared workspace; `ask` and `tell` reach gateways in place of the site's key."""

    def __init__(self, url: str, ask: events.Ask | None = None, tell: Tell = access.tell_stages) -> None:
        self._url, self._ask, self._tell = url, ask, tell
        self._pool = pool(url)
        self._changes = changes.Intake()
        self._stamps = Stamps()
        self._seen: dict[str, tuple[Stamp, Stamp]] = {}
        # Whose declaration could not be read, as while its cluster did not answer.
        self._unread: set[str] = set()
        self._built = images.Built()
        # The workspaces with seats, and the lines of their ledgers that were read; of a cluster's there is no file.
        self._seated: dict[str, Declared] = {}
        self._ledgers: dict[str, Stamp] = {}
        self._followers: dict[str, tuple[threading.Thread, events.End]] = {}
        # Whose machines were seen by the one who follows them now.
        self._looked: set[str] = set()
        self._reasons = Reasons(log, "is not followed now")
        self._ended = threading.Event()

    def stop(self, *_: Any) -> None:
        """Look no more."""
        self._ended.set()

    def run(self) -> None:
        """Look until it is stopped; a database that went away is waited for."""
        with self._pool:
            attend(self._url, self._ended, self._look_again)

    def _look_again(self, link: Link) -> None:
        while not self._ended.is_set():
            self.look(link)
            self._ended.wait(LOOK_SECONDS)

    def look(self, link: Link) -> None:
        """Read what changed of the declarations and what tasks noted, and follow each workspace that has machines."""
        names = declaration.stack_names()
        link.execute("update workspace set gone_at = now() where gone_at is null and not id = any(%s)", [names])
        link.execute("update desktop set gone_at = now() where gone_at is null and not workspace_id = any(%s)", [names])
        for name in names:
            stamp = self._stamps.of(name)
            if stamp != self._seen.get(name):
                self._read(link, name)
                self._seen[name] = stamp
                # Whoever follows knows the declaration of before.
                self._end_follower(name)
            self._look_at_seats(link, name)
            if name not in self._followers or not self._followers[name][0].is_alive():
                end = events.End()
                thread = threading.Thread(target=self._follow, args=(name, end), daemon=True)
                self._followers[name] = thread, end
                thread.start()
        alive = [name for name, (thread, _) in self._followers.items() if thread.is_alive()]
        seen = [name for name in alive if name in self._looked]
        # Who was given up, as when the clock jumped, is told of anew.
        for name in sight.lost(link, seen):
            self._end_follower(name)
            seen.remove(name)
        go_on(link, seen)
        for name in self._followers.keys() - set(names):
            self._end_follower(name)
            self._forget_seats(name)
            self._unread.discard(name)
            self._stamps.forget(name)
            self._reasons.forget(name)
            del self._followers[name]
            self._seen.pop(name, None)
        self._changes.look(link)

    def _end_follower(self, name: str) -> None:
        if name in self._followers:
            self._followers[name][1].call()

    def _read(self, link: Link, name: str) -> None:
        try:
            declared = declaration.read(name)
            write_declared(link, declared)
        except DeskyardError as error:
            write_problem(link, name, error)
            self._unread.add(name)
            return
        self._unread.discard(name)
        self._forget_seats(name)
        if declared.plan.seats:
            self._seated[name] = declared
        else:
            seats.write(link, name, seats.nothing())

    def _forget_seats(self, name: str) -> None:
        self._seated.pop(name, None)
        self._ledgers.pop(name, None)

    def _look_at_seats(self, link: Link, name: str) -> None:
        """Read who has which seat where the file that says so has changed; on a cluster who follows it asks."""
        declared = self._seated.get(name)
        if declared is None or declared.on_cluster is not None:
            return
        stamp = Ledger(declared.site.name, name).stamp()
        if self._ledgers.get(name) != stamp:
            seats.write(link, name, seats.read(declared))
            self._ledgers[name] = stamp

    def _ask_for_seats(self, declared: Declared) -> None:
        """Read who has which seat, and which of the machines there run."""
        if declared.plan.seats:
            found = seats.read(declared, machines=True)
            with self._pool.connection() as link:
                seats.write(link, declared.plan.name, found)

    def _follow(self, name: str, end: events.End) -> None:
        """Write down what happens in a workspace, until it cannot be asked; then the next look begins anew."""
        try:
            declared = declaration.read(name)
            if name in self._unread:
                # Whoever follows tries it again and again, which keeps nobody from looking; now the next look reads it.
                self._seen.pop(name, None)
                return
            plan = declared.plan
            with self._pool.connection() as link:
                sight.close_unseen(link, name)
            begun: list[events.Event] = []
            news = StageNews(name, self._tell)

            def checked(silence: str) -> None:
                wanted = self._write_state(plan)
                # Nor was a gateway asked whose desktops are off: it may be off, too.
                if not silence and wanted.get(plan.gateway.machine.domain) is Power.RUNNING:
                    news.again()
                with self._pool.connection() as link:
                    write_silence(link, name, silence)
                self._look_at_images(plan)
                self._ask_for_seats(declared)

            ask = hearing_stops(self._pool.connection, self._ask or readiness.ask)

            def seen() -> None:
                with self._pool.connection() as link, link.transaction():
                    sight.hold(link, name)
                    # They may have been given up since they were told of.
                    for event in begun:
                        write_event(link, event)
                    sight.regain(link, name)
                self._ask_for_seats(declared)
                self._looked.add(name)
                self._reasons.forget(name)
                self._look_at_images(plan)

            # Machines are watched before their gateway answers, which may take longer than anybody is taken to watch.
            with news:
                for event in events.follow(name, end, checked, ask, seen):
                    if name not in self._looked:
                        begun.append(event)
                    self._write_state(plan, event)
                    news.note(event)
        except (DeskyardError, psycopg.Error) as error:
            why = str(error).splitlines()[0]
            self._reasons.say(name, why)
            with contextlib.suppress(psycopg.Error), self._pool.connection() as link:
                sight.note_why(link, name, why)
            self._ended.wait(LOOK_SECONDS)
        finally:
            self._looked.discard(name)

    def _look_at_images(self, plan: WorkspacePlan) -> None:
        """Write down which image each desktop runs and which there is for it; where it cannot be had, it stays."""
        with contextlib.suppress(DeskyardError):
            found = machines_of(plan).images()
            with self._pool.connection() as link:
                images.write(link, plan, found, self._built)

    def _write_state(self, plan: WorkspacePlan, event: events.Event | None = None) -> dict[str, Power]:
        """Write down how machines are, and return what they are wanted to be."""
        # A hypervisor that is slow holds up nobody else's connection.
        wanted = machines_of(plan).desired()
        with self._pool.connection() as link:
            write_state(link, plan, wanted, event)
        return wanted


def write_declared(link: Link, declared: Declared) -> None:
    """Write down a workspace and its desktops as they are declared."""
    workspace, plan = declared.workspace, declared.plan
    values: dict[str, Any] = {
        "id": plan.name,
        "site": plan.site,
        "url": plan.gateway.url,
        "egress": workspace.egress,
        "egress_allow": list(workspace.egress_allow),
        "image": workspace.image,
        "tiers": Jsonb([_size(name, tier) for name, tier in declared.site.all_tiers().items()]),
        "keys": sorted(workspace.keys or {}),
    }
    with link.transaction():
        # As everywhere: desktops are locked before their workspace.
        sight.hold(link, plan.name)
        put(link, "workspace", {**values, "problem": None, "gone_at": None})
        link.execute("update workspace set seen_at = now() where id = %s", [plan.name])
        images = {desktop.name: desktop.image or workspace.image for desktop in workspace.desktops}
        for desktop in plan.desktops:
            row = {
                "id": f"{plan.name}.{desktop.name}",
                "workspace_id": plan.name,
                "name": desktop.name,
                "tier": desktop.tier,
                "image": images[desktop.name],
                "address": desktop.address,
                "agent": agent_of(desktop, images[desktop.name]),
                "routes": list(desktop.routes),
                "lifetime": "kept",
                "machine": None,
                "until": None,
                "gone_at": None,
            }
            put(link, "desktop", row)
        names = [desktop.name for desktop in plan.desktops]
        # One for a task is there as long as somebody has it.
        query = """update desktop set gone_at = now()
            where workspace_id = %s and gone_at is null and lifetime = 'kept' and not name = any(%s)"""
        link.execute(query, [plan.name, names])


def write_problem(link: Link, name: str, error: DeskyardError) -> None:
    """Write down that a declaration cannot be read; what was known of its desktops stays."""
    query = """insert into workspace (id, site, problem) values (%s, '', %s)
        on conflict (id) do update set problem = excluded.problem, seen_at = now(), gone_at = null"""
    link.execute(query, [name, Jsonb(error.as_dict())])


def write_event(link: Link, event: events.Event) -> None:
    """Write down how far a desktop is."""
    link.execute(
        """update desktop set state = %s, detail = %s, state_at = to_timestamp(%s), generation = generation + 1
        where id = %s and gone_at is null and (state, detail) is distinct from (%s, %s)""",
        [
            *(event.state, event.detail, event.at, f"{event.workspace}.{event.desktop}"),
            *(event.state, event.detail),
        ],
    )

    # What was closed since nobody looked goes on, though its state is the same.
    if event.state in RUNS_ON:
        _count_on(link, [f"{event.workspace}.{event.desktop}"])


def _count_on(link: Link, desktops: list[str]) -> None:
    """Count the machine time of desktops that run from now on, unless it is counted."""
    link.execute(
        """insert into usage_interval (desktop_id, workspace_id, tier, began_at)
        select id, workspace_id, tier, now() from desktop where id = any(%s) and gone_at is null
        on conflict (desktop_id) where ended_at is null do nothing""",
        [desktops],
    )


def go_on(link: Link, names: list[str]) -> None:
    """Write down that these workspaces are followed; no machine ran while the clock went on and nobody followed.

    The clock was set ahead then, or the host slept.
    """
    with link.transaction():
        query = f"select id from workspace where id = any(%s) and followed_at < now() - interval '{FOLLOWED}'"
        if missed := [row["id"] for row in link.execute(query, [names]).fetchall()]:
            link.execute(
                """update usage_interval u set ended_at = w.followed_at, unwatched = true from workspace w
                where w.id = u.workspace_id and w.id = any(%s) and u.ended_at is null and u.began_at < w.followed_at""",
                [missed],
            )
            query = "select id from desktop where workspace_id = any(%s) and state = any(%s)"
            _count_on(link, [row["id"] for row in link.execute(query, [missed, list(RUNS_ON)]).fetchall()])
        link.execute(
            f"update workspace set followed_at = now() where id = any(%s) and not recent(followed_at, '{SEEN_AGAIN}')",
            [names],
        )


def write_silence(link: Link, name: str, silence: str) -> None:
    """Write down what keeps a gateway from answering, and since when."""
    query = """update workspace set silence = %s, silent_since = case when %s then coalesce(silent_since, now()) end
        where id = %s and (silence, silent_since is null) is distinct from (%s, %s)"""
    link.execute(query, [silence, bool(silence), name, silence, not silence])


def write_state(link: Link, plan: WorkspacePlan, wanted: Mapping[str, str], event: events.Event | None = None) -> None:
    """Write down what the machines of a workspace are wanted to be, how far a desktop is, and what the whole is.

    A desktop that is seen to be ready is also seen to be wanted so: the former never comes first.
    """
    with link.transaction():
        powers = {desktop.name: wanted.get(desktop.machine.domain) for desktop in plan.desktops}
        values = {"workspace": plan.name, "powers": Jsonb(powers), "names": list(powers)}
        # Those that change, in the order in which everybody locks them: the declaration's may be another.
        link.execute(
            """select 1 from desktop where workspace_id = %(workspace)s and (name = %(about)s
                or (name = any(%(names)s) and wanted is distinct from %(powers)s ->> name)) order by id for update""",
            {**values, "about": event.desktop if event is not None else None},
        )
        link.execute(
            """update desktop set wanted = %(powers)s ->> name where workspace_id = %(workspace)s
                and name = any(%(names)s) and wanted is distinct from %(powers)s ->> name""",
            values,
        )
        if event is not None:
            write_event(link, event)
        query = "select state from desktop where workspace_id = %s and gone_at is null"
        states = {row["state"] for row in link.execute(query, [plan.name]).fetchall()}
        if plan.gateway.machine.domain not in wanted:
            state = "absent"
        elif wanted[plan.gateway.machine.domain] != "running":
            state = "stopped"
        else:
            state = "ready" if states <= {Stage.READY, Stage.STOPPED, Stage.PAUSED} else "not ready"
        link.execute("update workspace set state = %s, seen_at = now() where id = %s", [state, plan.name])


def _size(name: str, tier: Tier) -> dict[str, Any]:
    return {
        "name": name,
        "vcpus": tier.vcpus,
        "memory_gib": tier.memory_mib / 1024,
        "disk_gib": tier.disk_gib,
        "home_gib": tier.home_gib,
    }


def main() -> None:
    """Observe until SIGTERM."""
    options = argparse.ArgumentParser(prog="deskyard.control.jobs.observer")
    options.add_argument("--database", required=True)
    options.add_argument("--link", type=Path, required=True, help="the socket of who asks gateways")
    chosen = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    observer = Observer(chosen.database, question.status(chosen.link), question.tell_stages(chosen.link))
    signal.signal(signal.SIGTERM, observer.stop)
    observer.run()


if __name__ == "__main__":
    main()
