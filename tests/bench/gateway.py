"""Measures the door: what it costs against a direct connection and against nginx, in one run on loopback."""

import asyncio
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path
from typing import Any

from tests.bench import load, peer
from tests.bench.load import Target
from tests.gateway.desktops import FakeDesktops
from tests.gateway.support import HOSTNAME, Gateway, most_sockets

DESKTOPS, SESSIONS_EACH = 20, 10
PLACES = {"desktop": "vnc", "terminal": "terminal"}
LIFE_SECONDS = 8 * 3600  # a slow machine may take more than the minutes after which an unused session lapses
NO_LIMITS = {"streams_per_session": 10_000, "streams_per_desktop": 100_000, "lease_seconds": LIFE_SECONDS}
SIZES = {"20 B": 20, "1 kB": 1000, "16 kB": 16000}
FILTERED, VIEW = 1000, 1  # VNC connections at most; where the filter is among the gateway's processes
FLOODERS, FLOOD_SECONDS = 5, 10.0  # view-only sessions of one desktop
ECHOES, CHUNKS, CHECKS, REVOKES, RELOADS = 2000, 4096, 3000, 20, 20
PAGE, TICKS = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Row:
    """One measured thing; `direct` and `nginx` are nothing where they make no sense or nginx is absent."""

    name: str
    unit: str
    gateway: float
    direct: float | None = None
    nginx: float | None = None


class LoadedGateway(Gateway):
    """A gateway whose desktops are played by one process of its own."""

    def play_desktops(self) -> FakeDesktops:
        """Leave the listening to `_desktops`."""
        return FakeDesktops([])


@dataclass(frozen=True)
class Bed:
    """Everything under measurement: where clients go, and whose processor time and memory count."""

    gateway: Gateway
    sessions: list[tuple[str, Target]]
    direct: Target
    nginx: Target | None
    nginx_worker: int | None

    @property
    def names(self) -> list[str]:
        """All desktops."""
        return list(self.gateway.names)

    @property
    def worker(self) -> int:
        """The process that carries."""
        return self.gateway.workers()[0]


def measure(sockets: int) -> list[Row]:
    """All figures; `sockets` is how many idle WebSockets are held at once."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if sockets > most_sockets():
        _say(f"this machine's limit of open files ends it at {most_sockets()} sockets instead of {sockets}")
        sockets = most_sockets()
    rows: list[Row] = []
    with _bed() as bed:
        for part in (_latency, _throughput, _checks, _revocation, _reloads, _idle, _filter, _flood):
            _say(f"==> {part.__name__.strip('_')}")
            result = part(bed, sockets)
            rows += asyncio.run(result) if isinstance(result, Coroutine) else result
    return rows


@contextmanager
def _bed() -> Iterator[Bed]:
    names = {f"b{number}": f"127.0.2.{number + 1}" for number in range(DESKTOPS)}
    gateway = LoadedGateway(names=names, changes=NO_LIMITS)
    try:
        gateway.start()
        with _desktops([(address, port) for address in names.values() for port in gateway.ports.values()]):
            sessions = [_session(gateway, name) for name in names for _ in range(SESSIONS_EACH)]
            first = (names["b0"], gateway.ports["terminal"])
            head = load.upgrade_head("/", gateway.authority)
            with peer.nginx(gateway.root, gateway.layout.tls_bundle, f"{first[0]}:{first[1]}") as found:
                nginx = Target(found[0], head, gateway.trust, HOSTNAME) if found else None
                direct = Target(first[1], head, None, HOSTNAME, first[0])
                yield Bed(gateway, sessions, direct, nginx, found[1] if found else None)
    finally:
        gateway.stop()


def _session(gateway: Gateway, desktop: str, route: str = "terminal", mode: str = "drive") -> tuple[str, Target]:
    id, cookie = gateway.session(desktop, routes=[route], mode=mode, ttl=LIFE_SECONDS)
    head = load.upgrade_head(f"/d/{desktop}/{PLACES[route]}", gateway.authority, Origin=gateway.origin, Cookie=cookie)
    return id, Target(gateway.layout.listen_port, head, gateway.trust, HOSTNAME)


@contextmanager
def _desktops(addresses: Sequence[tuple[str, int]]) -> Iterator[None]:
    with _beside(_serve, addresses):
        time.sleep(0.5)
        yield


@contextmanager
def _beside(work: Callable[..., None], *arguments: Any) -> Iterator[None]:
    """Work in a process of its own."""
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield
    finally:
        process.terminate()
        process.join(10)


def _serve(addresses: Sequence[tuple[str, int]]) -> None:
    async def serve() -> None:
        desktop = load.Desktop()
        for address, port in addresses:
            await desktop.listen(address, port)
        await asyncio.Event().wait()

    asyncio.run(serve())


async def _latency(bed: Bed, _: int) -> list[Row]:
    rows = []
    for label, size in SIZES.items():
        times = {name: await load.echo_times(target, size, ECHOES) for name, target in _ways(bed).items()}
        for point, at in (("p50", 0.50), ("p99", 0.99)):
            values = {name: sorted(all_)[int(len(all_) * at)] * 1e6 for name, all_ in times.items()}
            rows.append(Row(f"echo of {label}, {point}", "us", **values))
    return rows


async def _throughput(bed: Bed, _: int) -> list[Row]:
    rates = {}
    for name, target in _ways(bed).items():
        seconds = await load.stream_seconds(target, CHUNKS)
        rates[name] = CHUNKS * len(load.CHUNK) / seconds / 1e6
    screen = _session(bed.gateway, "b0", "desktop")[1]
    seconds = await load.stream_seconds(screen, CHUNKS, framed=True)
    filtered = {**rates, "gateway": CHUNKS * len(load.CHUNK) / seconds / 1e6}
    return [
        Row("stream of 64 KiB writes to one client", "MB/s", **rates),
        Row("the same through the filter of VNC connections", "MB/s", **filtered),
    ]


async def _checks(bed: Bed, _: int) -> list[Row]:
    """Processor time of one full verification: a good cookie that asks for a route it does not name."""
    head = bed.sessions[0][1].head.replace(b"/terminal ", b"/vnc ")
    mine = await _requests(bed.sessions[0][1], head, b"403", bed.worker)
    rows = [Row("processor time of a session check", "us", mine[0]), Row("session checks on one core", "/s", mine[1])]
    if bed.nginx and bed.nginx_worker:
        plain = f"GET /denied HTTP/1.1\r\nHost: {bed.gateway.authority}\r\n\r\n".encode()
        theirs = await _requests(bed.nginx, plain, b"403", bed.nginx_worker)
        rows = [Row(r.name, r.unit, r.gateway, nginx=theirs[n]) for n, r in enumerate(rows)]
    opened = {}
    for name, target, worker in (("gateway", bed.sessions[0][1], bed.worker), ("nginx", bed.nginx, bed.nginx_worker)):
        if target and worker:
            before = _cpu_seconds(worker)
            for _round in range(10):
                await load.close_all(await load.open_many([target], 20))
            opened[name] = (_cpu_seconds(worker) - before) / 200 * 1e6
    return [*rows, Row("processor time of TLS, check and upgrade", "us", **opened)]


async def _requests(target: Target, head: bytes, status: bytes, worker: int) -> tuple[float, float]:
    """Microseconds of processor time per request, and how many of them a core does in a second."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", target.port, ssl=target.trust, server_hostname=target.hostname
    )
    before = _cpu_seconds(worker)
    for _ in range(CHECKS):
        writer.write(head)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.split(b" ")[1] == status, answer
        length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
    seconds = max(_cpu_seconds(worker) - before, 1 / TICKS) / CHECKS
    await load.close_all([(reader, writer)])
    return seconds * 1e6, 1 / seconds


async def _revocation(bed: Bed, sockets: int) -> list[Row]:
    """From the command to the end of the connection at the client, with other sockets open."""
    others = await load.open_many([target for _, target in bed.sessions], min(sockets, 1000))
    loop, times = asyncio.get_running_loop(), []
    for _ in range(REVOKES):
        id, target = await asyncio.to_thread(_session, bed.gateway, "b0")
        line = await target.open()
        ended = asyncio.create_task(load.until_closed(line))
        started = loop.time()
        await asyncio.to_thread(bed.gateway.revoke, id)
        times.append((await ended - started) * 1000)
    await load.close_all(others)
    label = f"revoke -> closed, {len(others)} other sockets"
    return [Row(f"{label}, median", "ms", statistics.median(times)), Row(f"{label}, worst", "ms", max(times))]


async def _reloads(bed: Bed, _: int) -> list[Row]:
    lines = await load.open_many([target for _, target in bed.sessions], 200)
    for _ in range(RELOADS):
        await asyncio.to_thread(bed.gateway.reload)
    dropped = 0
    for reader, writer in lines:
        writer.write(b"alive")
        try:
            await asyncio.wait_for(reader.readexactly(5), 5)
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            dropped += 1
    await load.close_all(lines)
    return [Row(f"sockets dropped of 200 by {RELOADS} reloads", "", dropped)]


async def _idle(bed: Bed, sockets: int) -> list[Row]:
    targets = [target for _, target in bed.sessions]
    held, memory, seconds, idle = await _hold(targets, sockets, bed.worker)
    rows = {
        "held": {"gateway": held},
        "memory": {"gateway": memory},
        "open": {"gateway": seconds},
        "cpu": {"gateway": idle},
    }
    if bed.nginx and bed.nginx_worker:
        answers = await _hold([bed.nginx], sockets, bed.nginx_worker)
        for row, value in zip(rows.values(), answers, strict=True):
            row["nginx"] = value
    return [
        Row(f"idle WebSockets held, of {sockets}", "", **rows["held"]),
        Row("memory of the proxy per idle WebSocket", "kB", **rows["memory"]),
        Row(f"opening {sockets} WebSockets", "s", **rows["open"]),
        Row("a core's share while they idle", "%", **rows["cpu"]),
    ]


async def _filter(bed: Bed, sockets: int) -> list[Row]:
    """What one more who looks at a desktop costs the filter of VNC connections."""
    view, count = bed.gateway.processes[VIEW].pid, min(sockets, FILTERED)
    held, memory, seconds, idle = await _hold(
        [_session(bed.gateway, name, "desktop")[1] for name in bed.names], count, view
    )
    return [
        Row(f"idle VNC connections held, of {count}", "", held),
        Row("memory of the filter per VNC connection", "kB", memory),
        Row(f"opening {count} VNC connections", "s", seconds),
        Row("a core's share of the filter while they idle", "%", idle),
    ]


def _flood(bed: Bed, _: int) -> list[Row]:
    """What drivers notice while view-only sessions of a desktop send as much as they can, or as much as they may."""
    views = [_session(bed.gateway, "b0", "desktop", "view") for _ in range(FLOODERS)]
    drivers = [_session(bed.gateway, name, "desktop")[1] for name in ("b0", "b1")]
    targets = [target for _, target in views]
    quiet = asyncio.run(_late_ones(drivers))
    with _beside(_send, load.steady, targets):
        steady = asyncio.run(_late_ones(drivers))
    with _beside(_send, load.flood, targets):
        flooded = asyncio.run(_late_ones(drivers))
    states = {session["id"]: session["state"] for session in bed.gateway.listing()}
    rows = [Row(f"flooding sessions cut off, of {FLOODERS}", "", sum(states[id] == "revoked" for id, _ in views))]
    for where, *times in zip(("its driver", "another desktop's"), quiet, steady, flooded, strict=True):
        rows += [
            Row(f"round trip of {where}, quiet, p99", "us", times[0] * 1e6),
            Row("  beside all just below the limit, to quiet", "x", times[1] / times[0]),
            Row("  beside one flood after the other, to quiet", "x", times[2] / times[0]),
        ]
    return rows


def _send(load_of: Callable[[Sequence[Target]], Coroutine[Any, Any, None]], targets: Sequence[Target]) -> None:
    os.nice(10)  # who floods has a machine of his own
    asyncio.run(load_of(targets))


async def _late_ones(targets: Sequence[Target]) -> list[float]:
    """The p99 of round trips to each."""
    times = await asyncio.gather(*(load.round_trips(target, FLOOD_SECONDS) for target in targets))
    return [sorted(all_)[int(len(all_) * 0.99)] for all_ in times]


async def _hold(targets: Sequence[Target], count: int, worker: int) -> tuple[float, float, float, float]:
    """How many stayed open, kB of memory each, seconds to open them, per cent of a core while idle."""
    before, started = _resident_kb(worker), time.monotonic()
    lines = await load.open_many(targets, count)
    seconds, memory = time.monotonic() - started, (_resident_kb(worker) - before) / count
    cpu = _cpu_seconds(worker)
    await asyncio.sleep(10)
    idle = (_cpu_seconds(worker) - cpu) / 10 * 100
    held = sum(not reader.at_eof() and not writer.is_closing() for reader, writer in lines)
    await load.close_all(lines)
    return held, memory, seconds, idle


def _ways(bed: Bed) -> dict[str, Target]:
    ways = {"direct": bed.direct, "gateway": bed.sessions[0][1]}
    return ways if bed.nginx is None else {**ways, "nginx": bed.nginx}


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _resident_kb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 1000


def table(rows: Sequence[Row]) -> str:
    """The figures as text, with ratios against direct and nginx."""
    lines = [f"{'WHAT':<48}{'GATEWAY':>12}{'DIRECT':>12}{'NGINX':>12}  RATIOS"]
    for row in rows:
        shown = [
            f"{value:12.1f}" if value is not None else f"{'-':>12}" for value in (row.gateway, row.direct, row.nginx)
        ]
        ratios = [f"{row.gateway / v:.2f}x {n}" for n, v in (("direct", row.direct), ("nginx", row.nginx)) if v]
        lines.append(f"{row.name + (f' [{row.unit}]' if row.unit else ''):<48}{''.join(shown)}  {', '.join(ratios)}")
    return "\n".join(lines)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> None:
    """Print the figures; `arguments` are the number of sockets and whether to print JSON."""
    rows = measure(int(arguments[0]))
    print(dumps([asdict(row) for row in rows], indent=2) if "--json" in arguments else table(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
