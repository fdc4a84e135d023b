#!/bin/sh
# Moves the distribution's own package sources out of apt's sight; those of vendors stay. /run ends with this machine.
set -eu
mkdir -p /run/package-snapshot.new/sources.list.d
for name in sources.list sources.list.d/debian.sources sources.list.d/ubuntu.sources; do
  [ ! -e "/etc/apt/$name" ] || mv "/etc/apt/$name" "/run/package-snapshot.new/$name"
done
mv /run/package-snapshot.new /run/package-snapshot
