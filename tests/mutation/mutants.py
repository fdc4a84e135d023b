"""What can be taken away from a generated configuration, one rule at a time.

Works on lines, whatever the templates render: a mutant names its block (a chain, a frontend), its line without what
differs between two runs (ports, folders), and what is done to it.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

# What differs from lab to lab, or from run to run: a rule is the same rule wherever its workspace lies.
CHANGING = (
    (re.compile(r"/tmp/[^\s:\"]*"), "/tmp/LAB"),
    (re.compile(r"\b\d+\.\d+\.\d+\.\d+(?:/\d+)?"), "ADDRESS"),
    (re.compile(r"ADDRESS(?:,? ADDRESS)+"), "ADDRESS"),
    (re.compile(r"(ADDRESS:|ADDRESS \. |\.test:)\d+"), r"\1PORT"),
    (re.compile(r"https://demo\.[a-z.]+:\w+"), "https://demo.desk.test:PORT"),
    (re.compile(r"\b[0-9a-f]{2}(?::[0-9a-f]{2}){5}\b"), "MAC"),
    (re.compile(r"(var\(txn\.name\) -m (?:str|end)) .+"), r"\1 NAMES"),
    (re.compile(r"(-m (?:str|end)) (?:\.?[a-z0-9.-]+\.(?:test|example|org|localhost)\b ?)+"), r"\1 NAMES"),
    (re.compile(r"(set-var\(txn\.name\)) str\([^)]*\)"), r"\1 str(NAME)"),
    (re.compile(r"(host-record=|dhcp-host=MAC,ADDRESS,)[^,]+"), r"\1NAME"),
    (re.compile(r"\bforward_\d+_\d+_\d+_\d+"), "forward_ADDRESS"),
    (re.compile(r"\bbe_[a-z0-9-]+?_(desktop|terminal)\b"), r"be_DESKTOP_\1"),
    (re.compile(r"rate over \d+/second burst \d+"), "rate over N/second burst N"),
    (re.compile(r"count over \d+"), "count over N"),
    (re.compile(r"\bserver [A-Za-z0-9_-]{16,40} "), "server SESSION "),
    (re.compile(r'skuid "[a-z-]+"'), 'skuid "USER"'),
    (re.compile(r"dport \{ \d+(?:, \d+)* \}"), "dport { PORTS }"),
    (re.compile(r"(be_conn gt|false_tickets\) gt|-m int 1:|maxconn) ?\d+"), r"\1 N"),
    (re.compile(r"dport \d{4,5}\b"), "dport PORT"),
)

ELEMENTS = "elements ="

# Lines that a loop renders, one for each thing of a lab: the first two stand for all.
LOOPED = ("acl listed var(txn.name)", "host-record=", "dhcp-host=")

Operators = Callable[[str], Iterator[tuple[str, str]]]


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one line of what a template renders."""

    template: str
    block: str
    line: str
    nth: int
    change: str

    def __str__(self) -> str:
        again = f" (number {self.nth + 1})" if self.nth else ""
        return f"{self.template} | {self.block} | {self.line}{again} | {self.change}"


def mutants(template: str, text: str) -> Iterator[Mutant]:
    """Every change that can be made to one rendered text."""
    for block, line, nth in _lines(template, text):
        if nth > 1 and line.strip().startswith(LOOPED):
            continue
        for change in _changes(template, block, line):
            yield Mutant(template, block, normal(line), nth, change)


def mutated(mutant: Mutant, template: str, text: str) -> str:
    """The text with the change made, or as it was if it has no such line."""
    if template != mutant.template:
        return text
    made: list[str] = []
    for (block, line, nth), original in zip(_lines(template, text), text.splitlines(), strict=True):
        changed = original
        if (block, normal(line), nth) == (mutant.block, mutant.line, mutant.nth):
            changed = _changes(template, block, line).get(mutant.change, original)
        made.append(changed)
    return "\n".join(made) + "\n"


@cache
def normal(line: str) -> str:
    """The line as it is in every run."""
    line = line.strip()
    if line.startswith(ELEMENTS):
        return ELEMENTS
    for pattern, replacement in CHANGING:
        line = pattern.sub(replacement, line)
    return line


def _lines(template: str, text: str) -> Iterator[tuple[str, str, int]]:
    """Block, line, and which of equal lines of the block."""
    header = HEADERS.get(_kind(template), NEVER)
    block, seen = "", {}  # type: str, dict[tuple[str, str], int]
    for line in text.splitlines():
        if header.match(line):
            block = normal(line).rstrip(" {")
            # Blocks that a loop renders are one block: what is done to a line is done to all of them.
            seen = {key: count for key, count in seen.items() if key[0] != block}
        key = (block, normal(line))
        yield block, line, seen.get(key, 0)
        seen[key] = seen.get(key, 0) + 1


NEVER = re.compile(r"\Z.\A")
HEADERS = {
    "nft": re.compile(r"\s*(chain|set|map) \S+ \{$"),
    "cfg": re.compile(r"(global|defaults|frontend|backend|listen|peers|resolvers)\b"),
}


def _changes(template: str, block: str, line: str) -> dict[str, str]:
    """What may be done to a line, by what it is called in every lab."""
    found: dict[str, str] = {}
    for change, text in _operators(template)(block, line.strip()):
        found.setdefault(normal(change), text)
    return found


def _operators(template: str) -> Callable[[str, str], Iterator[tuple[str, str]]]:
    return OPERATORS.get(_kind(template), lambda block, line: iter(()))


def _kind(template: str) -> str:
    """`nft`, `cfg` or `conf`."""
    return template.removesuffix(".j2").rpartition(".")[2]


# nftables

DECLARATIONS = ("#", "}", "chain ", "set ", "map ", "size ", "flags ", "timeout ", "auto-merge")
TERM = re.compile(
    r'(?:[io]if(?:name)? (?:"[^"]*"|\{[^}]*\})'
    r"|(?:ether [sd]addr|ip [sd]addr|(?:tcp|udp|th) [sd]port)(?: \. (?:ip [sd]addr|(?:tcp|udp|th) [sd]port))*"
    r" (?:!= )?(?:@\w+|\{[^}]*\}|(?!limit\b)\S+)"
    r"|meta (?:l4proto|nfproto|mark) (?:\{[^}]*\}|\S+)"
    r"|icmp type (?:\{[^}]*\}|\S+)"
    r"|ct (?:state|status|mark) (?:\{[^}]*\}|\S+)"
    r"|ip protocol \S+)(?= |$)"
)


def nft(block: str, line: str) -> Iterator[tuple[str, str]]:
    """Take a rule away, or one of the conditions of a rule that lets something pass; open a chain; thin out a set."""
    if not block or not line or line.startswith(DECLARATIONS):
        return
    if line.startswith(ELEMENTS):
        yield from _without_elements(line)
    elif "policy drop" in line:
        yield "policy accept", line.replace("policy drop", "policy accept")
    elif not line.startswith("type "):
        yield "removed", ""
        if not line.endswith(("drop", "reject")):
            for term in TERM.findall(line):
                rest = line.replace(term, "", 1)
                yield f"without `{term}`", re.sub(r"  +", " ", rest).strip()


def _without_elements(line: str) -> Iterator[tuple[str, str]]:
    """A set's elements are data, which differ from lab to lab: what counts is that none is left out."""
    elements = [word.strip() for word in line[line.index("{") + 1 : line.rindex("}")].split(",")]
    for change, kept in (("without the first element", elements[1:]), ("without the last element", elements[:-1])):
        yield change, f"elements = {{ {', '.join(kept)} }}" if kept else ""


# HAProxy

RULES = ("http-request ", "http-response ", "http-after-response ", "tcp-request ", "acl ", "use-server ")
CONDITION = re.compile(r" (if|unless) (.*)$")
PIECE = re.compile(r"!?\{ .*? \}(?= |$)|\S+")
REFUSES = re.compile(r"\S+ (?:content |connection )?(?:deny|return|reject|silent-drop)\b")


def haproxy(block: str, line: str) -> Iterator[tuple[str, str]]:
    """Take a rule away, make a condition always hold, or let a pattern match more than it should."""
    if line.startswith("server ") and " weight 0" in line:
        yield "weight 1", line.replace(" weight 0", " weight 1")
    if line.startswith("bind ") and " alpn " in line:
        yield "without alpn", re.sub(r" alpn \S+", "", line)
    if not line.startswith((*RULES, "use_backend ")):
        return
    if line.startswith("acl "):
        name = line.split()[1]
        yield "always true", f"acl {name} always_true"
        if not line.endswith(" always_false"):
            yield "always false", f"acl {name} always_false"
    else:
        yield "removed", ""
        yield from _conditions(line)
    if " unless " in line or line.startswith("acl ") or "!{" in line:
        yield from _patterns(line)


def _conditions(line: str) -> Iterator[tuple[str, str]]:
    found = CONDITION.search(line)
    if found is None:
        return
    head, word, terms = line[: found.start()], found[1], PIECE.findall(found[2])
    if not REFUSES.match(line):
        yield "always", head
        return
    # A rule that refuses is weaker with fewer ways to refuse: an `or` less, or less that `unless` asks for.
    groups = " ".join(terms).split(" or ")
    if word == "unless":
        for number, term in enumerate(terms):
            kept = [term for index, term in enumerate(terms) if index != number]
            if term != "or" and kept and "or" not in (kept[0], kept[-1]) and not _twice_or(kept):
                yield f"without `{term}`", f"{head} unless {' '.join(kept)}"
    elif len(groups) > 1:
        for group in groups:
            yield f"without `{group}`", f"{head} if {' or '.join(other for other in groups if other != group)}"


def _twice_or(terms: list[str]) -> bool:
    return any(pair == ("or", "or") for pair in pairwise(terms))


def _patterns(line: str) -> Iterator[tuple[str, str]]:
    for found in re.finditer(r"-m (str|len|int|reg|beg|end|sub|ip)\b(?: (?:le|lt|ge|gt|eq))? .+?(?= \}|$)", line):
        yield f"any value for `{normal(found[0])}`", line[: found.start()] + "-m found" + line[found.end() :]
        if found[1] == "reg":
            for anchor in ("^", r"\z"):
                if anchor in found[0]:
                    loose = found[0].replace(anchor, "", 1)
                    yield f"without {anchor} in `{found[0]}`", line[: found.start()] + loose + line[found.end() :]


# dnsmasq

# How the program runs, not what it answers.
TECHNICAL = ("user=", "group=", "log-facility=", "dhcp-leasefile=", "cache-size=", "dns-forward-max=", "no-ping", "#")


def dnsmasq(block: str, line: str) -> Iterator[tuple[str, str]]:
    """Take a line away, or lease to strangers."""
    if not line or line.startswith(TECHNICAL):
        return
    yield "removed", ""
    if ",static" in line:
        yield "not static", line.replace(",static", ",10.80.1.126" if "10.80.1." in line else ",127.0.0.200")


OPERATORS = {"nft": nft, "cfg": haproxy, "conf": dnsmasq}
