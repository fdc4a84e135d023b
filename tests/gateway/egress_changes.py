"""Changes the list of a running gateway again and again, as its program does; run in the gateway's namespace.

Arguments: how many times. Each time another entry is allowed and the one before is forbidden.
"""

import sys

from deskyard.gateway.config import egress_grants
from deskyard.gateway.config.apply import change_list
from deskyard.gateway.config.egress_grants import Grant, Grants
from deskyard.gateway.machine.layout import load
from deskyard.gateway.machine.system import Machine
from deskyard.wire.gateway_settings import Settings


def main() -> None:
    layout = load()
    before = ""
    for number in range(int(sys.argv[1])):
        entry = (f"n{number}.example.org", f"*.n{number}.example.org", f"n{number}.example.org:22")[number % 3]
        grant = egress_grants.grant(entry, 3600, False, "tester")

        def edit(settings: Settings, grants: Grants, grant: Grant = grant, before: str = before) -> Grants:
            return (grants.forbidding(before, ()) if before else grants).allowing(grant)

        changed = change_list(edit, layout, Machine())
        assert "egress" in changed, changed
        before = entry
        print(number, flush=True)


if __name__ == "__main__":
    main()
