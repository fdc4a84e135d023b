#!/bin/sh
# Usage: take_key.sh KEYS FINGERPRINT KEYRING
# Writes of a file of public keys the one whose own fingerprint is given: the other keys of its owner sign nothing here.
set -eu
folder=$(dirname "$1")
taken=$folder/taken.gpg
gpg --homedir "$folder" --batch --no-autostart --quiet --import "$1"
gpg --homedir "$folder" --batch --no-autostart --quiet --output "$taken" --export "$2" || true
# A key may carry another one's as its subkey, and be found by that one's fingerprint: only what comes first counts.
found=$(gpg --homedir "$folder" --batch --no-autostart --with-colons --show-keys "$taken" 2>/dev/null |
  awk -F: '$1 == "pub" { own = 1 } own && $1 == "fpr" { print $10; own = 0 }')
if [ "$found" != "$2" ]; then
  echo "$1 holds no key $2: the vendor changed it, or this is not the vendor's file" >&2
  exit 1
fi
install -m 0644 "$taken" "$3"
