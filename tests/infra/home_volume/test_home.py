"""/home is on its own disk where the machine has one, and the host keys with it."""

from testinfra.host import Host

IDENTITY = "/home/.deskyard/identity"


def device(host: Host) -> str:
    """The disk of /home; empty in an image's test boot, which has none."""
    rows = [line.split() for line in host.check_output("lsblk --nodeps --noheadings --output PATH,SERIAL").splitlines()]
    return next((row[0] for row in rows if row[1:] == ["home"]), "")


def test_home_is_on_its_disk_or_on_the_systems_if_there_is_none(host: Host) -> None:
    source = host.check_output("findmnt --noheadings --output SOURCE --target /home")
    root = host.check_output("findmnt --noheadings --output SOURCE /")
    assert source == (device(host) or root)
    assert host.service("home-volume").is_running


def test_file_system_of_home_fills_its_disk(host: Host) -> None:
    disk = device(host)
    if disk:
        size = int(host.check_output(f"lsblk --bytes --nodeps --noheadings --output SIZE {disk}"))
        assert int(host.check_output("findmnt --bytes --noheadings --output SIZE /home")) > 0.9 * size


def test_accounts_own_their_homes_and_nobody_else_sees_the_identity(host: Host) -> None:
    for line in host.check_output("getent passwd").splitlines():
        name, _, _, _, _, home, _ = line.split(":")
        if home.startswith("/home/") and host.file(home).exists:
            assert host.file(home).user == name
    if device(host):
        folder = host.file(IDENTITY)
        assert (folder.user, folder.mode) == ("root", 0o700)


def test_host_key_is_the_one_on_the_volume(host: Host) -> None:
    if device(host):
        kept = host.check_output(f"cat {IDENTITY}/ssh_host_ed25519_key.pub")
        assert host.check_output("cat /etc/ssh/ssh_host_ed25519_key.pub") == kept
    else:
        assert not host.file(IDENTITY).exists
