"""Compares two listings of nftables rules: what is planned and what is in force. Pure."""

import hashlib
import re
from collections import Counter

# Elements that come and go by themselves (addresses seen at the door, passes with an end) are no rules.
MOVING = re.compile(r"\bflags\b.*\b(dynamic|timeout)\b|\btimeout\b")


def rules(listing: str) -> list[str]:
    """Every line of `nft -s list ruleset` with the chain or set it is in, so that it can be told apart."""
    found: list[str] = []
    place = ""
    for block in _blocks(listing):
        if len(block) == 1:
            found.append(block[0])
            continue
        place = block[0].rstrip(" {")
        moving = any(MOVING.search(line) for line in block[1:] if not line.startswith("elements"))
        for line in block[1:]:
            if not (moving and line.startswith("elements")):
                found.append(f"{place}: {line}")
        if moving or len(block) == 2:
            found.append(place)
    return found


def _blocks(listing: str) -> list[list[str]]:
    """Chains and sets with their lines; lists of elements on one line each."""
    joined = re.sub(r",\s*\n\s*", ", ", listing)
    blocks: list[list[str]] = []
    depth = 0
    for raw in joined.splitlines():
        line = raw.strip().rstrip(";")
        if not line:
            continue
        if line == "}":
            depth -= 1
        elif line.endswith("{") and line.split()[0] in ("table", "chain", "set", "map", "ct"):
            depth += 1
            blocks.append([line])
        elif depth:
            blocks[-1].append(line)
    return blocks


def difference(planned: str, live: str) -> tuple[list[str], list[str]]:
    """Planned rules that are missing, and rules that nobody planned."""
    wanted, found = Counter(rules(planned)), Counter(rules(live))
    return sorted((wanted - found).elements()), sorted((found - wanted).elements())


def fingerprint(listing: str) -> str:
    """A digest of the rules, without what comes and goes."""
    return hashlib.sha256("\n".join(rules(listing)).encode()).hexdigest()
