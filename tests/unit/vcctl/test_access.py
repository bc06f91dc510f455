"""`--master` changes where we go, and nothing about who we are."""

from pathlib import Path

import pytest
import yaml

from stromboli.vcctl.access import with_master
from stromboli.vcctl.errors import UnusableFile


def test_the_master_replaces_the_server_and_keeps_the_credentials(tmp_path: Path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "clusters: [{name: c, cluster: {server: https://old, certificate-authority: ca.crt}}]\n"
        "users: [{name: u, user: {client-key: /keys/u.key, token: t}}]\n"
        "current-context: x\n"
    )
    assert yaml.safe_load(with_master(kubeconfig, "https://new")) == {
        "clusters": [
            {
                "name": "c",
                "cluster": {
                    "server": "https://new",
                    "certificate-authority": str(tmp_path / "ca.crt"),
                },
            }
        ],
        "users": [{"name": "u", "user": {"client-key": "/keys/u.key", "token": "t"}}],
        "current-context": "x",
    }


def test_a_master_is_enough_without_any_kubeconfig():
    config = yaml.safe_load(with_master(None, "http://127.0.0.1:8080"))

    assert config["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:8080"}
    assert config["current-context"] == config["contexts"][0]["name"]


@pytest.mark.parametrize("content", ["", "clusters: 3", "clusters: [{name: c}]", "a: ["])
def test_what_is_no_kubeconfig_is_refused_by_name(tmp_path: Path, content: str):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(content)

    with pytest.raises(UnusableFile, match="kubeconfig"):
        with_master(kubeconfig, "https://new")
