"""A desktop's own image, with the real engine: new desktops are made from it, and one that exists keeps its disk."""

import pytest

from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import ConfigError
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.rack import DIGESTS, Rack, changed, watched

pytestmark = pytest.mark.sampled

TEMPLATE = 20_500


@pytest.fixture
def mine(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> str:
    """An image of the user's, which is declared and not published yet."""
    monkeypatch.setattr("deskyard.declaration.declaration.image_names", lambda _: [*DIGESTS, "mine"])
    digests = {**DIGESTS, "mine": "mine0digest"}
    monkeypatch.setattr("deskyard.image.store.store.digests", lambda name: [digests[name]])
    return "mine"


def publish(rack: Rack) -> None:
    for number, node in enumerate(sorted(rack.peer.fake.nodes)):
        rack.publish(node, TEMPLATE + number, "mine", "mine0digest")


@pytest.mark.deep  # what its disk ignores is seen in every run, in tests/components
def test_desktop_that_exists_keeps_its_disk_when_its_image_is_another(bench: Bench, mine: str) -> None:
    bench.up()
    rack, stack = bench.rack, WorkspaceStack(NAME)
    seen = rack.snapshot(NAME)
    # Whether the other image can be had makes no difference.
    rack.declare(NAME, *DESKTOPS, image=mine)
    assert changed(stack.preview()) == []
    publish(rack)
    assert changed(stack.preview()) == []
    rack.up(NAME, *DESKTOPS, image=mine)
    assert rack.snapshot(NAME) == seen


def test_new_desktop_is_made_from_its_image_once_that_is_published(bench: Bench, mine: str) -> None:
    bench.up()
    rack = bench.rack
    with pytest.raises(ConfigError) as caught:
        rack.up(NAME, *DESKTOPS, "dev3", image=mine)
    assert caught.value.remedy == f"run ./inv image.publish {mine} --site rack"
    assert rack.machines(NAME).keys() == {"gateway", *DESKTOPS}
    publish(rack)
    with watched(rack.peer) as calls:
        rack.up(NAME, *DESKTOPS, "dev3", image=mine)
    (clone,) = [call.path for call in calls if call.path.endswith("/clone")]
    assert f"/qemu/{TEMPLATE}" in clone or f"/qemu/{TEMPLATE + 1}" in clone
