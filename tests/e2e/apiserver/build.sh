#!/bin/sh
# Builds kube-apiserver and kubectl from source into a cache folder, once, and checks for etcd.
# Run it by `make e2e-assets`. About six minutes on two cores; nothing to do the second time.
set -eu

version=1.35.8
here=$(cd "$(dirname "$0")" && pwd)
target="${XDG_CACHE_HOME:-$HOME/.cache}/stromboli/kube-$version"

say() { printf 'e2e-assets: %s\n' "$*"; }
fail() { printf 'e2e-assets: %s\n' "$*" >&2; exit 1; }

# $1: name. Where the tests would find it before they look into the cache.
found_elsewhere() {
    if [ -n "${KUBEBUILDER_ASSETS:-}" ] && [ -x "$KUBEBUILDER_ASSETS/$1" ]; then
        say "$1: using $KUBEBUILDER_ASSETS/$1"
    elif command -v "$1" >/dev/null 2>&1; then
        say "$1: using $(command -v "$1")"
    else
        return 1
    fi
}

build() {
    if [ -x "$target/$1" ]; then
        say "$1: already built in $target"
        return
    fi
    command -v go >/dev/null 2>&1 || fail "go is needed to build $1 and is not in PATH:" \
        "install Go 1.25 or newer, or point KUBEBUILDER_ASSETS at a folder with $1"
    mkdir -p "$target"
    say "$1: building v$version from source, this takes some minutes"
    variables=k8s.io/component-base/version
    # A temporary name, so that an interrupted build leaves nothing that looks finished.
    temporary="$target/.$1.$$"
    trap 'rm -f "$temporary"' EXIT
    (
        cd "$here"
        CGO_ENABLED=0 go build -trimpath -o "$temporary" -ldflags "-s -w \
            -X $variables.gitVersion=v$version \
            -X $variables.gitMajor=1 \
            -X $variables.gitMinor=35" "k8s.io/kubernetes/cmd/$1"
    ) || fail "$1 did not build; the lines above say why (the Go module proxy must be reachable)"
    mv "$temporary" "$target/$1"
    trap - EXIT
    say "$1: built"
}

etcd_is_there() {
    found_elsewhere etcd && return
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "etcd: installing the package etcd-server"
        apt-get update -q >/dev/null && apt-get install -y -q etcd-server >/dev/null && found_elsewhere etcd && return
    fi
    fail "etcd is missing: install your distribution's etcd-server package, or put an etcd binary" \
        "(3.4 or newer) into PATH or into the folder named by KUBEBUILDER_ASSETS"
}

for name in kube-apiserver kubectl; do
    found_elsewhere "$name" || build "$name"
done
etcd_is_there
say "ready; run the tests with: make e2e"
