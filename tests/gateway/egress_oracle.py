"""Who may pass, worked out from the words of the promise alone: no regular expression, nothing of the gateway's.

Names are exact, or all below a suffix; case does not matter; a name is made of labels of 1 to 63 letters, digits and
inner hyphens, at least two of them, 253 characters at most, no dot at either end, and is no address.
"""

import random
from collections.abc import Callable

LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyz")
DIGITS = frozenset(b"0123456789")


def is_name(name: bytes) -> bool:
    labels = name.split(b".")
    if len(name) > 253 or len(labels) < 2:
        return False
    for label in labels:
        if not 1 <= len(label) <= 63 or label[0] == 45 or label[-1] == 45:
            return False
        if not all(byte in LETTERS or byte in DIGITS or byte == 45 for byte in label):
            return False
    return len(labels[-1]) >= 2 and labels[-1][0] in LETTERS


def may_pass(asked: bytes, exact: frozenset[bytes], suffixes: frozenset[bytes]) -> bool:
    """Whether a server name, as the desktop sent it, is on the list."""
    name = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in asked)
    if not is_name(name):
        return False
    labels = name.split(b".")
    above = {b".".join(labels[at:]) for at in range(1, len(labels))}
    return name in exact or bool(above & suffixes)


def host_may_pass(value: bytes, exact: frozenset[bytes], suffixes: frozenset[bytes]) -> bool:
    """The same for a `Host`, where blanks around it do not count and port 80 may be named."""
    name, colon, port = value.strip(b" \t").partition(b":")
    return (not colon or port in (b"80", b"")) and may_pass(name, exact, suffixes)


def inputs(seed: int, count: int, names: list[bytes]) -> list[bytes]:
    """Server names near those on the list, far from them, and not names at all."""
    chance = random.Random(seed)
    return [_changed(chance, chance.choice(names)) for _ in range(count)]


def _changed(chance: random.Random, name: bytes) -> bytes:
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        name = chance.choice(CHANGES)(chance, name)
    return name[:400]


def _byte(chance: random.Random) -> bytes:
    usual = b"abcdefghijklmnopqrstuvwxyzABCXYZ0123456789-_..*:@/%#? "
    return bytes([chance.choice(usual) if chance.random() < 0.8 else chance.randrange(256)])


def _insert(chance: random.Random, name: bytes) -> bytes:
    at = chance.randint(0, len(name))
    return name[:at] + _byte(chance) + name[at:]


def _replace(chance: random.Random, name: bytes) -> bytes:
    at = chance.randint(0, max(0, len(name) - 1))
    return name[:at] + _byte(chance) + name[at + 1 :]


def _delete(chance: random.Random, name: bytes) -> bytes:
    at = chance.randint(0, max(0, len(name) - 1))
    return name[:at] + name[at + 1 :]


def _case(chance: random.Random, name: bytes) -> bytes:
    return bytes(byte ^ 32 if 97 <= byte | 32 <= 122 and chance.random() < 0.5 else byte for byte in name)


CHANGES: tuple[Callable[[random.Random, bytes], bytes], ...] = (
    _insert,
    _replace,
    _delete,
    _case,
    lambda chance, name: bytes(chance.choice(b"abcxyz019-") for _ in range(chance.randint(1, 63))) + b"." + name,
    lambda chance, name: b"a" * chance.choice((62, 63, 64)) + b"." + name,
    lambda chance, name: b"ab." * chance.choice((70, 80, 83)) + name,
    lambda chance, name: b"not" + name,
    lambda chance, name: (
        name + chance.choice((b".", b"\0", b"\n", b" ", b".evil.test", b"\0.evil.test", b":80", b":443"))
    ),
    lambda chance, name: chance.choice((b".", b"*.", b"\0", b" ", b"evil.test\0", b"evil.test/", b"user@")) + name,
    lambda chance, name: name.partition(b".")[2],
    lambda chance, name: name.replace(b"t", "\u0442".encode(), 1),
    lambda chance, name: name.replace(b".", "\u3002".encode(), 1),
    lambda chance, name: name.replace(b".", b"..", 1),
    lambda chance, name: b"xn--" + name,
    lambda chance, name: b".".join(b"%d" % chance.randrange(300) for _ in range(4)),
    lambda chance, name: chance.randbytes(chance.randint(1, 40)),
)
