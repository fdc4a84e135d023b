"""Changes the list of a running gateway again and again, as its program does; run in the gateway's namespace.

Arguments: how many times. Each time another entry is allowed and the one before is forbidden.
"""

import sys

from deskyard.gateway.config import egress_grants
from deskyard.gateway.config.apply import change_list
from deskyard.gateway.machine.layout import load
from deskyard.gateway.machine.system import Machine
from deskyard.wire.gateway_settings import parse


def main() -> None:
    layout = load()
    settings = parse(layout.settings_file.read_text())
    before = ""
    for number in range(int(sys.argv[1])):
        entry = (f"n{number}.example.org", f"*.n{number}.example.org", f"n{number}.example.org:22")[number % 3]
        grant = egress_grants.grant(entry, 3600, False, "tester")

        def edit(grants: egress_grants.Grants, grant: egress_grants.Grant = grant, before: str = before) -> object:
            return (grants.forbidding(before, ()) if before else grants).allowing(grant)

        changed = change_list(edit, settings, layout, Machine())  # type: ignore[arg-type]
        assert "egress" in changed, changed
        before = entry
        print(number, flush=True)


if __name__ == "__main__":
    main()
