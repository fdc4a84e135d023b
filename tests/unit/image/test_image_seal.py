"""An image is what was signed, or the part that is not is named."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from minisign import KeyPair

from deskyard.errors import ConfigError
from deskyard.image.store.seal import seal, seal_again, verify
from deskyard.image.store.signature import ensure_key, public_key_file, secret_key_file
from deskyard.image.store.store import DISK, MANIFEST, SBOM, SIGNATURE, image_folder

DIGEST = "a" * 16
CONTENT = b"the compressed disk"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    return tmp_path


def described(digest: str = DIGEST, **changes: Any) -> dict[str, Any]:
    return {
        "name": "desktop",
        "version": "0.1.0",
        "digest": digest,
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "built_at": "2026-01-01T10:00:00+00:00",
        "git_commit": None,
        "packages": {"sudo": "1"},
        **changes,
    }


def put_disk(digest: str = DIGEST) -> Path:
    folder = image_folder("desktop", digest)
    folder.mkdir(parents=True)
    (folder / DISK).write_bytes(CONTENT)
    return folder


@pytest.fixture
def sealed() -> Path:
    """The folder of an image as a build leaves it."""
    folder = put_disk()
    seal(folder, described())
    return folder


@pytest.fixture
def unsigned() -> Path:
    """The folder of an image as builds left it before images were signed."""
    folder = put_disk()
    (folder / MANIFEST).write_text(json.dumps(described()))
    return folder


def faults(reference: str = "desktop", key: Path | None = None) -> list[str]:
    return list(verify(reference, key).faults)


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def test_untouched_image_passes(sealed: Path) -> None:
    found = verify("desktop")
    assert found.passed
    assert (found.name, found.digest, found.faults) == ("desktop", DIGEST, {})
    assert sorted(path.name for path in sealed.iterdir()) == sorted([DISK, MANIFEST, SBOM, SIGNATURE])


@pytest.mark.parametrize(
    ("file", "part"),
    [(DISK, "disk"), (SBOM, "sbom"), (MANIFEST, "manifest"), (SIGNATURE, "signature")],
)
@pytest.mark.parametrize("where", [0.4, 0.6, 0.8])
def test_changed_byte_is_refused_and_its_part_named(sealed: Path, file: str, part: str, where: float) -> None:
    path = sealed / file
    flip(path, int(path.stat().st_size * where))
    assert part in faults()
    flip(path, int(path.stat().st_size * where))
    assert faults() == []


@pytest.mark.parametrize(("file", "part"), [(DISK, "disk"), (SBOM, "sbom"), (SIGNATURE, "signature")])
def test_changed_byte_of_what_the_manifest_vouches_for_is_blamed_on_nothing_else(
    sealed: Path, file: str, part: str
) -> None:
    path = sealed / file
    flip(path, path.stat().st_size // 2)
    assert faults() == [part]


def test_manifest_with_another_content_is_blamed_on_nothing_else(sealed: Path) -> None:
    path = sealed / MANIFEST
    path.write_text(path.read_text().replace('"sudo": "1"', '"sudo": "2"'))
    assert faults() == ["manifest"]


@pytest.mark.parametrize(("file", "part"), [(DISK, "disk"), (SBOM, "sbom"), (SIGNATURE, "signature")])
def test_missing_part_is_named(sealed: Path, file: str, part: str) -> None:
    (sealed / file).unlink()
    assert verify("desktop@aaaa").faults[part].startswith("is missing")
    assert faults("desktop@aaaa") == [part]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_manifest_that_is_none_is_named(sealed: Path, content: bytes) -> None:
    (sealed / MANIFEST).write_bytes(content)
    assert "manifest" in faults(f"desktop@{DIGEST}")


def test_disk_and_manifest_that_were_changed_together_are_refused(sealed: Path) -> None:
    (sealed / DISK).write_bytes(b"an evil disk")
    manifest = json.loads((sealed / MANIFEST).read_text())
    manifest["sha256"] = hashlib.sha256(b"an evil disk").hexdigest()
    (sealed / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")
    assert faults() == ["manifest"]


def test_image_that_another_key_signed_is_refused_and_both_keys_are_named(sealed: Path, home: Path) -> None:
    own = verify("desktop").key
    other = home / "other.pub"
    other.write_bytes(bytes(KeyPair.generate().public_key) + b"\n")
    found = verify("desktop", other)
    assert list(found.faults) == ["signature"]
    assert own in found.faults["signature"]
    assert found.key in found.faults["signature"]


def test_image_from_elsewhere_passes_with_its_builders_key(sealed: Path, home: Path) -> None:
    shutil.move(public_key_file(), home / "builder.pub")
    secret_key_file().unlink()
    assert faults(key=home / "builder.pub") == []
    ensure_key()
    assert faults() == ["signature"]


def test_image_in_the_place_of_another_is_refused(sealed: Path) -> None:
    other = "b" * 16
    shutil.copytree(sealed, image_folder("desktop", other))
    found = verify(other)
    assert found.faults == {"manifest": f"is that of desktop@{DIGEST}"}


def test_image_of_before_is_refused_until_it_is_signed(unsigned: Path) -> None:
    ensure_key()
    assert faults() == ["signature", "sbom"]
    seal_again("desktop")
    assert faults() == []
    manifest = json.loads((unsigned / MANIFEST).read_text())
    assert {key: manifest[key] for key in described()} == described()


def test_image_of_another_key_is_signed_again(sealed: Path) -> None:
    secret_key_file().unlink()
    public_key_file().unlink()
    seal_again("desktop")
    assert faults() == []


def damage_disk(folder: Path) -> None:
    (folder / DISK).write_bytes(b"an evil disk")


def damage_manifest(folder: Path) -> None:
    path = folder / MANIFEST
    path.write_text(path.read_text().replace('"sudo": "1"', '"sudo": "2"'))


@pytest.mark.parametrize("damage", [damage_disk, damage_manifest], ids=["disk", "manifest"])
def test_image_that_was_changed_is_not_signed_again(sealed: Path, damage: Callable[[Path], None]) -> None:
    damage(sealed)
    before = (sealed / SIGNATURE).read_bytes()
    with pytest.raises(ConfigError) as caught:
        seal_again("desktop")
    assert caught.value.remedy == "run ./inv image.build desktop --force"
    assert (sealed / SIGNATURE).read_bytes() == before


def test_lost_bill_of_materials_comes_back_with_a_new_signature(sealed: Path) -> None:
    before = (sealed / SBOM).read_bytes()
    (sealed / SBOM).unlink()
    seal_again("desktop")
    assert (sealed / SBOM).read_bytes() == before
    assert faults() == []


def test_checking_makes_no_key(unsigned: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        verify("desktop")
    assert not secret_key_file().exists()
