"""Makes a raw disk boot by BIOS without running it or needing a loop device.

GRUB's own installer wants block devices. A disk in a file needs only two writes: `boot.img` into the first sector,
told where the core starts, and the core into the BIOS boot partition, told where its second sector is.
"""

import struct
from pathlib import Path

SECTOR = 512
# Offsets that GRUB documents in boot.S and diskboot.S: where boot.img keeps the core's sector, where it decides
# whether to trust the drive number of the BIOS, and where the core's first sector keeps the place of the rest.
KERNEL_SECTOR = 0x5C
DRIVE_CHECK = 0x66
FIRST_BLOCKLIST = SECTOR - 12
PARTITION_TABLE = 0x1B8
NOPS = b"\x90\x90"


def write_boot_sector(disk: Path, boot: bytes, core: bytes, core_sector: int, core_sectors: int) -> None:
    """Put GRUB on `disk`: `boot` in the first sector, `core` into the partition at `core_sector`."""
    length = -(-len(core) // SECTOR)
    if length > core_sectors:
        raise ValueError(f"GRUB's core has {length} sectors, the BIOS boot partition {core_sectors}")
    sector = bytearray(boot[:SECTOR])
    sector[KERNEL_SECTOR : KERNEL_SECTOR + 8] = struct.pack("<Q", core_sector)
    sector[DRIVE_CHECK : DRIVE_CHECK + 2] = NOPS
    image = bytearray(core)
    rest = struct.pack("<QH", core_sector + 1, length - 1)
    image[FIRST_BLOCKLIST : FIRST_BLOCKLIST + len(rest)] = rest
    with disk.open("r+b") as file:
        old = file.read(SECTOR)
        file.seek(0)
        file.write(bytes(sector[:PARTITION_TABLE]) + old[PARTITION_TABLE:])
        file.seek(core_sector * SECTOR)
        file.write(image)
