"""The device as which a desktop's programs speak to its agent: an Ed25519 key in the home of the agent's account.

Sent together with each program that imports it, so it knows only the standard library of Python 3.10 and later, and
`openssl`, which each image has for its certificates. What is signed holds a secret: it is on no command line or disk.
"""

import base64
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(".local/state/deskyard")
KEY = "agent-device.pem"
RAW = 32
SECONDS = 60
# What the gateway lets clients call themselves; the platform is a part of what is signed.
CLIENT = {"id": "gateway-client", "version": "1.0.0", "platform": "linux", "mode": "ui"}
ROLE, SCOPES = "operator", ("operator.read", "operator.write", "operator.approvals")


def _openssl(*arguments: str, files: tuple[int, ...] = ()) -> bytes:
    return subprocess.run(
        ["openssl", *arguments], capture_output=True, timeout=SECONDS, check=True, pass_fds=files
    ).stdout


def key(home: Path) -> Path:
    """The device's key, which is made when there is none."""
    path = home / FOLDER / KEY
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as draft:
            draft.write(_openssl("genpkey", "-algorithm", "ed25519"))
        # Who comes second keeps the first one's.
        try:
            os.link(draft.name, path)
        except FileExistsError:
            pass
        finally:
            Path(draft.name).unlink()
    return path


def identity(path: Path, token: str, challenge: dict[str, Any]) -> dict[str, Any]:
    """The part of `connect` that proves who this is: the gateway's challenge, signed."""
    public = _openssl("pkey", "-in", str(path), "-pubout", "-outform", "DER")[-RAW:]
    device, at, nonce = hashlib.sha256(public).hexdigest(), int(challenge["ts"]), str(challenge["nonce"])
    words = ("v3", device, CLIENT["id"], CLIENT["mode"], ROLE, ",".join(SCOPES), at, token, nonce, CLIENT["platform"])
    payload = "|".join(map(str, (*words, "")))
    return {
        "id": device,
        "publicKey": _letters(public),
        "signature": _letters(_signature(path, payload.encode())),
        "signedAt": at,
        "nonce": nonce,
    }


def _signature(path: Path, payload: bytes) -> bytes:
    # `openssl` signs with such a key what is a file, as it asks for its size.
    content = os.memfd_create("payload")
    try:
        os.write(content, payload)
        os.lseek(content, 0, os.SEEK_SET)
        name = f"/dev/fd/{content}"
        return _openssl("pkeyutl", "-sign", "-rawin", "-inkey", str(path), "-in", name, files=(content,))
    finally:
        os.close(content)


def _letters(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
