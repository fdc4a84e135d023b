"""A Proxmox VE cluster to ask, and the plugin that asks it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.host import toolchain
from deskyard.host.toolchain import FoundTool
from tests.proxmox.bench import Bench
from tests.proxmox.inhabited import Inhabitants, inhabit
from tests.proxmox.rack import Rack
from tests.proxmox.started_gateway import Gateway, started
from tests.support.pve import Client, Peer


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """A cluster of two nodes."""
    with Peer(tmp_path, nodes=2) as peer:
        yield peer


@pytest.fixture
def root(peer: Peer) -> Iterator[Client]:
    """Somebody who may do anything."""
    with peer.client() as client:
        yield client


@pytest.fixture(scope="session")
def plugin() -> FoundTool:
    """The plugin, from the cache of this machine; on a fresh machine it is built here, which takes minutes."""
    return toolchain.get("proxmoxve")


@pytest.fixture
def rack(peer: Peer, root: Client, plugin: FoundTool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rack:
    """A site on the peer with published templates."""
    return Rack(peer, root, tmp_path, monkeypatch)


@pytest.fixture
def inhabitants(rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inhabitants]:
    """Who is in the machines of the site."""
    rack.let_guests_in(monkeypatch)
    with inhabit(rack.peer, tmp_path, monkeypatch) as inside:
        yield inside


@pytest.fixture
def gateway(peer: Peer, root: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """A gateway that was told nothing yet; needs neither engine nor plugin."""
    with started(Rack(peer, root, tmp_path, monkeypatch), tmp_path, monkeypatch) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def kept_bench(plugin: FoundTool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The bench of all modules: to bring its workspace up takes the engine twice."""
    folder = tmp_path_factory.mktemp("bench")
    with Peer(folder, nodes=2) as peer, peer.client() as root:
        with pytest.MonkeyPatch.context() as monkeypatch:
            bench = Bench(Rack(peer, root, folder, monkeypatch))
        yield bench


@pytest.fixture(scope="module")
def bench(kept_bench: Bench) -> Iterator[Bench]:
    """A rack that starts from the same moments again and again."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        kept_bench.rack.enter(monkeypatch)
        yield kept_bench
