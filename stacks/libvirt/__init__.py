"""The resource provider for libvirt: `deskyard:libvirt:*`."""
