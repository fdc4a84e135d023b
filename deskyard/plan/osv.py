"""Reads records of the Open Source Vulnerability format: https://ossf.github.io/osv-schema/."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cvss import CVSS2, CVSS3, CVSS4, CVSSError
from univers.versions import InvalidVersion, Version

from deskyard.plan.vulnerability import VERSIONS, Finding, Severity, Subject, severity_of

Record = Mapping[str, Any]
ECOSYSTEMS = {"debian": "Debian", "ubuntu": "Ubuntu"}
SCORES: dict[str, Callable[[str], Any]] = {"CVSS_V4": CVSS4, "CVSS_V3": CVSS3, "CVSS_V2": CVSS2}
RANGES = ("ECOSYSTEM", "SEMVER")


def is_record(value: object) -> bool:
    """Whether a JSON value is a record of this format."""
    return isinstance(value, dict) and "id" in value and ("affected" in value or "modified" in value)


def date(records: Iterable[Record]) -> str | None:
    """When the newest of the records was changed."""
    return max((str(one["modified"]) for one in records if one.get("modified")), default=None)


def findings(subjects: Iterable[Subject], records: Iterable[Record]) -> Iterator[Finding]:
    """What the records say of the subjects; records that were withdrawn say nothing."""
    by_name: dict[tuple[str, str], list[tuple[Record, Record]]] = {}
    for record in records:
        for affected in () if record.get("withdrawn") else record.get("affected", ()):
            package = affected.get("package", {})
            by_name.setdefault((package.get("ecosystem", ""), package.get("name", "")), []).append((record, affected))
    ecosystems = {ecosystem for ecosystem, _ in by_name}
    for subject in subjects:
        for ecosystem in sorted(one for one in ecosystems if _is_of(subject, one)):
            for record, affected in by_name.get((ecosystem, subject.source), ()):
                if (found := _finding(subject, record, affected)) is not None:
                    yield found


def _is_of(subject: Subject, ecosystem: str) -> bool:
    """`Debian` is every release of it, `Debian:13` and `Ubuntu:24.04:LTS` one."""
    if subject.kind == "npm":
        return ecosystem == "npm"
    own = ECOSYSTEMS.get(subject.distribution, "?")
    return ecosystem == own or f"{ecosystem}:".startswith(f"{own}:{subject.release}:")


def _finding(subject: Subject, record: Record, affected: Record) -> Finding | None:
    ordering = VERSIONS[subject.kind]
    try:
        version = ordering(subject.source_version)
        ranges = [one for one in affected.get("ranges", ()) if one.get("type") in RANGES]
        listed = subject.source_version in affected.get("versions", ())
        if not listed and not any(_holds(one.get("events", ()), version, ordering) for one in ranges):
            return None
        fixes = [ordering(event["fixed"]) for one in ranges for event in one.get("events", ()) if "fixed" in event]
    except InvalidVersion:
        # What cannot be ordered is compared by name alone.
        if subject.source_version not in affected.get("versions", ()):
            return None
        fixes = []
    fixed = min((fix for fix in fixes if fix > version), default=None)
    return Finding(
        id=record["id"],
        ref=subject.ref,
        package=subject.name,
        version=subject.version,
        severity=_severity(record, affected),
        fixed=None if fixed is None else fixed.string,
        summary=str(record.get("summary") or record.get("details") or "").split("\n")[0],
    )


def _holds(events: Iterable[Mapping[str, str]], version: Version, ordering: type[Version]) -> bool:
    """Whether a version lies in a range: the last event at or before it decides."""
    turns: list[tuple[Version | None, int, bool]] = []
    for event in events:
        for kind, value in event.items():
            if kind == "introduced":
                turns.append((None if value == "0" else ordering(value), 1, True))
            elif kind == "fixed":
                turns.append((ordering(value), 0, False))
            elif kind == "last_affected" and version > ordering(value):
                turns.append((ordering(value), 2, False))
    passed = [turn for turn in turns if turn[0] is None or not turn[0] > version]
    inside = False
    for _, _, opens in sorted(passed, key=_by_version(ordering)):
        inside = opens
    return inside


def _by_version(ordering: type[Version]) -> Callable[[tuple[Version | None, int, bool]], Any]:
    """From the first version on; at the same one an end comes before a beginning, but after the last affected."""
    zero = ordering("0.0.0") if ordering is VERSIONS["npm"] else ordering("0")
    return lambda turn: (turn[0] is not None, turn[0] or zero, turn[1])


def _severity(record: Record, affected: Record) -> Severity:
    """By the newest CVSS that is given, else by the database's own word."""
    given = {one.get("type"): one.get("score") for one in (*record.get("severity", ()), *affected.get("severity", ()))}
    for kind, score in SCORES.items():
        try:
            if kind in given:
                return severity_of(score(given[kind]).severities()[0])
        except CVSSError:
            continue
    words = [given.get("Ubuntu")]
    for holder in (affected, record):
        for field in ("ecosystem_specific", "database_specific"):
            specific = holder.get(field) or {}
            words += [specific.get("severity"), specific.get("urgency")]
    known = [severity_of(word) for word in words]
    return next((one for one in known if one != "unknown"), "unknown")
