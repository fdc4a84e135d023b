"""The real restic, found or built once, whatever home a test has; its repositories open without long computing.

restic makes a guess at a password dear, half a second of a processor by design, and pays that at every command. What
these tests are about begins after it: one repository is made for all of them, and each test has a copy whose key is
locked with its own password, for the smallest price that restic takes.
"""

import base64
import functools
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR, ECB
from cryptography.hazmat.primitives.poly1305 import Poly1305

from deskyard.host import command
from deskyard.host.command import Result
from deskyard.host.toolchain import get
from deskyard.life.backup.repository import Repository

RESTIC = get("restic").path
NONCE = TAG = 16
PRICE = {"N": 2, "r": 1, "p": 1}


def use_restic(monkeypatch: pytest.MonkeyPatch, relock: Callable[[bytes], None] | None = None) -> Path:
    """Let repositories use it, and begin as copies; where it is.

    One on another machine restic itself makes by that way; `relock` gets its password and locks it anew there.
    """
    monkeypatch.setattr("deskyard.life.backup.repository.locate", lambda _: RESTIC)
    run = Repository._restic

    def begun(self: Repository, *arguments: str, **named: Any) -> Result:
        if arguments != ("init",):
            return run(self, *arguments, **named)
        if relock is not None:
            answer = run(self, *arguments, **named)
            relock(self.key.read_bytes())
            return answer
        new = _new()
        shutil.copytree(Path(new.name, "repository"), self.location, dirs_exist_ok=True)
        lock_anew(Path(self.location), Path(new.name, "key").read_bytes(), self.key.read_bytes())
        return Result(arguments, 0, "", "", seconds=0.0)

    monkeypatch.setattr(Repository, "_restic", begun)
    return RESTIC


@functools.cache
def _new() -> "tempfile.TemporaryDirectory[str]":
    """A repository as restic makes it, with its key; gone when the tests end."""
    folder = tempfile.TemporaryDirectory(prefix="deskyard-restic.")
    repository, key = Path(folder.name, "repository"), Path(folder.name, "key")
    key.write_text("password")
    command.run([str(RESTIC), "--repo", str(repository), "--password-file", str(key), "init"], timeout=60)
    return folder


def forget_new() -> None:
    """Remove that repository, if one was made: a worker of xdist ends without what Python does at its end."""
    if _new.cache_info().currsize:
        _new().cleanup()
        _new.cache_clear()


def lock_anew(repository: Path, password: bytes, own: bytes) -> None:
    """Replace the one key of a repository by one that takes no time to open."""
    (path,) = (repository / "keys").iterdir()
    name, text = cheap(path.read_bytes(), password, own)
    path.unlink()
    path.with_name(name).write_bytes(text)


def cheap(key: bytes, password: bytes, own: bytes) -> tuple[str, bytes]:
    """The file of a key that takes no time to open, by its name and what is in it."""
    kept = json.loads(key)
    data = base64.b64decode(kept["data"])
    nonce, sealed, tag = data[:NONCE], data[NONCE:-TAG], data[-TAG:]
    dear, free = _Lock(password, kept), _Lock(own, {**kept, **PRICE})
    assert dear.tag(nonce, sealed) == tag
    sealed = free.cipher(nonce, dear.cipher(nonce, sealed))
    kept |= {**PRICE, "data": base64.b64encode(nonce + sealed + free.tag(nonce, sealed)).decode()}
    text = json.dumps(kept).encode()
    return hashlib.sha256(text).hexdigest(), text


class _Lock:
    """What a password and a price make: restic's AES-256 in counter mode, and Poly1305-AES over its text."""

    def __init__(self, password: bytes, kept: dict[str, Any]) -> None:
        salt, price = base64.b64decode(kept["salt"]), {name.lower(): kept[name] for name in PRICE}
        key = hashlib.scrypt(password, salt=salt, **price, maxmem=1 << 30, dklen=64)
        self._aes, self._k, self._r = key[:32], key[32:48], key[48:]

    def cipher(self, nonce: bytes, text: bytes) -> bytes:
        """Encrypt or decrypt."""
        return Cipher(AES(self._aes), CTR(nonce)).encryptor().update(text)

    def tag(self, nonce: bytes, sealed: bytes) -> bytes:
        """What says that nobody changed it."""
        pad = Cipher(AES(self._k), ECB()).encryptor().update(nonce)
        return Poly1305.generate_tag(self._r + pad, sealed)
