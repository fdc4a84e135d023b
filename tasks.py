"""Composes the collections of deskyard/tasks."""

from invoke import Collection

from deskyard.tasks import check, entry, host, image, toolchain

ns = Collection()
entry.add_to(ns)
for module in (check, host, image, toolchain):
    ns.add_collection(module.ns)
