"""A scan is by data that was given or by a scanner, and says which and of when; without either nothing is known."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest
from invoke import Context, Exit

from deskyard.errors import CommandError, ConfigError
from deskyard.image.store.scan import scan
from deskyard.image.store.store import BuiltImage, image_folder
from deskyard.plan.vulnerability.findings import severity_of
from deskyard.tasks import image
from tests.support.json_schema import fault_of_cyclonedx

MANIFEST: dict[str, Any] = {
    "name": "desktop",
    "version": "0.1.0",
    "digest": "a" * 16,
    "sha256": "b" * 64,
    "built_at": "2026-11-20T10:00:00+00:00",
    "git_commit": None,
    "artifacts": {"ttyd": "1.7.7"},
    "distribution": {"id": "debian", "version": "13"},
    "packages": {"libssl3t64": "3.5.1-1", "sudo": "1.9"},
    "sources": {"libssl3t64": {"name": "openssl", "version": "3.5.1-1"}},
}
RECORD = {
    "id": "CVE-2026-1",
    "modified": "2026-11-01T00:00:00Z",
    "summary": "a flaw",
    "database_specific": {"severity": "HIGH"},
    "affected": [
        {
            "package": {"ecosystem": "Debian:13", "name": "openssl"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "3.5.2-1"}]}],
        }
    ],
}
TRACKER = {
    "openssl": {"CVE-2026-2": {"description": "x", "releases": {"trixie": {"status": "open", "urgency": "low"}}}}
}


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuiltImage:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_BASE", "bootstrap")
    folder = image_folder("desktop", "a" * 16)
    folder.mkdir(parents=True)
    (folder / "disk.qcow2").touch()
    (folder / "manifest.json").write_text(json.dumps(MANIFEST))
    return BuiltImage("desktop", "a" * 16, folder / "disk.qcow2", MANIFEST)


def data(tmp_path: Path, value: object) -> Path:
    path = tmp_path / "data.json"
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize("value", [RECORD, [RECORD], {"vulns": [RECORD]}], ids=["one", "list", "answer"])
def test_records_are_read_with_their_date(built: BuiltImage, tmp_path: Path, value: object) -> None:
    found = scan(built, data(tmp_path, value), None)
    assert [(finding.id, finding.package, finding.severity, finding.fixed) for finding in found.findings] == [
        ("CVE-2026-1", "libssl3t64", "high", "3.5.2-1")
    ]
    assert found.data_date == "2026-11-01T00:00:00Z (newest record)"


def test_zip_of_records_is_read(built: BuiltImage, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("CVE-2026-1.json", json.dumps(RECORD))
        archive.writestr("README", "no record")
    assert len(scan(built, tmp_path / "all.zip", None).findings) == 1


def test_tracker_is_read_with_the_date_of_the_file(built: BuiltImage, tmp_path: Path) -> None:
    path = data(tmp_path, TRACKER)
    os.utime(path, (0, 0))
    found = scan(built, path, None)
    assert [finding.id for finding in found.findings] == ["CVE-2026-2"]
    assert found.data_date.startswith("1970-01-01T00:00:00+00:00 (time of the file")


@pytest.mark.parametrize("value", [{}, [], {"a": 1}, [RECORD, TRACKER]], ids=["nothing", "none", "other", "mixed"])
def test_other_data_is_refused(built: BuiltImage, tmp_path: Path, value: object) -> None:
    with pytest.raises(ConfigError, match="neither of the OSV format"):
        scan(built, data(tmp_path, value), None)


def test_data_that_cannot_be_read_is_refused(built: BuiltImage, tmp_path: Path) -> None:
    (tmp_path / "broken").write_text("{")
    for name in ("broken", "missing"):
        with pytest.raises(ConfigError, match="cannot be read"):
            scan(built, tmp_path / name, None)


def test_without_data_nothing_is_known_and_none_is_fetched(built: BuiltImage) -> None:
    with pytest.raises(ConfigError, match="Deskyard fetches none: nothing is known"):
        scan(built, None, None)


def test_what_no_data_names_is_said(built: BuiltImage, tmp_path: Path) -> None:
    assert scan(built, data(tmp_path, RECORD), None).remarks == ("no data names these, look after them yourself: ttyd",)
    older = BuiltImage("desktop", "a" * 16, built.disk, {k: v for k, v in MANIFEST.items() if k != "sources"})
    found = scan(older, data(tmp_path, RECORD), None)
    assert found.findings == ()
    assert "before sources of packages were recorded" in found.remarks[1]


def scanner(tmp_path: Path, name: str, body: str) -> Path:
    program = tmp_path / name
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


ANSWER = {
    "bomFormat": "CycloneDX",
    "components": [{"bom-ref": "x1", "name": "sudo", "version": "1.9", "purl": "pkg:deb/debian/sudo@1.9"}],
    "vulnerabilities": [
        {"id": "CVE-2026-3", "ratings": [{"severity": "low"}, {"severity": "critical"}], "affects": [{"ref": "x1"}]}
    ],
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("grype", "{sbom} -o cyclonedx-json"), ("trivy", "sbom --format cyclonedx {sbom}"), ("other", "{sbom}")],
)
def test_scanner_gets_the_bill_of_materials_and_is_read(
    built: BuiltImage, tmp_path: Path, name: str, expected: str
) -> None:
    notes = tmp_path / "told"
    body = f'echo "$*" >{notes}; for word; do test -f "$word" && cp "$word" {notes}.sbom; done; cat {tmp_path}/answer'
    (tmp_path / "answer").write_text(json.dumps(ANSWER))
    found = scan(built, None, str(scanner(tmp_path, name, body)))
    assert [(finding.id, finding.package, finding.version, finding.severity) for finding in found.findings] == [
        ("CVE-2026-3", "sudo", "1.9", "critical")
    ]
    words = notes.read_text().split()
    assert [("{sbom}" if word.endswith("sbom.cdx.json") else word) for word in words] == expected.split()
    assert json.loads((tmp_path / "told.sbom").read_text())["bomFormat"] == "CycloneDX"
    assert "unknown" in found.data_date


def test_scanner_that_says_something_else_or_fails_is_an_error(built: BuiltImage, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="did not print CycloneDX"):
        scan(built, None, str(scanner(tmp_path, "talks", "echo hello")))
    with pytest.raises(CommandError, match="no database"):
        scan(built, None, str(scanner(tmp_path, "fails", "echo no database >&2; exit 1")))


@pytest.mark.parametrize(("limit", "code"), [("", None), ("critical", None), ("high", 1), ("low", 1)])
def test_limit_makes_the_exit_code(built: BuiltImage, tmp_path: Path, limit: str, code: int | None) -> None:
    path = str(data(tmp_path, RECORD))
    if code is None:
        image.scan(Context(), "desktop", data=path, fail_on=limit)
        return
    with pytest.raises(Exit) as caught:
        image.scan(Context(), "desktop", data=path, fail_on=limit)
    assert caught.value.code == code


def test_unknown_limit_is_refused(built: BuiltImage, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exit):
        image.scan(Context(), "desktop", data="x", fail_on="dreadful")
    assert "choose one of: none, low, medium, high, critical" in capsys.readouterr().err


def test_table_document_and_json_say_the_same(
    built: BuiltImage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Their judge takes two seconds to load, which each process that collects this file would spend.

    path = str(data(tmp_path, RECORD))
    image.scan(Context(), "desktop", data=path, vex=str(tmp_path / "vex.json"))
    table = capsys.readouterr().out
    assert "1 known vulnerabilities in 2 packages" in table
    assert "  of        2026-11-01T00:00:00Z (newest record)\n" in table
    assert table.splitlines()[-1].split() == ["high", "CVE-2026-1", "libssl3t64", "3.5.1-1", "3.5.2-1", "a", "flaw"]
    text = (tmp_path / "vex.json").read_text()
    assert fault_of_cyclonedx(text) is None
    image.scan(Context(), "desktop", data=path, json=True)
    printed = json.loads(capsys.readouterr().out)
    assert [finding["id"] for finding in printed["findings"]] == [
        entry["id"] for entry in json.loads(text)["vulnerabilities"]
    ]
    assert severity_of(printed["findings"][0]["severity"]) == "high"
