"""Reads the JSON of Debian's security tracker: https://security-tracker.debian.org/tracker/data/json."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deskyard.errors import ConfigError
from deskyard.plan.vulnerability import VERSIONS, Finding, Subject, severity_of

# The tracker calls releases by their names.
RELEASES = {"11": "bullseye", "12": "bookworm", "13": "trixie", "14": "forky"}
NEVER_AFFECTED = "0"


def is_tracker(value: object) -> bool:
    """Whether a JSON value is the tracker's: sources, each with its issues, each with its releases."""
    if not isinstance(value, dict) or not value:
        return False
    first = next(iter(value.values()))
    issue = next(iter(first.values()), None) if isinstance(first, dict) else None
    return isinstance(issue, dict) and "releases" in issue


def findings(subjects: Iterable[Subject], tracker: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    """What the tracker says of the Debian packages among the subjects.

    Issues that it calls undetermined are no findings: nobody knows whether the release is affected.
    """
    for subject in subjects:
        if subject.kind != "deb" or subject.distribution != "debian":
            continue
        release = _release(subject)
        for identity, issue in tracker.get(subject.source, {}).items():
            told = issue.get("releases", {}).get(release)
            if told is not None and _is_affected(subject, told):
                yield Finding(
                    id=identity,
                    ref=subject.ref,
                    package=subject.name,
                    version=subject.version,
                    severity=severity_of(told.get("urgency")),
                    fixed=told.get("fixed_version") if told.get("status") == "resolved" else None,
                    summary=str(issue.get("description", "")).split("\n")[0],
                )


def _release(subject: Subject) -> str:
    if subject.release in RELEASES.values():
        return subject.release
    if subject.release not in RELEASES:
        reason = "is a release whose name in the tracker is not known here"
        raise ConfigError("distribution", f"debian {subject.release}", reason, "use data of the OSV format")
    return RELEASES[subject.release]


def _is_affected(subject: Subject, told: Mapping[str, Any]) -> bool:
    if told.get("status") == "open":
        return True
    fixed = told.get("fixed_version")
    if told.get("status") != "resolved" or not fixed or fixed == NEVER_AFFECTED:
        return False
    ordering = VERSIONS["deb"]
    return bool(ordering(subject.source_version) < ordering(fixed))
