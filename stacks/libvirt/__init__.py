"""Resources of libvirt: `deskyard:libvirt:*`."""
