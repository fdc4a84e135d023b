#!/bin/sh
# Moves the distribution's own package sources back to where they were.
set -eu
cd /run/package-snapshot
for name in sources.list sources.list.d/debian.sources sources.list.d/ubuntu.sources; do
  [ ! -e "$name" ] || mv "$name" "/etc/apt/$name"
done
cd /
rm -r /run/package-snapshot
