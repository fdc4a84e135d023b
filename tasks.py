"""Composes the collections of deskyard/tasks."""

from invoke import Collection

from deskyard.tasks import access, bench, check, entry, host, image, site, toolchain, workspace

ns = Collection()
for module in (entry, bench):
    module.add_to(ns)
for module in (access, check, host, image, site, toolchain, workspace):
    ns.add_collection(module.ns)
