"""With the session service down nothing opens, and the page says so; sessions outlive its death."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from deskyard.wire.gateway_settings import Settings
from tests.molecule.conftest import Eventually
from tests.molecule.door import Door

UNIT = "deskyard-session.service"


@pytest.fixture
def without_service(host: Any, eventually: Eventually) -> Iterator[None]:
    host.run_test(f"systemctl stop {UNIT}")
    yield
    host.run_test(f"systemctl start {UNIT}")
    eventually(lambda: host.run("deskyard-gateway list").rc == 0, "the session service")


@pytest.mark.usefixtures("without_service")
def test_new_sessions_are_refused_with_a_page_and_a_remedy(host: Any, settings: Settings, door: Door) -> None:
    page = door.get(f"/d/{settings.desktops[0].name}/")
    assert page.status == 503
    assert "Desktops that are open stay open" in page.body
    answer = host.run(f"deskyard-gateway grant --desktop {settings.desktops[0].name}")
    assert answer.rc == 1
    assert json.loads(answer.stdout)["error"]["remedy"]
    assert door.redeem("A" * 43).status == 503
    assert door.upgrade(f"/d/{settings.desktops[0].name}/vnc", "").status == 401


def test_sessions_outlive_the_death_of_the_service(
    host: Any, settings: Settings, door: Door, eventually: Eventually
) -> None:
    granted = json.loads(host.check_output(f"deskyard-gateway grant --desktop {settings.desktops[0].name}"))
    cookie = door.redeem(granted["ticket"]).cookie
    host.run_test(f"systemctl kill --signal=KILL {UNIT}")
    # HAProxy decides by itself: the session is still good, though this desktop has nothing to show.
    assert door.upgrade(f"/d/{settings.desktops[0].name}/vnc", cookie).status in (502, 503)
    eventually(lambda: host.run("deskyard-gateway list").rc == 0, "the session service")
    assert granted["id"] in {session["id"] for session in json.loads(host.check_output("deskyard-gateway list"))}
