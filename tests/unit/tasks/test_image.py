"""The image tasks, as a person and a program read them."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from invoke import Context, Exit

from deskyard.image.build import build
from deskyard.image.store import files
from deskyard.image.store.store import image_folder
from deskyard.plan.image.file_diff import REASONS, DiskFiles, FileFacts, reason_of
from deskyard.tasks import image

EXPLAINED = next(iter(REASONS)).replace("*", "x")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_BASE", "bootstrap")
    monkeypatch.setattr(build, "build", lambda *_, **__: pytest.fail("an image was built"))
    return tmp_path / "home"


def test_explanation_says_why_and_builds_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image.build(Context(), "desktop", explain=True)
    assert capsys.readouterr().out == "image desktop would be built: it was never built here\n"
    assert not home.exists()


def test_dry_run_says_what_would_be_done_and_builds_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image.build(Context(), "desktop", dry_run=True)
    assert "\n  would bootstrap the base disk from packages\n" in capsys.readouterr().out
    assert not home.exists()


def test_program_reads_the_explanation_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    image.build(Context(), "desktop", explain=True, json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["name"], printed["rebuild"], printed["changes"]) == ("desktop", True, [])


def put(digest: str, **changes: Any) -> None:
    """Keep a build as it was described before inputs were recorded."""
    folder = image_folder("desktop", digest)
    folder.mkdir(parents=True)
    (folder / "disk.qcow2").write_bytes(b"disk")
    manifest = {
        "name": "desktop",
        "version": "0.1.0",
        "digest": digest,
        "sha256": digest * 4,
        "size_bytes": 1 << 20,
        "built_at": "2026-01-01T10:00:00+00:00",
        "git_commit": None,
        "base": {"kind": "bootstrap", "digest": "b" * 16},
        "accelerator": "tcg",
        "tools": {},
        "packages": {"sudo": "1"},
    }
    (folder / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def test_difference_of_two_builds_is_told_by_section(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16)
    put("b" * 16, size_bytes=3 << 20, packages={"sudo": "2", "vim": "9"})
    image.diff(Context(), "aaaa", "desktop@bbbb")
    assert capsys.readouterr().out.splitlines() == [
        f"desktop@{'a' * 16} -> desktop@{'b' * 16}",
        "disk: 1.0 MiB -> 3.0 MiB (+2.0 MiB)",
        "facts: none differ",
        "tools: none differ",
        "packages: 2 differ",
        "  added       vim 9",
        "  changed     sudo 1 -> 2",
        "inputs: not recorded by both builds",
    ]


def test_program_reads_the_difference_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16)
    put("b" * 16, packages={})
    image.diff(Context(), "aaaa", "bbbb", json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed["packages"]["removed"] == {"sudo": "1"}
    assert (printed["same_disk"], printed["inputs"]) == (False, None)


def test_files_are_compared_when_asked_and_told_by_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    put("a" * 16)
    put("b" * 16)
    disks = {
        "a" * 16: {"/etc/new": FileFacts("100644", "0:0", 3, "x"), EXPLAINED: FileFacts("100644", "0:0", 5, "x")},
        "b" * 16: {"/etc/new": FileFacts("100644", "0:0", 4, "y"), EXPLAINED: FileFacts("100644", "0:0", 5, "y")},
    }
    monkeypatch.setattr(files, "list_files", lambda built: DiskFiles(disks[built.digest], {}))
    image.diff(Context(), "aaaa", "bbbb", files=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3:] == [
        "files: 2 differ, 1 of them for no known reason",
        "  content     /etc/new  3 -> 4 bytes",
        f"       1  {reason_of(EXPLAINED)}",
    ]
    image.diff(Context(), "aaaa", "bbbb", files=True, json=True)
    found = json.loads(capsys.readouterr().out)["files"]
    assert [(file["path"], bool(file["reason"])) for file in found] == sorted([("/etc/new", False), (EXPLAINED, True)])


@pytest.mark.parametrize(
    ("after", "verdict"),
    [("x", "files: none differ"), ("y", f"files: 1 differ, each for a known reason\n       1  {reason_of(EXPLAINED)}")],
)
def test_nothing_unexplained_is_said_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, after: str, verdict: str
) -> None:
    put("a" * 16)
    put("b" * 16)
    content = {"a" * 16: "x", "b" * 16: after}
    monkeypatch.setattr(
        files,
        "list_files",
        lambda built: DiskFiles({EXPLAINED: FileFacts("100644", "0:0", 1, content[built.digest])}, {}),
    )
    image.diff(Context(), "aaaa", "bbbb", files=True)
    assert capsys.readouterr().out.endswith(f"{verdict}\n")


def test_files_are_not_read_unless_asked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    put("a" * 16)
    monkeypatch.setattr(files, "list_files", lambda _: pytest.fail("a disk was read"))
    image.diff(Context(), "aaaa", "aaaa", json=True)
    assert json.loads(capsys.readouterr().out)["files"] is None


def test_difference_with_an_unknown_build_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16)
    with pytest.raises(Exit) as caught:
        image.diff(Context(), "desktop", "cccc")
    assert caught.value.code == 1
    assert f"choose one of: desktop@{'a' * 16}" in capsys.readouterr().err


def test_bill_of_materials_of_an_older_build_is_made_from_its_manifest(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16, sha256="c" * 64, packages={"sudo": "1"})
    image.sbom(Context(), "desktop")
    printed = json.loads(capsys.readouterr().out)
    assert [component["purl"] for component in printed["components"]] == ["pkg:deb/debian/sudo@1?distro=debian-13"]


def test_bill_of_materials_that_lies_beside_the_manifest_is_printed_as_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    put("a" * 16)
    (image_folder("desktop", "a" * 16) / "sbom.cdx.json").write_text("{}\n")
    image.sbom(Context(), "desktop")
    assert capsys.readouterr().out == "{}\n"


def test_image_is_signed_and_then_verifies(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16, sha256=hashlib.sha256(b"disk").hexdigest())
    image.sign(Context(), "desktop", json=True)
    public = json.loads(capsys.readouterr().out)["public_key"]
    image.verify(Context(), "desktop", key=public)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"desktop@{'a' * 16} is what was signed with key ")
    assert [line.split() for line in lines[1:]] == [[part, "ok"] for part in ("signature", "manifest", "disk", "sbom")]


def test_image_that_was_changed_ends_with_an_error_code_and_the_part(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16, sha256=hashlib.sha256(b"disk").hexdigest())
    image.sign(Context(), "desktop")
    (image_folder("desktop", "a" * 16) / "disk.qcow2").write_bytes(b"evil")
    capsys.readouterr()
    with pytest.raises(Exit) as caught:
        image.verify(Context(), "desktop", json=True)
    assert caught.value.code == 1
    printed = json.loads(capsys.readouterr().out)
    assert (printed["passed"], list(printed["faults"])) == (False, ["disk"])
    with pytest.raises(Exit):
        image.verify(Context(), "desktop")
    printed = capsys.readouterr().out
    assert "is NOT what was signed" in printed
    assert "disk        has the sha256" in printed


BOOT = {
    "first_frame_seconds": 93.2,
    "state": "running",
    "phases": {"kernel": 3.2, "userspace": 80.5},
    "total_seconds": 83.7,
    "critical_chain": ["graphical.target @1min 19.004s"],
    "slowest_units": {"vnc.service": 38.9},
    "idle_memory_mib": 412,
}


def test_costs_of_an_image_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16, boot=BOOT, boot_seconds=131.0, hygiene=[], installed_kib={"chromium": 307200, "sudo": 6144})
    image.show_(Context(), "desktop")
    text = capsys.readouterr().out
    assert "  disk      1.0 MiB, compressed\n  packages  1, 306.0 MiB installed\n" in text
    assert "SSH after 131.0 s; first frame 93.2 s after the kernel's start; kernel 3.2 s + userspace 80.5 s; " in text
    assert "systemd says running\n" in text
    assert "412 MiB used when idle" in text
    assert "       300.0 MiB  chromium\n" in text
    assert "not recorded" not in text


def test_costs_that_an_older_build_did_not_record_are_called_so(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16)
    image.show_(Context(), "desktop")
    assert "not recorded when it was built: installed sizes, boot, hygiene" in capsys.readouterr().out
    image.show_(Context(), "desktop", json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["boot"], printed["largest_packages"], printed["size_bytes"]) == (None, None, 1 << 20)


def test_hygiene_is_told_check_by_check(capsys: pytest.CaptureFixture[str]) -> None:
    check = {"what": "SSH host keys", "places": ["/etc/ssh/ssh_host_*"], "found": []}
    put("a" * 16, hygiene=[check])
    image.hygiene(Context(), "desktop")
    assert "  SSH host keys                 none  /etc/ssh/ssh_host_*\n" in capsys.readouterr().out
    image.hygiene(Context(), "desktop", json=True)
    assert json.loads(capsys.readouterr().out)["checks"] == [check]


def test_hygiene_of_an_older_build_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    put("a" * 16)
    image.hygiene(Context(), "desktop")
    assert "not known" in capsys.readouterr().out
    image.hygiene(Context(), "desktop", json=True)
    assert json.loads(capsys.readouterr().out)["recorded"] is False
