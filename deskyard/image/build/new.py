"""Makes the folder of a new custom image: a declaration that builds as it is, a file and a test to begin with."""

import tempfile
from pathlib import Path

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.model.image import CustomImage
from deskyard.plan.image.image import check_start, read_image

DECLARATION = """\
# yaml-language-server: $schema=../../schemas/image.schema.json
# Build it with: ./inv image.build {name}
# Use it with `deskyard:image: {name}` in a workspace file, or `image: {name}` at one of its desktops.
name: {name}
version: 0.1.0
description: {parent} with additions of our own.

# Another image; it is built first if it is not there, and this one anew whenever it changes.
from: {parent}

# The disk, GiB; that of {parent} if left out, never smaller. A desktop's disk grows to its tier's.
# disk_gib: 20

# Packages of the distribution, without what they only recommend.
packages:
  - jq

# A folder here whose content is copied to /: root owns it, modes stay as they are. No secrets: whoever has the image
# can read them.
files: files

# Ansible roles, after packages and files: a folder roles/NAME here, or one of ansible/roles. Each needs a test.
# roles:
#   - my_role
"""
ABOUT = "This machine was made from image {name}, which starts from {parent}.\n"
TEST = '''"""What image {name} has to have; ./inv image.build runs this in a machine made from it."""

from testinfra.host import Host


def test_jq_reads_json(host: Host) -> None:
    assert host.check_output("echo '{{\\"answer\\": 42}}' | jq .answer") == "42"
'''


def new(name: str, parent: str = "desktop") -> Path:
    """Make `images/<name>`; raises `ConfigError` before anything is touched if there is one, or a name is wrong."""
    values = {"name": name, "version": "0.1.0", "description": "new", "from": parent}
    CustomImage.check(values, "image.new")
    folder = tree() / "images" / name
    if folder.exists() or folder.is_symlink():
        raise ConfigError("name", name, f"{folder} exists already", "choose another name, or edit what is there")
    check_start(read_image(tree(), parent))
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder.parent) as scratch:
        # The last step is the only one that shows; a folder of that name that came meanwhile is not replaced.
        draft = Path(scratch) / name
        draft.mkdir()
        for path, text in _content(name, parent).items():
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_text(text)
        draft.rename(folder)
    return folder


def _content(name: str, parent: str) -> dict[str, str]:
    """Text by path."""
    texts = {
        "image.yaml": DECLARATION,
        f"files/usr/local/share/doc/{name}/about.txt": ABOUT,
        f"tests/test_{name.replace('-', '_')}.py": TEST,
    }
    return {path: text.format(name=name, parent=parent) for path, text in texts.items()}
