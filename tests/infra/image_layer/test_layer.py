"""What a custom image and those that it starts from declare is there: each package, and each file as it was copied."""

import hashlib
from pathlib import Path

import pytest
from testinfra.host import Host

from deskyard.model.image import CustomImage
from deskyard.plan.image.image import ancestry
from deskyard.plan.image.layer import LayerFile, layer_files

TREE = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def layers(request: pytest.FixtureRequest) -> list[CustomImage]:
    """The custom images that the guest's image consists of, the lowest first."""
    name = request.config.getoption("--infra-image", default=None)
    if name is None:
        pytest.skip("no --infra-image: a machine that runs may have other packages and files by now")
    return [image for image in reversed(ancestry(TREE, name)) if isinstance(image, CustomImage)]


def test_every_declared_package_is_installed(host: Host, layers: list[CustomImage]) -> None:
    wanted = {package for image in layers for package in image.packages}
    listed = host.check_output("dpkg-query -W -f '${db:Status-Status} ${Package}\\n'").splitlines()
    assert wanted <= {line.split()[1] for line in listed if line.startswith("installed ")}


def test_every_file_is_as_it_was_copied(host: Host, layers: list[CustomImage]) -> None:
    wanted = {layer_file.path: layer_file for image in layers for layer_file in layer_files(image, TREE)}
    assert {path: _found(host, path) for path in wanted} == {path: _expected(file) for path, file in wanted.items()}


def _found(host: Host, path: str) -> tuple[str, ...]:
    """Owner, group, mode and checksum; of a link its target instead of the last two."""
    file = host.file(f"/{path}")
    if not file.exists and not file.is_symlink:
        return ("is not there",)
    if file.is_symlink:
        return ("link", host.check_output("readlink %s", f"/{path}"))
    return (file.user, file.group, f"{file.mode:o}", file.sha256sum)


def _expected(layer_file: LayerFile) -> tuple[str, ...]:
    if layer_file.link is not None:
        return ("link", layer_file.link)
    return ("root", "root", f"{layer_file.mode:o}", hashlib.sha256(layer_file.source.read_bytes()).hexdigest())
