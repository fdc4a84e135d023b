"""Serves the provider to Pulumi's engine."""

import sys

from pulumi.provider.experimental.server import main

from stacks.libvirt.provider import VERSION, LibvirtProvider

main(sys.argv[1:], VERSION, LibvirtProvider())
