# Packer 1.7 and later takes its plugins from here; earlier ones have them built in and are given the folder without
# this file (see deskyard/image/build/packer.py).
packer {
  required_plugins {
    qemu = {
      version = "~> 1.1"
      source  = "github.com/hashicorp/qemu"
    }
    ansible = {
      version = "~> 1.1"
      source  = "github.com/hashicorp/ansible"
    }
  }
}
