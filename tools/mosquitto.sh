#!/bin/sh
# Print the path of a mosquitto to run. If there is none: install it, as root with apt-get, and else unpack it into .tools/.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
tools="$root/.tools"

find_mosquitto() {
    for candidate in "${MOSQUITTO:-}" "$(command -v mosquitto || true)" /usr/sbin/mosquitto /usr/local/sbin/mosquitto \
        /opt/homebrew/sbin/mosquitto "$tools/mosquitto"; do
        if [ -n "$candidate" ] && [ -x "$candidate" ]; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

if find_mosquitto; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    echo "There is no mosquitto, and no apt-get to get it with: install Mosquitto 2, or set MOSQUITTO to its path." >&2
    exit 1
fi
if [ "$(id -u)" = 0 ]; then
    export DEBIAN_FRONTEND=noninteractive
    { apt-get install --yes --no-install-recommends mosquitto ||
        { apt-get update && apt-get install --yes --no-install-recommends mosquitto; }; } >&2
    find_mosquitto
    exit 0
fi

# without root: the program and those libraries that the machine lacks, behind a small script that finds them
mkdir -p "$tools/packages" "$tools/unpacked"
missing=mosquitto
for library in libcjson1 libdlt2 libmosquitto1 libwebsockets16 libwebsockets17 libwebsockets19 libwebsockets19t64 libev4 libev4t64 libuv1 libuv1t64 libwrap0; do
    if apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances mosquitto 2>/dev/null |
        grep -qx "$library" && ! dpkg -s "$library" >/dev/null 2>&1; then
        missing="$missing $library"
    fi
done
# shellcheck disable=SC2086  # a list of names
(cd "$tools/packages" && apt-get download $missing) >&2
for package in "$tools"/packages/*.deb; do
    dpkg -x "$package" "$tools/unpacked"
done
cat >"$tools/mosquitto" <<END
#!/bin/sh
export LD_LIBRARY_PATH=\$(find "$tools/unpacked" -name '*.so*' -exec dirname {} + | sort -u | tr '\n' ':')\${LD_LIBRARY_PATH:-}
exec "$tools/unpacked/usr/sbin/mosquitto" "\$@"
END
chmod +x "$tools/mosquitto"
find_mosquitto
