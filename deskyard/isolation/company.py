"""The disposable desktops that take part in a verification: neighbours like any other, as long as they are there.

They come and go with their tasks, and nobody waits for a verification: who left while it ran proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deskyard.declaration.declaration import Declared
from deskyard.plan.pool.seat import State
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import readiness, seating


@dataclass(frozen=True)
class Company:
    """The seats of one workspace whose desktops can be probed, with the numbers of their machines; and what was left.

    `absent` says of each other seat at which something is why it is not probed.
    """

    machines: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    left: Mapping[str, str] = field(default_factory=dict)

    def among(self, plan: WorkspacePlan) -> WorkspacePlan:
        """The Plan with these desktops beside those that are kept."""
        mine = tuple(seat for seat in plan.seats if seat.name in self.machines)
        return replace(plan, desktops=(*plan.desktops, *mine))

    def findings(self, workspace: str) -> list[str]:
        """The machines that killed tasks left on the network, which are nobody's, with what removes them."""
        return [f"seat: {seat}: {why} ({seating.remedy(workspace, seat)})" for seat, why in self.left.items()]

    def not_examined(self) -> list[str]:
        """The desktops that could not be probed."""
        return [f"seat {seat}: {why}" for seat, why in self.absent.items()]


def company(declared: Declared) -> Company:
    """Look who is there, by the ledger and by what the gateway says of those whom it names."""
    seats = seating.seats_of(declared) if declared.plan.seats else None
    if seats is None:
        return Company()
    there, left = seats.ledger.machines(), seating.left(declared)
    link, planned = SshLink(declared.site.name, declared.plan.name), {seat.name: seat for seat in declared.plan.seats}
    status = readiness.ask(declared.plan, [seat for seat in planned.values() if seat.name in there]) if there else {}
    machines, absent = {}, {}
    for name, seated in there.items():
        if name in left or name not in planned:
            continue
        if seated.state is State.MAKING:
            absent[name] = "is being made"
        elif not link.pinned(name) or not readiness.is_ready({**status, "gateway_ready": True}, [planned[name]]):
            absent[name] = "does not answer"
        else:
            machines[name] = seated.number
    return Company(machines, absent, left)


def changed(declared: Declared, before: Company) -> bool:
    """Whether one of these desktops is gone, or another one at its seat."""
    if not before.machines:
        return False
    seats = seating.seats_of(declared)
    now = {} if seats is None else {name: seated.number for name, seated in seats.ledger.machines().items()}
    return any(now.get(name) != number for name, number in before.machines.items())
