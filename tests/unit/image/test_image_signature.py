"""Signatures are minisign's: both programs make and accept the same bytes, and refuse what was changed."""

import shutil
from pathlib import Path

import pytest
from minisign import KeyPair, PublicKey

from deskyard.errors import ConfigError
from deskyard.host.command import run
from deskyard.image.store import signature as image_signature
from deskyard.image.store.signature import (
    ensure_key,
    fault,
    key_id,
    public_key_file,
    read_public_key,
    secret_key_file,
    sign,
)
from tests.support.requirements import missing

# Written by minisign 0.11 for this test alone: `minisign -G -W`, then `minisign -S -t COMMENT`.
PUBLIC = b"""untrusted comment: minisign public key 2A06FCC652EE99DA
RWTame5SxvwGKlPN0f6K4eY2+BBlMe0MSCeHE9+IHNG2YsCCJwM6ursp
"""
SECRET = b"""untrusted comment: minisign encrypted secret key
RWQAAEIyAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA2pnuUsb8Bir43tKX2bLZyjSXM34Uos1HV+hxkZ4DjrC3\
yiNd2Ay031PN0f6K4eY2+BBlMe0MSCeHE9+IHNG2YsCCJwM6urspAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
"""
CONTENT, COMMENT = b"a manifest\n", "image desktop@0123456789abcdef"
SIGNATURE = b"""untrusted comment: signature from minisign secret key
RUTame5SxvwGKgjfE85tvPQ/4iUK0+w7TkOwJvuciifCqqBquWfCY6hGWhQ2FoemQFnojxSOKeyQOSceiLYX7wK9qgo8eHxK1g4=
trusted comment: image desktop@0123456789abcdef
eZgeXecZG+5IdY7KuQqlX2VxZji62an9tJepFlQ1l5w+/jAlsY4RrembU/nV0C0KtnFVz4BYj6aAnjUasKUKBg==
"""
KEY = PublicKey.from_bytes(PUBLIC)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def minisign() -> str:
    program = shutil.which("minisign")
    if program is None:
        missing("minisign")
    return program


def put_secret(content: bytes) -> None:
    secret_key_file().parent.mkdir(parents=True)
    secret_key_file().write_bytes(content)


def test_signature_is_byte_for_byte_what_minisign_writes() -> None:
    put_secret(SECRET)
    assert sign(CONTENT, COMMENT) == SIGNATURE
    assert public_key_file().read_bytes() == PUBLIC


def test_what_minisign_signed_is_accepted() -> None:
    assert fault(CONTENT, SIGNATURE, KEY) is None
    assert key_id(KEY) == "2A06FCC652EE99DA"


def test_minisign_accepts_what_is_signed_here(home: Path, minisign: str) -> None:
    (home / "file").write_bytes(CONTENT)
    (home / "file.minisig").write_bytes(sign(CONTENT, COMMENT))
    argv = [minisign, "-V", "-p", str(public_key_file()), "-m", str(home / "file")]
    assert COMMENT in run(argv, timeout=30).stdout
    (home / "file").write_bytes(b"another manifest\n")
    assert run(argv, timeout=30, check=False).code != 0


def test_minisign_can_sign_with_the_key_that_is_made_here(home: Path, minisign: str) -> None:
    ensure_key()
    (home / "file").write_bytes(CONTENT)
    run([minisign, "-S", "-W", "-s", str(secret_key_file()), "-m", str(home / "file")], timeout=30)
    assert fault(CONTENT, (home / "file.minisig").read_bytes(), read_public_key()) is None


def test_every_changed_character_of_the_content_is_refused_and_blamed_on_the_manifest() -> None:
    for place in range(len(CONTENT)):
        found = fault(changed(CONTENT, place), SIGNATURE, KEY)
        assert found is not None
        assert found.part == "manifest", place


def test_every_changed_character_of_the_signature_is_refused_and_blamed_on_it() -> None:
    # The words of the first line are covered by no signature: minisign says so itself by `untrusted`.
    first = SIGNATURE.index(b"\n")
    for place in range(first, len(SIGNATURE)):
        found = fault(CONTENT, changed(SIGNATURE, place), KEY)
        assert found is not None, place
        assert found.part == "signature", place


def changed(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def test_signature_of_another_key_is_refused_and_both_keys_are_named() -> None:
    other = KeyPair.generate().public_key
    found = fault(CONTENT, SIGNATURE, other)
    assert found is not None
    assert found.part == "signature"
    assert f"was made with key 2A06FCC652EE99DA, not with {key_id(other)}" == found.reason


def test_key_that_only_claims_to_be_the_right_one_is_refused() -> None:
    pair = KeyPair.generate()
    forged = bytes(pair.secret_key.sign(CONTENT, trusted_comment=COMMENT)).splitlines()
    own = SIGNATURE.splitlines()
    # The first bytes hold the key's id: put there the one that is expected.
    forged[1] = own[1][:12] + forged[1][12:]
    found = fault(CONTENT, b"\n".join(forged) + b"\n", KEY)
    assert found is not None
    assert found.part == "signature"


@pytest.mark.parametrize("signature", [b"", b"\n\n\n\n", b"\xff" * 100, SIGNATURE[:-20], SIGNATURE + SIGNATURE])
def test_what_is_no_signature_is_refused_as_such(signature: bytes) -> None:
    found = fault(CONTENT, signature, KEY)
    assert found is not None
    assert found.part == "signature"


def test_key_is_made_once_and_only_its_owner_can_read_it() -> None:
    ensure_key()
    secret, public = secret_key_file().read_bytes(), public_key_file().read_bytes()
    assert secret_key_file().stat().st_mode & 0o777 == 0o600
    assert secret_key_file().parent.stat().st_mode & 0o777 == 0o700
    ensure_key()
    assert (secret_key_file().read_bytes(), public_key_file().read_bytes()) == (secret, public)
    assert fault(CONTENT, sign(CONTENT, COMMENT), read_public_key()) is None


def test_lost_public_half_is_made_again() -> None:
    ensure_key()
    public = public_key_file().read_bytes()
    public_key_file().unlink()
    ensure_key()
    assert public_key_file().read_bytes() == public


def test_lost_secret_half_is_not_replaced_behind_the_back_of_what_it_signed() -> None:
    ensure_key()
    secret_key_file().unlink()
    with pytest.raises(ConfigError, match="is missing, but its public half is there"):
        ensure_key()


def test_public_half_of_another_key_is_refused_before_anything_is_signed() -> None:
    ensure_key()
    secret_key_file().write_bytes(SECRET)
    with pytest.raises(ConfigError, match="is not the public half of"):
        sign(CONTENT, COMMENT)
    public_key_file().unlink()
    assert sign(CONTENT, COMMENT) == SIGNATURE


def test_key_with_a_password_is_refused_with_the_way_out() -> None:
    key = KeyPair.generate().secret_key
    key.encrypt("password", opslimit=32768, memlimit=1 << 20)
    put_secret(bytes(key) + b"\n")
    with pytest.raises(ConfigError, match="has a password") as caught:
        ensure_key()
    assert "minisign -C -W" in caught.value.remedy


def test_what_is_no_secret_key_is_refused() -> None:
    put_secret(PUBLIC)
    with pytest.raises(ConfigError, match="is no secret key"):
        ensure_key()


def test_public_key_is_read_and_never_made(home: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_public_key()
    assert not image_signature.secret_key_file().exists()
    (home / "maker.pub").write_bytes(b"ssh-ed25519 AAAA somebody\n")
    with pytest.raises(ConfigError, match="is no public key of minisign"):
        read_public_key(home / "maker.pub")
    (home / "maker.pub").write_bytes(PUBLIC)
    assert key_id(read_public_key(home / "maker.pub")) == "2A06FCC652EE99DA"
