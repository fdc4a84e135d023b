"""Matches an image's bill of materials with known vulnerabilities: data that the user has, or an installed scanner."""

import json
import shlex
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deskyard.errors import CommandError, ConfigError
from deskyard.host.command import run
from deskyard.image.store.seal import bill_of_materials
from deskyard.image.store.store import BuiltImage
from deskyard.plan.vulnerability import debian_tracker, osv
from deskyard.plan.vulnerability.findings import Finding, Subject, ordered, severity_of, subjects

SCAN_SECONDS = 900.0
# How known scanners are asked for CycloneDX; another command gets the file as its last argument.
SCANNERS = {"grype": ("{sbom}", "-o", "cyclonedx-json"), "trivy": ("sbom", "--format", "cyclonedx", "{sbom}")}
SOURCES = "https://security-tracker.debian.org/tracker/data/json or an all.zip of https://osv.dev"


@dataclass(frozen=True)
class Scan:
    """The vulnerabilities of an image as far as they are known, by which data, and of when that data is."""

    name: str
    digest: str
    data: str
    data_date: str
    scanned_at: str
    components: int
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]
    bom: dict[str, Any]


def scan(built: BuiltImage, data: Path | None, command: str | None) -> Scan:
    """Scan a built image; raises `ConfigError` if there is nothing to compare it with, or it cannot be read."""
    text = bill_of_materials(built)
    bom = json.loads(text)
    asked = subjects(bom)
    if data is not None and command:
        raise ConfigError("data", str(data), "and --command were both given", "give one of them")
    if data is not None:
        kind, date, found = _by_data(data, asked)
    elif command:
        kind, date, found = _by_command(command, text)
    else:
        reason = "no vulnerability data was given, and Deskyard fetches none: nothing is known of this image"
        raise ConfigError("data", None, reason, f"give --data a file from {SOURCES}, or --command grype or trivy")
    return Scan(
        name=built.name,
        digest=built.digest,
        data=kind,
        data_date=date,
        scanned_at=datetime.now(UTC).isoformat(timespec="seconds"),
        components=len(asked),
        findings=tuple(ordered(found)),
        remarks=tuple(_remarks(built, bom, asked)),
        bom=bom,
    )


def _remarks(built: BuiltImage, bom: dict[str, Any], asked: list[Subject]) -> Iterator[str]:
    unknown = sorted(
        component["name"] for component in bom.get("components", ()) if component.get("bom-ref") not in _refs(asked)
    )
    if unknown:
        yield f"no data names these, look after them yourself: {', '.join(unknown)}"
    if "sources" not in built.manifest:
        yield "the image was built before sources of packages were recorded: some vulnerabilities are not seen"


def _refs(asked: list[Subject]) -> set[str]:
    return {subject.ref for subject in asked}


def _by_data(path: Path, asked: list[Subject]) -> tuple[str, str, list[Finding]]:
    values = list(_values(path))
    if len(values) == 1 and debian_tracker.is_tracker(values[0]):
        # The tracker's file holds no date.
        date = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
        found = list(debian_tracker.findings(asked, values[0]))
        return f"Debian security tracker, {path}", f"{date} (time of the file; it tells none itself)", found
    records = [record for value in values for record in _records(value)]
    if not records or not all(map(osv.is_record, records)):
        reason = "is neither of the OSV format nor that of Debian's security tracker"
        raise ConfigError("data", str(path), reason, f"give a file from {SOURCES}")
    date = osv.date(records) or "unknown"
    return f"OSV, {len(records)} records, {path}", f"{date} (newest record)", list(osv.findings(asked, records))


def _values(path: Path) -> Iterator[Any]:
    """The JSON values in a file, or in each file of a zip."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith(".json"):
                        yield json.loads(archive.read(name))
        else:
            yield json.loads(path.read_text())
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise ConfigError("data", str(path), f"cannot be read: {error}", f"give a file from {SOURCES}") from error


def _records(value: Any) -> list[Any]:
    if isinstance(value, dict) and isinstance(value.get("vulns"), list):
        return list(value["vulns"])
    return value if isinstance(value, list) else [value]


def _by_command(command: str, sbom: str) -> tuple[str, str, list[Finding]]:
    words = shlex.split(command)
    with tempfile.TemporaryDirectory(prefix="deskyard-scan-") as folder:
        path = Path(folder) / "sbom.cdx.json"
        path.write_text(sbom)
        arguments = SCANNERS.get(Path(words[0]).name, ("{sbom}",)) if len(words) == 1 else ("{sbom}",)
        argv = [*words, *(word.replace("{sbom}", str(path)) for word in arguments)]
        answer = run(argv, timeout=SCAN_SECONDS).stdout
    try:
        reported = json.loads(answer)
        found = [*_findings_of(reported)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = "did not print CycloneDX in JSON"
        raise CommandError("command", command, reason, "give a scanner that does, such as grype or trivy") from error
    return f"scanner {command}", "unknown (the scanner's own data)", found


def _findings_of(document: dict[str, Any]) -> Iterator[Finding]:
    """The vulnerabilities in a scanner's answer."""
    if document.get("bomFormat") != "CycloneDX":
        raise ValueError("no CycloneDX")
    components = {component.get("bom-ref"): component for component in document.get("components", ())}
    for entry in document.get("vulnerabilities", ()):
        worst = ordered(_of(entry, "", "", rating.get("severity")) for rating in entry.get("ratings", ()))
        for target in entry.get("affects", ()):
            component = components.get(target["ref"], {})
            ref = component.get("purl", target["ref"])
            package, version = component.get("name", target["ref"]), component.get("version", "")
            found = _of(entry, package, version, worst[0].severity if worst else None)
            yield Finding(**{**vars(found), "ref": ref})


def _of(reported: dict[str, Any], package: str, version: str, severity: object) -> Finding:
    summary = str(reported.get("description") or "").split("\n")[0]
    return Finding(reported["id"], "", package, version, severity_of(severity), None, summary)
