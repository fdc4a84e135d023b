#!/bin/sh
# Runs in the unpacked source of ttyd, in a chroot of the image's suite; leaves the program at $1.
set -eu
cmake -S . -B build -DCMAKE_BUILD_TYPE=Release
cmake --build build --parallel
strip build/ttyd
cp build/ttyd "$1"
