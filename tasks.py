"""Composes the collections of deskyard/tasks."""

from invoke import Collection

from deskyard.tasks import check, host, toolchain

ns = Collection()
for module in (check, host, toolchain):
    ns.add_collection(module.ns)
