"""The proof of the audit: its own check, and what each gateway holds of it beside what it says now."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from deskyard.access.gateway_program import Rubbish
from deskyard.control.anchors.gateways import AT_ONCE, Gateways, Line, plain
from deskyard.control.anchors.visit import HEAD, hashes, known
from deskyard.control.recorder import chain
from deskyard.control.recorder.chain import Verdict
from deskyard.control.store.connection import Link
from deskyard.errors import DeskyardError

LISTED = 20  # of a gateway's lines that differ


@dataclass(frozen=True)
class Asked:
    """A gateway's answer: the lines it holds, or why it is no witness."""

    workspace: str
    held: Sequence[Line] = ()
    problem: str | None = None  # what is wrong with the gateway
    silence: str | None = None  # why it was not asked


@dataclass(frozen=True)
class Difference:
    """A line that a gateway holds otherwise: its hash in the chain (none if it is missing), that in the gateway."""

    line: int
    chain: str | None
    anchored: str
    at: str
    means: str


def prove(link: Link, source: str, gateways: Gateways) -> dict[str, Any]:
    """Check the chain, and compare it with every gateway of the host."""
    names = gateways.names()
    noted = {name: known(link, name) for name in names}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = list(pool.map(lambda name: _ask(name, source, noted[name], gateways), names))
    # The chain is read afterwards: what is anchored meanwhile is in it.
    wanted = sorted({line.number for found in asked for line in found.held})
    with link.transaction():
        verdict = chain.verify_all(link)
        there = hashes(link, wanted)
    compared = compare(verdict, there, asked)
    for gateway in compared["gateways"]:
        gateway["anew"] = _anew(link, gateway["workspace"])
    return {"source": source, **compared, "unproved": _unproved(link, compared["proved"], verdict)}


def compare(verdict: Verdict, there: Mapping[int, str], asked: Sequence[Asked]) -> dict[str, Any]:
    """The verdict on the chain with each gateway's; `there` has the hashes of the lines that gateways hold."""
    gateways = [_judged(found, there) for found in asked]
    wrong = verdict.problem is not None or any(gateway["state"] in ("differs", "wrong") for gateway in gateways)
    return {
        "ok": not wrong,
        "entries": verdict.entries,
        "head": verdict.head,
        "problem": verdict.problem,
        "proved": _proved(verdict, there, asked),
        "gateways": gateways,
    }


def _proved(verdict: Verdict, there: Mapping[int, str], asked: Sequence[Asked]) -> int:
    """Up to which line gateways prove the chain: a hash covers all lines before it, as far as nothing is wrong."""
    differing = [line.number for found in asked for line in found.held if there.get(line.number) != line.hash]
    end = min([verdict.entries + 1, *differing])
    # A gateway that is not whole itself proves nothing.
    return max(
        (line.number for found in asked if not found.problem for line in found.held if line.number < end), default=0
    )


def _ask(name: str, source: str, noted: Line | None, gateways: Gateways) -> Asked:
    try:
        problem = gateways.audit(name, noted).problem
        return Asked(name, gateways.held(name, source), problem)
    except Rubbish as error:
        return Asked(name, problem=error.reason)
    except DeskyardError as error:
        return Asked(name, silence=plain(f"{error.field}: {error.reason}"))


def _judged(found: Asked, there: Mapping[int, str]) -> dict[str, Any]:
    """A gateway's state: matches, differs, wrong (the gateway itself is), empty or not asked."""
    wrong = [line for line in found.held if there.get(line.number) != line.hash]
    right = [line.number for line in found.held if there.get(line.number) == line.hash]
    if found.silence is not None:
        state = "not asked"
    elif found.problem is not None and not wrong:
        state = "wrong"
    else:
        state = "differs" if wrong else "matches" if right else "empty"
    return {
        "workspace": found.workspace,
        "state": state,
        "reason": found.silence or found.problem,
        "anchors": len(found.held),
        "last": max(right, default=0),
        "differing": len(wrong),
        "differences": [asdict(_difference(line, right, there)) for line in wrong[:LISTED]],
    }


def _difference(line: Line, right: Sequence[int], there: Mapping[int, str]) -> Difference:
    now = there.get(line.number)
    if now is None:
        means = f"the audit had line {line.number} at {line.at}: its end was cut off since"
    else:
        first = max((number for number in right if number < line.number), default=0) + 1
        means = (
            f"of lines {first} to {line.number} one was changed after {line.at}, and the hashes since made anew; "
            "or this gateway holds what was never in the audit"
        )
    return Difference(line.number, now, line.hash, line.at, means)


def _unproved(link: Link, proved: int, verdict: Verdict) -> dict[str, Any] | None:
    """How far back the oldest line goes that no gateway proves; None if all are proved."""
    row = link.execute("select number, at from audit_entry where number > %s order by number limit 1", [proved])
    first = row.fetchone()
    if first is None:
        return None
    return {"line": first["number"], "at": first["at"].isoformat(), "lines": max(verdict.entries - proved, 0)}


def _anew(link: Link, workspace: str) -> list[dict[str, Any]]:
    """When a gateway's audit was found to be another than before: it was made anew, or rewritten."""
    query = "select number, at from audit_entry where action = %s and target = %s and detail ? 'anew' order by number"
    rows = link.execute(query, [HEAD, workspace]).fetchall()
    return [{"line": row["number"], "at": row["at"].isoformat()} for row in rows[-LISTED:]]
