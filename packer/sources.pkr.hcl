source "qemu" "image" {
  vm_name          = "disk.qcow2"
  output_directory = var.output

  # A copy of the base disk: a backing file would tie the image to this machine.
  disk_image       = true
  iso_url          = var.base_disk
  iso_checksum     = "none"
  format           = "qcow2"
  skip_compaction  = true
  skip_resize_disk = true

  headless       = true
  accelerator    = var.accelerator
  cpus           = var.cpus
  memory         = var.memory_mib
  disk_interface = "virtio"
  disk_cache     = "unsafe"
  disk_discard   = "unmap"
  net_device     = "virtio-net"
  qemuargs = [
    ["-cpu", var.cpu_model],
    ["-cdrom", var.seed],
    ["-serial", "file:${var.console}"],
    ["-device", "virtio-rng-pci"],
    ["-device", "virtio-net,netdev=user.0"],
  ]

  communicator           = "ssh"
  ssh_username           = "root"
  ssh_private_key_file   = var.private_key
  ssh_timeout            = "${var.boot_minutes}m"
  ssh_handshake_attempts = 1000
  shutdown_command       = "systemctl poweroff"
  shutdown_timeout       = "5m"
}
