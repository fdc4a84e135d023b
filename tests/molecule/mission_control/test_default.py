"""Mission Control on a machine that is thrown away: it comes up by itself with the machine, and knows what it knew."""

import json
from collections.abc import Callable

from testinfra.host import Host

Eventually = Callable[[Callable[[], bool], str], None]


def test_it_comes_up_by_itself_after_a_reboot_and_knows_its_people(
    host: Host, reboot: Callable[[], None], eventually: Eventually
) -> None:
    # The suite of the role left it running.
    host.check_output("deskyard control.person ada --role viewer")
    before = json.loads(host.check_output("deskyard control.status --json"))
    reboot()
    eventually(lambda: host.run("deskyard control.status").rc == 0, "Mission Control")
    assert json.loads(host.check_output("deskyard control.status --json"))["url"] == before["url"]
    # Someone known is given another link; the role stays.
    assert json.loads(host.check_output("deskyard control.person ada --json"))["role"] == "viewer"


def test_control_up_again_is_the_same_machine_begun_anew(host: Host) -> None:
    supervisor = "systemctl show --property=MainPID --value deskyard-control.service"
    before = host.check_output(supervisor)
    assert json.loads(host.check_output("deskyard control.up --json"))["ready"]
    assert host.check_output(supervisor) not in ("0", before)
