"""The answers that a desktop reads: the state of its own tickets, and the refusal of a connection."""

from collections.abc import Sequence

from deskyard.gateway.egress.ask.tickets import Ticket

# A fatal alert, `access_denied`: programs say that, and not that the network is broken.
TLS_DENIED = b"\x15\x03\x03\x00\x02\x02\x31"
HOW = """\
Some names outside are reached only if a person allows it.

Connect to the name as usual. The connection waits up to {seconds:.0f} seconds for the answer; give your program that
time. If nobody answers it is refused, but the question stays open: try again later, the same way. Trying often does
not help. Nothing inside this desktop can answer.

http://ask.deskyard/NAME shows the state of one name.

"""
MEANS = {
    "waiting": "waits for a person",
    "allowed": "allowed: try again",
    "refused": "refused by a person",
    "used": "was allowed for one connection, which was made: the next try asks anew",
    "over": "is over: the next try asks anew",
    "lapsed": "nobody answered in a day: the next try asks anew",
}


def page(tickets: Sequence[Ticket], now: float, seconds: float, name: str) -> bytes:
    """The page of `ask.deskyard` for a desktop: its own tickets, those about `name` if it asks for one."""
    lines = [f"{ticket.name}:{ticket.port}  {MEANS[ticket.state(now)]}{_reason(ticket, now)}" for ticket in tickets]
    empty = f"Nothing was asked about {name}." if name else "Nothing was asked yet."
    return response(200, ("" if name else HOW.format(seconds=seconds)) + "\n".join(lines or [empty]) + "\n")


def refusal(port: int, name: str, reason: str) -> bytes:
    """The last bytes of a refused connection: they say why, as far as its protocol can."""
    if port != 80:
        return TLS_DENIED
    return response(403, f"{name}:80 {reason}.\nhttp://ask.deskyard/ says how to wait for a person.\n")


def response(status: int, text: str) -> bytes:
    """A whole answer of HTTP, and the last one of its connection."""
    body = text.encode()
    word = "OK" if status == 200 else "Forbidden"
    head = f"HTTP/1.1 {status} {word}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Cache-Control: no-store\r\nConnection: close\r\n\r\n".encode() + body


def _reason(ticket: Ticket, now: float) -> str:
    refused = ticket.answer is not None and ticket.state(now) == "refused"
    return f": {ticket.answer.reason}" if refused and ticket.answer else ""
