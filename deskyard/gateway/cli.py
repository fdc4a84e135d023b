"""`deskyard-gateway`: what the host asks of a gateway, over ssh. Prints JSON (`csr` prints PEM)."""

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.config.in_force import in_force
from deskyard.gateway.egress import cli
from deskyard.gateway.machine.layout import Layout, load
from deskyard.gateway.machine.system import Machine
from deskyard.wire import session_requests
from deskyard.wire.computer import SCOPES
from deskyard.wire.gateway_settings import parse
from deskyard.wire.routes import ROUTES

INPUT_LIMIT = 1024 * 1024


def main(argv: list[str] | None = None) -> int:
    """Run one command; 1 and `{"error": ...}` if it cannot be done."""
    options = _parser().parse_args(argv)
    try:
        answer = options.run(options, load())
    except GatewayError as error:
        print(json.dumps({"error": error.as_dict()}, indent=2))
        print(f"error: {error}", file=sys.stderr)
        return 1
    if answer is not None:
        print(answer if isinstance(answer, str) else json.dumps(answer, indent=2))
    return 0


def _apply(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.config.apply import apply

    return apply(parse(sys.stdin.read(INPUT_LIMIT)), layout, Machine())


def _csr(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.machine import tls

    settings = in_force(layout)
    return tls.request(tls.ensure_key(layout.tls / "key.pem"), settings.hostname).rstrip()


def _certificate(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.config import acme, acme_record, certificate
    from deskyard.gateway.config.lock import alone

    text = sys.stdin.read(INPUT_LIMIT)
    with alone(layout):
        settings = in_force(layout)
        # What the host sends opens the door until the ACME server has given one.
        if acme_record.in_force(settings, layout):
            return {"changed": [], "reason": "the one that the ACME server gave is in force"}
        done = certificate.install(text, settings, layout, Machine())
    acme.start(settings, Machine())
    return done


def _renew(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.config.acme import renew

    return renew(in_force(layout), layout, Machine(), at_once=options.at_once)


def _backends(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway.config import backends

    backends.write(in_force(layout), layout)


def _serve(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway.service import serve

    in_force(layout)
    serve(layout)


def _view(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway.view import view

    view.serve(layout)


def _grant(options: argparse.Namespace, layout: Layout) -> Any:
    routes, scopes = session_requests.listed(options.routes), session_requests.listed(options.scopes)
    asked = session_requests.grant(options.desktop, routes, options.mode, options.ttl, options.actor, scopes)
    return _ask(layout, asked)


def _list(options: argparse.Namespace, layout: Layout) -> Any:
    return _ask(layout, session_requests.listing())


def _revoke(options: argparse.Namespace, layout: Layout) -> Any:
    return _ask(layout, session_requests.revoke(options.id, options.desktop, options.all, options.actor))


def _agent(options: argparse.Namespace, layout: Layout) -> Any:
    if options.action != "list" and not options.desktop:
        raise GatewayError("--desktop", None, "is missing", "name the desktop whose agent it is")
    return _ask(layout, session_requests.agent(options.action, options.desktop, options.actor))


def _keys(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.config import keys

    if options.action == "retire":
        return keys.retire(layout, Machine())
    return keys.rotate(layout, Machine(), at_once=options.at_once, actor=options.actor)


def _audit(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.session import audit, audit_check

    if not options.verify:
        path = layout.actions_file if options.actions else layout.audit_file
        about = {name: value for name in ("desktop", "session") if (value := getattr(options, name))}
        if options.first is not None or options.last is not None:
            return audit.events(path, options.since, options.last, about, options.first)
        return _print_listed(audit.each(path, options.since, about))
    noted = {}
    if options.known:
        number, _, digest = options.known.partition(":")
        if not number.isdigit() or len(digest) != 64:
            raise GatewayError("--known", options.known, "is no line", "write NUMBER:HASH as `audit` printed them")
        noted = {int(number): digest}
    # A file that is just being turned over looks like a gap, once.
    first = audit_check.verify_both(layout.audit_file, layout.actions_file, noted)
    return first if first["ok"] else audit_check.verify_both(layout.audit_file, layout.actions_file, noted)


def _print_listed(events: Iterator[dict[str, Any]]) -> None:
    """Print a list of events one by one: there may be more than fit into memory."""
    print("[", end="")
    for number, event in enumerate(events):
        print(",\n" if number else "\n", json.dumps(event, indent=2), sep="", end="")
    print("\n]")


def _anchor(options: argparse.Namespace, layout: Layout) -> Any:
    return _ask(layout, session_requests.anchor(options.source, options.number, options.head, options.actor))


def _anchors(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway import anchors

    return anchors.held(layout.audit_file, options.source, options.last)


def _status(options: argparse.Namespace, layout: Layout) -> Any:
    from deskyard.gateway.status import status_in_force

    return status_in_force(layout, Machine(), options.timeout)


def _serve_status(options: argparse.Namespace, layout: Layout) -> None:
    from deskyard.gateway import status_service

    status_service.serve(layout)


def _ask(layout: Layout, request: dict[str, Any]) -> Any:
    from deskyard.gateway.session import line

    return line.ask(layout.admin_socket, request)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="deskyard-gateway", description="The gateway of a Deskyard workspace.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Any, help: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=help, description=help)
        command.set_defaults(run=run)
        return command

    add("apply", _apply, "put the settings on standard input into force")
    add("csr", _csr, "print a signing request for the gateway's own TLS key")
    add("certificate", _certificate, "install the certificate chain (and key, if it comes with one) on standard input")
    renewal = add("renew", _renew, "get the certificate from the site's ACME server if it is time to (its unit does)")
    renewal.add_argument("--at-once", action="store_true", help="whether it is time or not")
    add("backends", _backends, "write what HAProxy must know of live sessions (run before it starts or reloads)")
    add("serve", _serve, "run the session service (its unit does)")
    add("view", _view, "carry VNC connections, and keep input from those who do not drive (its unit does)")
    grant = add("grant", _grant, "make a link that opens a session once")
    grant.add_argument("--desktop", required=True, help="name of the desktop")
    grant.add_argument("--routes", help=f"comma-separated: {', '.join(ROUTES)} (default: all that the mode allows)")
    mode = session_requests.DEFAULT_MODE
    grant.add_argument("--mode", default=mode, help="drive, view or agent (default: %(default)s)")
    grant.add_argument("--scopes", help=f"of mode agent, comma-separated: {', '.join(SCOPES)} (default: all)")
    ttl = session_requests.DEFAULT_HOURS * 3600
    grant.add_argument("--ttl", type=int, default=ttl, help="life of the session in seconds (default: %(default)s)")
    grant.add_argument("--actor", default="root", help="for whom, as the audit shall show it")
    add("list", _list, "list sessions")
    revoke = add("revoke", _revoke, "end sessions and close their sockets")
    revoke.add_argument("id", nargs="?", help="id of one session")
    revoke.add_argument("--desktop", help="all sessions of one desktop")
    revoke.add_argument("--all", action="store_true", help="all sessions")
    revoke.add_argument("--actor", default="root", help="who revokes, as the audit shall show it")
    agent = add("agent", _agent, "shut a desktop for programs and halt what its agent runs, or let it go on")
    agent.add_argument("action", choices=("stop", "go", "list"), help="stop, go on, or say what is stopped")
    agent.add_argument("--desktop", help="name of the desktop")
    agent.add_argument("--actor", default="root", help="who asks, as the audit and the desktop's page shall show it")
    keys = add("keys", _keys, "change the key that signs sessions; sessions and their sockets go on")
    keys.add_argument("action", choices=("rotate", "retire"), help="rotate, or drop old keys whose cookies are over")
    keys.add_argument("--at-once", action="store_true", help="the old key is known to others: void its cookies now")
    keys.add_argument("--actor", default="root", help="who asks, as the audit shall show it")
    audit = add("audit", _audit, "print what was decided, or check that nothing of it was changed since")
    audit.add_argument("--verify", action="store_true", help="check the chain; names every line that is wrong")
    audit.add_argument("--known", help="NUMBER:HASH of a line that was collected before: it must still be there")
    audit.add_argument("--since", type=int, default=0, help="only events after this number")
    some = audit.add_mutually_exclusive_group()
    some.add_argument("--last", type=int, help="only so many, the newest")
    some.add_argument("--first", type=int, help="only so many, the oldest")
    audit.add_argument("--actions", action="store_true", help="what programs did on desktops, instead of decisions")
    audit.add_argument("--desktop", help="only what is about this desktop")
    audit.add_argument("--session", help="only what is about the session with this id")
    anchor = add("anchor", _anchor, "write the last line of another chain into the audit")
    anchor.add_argument("--source", required=True, help="whose chain it is")
    anchor.add_argument("--number", required=True, type=int, help="number of its last line")
    anchor.add_argument("--head", required=True, help="hash of that line")
    anchor.add_argument("--actor", default="root", help="who asks, as the audit shall show it")
    anchors = add("anchors", _anchors, "print the lines of other chains that the audit holds, oldest first")
    anchors.add_argument("--source", help="only those of this chain")
    anchors.add_argument("--last", type=int, help="only so many, the newest")
    cli.add_commands(add)
    status = add("status", _status, "say what works, with a real handshake to each route of each desktop")
    status.add_argument("--timeout", type=float, default=5, help="seconds to wait for each route (default: 5)")
    add("serve-status", _serve_status, "answer the same on the socket that systemd hands over (its unit does)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
