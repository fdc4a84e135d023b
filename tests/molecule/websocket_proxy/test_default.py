"""The door as a browser outside meets it."""

from typing import Any

from deskyard.wire.gateway_settings import Settings
from tests.molecule.door import Door


def test_door_is_healthy_and_its_pages_forbid_what_they_do_not_need(door: Door) -> None:
    assert door.get("/healthz").status == 200
    page = door.get("/assets/viewer.html")
    assert page.status in (200, 404)
    assert "default-src 'none'" in page.head


def test_nothing_opens_without_a_session(settings: Settings, door: Door) -> None:
    for desktop in settings.desktops:
        for place in ("vnc", "terminal"):
            assert door.upgrade(f"/d/{desktop.name}/{place}", "").status == 401


def test_foreign_pages_and_hosts_are_refused(settings: Settings, door: Door) -> None:
    path = f"/d/{settings.desktops[0].name}/vnc"
    assert door.upgrade(path, "", origin="https://evil.test").status == 403
    assert door.get("/healthz", host="evil.test").status == 421


def test_plain_http_gets_no_answer(host: Any, settings: Settings) -> None:
    asked = f"curl -s -o /dev/null -w %{{http_code}} http://{settings.uplink_address}:443/healthz"
    assert host.run(asked).stdout in ("000", "400")
