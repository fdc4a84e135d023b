"""What an image costs is read from its manifest; what an older manifest lacks is unknown, not nothing."""

from typing import Any

from deskyard.plan.image.facts import LARGEST, facts

OLD: dict[str, Any] = {
    "name": "desktop",
    "version": "0.1.0",
    "digest": "a" * 16,
    "size_bytes": 3 << 20,
    "built_at": "2026-01-01T10:00:00+00:00",
    "git_commit": None,
    "base": {"kind": "bootstrap", "digest": "b" * 16},
    "accelerator": "tcg",
    "packages": {"sudo": "1", "vim": "9"},
}
BOOT = {"state": "running", "phases": {}, "idle_memory_mib": 400}
NEW = {**OLD, "boot_seconds": 9.5, "installed_kib": {"sudo": 10, "vim": 3000}, "boot": BOOT, "hygiene": [{}, {}]}


def test_older_image_has_unknown_costs() -> None:
    found = facts(OLD)
    assert found.unknown == ("installed sizes", "boot", "hygiene")
    assert (found.installed_kib, found.largest_packages, found.boot, found.ssh_seconds) == (None, None, None, None)
    assert (found.size_bytes, found.packages) == (3 << 20, 2)


def test_costs_are_those_of_the_manifest() -> None:
    found = facts(NEW)
    assert found.unknown == ()
    assert found.installed_kib == 3010
    assert list((found.largest_packages or {}).items()) == [("vim", 3000), ("sudo", 10)]
    assert (found.boot, found.ssh_seconds, found.hygiene_checks) == (BOOT, 9.5, 2)


def test_table_holds_the_largest_and_no_more() -> None:
    sizes = {f"p{number}": number for number in range(100)}
    found = facts({**NEW, "installed_kib": sizes})
    assert found.installed_kib == sum(sizes.values())
    assert list(found.largest_packages or {}) == [f"p{number}" for number in range(99, 99 - LARGEST, -1)]
