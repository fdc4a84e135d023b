"""How fast Mission Control answers with many desktops, watchers and operations: figures beside aims, never verdicts.

One run on its own database and processes; what they serve are rows, no machines. The clients share the processors.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.rows import dict_row

from deskyard.control.api import rows
from deskyard.control.ground.folder import Folder
from deskyard.control.ground.settings import Settings
from deskyard.control.process import pages
from deskyard.control.queue import claim as claims
from deskyard.control.recorder import chain
from deskyard.control.store import backup
from deskyard.control.store.cluster import OWNER, RECORDER, WORKER, Cluster
from deskyard.control.store.connection import connect
from deskyard.errors import CommandError
from deskyard.host.facts import find_program
from deskyard.host.progress import say, step
from deskyard.lab.quantile import quantile
from tests.bench.fleet_page import interactions
from tests.bench.holding import measure
from tests.bench.watchers import watch_all
from tests.control.lab import ACCOUNTS, Lab, lab
from tests.support.first_load import FIRST_LOAD_BYTES, first_load_bytes

WORKSPACES = 100
FILTERS = ("", "&state=ready", "&tier=pro", "&workspace=w7", "&q=d12")


@dataclass(frozen=True)
class Sizes:
    """How much is measured; rates are a second."""

    desktops: int = 10_000
    watchers: tuple[int, ...] = (50, 500, 1000)
    queued: int = 100
    pages: int = 500
    page_rate: float = 50
    events: int = 200
    event_rate: float = 20
    lines: int = 100_000
    held: int = 30
    with_pages: bool = True


@dataclass(frozen=True)
class Row:
    """One figure; `ratio` is against what `against` names, of the same run."""

    name: str
    p50: float
    p95: float
    most: float
    unit: str
    aim: str = ""
    ratio: float | None = None
    against: str = ""
    note: str = ""


def figures(mission: Lab, sizes: Sizes) -> Iterator[Row]:
    """All figures, each as soon as it is known."""
    with step(f"{sizes.desktops} desktops in {WORKSPACES} workspaces"):
        furnish(mission, sizes.desktops)
    yield at_rest(mission)
    key = mission.key("read")
    with step("lists"):
        yield from listing(mission, key, sizes)
    for watchers in sizes.watchers:
        with step(f"{watchers} watchers"):
            yield from watching(mission, key, watchers, sizes)
    with step("the queue"):
        yield from claiming(mission, sizes.queued)
    with step("the audit"):
        yield auditing(mission, sizes.lines)
    with step("the backup"):
        yield from saving(mission)
    if sizes.with_pages:
        yield from built_pages(mission, sizes)


def furnish(mission: Lab, desktops: int) -> None:
    """Rows as the observer writes them, of all states and tiers."""
    for statement in (
        "insert into workspace (id, site) select 'w' || n, 'local' from generate_series(0, %(workspaces)s - 1) n",
        """insert into desktop (id, workspace_id, name, tier, image, address, state)
        select 'w' || n %% %(workspaces)s || '.d' || n, 'w' || n %% %(workspaces)s, 'd' || n,
            (array['free', 'pro', 'max'])[1 + n %% 3], 'desktop', '10.0.0.2',
            (array['ready', 'ready', 'ready', 'stopped', 'booting'])[1 + n %% 5]
        from generate_series(1, %(desktops)s) n""",
    ):
        mission.link.execute(statement.encode(), {"workspaces": WORKSPACES, "desktops": desktops})
    mission.link.execute("vacuum analyze")


def at_rest(mission: Lab) -> Row:
    """Memory of all processes together, each shared page counted once, once all have begun to wait."""
    mission.until("select 1 from worker", [])
    mission.until("select 1 from pg_stat_activity where usename = %s and state = 'idle'", [RECORDER])
    numbers = [process.pid for process in mission.processes.values()]
    postmaster = int((mission.folder.cluster / "postmaster.pid").read_text().split()[0])
    owned = {number: _kib(number) for number in [*numbers, *_family(postmaster)]}
    parts = {name: owned[process.pid] / 1024 for name, process in mission.processes.items()}
    parts["database"] = sum(owned[number] for number in owned if number not in numbers) / 1024
    total = sum(parts.values())
    note = ", ".join(f"{name} {value:.0f}" for name, value in sorted(parts.items()))
    return Row("memory at rest", total, total, total, "MiB", note=note)


def listing(mission: Lab, key: str, sizes: Sizes) -> Iterator[Row]:
    """A page of 100 through the API, beside an answer without work and the query alone."""
    headers, base = {"Authorization": f"Bearer {key}"}, "http://mission.localhost:9443"
    transport = httpx.AsyncHTTPTransport(verify=False, uds=str(mission.folder.web_socket))
    with psycopg.connect(mission.url(OWNER), autocommit=True) as link:
        query = f"{rows.DESKTOP} where d.gone_at is null order by d.workspace_id, d.name limit 101".encode()
        bare = timed(lambda: link.execute(query).fetchall(), min(sizes.pages, 100))

    async def run() -> tuple[list[float], list[float], float]:
        async with httpx.AsyncClient(transport=transport, base_url=base, headers=headers, timeout=60) as client:

            async def get(path: str) -> None:
                answer = await client.get(path)
                assert answer.status_code == httpx.codes.OK, answer.text

            def page(number: int) -> Awaitable[None]:
                return get(f"/api/desktops?limit=100{FILTERS[number % len(FILTERS)]}")

            # Connections and plans are made before anything counts.
            await open_loop(page, 25, sizes.page_rate)
            health = await open_loop(lambda _: get("/healthz"), sizes.pages, sizes.page_rate)
            before = _processor_seconds(mission.processes["web"].pid)
            found = await open_loop(page, sizes.pages, sizes.page_rate)
            return health, found, _processor_seconds(mission.processes["web"].pid) - before

    health, found, taken = asyncio.run(run())
    # The same on a busy machine, where times are not.
    note = f"{taken / sizes.pages * 1000:.1f} ms of a processor each in web"
    at = f"at {sizes.page_rate:g} a second"
    yield row("the query of a page alone", bare)
    yield row(f"/healthz, {at}", health)
    yield row(
        f"page of 100 of {sizes.desktops} desktops, {at}",
        found,
        "p95 <= 50 ms",
        quantile(bare, 0.95),
        "the query alone",
        note,
    )


def watching(mission: Lab, key: str, watchers: int, sizes: Sizes) -> Iterator[Row]:
    """From just before a commit to what each watcher reads."""
    with psycopg.connect(mission.url(OWNER), autocommit=True) as link:
        update = "update desktop set detail = %s where id = %s"
        # No moment to those who listen soon: its last events may still be on their way.
        bare = timed(lambda: link.execute(update, [f"bare {time.monotonic()}", "w0.d100"]), 50)

        def tell(number: int) -> None:
            desktop = 1 + number % sizes.desktops
            # The moment is inside what is told: it is written before the commit.
            link.execute(update, [f"{time.monotonic()}", f"w{desktop % WORKSPACES}.d{desktop}"])

        heard = watch_all(mission.folder.web_socket, key, watchers, tell, sizes.events, sizes.event_rate)
    wanted = watchers * sizes.events
    yield row(
        f"commit to {watchers} watchers, {sizes.event_rate:g} events a second",
        heard,
        "p95 <= 500 ms",
        quantile(bare, 0.95),
        "the commit alone",
        f"{len(heard)} of {wanted} heard",
    )


def claiming(mission: Lab, queued: int) -> Iterator[Row]:
    """Claims of one worker while so many wait, each replaced by another when it is done."""
    mission.end("worker")
    insert = """insert into operation (id, kind, workspace_id, lane, actor)
        select 'op_' || %s || '_' || n, 'desktop.start', 'w' || n %% 100, 'workspace:w' || n %% 100, 'bench'
        from generate_series(1, %s) n"""
    mission.link.execute(insert, ["first", queued])
    mission.link.execute("analyze operation")
    times = []
    with psycopg.connect(mission.url(WORKER), autocommit=True, row_factory=dict_row) as link:
        query = "insert into worker (id) values ('bench') on conflict (id) do update set seen_at = now()"
        bare = timed(lambda: link.execute(query), 100)
        for number in range(2 * queued):
            started = time.monotonic()
            held = claims.claim(link, "bench")
            times.append(time.monotonic() - started)
            assert held is not None and claims.finish(link, held, "done")
            mission.link.execute(insert, [f"{number}", 1])
    yield row(f"claim with {queued} queued", times, "p95 <= 20 ms", quantile(bare, 0.95), "a commit alone")


def auditing(mission: Lab, lines: int) -> Row:
    """The check of a long audit through the API, its lines as the recorder writes them, beside a bare read of them."""
    mission.end("recorder")
    with psycopg.connect(mission.url(OWNER), autocommit=True, row_factory=dict_row) as link:
        link.execute("set statement_timeout = 0")
        last = link.execute("select number, hash from audit_entry order by number desc limit 1").fetchone()
        number, before = (last["number"], bytes(last["hash"])) if last else (0, chain.START)
        at = datetime.now(UTC)
        with link.cursor() as cursor, cursor.copy(f"copy audit_entry ({chain.COLUMNS}) from stdin") as copy:
            for line in range(number + 1, number + 1 + lines):
                entry = {"number": line, "at": at, "actor": "person:bench", "action": "desktop.start"}
                entry |= {"target": f"w{line % WORKSPACES}.d{line}", "detail": {"operation": f"op_{line}"}}
                before = chain.line_hash(before, entry)
                copy.write_row([*list(entry.values())[:-1], json.dumps(entry["detail"]), before])
        bare = timed(lambda: link.execute(f"select {chain.COLUMNS} from audit_entry").fetchall(), 1)
    base, headers = "http://mission.localhost:9443", {"Authorization": f"Bearer {mission.key('admin')}"}
    transport = httpx.HTTPTransport(verify=False, uds=str(mission.folder.web_socket))
    with httpx.Client(transport=transport, base_url=base, headers=headers, timeout=600) as client:
        started = time.monotonic()
        verdict = client.get("/api/audit/verify").json()
        taken = time.monotonic() - started
    assert verdict["ok"] and verdict["entries"] >= lines, verdict
    million = f"{taken / verdict['entries'] * 1e6:.1f} s for a million lines"
    return row(f"check of {lines} lines of the audit", [taken], "1,000,000 <= 30 s", bare[0], "reading them", million)


def saving(mission: Lab) -> Iterator[Row]:
    """A backup of all that was made here, and its restore into an empty place, until the audit there is checked."""
    with tempfile.TemporaryDirectory(prefix="deskyard-bench.") as name:
        folder = Folder(Path(name) / "control", ACCOUNTS)
        Path(name).chmod(0o711)
        made: list[dict[str, Any]] = []
        settings = Settings("local", "localhost", "127.0.0.1", 9443)
        saved = timed(lambda: made.append(backup.make(mission.folder, settings, Path(name))), 1)
        held = made[0]["holds"]

        def restored() -> None:
            backup.restore(Cluster(folder), Path(made[0]["file"]), dry_run=False)
            with Cluster(folder).answering(), connect(Cluster(folder).url(OWNER)) as link:
                found = link.execute("select count(*) as desktops from desktop").fetchone()
                verdict = chain.verify_all(link)
            assert found == {"desktops": held["desktop"]} and verdict.problem is None, (found, verdict)

        back = timed(restored, 1)
        size = Path(made[0]["file"]).stat().st_size / 2**20
    note = f"{size:.0f} MiB, {held['desktop']} desktops, {held['audit_entry']} lines of the audit"
    yield row("backup", saved, note=note)
    yield row("its restore into an empty place, checked", back, "both <= 5 min", saved[0], "the backup")


def built_pages(mission: Lab, sizes: Sizes) -> Iterator[Row]:
    """The pages as a browser loads them first, and as a person has them; left out where they cannot be built."""
    with tempfile.TemporaryDirectory(prefix="deskyard-pages.") as name, step("the pages"):
        built, folder = Path(name, "built"), Path(name, "held")
        for path in (built, folder):
            path.mkdir()
        try:
            pages.build(built)
        except (CommandError, OSError) as error:
            say(f"    left out: {str(error).splitlines()[0]}")
            return
        size = first_load_bytes(built) / 1000
        yield Row("first load of any page, gzip", size, size, size, "kB", f"<= {FIRST_LOAD_BYTES // 1000} kB")
        if all(map(find_program, ("chromium", "chromedriver"))):
            taken = interactions(built, sizes.desktops)
            note = f"{len(taken)} keys; what took less than 16 ms counts as 16"
            yield row(f"a key to its frame, {sizes.desktops} desktops in Chromium", taken, "<= 100 ms", note=note)
            with step("connections that wait for a person"):
                yield from holding(mission, built, folder, sizes.held)


def holding(mission: Lab, built: Path, folder: Path, tries: int) -> Iterator[Row]:
    """Connections that a gateway holds until a person at the page allows them."""
    found = measure(mission, built, folder, tries)
    allowed = quantile(found.allowed, 0.95)
    against = "a connection that nobody is asked about"
    yield row("held connection to its card, in Chromium", found.to_card, "p95 <= 1 s", allowed, against)
    yield row("click to its release", found.to_release, "p95 <= 1 s", allowed, against)


def row(name: str, seconds: Sequence[float], aim: str = "", bare: float = 0, against: str = "", note: str = "") -> Row:
    """A figure of many times, in milliseconds; the ratio is of p95 to p95."""
    p50, p95, most = statistics.median(seconds), quantile(seconds, 0.95), max(seconds)
    ratio = round(p95 / bare, 1) if bare else None
    return Row(name, round(p50 * 1e3, 2), round(p95 * 1e3, 2), round(most * 1e3, 2), "ms", aim, ratio, against, note)


def timed(work: Callable[[], object], times: int) -> list[float]:
    """Seconds of each run of some work."""
    found = []
    for _ in range(times):
        started = time.monotonic()
        work()
        found.append(time.monotonic() - started)
    return found


async def open_loop(work: Callable[[int], Awaitable[None]], count: int, rate: float) -> list[float]:
    """Seconds of each call from when it was due: a slow answer does not put the next question off."""
    loop = asyncio.get_running_loop()
    began, found = loop.time(), list[float]()

    async def call(number: int) -> None:
        due = began + number / rate
        await asyncio.sleep(due - loop.time())
        await work(number)
        found.append(loop.time() - due)

    await asyncio.gather(*(call(number) for number in range(count)))
    return found


def _family(number: int) -> list[int]:
    try:
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
    except OSError:
        # A connection's process ended since it was listed.
        return []
    return [number, *(below for child in children for below in _family(int(child)))]


def _kib(number: int) -> int:
    try:
        text = Path(f"/proc/{number}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)


def _processor_seconds(number: int) -> float:
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def text(found: Row) -> str:
    """A figure as a line."""
    values = f"{found.p50:9.1f}{found.p95:9.1f}{found.most:9.1f} {found.unit:<4}"
    ratio = f"{found.ratio:7.1f} x {found.against}" if found.ratio is not None else ""
    return "  ".join(part for part in (f"{found.name:<52}{values}{found.aim:<14}{ratio}", found.note) if part)


def main(arguments: Sequence[str]) -> int:
    """Measure and print; never a verdict."""
    found: list[Row] = []
    before = os.getloadavg()[0]
    with lab(durable=True) as mission:
        for figure in figures(mission, Sizes()):
            found.append(figure)
            say(f"    {text(figure)}")
    load = f"{before:.1f} before, {os.getloadavg()[0]:.1f} after, {os.cpu_count()} processors"
    if "--json" in arguments:
        rounded: dict[str, Any] = {"load": load, "figures": [asdict(figure) for figure in found]}
        print(json.dumps(rounded, indent=2))
        return 0
    print(f"{'':<52}{'p50':>9}{'p95':>9}{'most':>9}      aim")
    print("\n".join(map(text, found)))
    print(f"load {load}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
