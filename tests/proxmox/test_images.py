"""A desktop's own image, with the real engine: new desktops are made from it, and one that exists keeps its disk."""

import pytest

from deskyard.errors import ConfigError
from deskyard.workspace import workspace
from tests.proxmox.rack import DIGESTS, Rack, changed

TEMPLATE = 20_500


@pytest.fixture
def mine(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> str:
    """An image of the user's, which is declared and not published yet."""
    monkeypatch.setattr("deskyard.declaration.declaration.image_names", lambda _: [*DIGESTS, "mine"])
    digests = {**DIGESTS, "mine": "mine0digest"}
    monkeypatch.setattr("deskyard.image.store.store.digests", lambda name: [digests[name]])
    return "mine"


def publish(rack: Rack) -> None:
    for number, node in enumerate(sorted(rack.peer.fake.nodes)):
        rack.publish(node, TEMPLATE + number, "mine", "mine0digest")


@pytest.mark.deep  # what its disk ignores is seen in every run, in tests/components
def test_desktop_that_exists_keeps_its_disk_when_its_image_is_another(rack: Rack, mine: str) -> None:
    stack = rack.up("lab", "dev1")
    seen = rack.snapshot("lab")
    # Whether the other image can be had makes no difference.
    rack.declare("lab", "dev1", image=mine)
    assert changed(stack.preview()) == []
    publish(rack)
    assert changed(stack.preview()) == []
    rack.up("lab", "dev1", image=mine)
    assert rack.snapshot("lab") == seen
    workspace.destroy("lab")


def test_new_desktop_is_made_from_its_image_once_that_is_published(rack: Rack, mine: str) -> None:
    rack.up("lab", "dev1")
    with pytest.raises(ConfigError) as caught:
        rack.up("lab", "dev1", "dev2", image=mine)
    assert caught.value.remedy == f"run ./inv image.publish {mine} --site rack"
    assert rack.machines("lab").keys() == {"gateway", "dev1"}
    publish(rack)
    rack.up("lab", "dev1", "dev2", image=mine)
    clones = [call.path for call in rack.peer.fake.calls if call.path.endswith("/clone")]
    assert [path for path in clones if f"/qemu/{TEMPLATE}" in path or f"/qemu/{TEMPLATE + 1}" in path] == clones[-1:]
    workspace.destroy("lab")
