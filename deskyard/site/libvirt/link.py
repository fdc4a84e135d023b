"""The connection to libvirt, and its answer that something is not there."""

import contextlib
from collections.abc import Iterator

import libvirt

POOL = "deskyard"
POOL_PATH = "/var/lib/libvirt/images/deskyard"


@contextlib.contextmanager
def gone_is_fine(*codes: int) -> Iterator[None]:
    """Ignore libvirt's answer that the thing is not there (or another of `codes`)."""
    absent = {
        libvirt.VIR_ERR_NO_DOMAIN,
        libvirt.VIR_ERR_NO_NETWORK,
        libvirt.VIR_ERR_NO_NWFILTER,
        libvirt.VIR_ERR_NO_STORAGE_POOL,
        libvirt.VIR_ERR_NO_STORAGE_VOL,
    }
    try:
        yield
    except libvirt.libvirtError as error:
        if error.get_error_code() not in absent | set(codes):
            raise
