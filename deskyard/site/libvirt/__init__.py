"""A site on this machine: libvirt and QEMU."""
