"""Which requests go through a proxy: the cases of Go's own tests, and some of ours."""

import pytest

from stromboli.kube.errors import AccessError
from stromboli.kube.proxies import proxy_for, usable_proxy

NO_PROXY = (
    "foobar.com, .barbaz.net, *.wildcard.io, 192.168.1.1, 192.168.1.2:81, 192.168.1.3:80,"
    " 10.0.0.0/30, 2001:db8::52:0:1, [2001:db8::52:0:2]:443, [2001:db8::52:0:3]:80,"
    " 2002:db8:a::45/64, [fd00::1]"
)
PROXY = "http://proxy:3128"


def through(url: str, **environment: str) -> bool:
    return proxy_for(url, {"HTTP_PROXY": PROXY, "HTTPS_PROXY": PROXY, **environment}) == PROXY


@pytest.mark.parametrize("no_proxy", ["", NO_PROXY])
@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "127.0.0.1", "127.0.0.2", "[::1]", "[::ffff:127.0.0.1]"],
)
def test_this_machine_is_never_reached_through_a_proxy(host: str, no_proxy: str):
    assert not through(f"https://{host}:6443", NO_PROXY=no_proxy)


@pytest.mark.parametrize(
    "host",
    [
        "192.168.1.1",
        "192.168.1.3",
        "10.0.0.2",
        "[2001:db8::52:0:1]",
        "[2001:db8::52:0:3]",
        "[2002:db8:a::123]",
        "[::ffff:10.0.0.2]",
        "[fd00::1]",
        "www.barbaz.net",
        "foobar.com",
        "FooBar.com",
        "www.foobar.com",
        "nested.wildcard.io",
    ],
)
def test_what_no_proxy_lists_is_reached_without_one(host: str):
    assert not through(f"http://{host}", NO_PROXY=NO_PROXY)
    assert through(f"http://{host}")


@pytest.mark.parametrize(
    "host",
    [
        "[::2]",
        "192.168.1.2",
        "192.168.1.4",
        "10.0.0.4",
        "[2001:db8::52:0:2]",
        "[fe80::424b:c8be:1643:a1b6]",
        "barbaz.net",
        "foofoobar.com",
        "baz.com",
        "localhost.net",
        "local.localhost",
        "barbarbaz.net",
        "wildcard.io",
        "awildcard.io",
    ],
)
def test_everything_else_goes_through_the_proxy(host: str):
    assert through(f"http://{host}", NO_PROXY=NO_PROXY)


def test_a_port_in_no_proxy_is_compared_with_the_one_of_the_scheme():
    assert not through("https://a.example", NO_PROXY="a.example:443")
    assert through("http://a.example", NO_PROXY="a.example:443")
    assert not through("http://a.example:443", NO_PROXY="a.example:443")


def test_a_clusters_service_address_can_be_listed_as_a_network():
    """What a pod is given: KUBERNETES_SERVICE_HOST is an address of the service network."""
    assert not through("https://10.96.0.1:443", NO_PROXY="10.96.0.0/12,.svc,.cluster.local")
    assert not through("https://kubernetes.default.svc", NO_PROXY="10.96.0.0/12,.svc")
    assert through("https://10.112.0.1:443", NO_PROXY="10.96.0.0/12,.svc")


def test_a_star_excepts_everything():
    assert not through("https://example.com", NO_PROXY="a.example, *")


@pytest.mark.parametrize("nonsense", [":1", ",, ,", "10.0.0.0/99", "10.0.0.0/x", "[", "]:80", "/8"])
def test_entries_without_a_sense_except_nothing(nonsense: str):
    assert through("https://example.com", NO_PROXY=nonsense)
    assert through("https://10.0.0.1", NO_PROXY=nonsense)


@pytest.mark.parametrize(
    ("no_proxy", "host"),
    [("示例.com", "www.xn--fsq092h.com"), ("xn--fsq092h.com", "www.示例.com")],
)
def test_names_in_any_script_are_compared_as_they_are_looked_up(no_proxy: str, host: str):
    assert not through(f"https://{host}", NO_PROXY=no_proxy)


def test_the_scheme_of_the_request_chooses_the_proxy():
    both = {"HTTP_PROXY": "http://plain", "HTTPS_PROXY": "http://secure"}

    assert proxy_for("http://example.com", both) == "http://plain"
    assert proxy_for("https://example.com", both) == "http://secure"
    assert proxy_for("https://example.com", {"HTTP_PROXY": "http://plain"}) is None
    assert proxy_for("https://example.com", {"ALL_PROXY": "http://all"}) is None
    assert proxy_for("", both) is None
    assert proxy_for("https://a:port", both) is None


def test_lower_case_variables_count_where_there_are_no_others():
    lower = {"https_proxy": "http://lower", "no_proxy": "a.example"}

    assert proxy_for("https://b.example", lower) == "http://lower"
    assert proxy_for("https://a.example", lower) is None
    upper = {**lower, "HTTPS_PROXY": "http://upper", "NO_PROXY": "b.example"}
    assert proxy_for("https://a.example", upper) == "http://upper"
    assert proxy_for("https://b.example", upper) is None


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("cache.corp.example.com", "http://cache.corp.example.com"),
        ("localhost", "http://localhost"),
        ("https://cache.corp.example.com", "https://cache.corp.example.com"),
    ],
)
def test_an_address_alone_is_an_http_proxy(given: str, meant: str):
    assert usable_proxy(given, "HTTPS_PROXY") == meant


def test_a_proxy_that_can_not_be_spoken_to_is_named_without_its_password():
    with pytest.raises(AccessError, match="HTTPS_PROXY names a socks5 proxy") as caught:
        proxy_for("https://example.com", {"HTTPS_PROXY": "socks5://me:geheim@proxy"})

    assert "geheim" not in str(caught.value)
    assert proxy_for("https://127.0.0.1", {"HTTPS_PROXY": "socks5://proxy"}) is None
