#!/bin/bash
# get_tshark.sh DIRECTORY: put the tshark of Debian 13 (4.4, which has a ZMTP dissector; 4.0 of Debian 12 has none)
# under DIRECTORY, beside the system and without touching it, and write DIRECTORY/tshark, which runs it.
# About 70 packages, a minute. Takes the mirror that apt of this machine is set up for. For comparisons only.
set -euo pipefail
directory=$(mkdir -p "${1:?usage: get_tshark.sh DIRECTORY}" && cd "$1" && pwd)
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep '/debian/$' | head -n 1 || true)
[ -n "$mirror" ] || { echo "apt of this machine knows no mirror of Debian" >&2; exit 1; }
mkdir -p "$directory"/{lists/partial,cache/archives/partial,etc,root,config}
: >"$directory/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$directory/sources.list"
options=(
    -qq -o Dir::Etc::SourceList="$directory/sources.list" -o Dir::Etc::SourceParts="$directory/etc"
    -o Dir::State::Lists="$directory/lists" -o Dir::State::Status="$directory/status" -o Dir::Cache="$directory/cache"
    -o APT::Install-Recommends=false -o Debug::NoLocking=1
)
apt-get "${options[@]}" update
apt-get "${options[@]}" install -y --download-only tshark
for package in "$directory"/cache/archives/*.deb; do dpkg -x "$package" "$directory/root"; done
libraries=$(echo "$directory"/root/usr/lib/*-linux-gnu)
loader=$(ls "$libraries"/ld-linux-*.so.* | head -n 1)
cat >"$directory/tshark" <<SH
#!/bin/sh
export WIRESHARK_DATA_DIR=$directory/root/usr/share/wireshark WIRESHARK_PLUGIN_DIR=$libraries/wireshark/plugins
export WIRESHARK_EXTCAP_DIR=/nonexistent WIRESHARK_CONFIG_DIR=$directory/config
exec $loader --library-path $libraries $directory/root/usr/bin/tshark "\$@"
SH
chmod +x "$directory/tshark"
rm -rf "$directory/cache" "$directory/lists"
