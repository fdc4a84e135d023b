"""python -m deskyard.control.watch: alerts, webhooks, and an end to what nobody uses or what is kept no more."""

import argparse
import logging
import signal
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path

from deskyard.control.link import question
from deskyard.control.retention.forget import forget
from deskyard.control.store.connection import Link, attend
from deskyard.control.store.pool import pool
from deskyard.control.tasks import tidying
from deskyard.control.upkeep import refused
from deskyard.control.usage.sight import Sight
from deskyard.control.watch import alerts, budgets, idle, looks, webhooks
from deskyard.control.watch.lanes import Lanes
from deskyard.control.watch.mail import Mailer
from deskyard.control.watch.rules import Eye
from deskyard.control.watch.webhooks import Reach
from deskyard.host.deadline import Deadline
from deskyard.site import certificate_authority

# Machines and operations tell of themselves; that time passed, nobody tells.
LOOK_SECONDS = 10.0
DUE_SECONDS = 2.0
# What a desktop takes is an average between two looks.
IDLE_SECONDS = 60.0
# Somebody waits; a gateway is asked only while a desktop of its workspace sleeps.
WAKE_SECONDS = 5.0


def main() -> None:
    """Watch until SIGTERM."""
    options = argparse.ArgumentParser(prog="deskyard.control.watch")
    options.add_argument("--database", required=True)
    options.add_argument("--certificate", type=Path)
    options.add_argument("--networks", default="", help="comma-separated: where webhooks may be beside the public")
    options.add_argument("--mail", type=Path, help="the file that holds the declared mail server")
    options.add_argument("--origin", default="", help="where people see alerts")
    options.add_argument("--link", type=Path, required=True, help="the socket of who asks gateways")
    options.add_argument("--pace", type=float, default=LOOK_SECONDS, help="seconds between two looks")
    chosen = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    eye, sight = Eye(chosen.certificate, certificate_authority.expires), Sight()
    sessions_of = question.sessions(chosen.link)
    reach = Reach([network for network in chosen.networks.split(",") if network])
    mailer = Mailer(chosen.mail, chosen.origin)

    def look(link: Link) -> None:
        while not ended.is_set():
            look_once(link, eye, sight)
            ended.wait(chosen.pace)

    def tell(link: Link) -> None:
        link.execute("listen watch")
        tidy = Deadline(0)
        while not ended.is_set():
            lanes.begin(link)
            if tidy.left == 0:
                webhooks.forget(link)
                refused.forget(link)
                tidy = Deadline(LOOK_SECONDS)
            for _ in link.notifies(timeout=DUE_SECONDS, stop_after=1):
                pass

    def every(seconds: float, look_at: Callable[[], None]) -> None:
        while not ended.wait(seconds):
            look_at()

    def forget_old(link: Link) -> None:
        while not ended.wait(chosen.pace):
            forget(link)

    def audit(link: Link) -> None:
        while not ended.is_set():
            eye.audited.look(link)
            ended.wait(chosen.pace)

    for work in (forget_old, audit):
        threading.Thread(target=attend, args=(chosen.database, ended, work), daemon=True).start()
    with pool(chosen.database) as connections:
        lanes = Lanes(connections.connection, reach, mailer)
        threading.Thread(target=attend, args=(chosen.database, ended, tell), daemon=True).start()
        uses = idle.Uses(connections.connection, sessions_of, question.tell_waking(chosen.link))
        threading.Thread(target=every, args=(IDLE_SECONDS, uses.stop_unused), daemon=True).start()
        threading.Thread(target=every, args=(WAKE_SECONDS, uses.wake_wanted), daemon=True).start()
        attend(chosen.database, ended, look)


def look_once(link: Link, eye: Eye, sight: Sight) -> None:
    """Give up what nobody sees, open and close alerts, and ask for what is due.

    The sums of the month are worked out once at most.
    """
    sight.look(link)
    spent_now = cache(lambda: budgets.spent_this_month(link))
    alerts.settle(link, eye.look(link, spent_now))
    looks.ask_for_due(link)
    tidying.ask_for_due(link)
    budgets.ask_for_closing(link, spent_now)


if __name__ == "__main__":
    main()
