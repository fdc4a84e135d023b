"""Puts beside a disk what vouches for it, and checks it: signature -> manifest -> disk and bill of materials."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minisign import PublicKey

from deskyard.errors import ConfigError
from deskyard.image.store.signature import ensure_key, fault, key_id, read_public_key, sign
from deskyard.image.store.store import DISK, MANIFEST, SBOM, SIGNATURE, BuiltImage, choose, image_folder, locate
from deskyard.plan.image.sbom import sbom

PARTS = ("signature", "manifest", "disk", "sbom")


@dataclass(frozen=True)
class Verification:
    """Whether an image is what the holder of the key signed; what is wrong, by part."""

    name: str
    digest: str
    key: str
    faults: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether everything matches."""
        return not self.faults


def seal(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Write the bill of materials, the manifest of the disk in `folder`, and the signature of the manifest."""
    text = sbom(manifest).encode()
    sealed = {**manifest, "sbom": {"file": SBOM, "sha256": hashlib.sha256(text).hexdigest()}}
    content = (json.dumps(sealed, indent=2) + "\n").encode()
    signature = sign(content, f"image {manifest['name']}@{manifest['digest']}")
    # Stopped half-way, an image that was sealed before is without a signature rather than with a wrong one.
    (folder / SIGNATURE).unlink(missing_ok=True)
    for name, data in ((SBOM, text), (MANIFEST, content), (SIGNATURE, signature)):
        draft = folder / f".{name}"
        draft.write_bytes(data)
        draft.replace(folder / name)


def seal_again(reference: str) -> BuiltImage:
    """Sign an image that was built without a signature, or is to have that of the present key.

    Raises `ConfigError` if its disk, or a manifest that the present key signed, was changed.
    """
    built = choose(reference)
    ensure_key()
    faults = verify(f"{built.name}@{built.digest}").faults
    for part in ("manifest", "disk"):
        if part in faults:
            remedy = f"run ./inv image.build {built.name} --force"
            raise ConfigError("image", reference, f"its {part} {faults[part]}", remedy)
    seal(built.disk.parent, built.manifest)
    return choose(f"{built.name}@{built.digest}")


def verify(reference: str, key_file: Path | None = None) -> Verification:
    """Check signature, manifest, disk and bill of materials of a built image against each other."""
    name, digest = locate(reference)
    folder, key = image_folder(name, digest), read_public_key(key_file)
    content = _read(folder / MANIFEST)
    manifest = _parse(content)
    faults = {**_manifest_faults(manifest, name, digest), **_signature_faults(folder, content, key)}
    if reason := _sum_fault(folder / DISK, manifest.get("sha256")):
        faults["disk"] = reason
    if reason := _sbom_fault(folder / SBOM, manifest.get("sbom")):
        faults["sbom"] = reason
    return Verification(name, digest, key_id(key), {part: faults[part] for part in PARTS if part in faults})


def require_whole(reference: str, key_file: Path | None = None) -> None:
    """Raise `ConfigError` naming the first part of an image that is not what was signed."""
    found = verify(reference, key_file)
    for part, reason in found.faults.items():
        remedy = f"see ./inv image.verify {reference}; if it was changed: ./inv image.build {found.name} --force"
        raise ConfigError("image", reference, f"its {part} {reason}", remedy)


def bill_of_materials(built: BuiltImage) -> str:
    """The one beside the manifest, or for an image that was built without one the one that follows from it."""
    path = built.disk.parent / SBOM
    return path.read_text() if path.is_file() else sbom(built.manifest)


def _manifest_faults(manifest: Mapping[str, Any], name: str, digest: str) -> dict[str, str]:
    if not manifest:
        return {"manifest": "is missing or cannot be read"}
    claimed = f"{manifest.get('name')}@{manifest.get('digest')}"
    return {} if claimed == f"{name}@{digest}" else {"manifest": f"is that of {claimed}"}


def _signature_faults(folder: Path, content: bytes, key: PublicKey) -> dict[str, str]:
    signature = _read(folder / SIGNATURE)
    if not signature:
        return {"signature": "is missing (./inv image.sign makes it for an image that was built before there were any)"}
    wrong = fault(content, signature, key)
    return {wrong.part: wrong.reason} if wrong else {}


def _sbom_fault(path: Path, record: object) -> str | None:
    return _sum_fault(path, record.get("sha256")) if isinstance(record, dict) else "is not named in the manifest"


def _sum_fault(path: Path, expected: object) -> str | None:
    if not path.is_file():
        return "is missing"
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return None if found == expected else f"has the sha256 {found}, the manifest names {expected}"


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def _parse(content: bytes) -> dict[str, Any]:
    """The manifest; nothing if it is none."""
    try:
        value = json.loads(content)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
