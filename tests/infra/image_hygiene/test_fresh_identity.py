"""A machine made from the image gets an identity of its own."""

from testinfra.host import Host


def test_host_keys_are_as_young_as_the_machine(host: Host) -> None:
    keys = host.check_output("find /etc/ssh -name 'ssh_host_*_key'").split()
    assert keys == ["/etc/ssh/ssh_host_ed25519_key"]
    assert host.file(keys[0]).mode == 0o600
    # cloud-init names the instance it made the keys for; the image had none.
    assert host.file("/var/lib/cloud/instance").is_symlink


def test_machine_id_was_made_at_boot(host: Host) -> None:
    assert len(host.file("/etc/machine-id").content_string.strip()) == 32
