#!/bin/sh
# Brings two workspaces up on a real cluster, proves what can be proved from outside, and takes them away again.
#
#   tests/e2e/proxmox/check.sh SITE NETWORK_A NETWORK_B     such as: rack 10.201.1.0/24 10.201.2.0/24
#
# SITE is a file in stacks/workspace/sites; both images have to be published. Everything is called e2e-a and e2e-b.
set -eu
[ $# -eq 3 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
tree=$(CDPATH='' cd -- "$(dirname -- "$0")/../../.." && pwd)
stacks=$(mktemp -d)
export DESKYARD_STACKS="$stacks"
cd "$tree"

finish() {
  code=$?
  for name in e2e-a e2e-b; do
    ./inv workspace.destroy "$name" --yes --no-backup || { echo "LEFT BEHIND: workspace $name" >&2; code=1; }
  done
  [ "$code" -ne 0 ] || rm -rf "$stacks"
  [ "$code" -eq 0 ] && echo "ALL GOOD" || echo "FAILED; declarations are in $stacks" >&2
  exit "$code"
}

declare_workspace() { # NAME NETWORK DESKTOPS...
  name=$1 network=$2
  shift 2
  {
    printf 'config:\n  deskyard:site: %s\n  deskyard:network: %s\n  deskyard:desktops:\n' "$site" "$network"
    for desktop in "$@"; do printf '    - name: %s\n' "$desktop"; done
  } > "$stacks/Pulumi.$name.yaml"
}

site=$1
mkdir "$stacks/sites"
cp "stacks/workspace/sites/$site.yaml" "$stacks/sites/"
echo "==> the site"
./inv site.check "$site"
declare_workspace e2e-a "$2" one two
declare_workspace e2e-b "$3" one
trap finish EXIT
trap 'exit 1' INT TERM
echo "==> two workspaces"
./inv workspace.up e2e-a
./inv workspace.up e2e-b
echo "==> nothing to change, nothing changed by hand"
./inv workspace.preview e2e-a --json | python3 -c 'import json, sys; sys.exit(bool(json.load(sys.stdin)["steps"]))'
./inv workspace.status e2e-a --drift
echo "==> the door answers, and lets nobody in without a session"
url=$(./inv workspace.status e2e-a --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["url"])')
ca=$(./inv workspace.status e2e-a --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["certificate_authority"])')
code=$(curl --silent --show-error --cacert "$ca" --output /dev/null --write-out '%{http_code}' "$url/d/one/desktop/websockify")
case $code in 401 | 403 | 404) ;; *) echo "the door answered $code without a session" >&2; exit 1 ;; esac
echo "==> a desktop reaches neither its neighbour nor the other workspace"
ssh_config=$(./inv workspace.status e2e-a --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["ssh_config"])')
for target in $(./inv workspace.status e2e-a --json | python3 -c '
import json, sys
print(*(d["address"] for d in json.load(sys.stdin)["desktops"] if d["name"] != "one"))') \
  $(./inv workspace.status e2e-b --json | python3 -c '
import json, sys
print(*(d["address"] for d in json.load(sys.stdin)["desktops"]))'); do
  # shellcheck disable=SC2029
  if ssh -F "$ssh_config" one "python3 -c 'import socket; socket.create_connection((\"$target\", 6080), 5)'" 2>/dev/null; then
    echo "desktop one reaches $target" >&2
    exit 1
  fi
done
echo "==> a desktop that is not named is not removed; named, it is"
declare_workspace e2e-a "$2" one
if ./inv workspace.up e2e-a; then echo "desktop two went without being named" >&2; exit 1; fi
./inv workspace.up e2e-a --remove two --no-backup
