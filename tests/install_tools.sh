#!/bin/sh
# Install the Debian packages that tests need, if this is root on Debian; otherwise print their names. Tests that need a
# missing tool fail or are skipped, and name it.
set -u
missing=
for each in tcpdump:tcpdump dumpcap:wireshark-common ip:iproute2 tmux:tmux; do
    command -v "${each%:*}" >/dev/null || missing="$missing ${each#*:}"
done
[ -n "$missing" ] || exit 0
install() {
    DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends $missing >/dev/null 2>&1
}
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && { install || { apt-get update -qq && install; }; }; then
    echo "installed:$missing"
else
    echo "not installed, and tests need it:$missing"
fi
