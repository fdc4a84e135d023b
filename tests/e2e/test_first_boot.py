"""What is left of a first boot, on each machine: its seed, cloud-init's copies, its journal. None of it is a secret.

The machine's secrets are those that it has: the contents of files that root alone reads.
"""

import json

import pytest

from deskyard.site import management_key
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]
# Runs in the guest, as root. Prints which files' secrets were searched for, the places that hold a public word which
# has to be there, and each secret's file with the places where it was found.
SEARCH = r'''
import json, os, pathlib, re, subprocess, sys

PLACES = ("/var/lib/cloud", "/run/cloud-init", "/var/log")
SKIPPED = ("/etc/shadow", "/etc/gshadow")


def private():
    for top in ("/etc", "/var/lib/deskyard", "/home/.deskyard", "/root"):
        for path in pathlib.Path(top).rglob("*"):
            if path.is_symlink() or not path.is_file() or path.name == "authorized_keys":
                continue
            facts = path.stat()
            if not facts.st_mode & 0o077 and 0 < facts.st_size < 1 << 16 and not str(path).startswith(SKIPPED):
                yield path


def words(path):
    """What of a file nobody could guess, and a copy of it would hold: its longest words."""
    return {word for word in re.findall(rb"[A-Za-z0-9+/=_-]{32,}", path.read_bytes())}


def left():
    seed = os.path.realpath("/dev/disk/by-label/cidata")
    yield "seed", pathlib.Path(seed).read_bytes()
    journal = ("journalctl", "--all", "--output=export", "--no-pager")
    yield "journal", subprocess.run(journal, capture_output=True, check=True).stdout
    for top in PLACES:
        for path in pathlib.Path(top).rglob("*"):
            if path.is_file() and not path.is_symlink() and "/var/log/journal" not in str(path):
                yield str(path), path.read_bytes()


secrets = {str(path): words(path) for path in private()}
secrets["a private key of anybody"] = {b"PRIVATE KEY-----"}
public = sys.argv[1].encode()
found, holding = {}, []
for place, text in left():
    if public in text:
        holding.append(place)
    for path, parts in secrets.items():
        if any(part in text for part in parts):
            found.setdefault(path, []).append(place)
searched = sorted(path for path, parts in secrets.items() if parts)
print(json.dumps({"searched": searched, "public": holding, "found": found}))
'''


@pytest.mark.parametrize("host", ["gateway", "desk"])
def test_nothing_that_is_left_of_a_first_boot_is_a_secret(ours: Running, host: str) -> None:
    key = management_key.public_key(ours.plan.site)
    done = ours.ssh(host, f"sudo -n python3 - {key.split()[1]}", stdin=SEARCH)
    said = json.loads(done.stdout)
    # Else it was searched in vain: the seed brings the key by which the site comes in, and every machine has host keys.
    assert "seed" in said["public"], said
    assert any("ssh_host" in path for path in said["searched"]), said["searched"]
    assert said["found"] == {}, said["found"]
