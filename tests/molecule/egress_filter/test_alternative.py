"""With the router down nothing leaves; it comes back by itself, and a refused configuration changes nothing."""

from collections.abc import Callable
from typing import Any

from deskyard.lab.hosts import PUBLIC
from deskyard.wire.gateway_settings import Settings
from tests.molecule.conftest import Eventually

UNIT = "deskyard-egress.service"
CONFIGURATION = "/etc/deskyard/egress.cfg"


def ways(settings: Settings) -> tuple[str, str]:
    """The router's own address for a name, and the far side's, which no desktop may reach."""
    (forward,) = settings.egress_rules.forwards
    return f"{forward.address}:22", f"{PUBLIC}:22"


def test_without_the_router_nothing_leaves(
    host: Any, settings: Settings, connects: Callable[..., dict[str, bool]], eventually: Eventually
) -> None:
    own, far = ways(settings)
    eventually(lambda: connects(own)[own], "a lease and the way out")
    host.run_test(f"systemctl stop {UNIT}")
    try:
        assert connects(own, far) == {own: False, far: False}
    finally:
        host.run_test(f"systemctl start {UNIT}")
    eventually(lambda: connects(own)[own], "the way out")
    assert connects(far) == {far: False}


def test_router_comes_back_from_a_crash(
    host: Any, settings: Settings, connects: Callable[..., dict[str, bool]], eventually: Eventually
) -> None:
    own, far = ways(settings)
    host.run_test(f"systemctl kill --signal=KILL {UNIT}")
    assert connects(far) == {far: False}
    eventually(lambda: connects(own)[own], "the way out")


def test_refused_reload_keeps_the_last_good_list_and_says_so(
    host: Any, settings: Settings, connects: Callable[..., dict[str, bool]]
) -> None:
    own, _ = ways(settings)
    host.run_test(f"cp -p {CONFIGURATION} {CONFIGURATION}.good; echo 'no-such-keyword' >>{CONFIGURATION}")
    try:
        assert host.run(f"systemctl reload {UNIT}").rc != 0
        assert "no-such-keyword" in host.check_output(f"journalctl --unit {UNIT} --no-pager --lines 60")
        assert connects(own) == {own: True}
    finally:
        host.run_test(f"mv {CONFIGURATION}.good {CONFIGURATION}")
    host.run_test(f"systemctl reload {UNIT}")
