"""A raw disk that boots by BIOS."""

import struct
from pathlib import Path

import pytest

from deskyard.host.vm.boot_sector import write_boot_sector

SECTOR = 512


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    path = tmp_path / "disk.raw"
    path.write_bytes(bytes(440) + b"TABLE" * 14 + b"\x55\xaa" + bytes(64 * SECTOR))
    return path


def test_boot_sector_points_to_the_core(disk: Path) -> None:
    write_boot_sector(disk, b"\xeb" * SECTOR, b"c" * 1200, core_sector=8, core_sectors=16)
    data = disk.read_bytes()
    assert struct.unpack("<Q", data[0x5C:0x64]) == (8,)
    core = data[8 * SECTOR :]
    assert struct.unpack("<QH", core[SECTOR - 12 : SECTOR - 2]) == (9, 2)
    assert core[SECTOR:1200] == b"c" * (1200 - SECTOR)


def test_partition_table_stays(disk: Path) -> None:
    before = disk.read_bytes()[440:SECTOR]
    write_boot_sector(disk, b"\xeb" * SECTOR, b"c" * 600, core_sector=8, core_sectors=16)
    assert disk.read_bytes()[440:SECTOR] == before


def test_core_that_does_not_fit_is_refused(disk: Path) -> None:
    before = disk.read_bytes()
    with pytest.raises(ValueError, match="sectors"):
        write_boot_sector(disk, b"\xeb" * SECTOR, b"c" * 1200, core_sector=8, core_sectors=2)
    assert disk.read_bytes() == before
