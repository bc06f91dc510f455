"""Where etcd and kube-apiserver are looked for, and what their absence means."""

from pathlib import Path

import pytest

from stromboli.testkit.api_fixtures import kube_binaries
from stromboli.testkit.kube_apiserver import KubeBinaries, KubeBinariesMissing, cache_folder


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


def test_named_assets_win_over_the_path_and_the_path_over_the_cache(tmp_path: Path) -> None:
    assets = put(tmp_path / "assets", "etcd")
    path = put(tmp_path / "path", "etcd", "kube-apiserver")
    environ = {
        "KUBEBUILDER_ASSETS": str(assets),
        "PATH": str(path),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    put(cache_folder(environ), "kube-apiserver")
    found = KubeBinaries(environ)

    assert found.etcd == assets / "etcd"
    assert found.kube_apiserver == path / "kube-apiserver"


def test_the_cache_is_used_when_nothing_else_has_it(tmp_path: Path) -> None:
    path = put(tmp_path / "path", "etcd")
    environ = {"PATH": str(path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    built = put(cache_folder(environ), "kube-apiserver")

    assert KubeBinaries(environ).kube_apiserver == built / "kube-apiserver"


def test_what_is_missing_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    environ = {"PATH": str(put(tmp_path / "path", "etcd")), "XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(KubeBinariesMissing, match=r"kube-apiserver is .*make e2e-assets"):
        KubeBinaries(environ)


def test_without_the_binaries_a_test_is_skipped_with_the_reason(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    with pytest.raises(pytest.skip.Exception, match="make e2e-assets"):
        kube_binaries(environ)


def test_in_ci_the_missing_binaries_are_a_failure(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "CI": "true"}
    with pytest.raises(pytest.fail.Exception, match="SKIP_E2E=1"):
        kube_binaries(environ)


def test_in_ci_they_can_be_skipped_on_purpose(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path), "CI": "true", "SKIP_E2E": "1"}
    with pytest.raises(pytest.skip.Exception, match="SKIP_E2E"):
        kube_binaries(environ)
