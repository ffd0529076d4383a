"""The list of network interfaces, and errors about unknown names."""

from __future__ import annotations

import socket
import sys

import pytest

from tests.live.capture.namespaces import VETH, python_in_namespace
from zmtpscope.cli.capture_options import interface_lines
from zmtpscope.live.capture.interfaces import (
    ANY,
    ETHERNET,
    RAW_IP,
    Interface,
    UnknownInterface,
    find_interface,
    interfaces,
)

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="interfaces come by netlink, which only Linux has")

SHOW = """
from zmtpscope.live.capture.interfaces import interfaces
for each in interfaces():
    print(each.name, each.link_type, each.is_up, each.is_running, each.is_loopback, *each.addresses, each.description)
"""

KNOWN = [
    Interface("eth0", 2, 1, ETHERNET, True, True, False, ("192.0.2.1", "2001:db8::1")),
    Interface(ANY, 0, 0, None, True, True, False, description="all of them together"),
    Interface("lo", 1, 772, ETHERNET, True, True, True, ("127.0.0.1",)),
    Interface("wg0", 5, 65534, RAW_IP, True, False, False),
    Interface("eth\x1b1", 3, 1, ETHERNET, False, False, False, description="veth, to the\nlab"),
]


@on_linux
def test_all_names_that_the_system_knows_are_there_and_any() -> None:
    found = interfaces()
    assert sorted((each.index, each.name) for each in found if each.name != ANY) == sorted(socket.if_nameindex())
    assert [each.index for each in found if each.name == ANY] == [0]


def test_in_a_namespace_its_interfaces_are_found_with_addresses_state_and_kind() -> None:
    setup = [
        *VETH,
        "ip link set lo up",
        "ip addr add 2001:db8::7/64 dev va nodad",
        "ip link set va alias 'to the lab'",
        "ip tuntap add t mode tun",
        "ip link add vc type veth peer name vd",  # both are down
    ]
    lines = sorted(python_in_namespace(setup, SHOW).splitlines())
    for line in lines:
        if line.startswith("va "):  # the system adds a link-local address
            assert line.startswith("va 1 True True False 10.9.8.7 2001:db8::7")
            assert line.endswith("veth, to the lab")
    assert "any None True True False all of them together" in lines
    assert "vc 1 False False False veth" in lines
    assert "lo 1 True True True 127.0.0.1 ::1 " in lines
    assert "t 101 False False False tun" in lines


def test_a_point_to_point_link_is_listed_with_our_own_address() -> None:
    setup = ["ip tuntap add t mode tun", "ip addr add 10.0.0.1 peer 10.0.0.2 dev t"]
    assert "t 101 False False False 10.0.0.1 tun" in python_in_namespace(setup, SHOW).splitlines()


def test_the_most_useful_are_first() -> None:
    setup = [*VETH, "ip link set lo up", "ip link add vc type veth peer name vd", "ip link set vd up"]
    names = [line.split()[0] for line in python_in_namespace(setup, SHOW).splitlines()]
    assert [*sorted(names[:2]), *names[2:]] == ["va", "vb", "any", "lo", "vd", "vc"]


def test_hundreds_of_interfaces_are_all_found() -> None:
    """More than one answer of the kernel holds."""
    setup = ['for i in $(seq 150); do echo "link add v$i type veth peer name w$i"; done | ip -batch -']
    assert len(python_in_namespace(setup, SHOW).splitlines()) >= 302


def test_an_interface_is_named_by_its_name_or_its_number_in_the_list() -> None:
    assert find_interface("lo", KNOWN).name == "lo"
    assert find_interface("2", KNOWN).name == ANY
    numbered = Interface("2", 9, 1, ETHERNET, True, True, False)
    assert find_interface("2", [*KNOWN, numbered]) is numbered


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("eth7", "no interface named eth7; did you mean eth0? Use one of eth0, any, lo, wg0, eth\x1b1"),
        ("LO", "no interface named LO; did you mean lo? Use one of eth0, any, lo, wg0, eth\x1b1"),
        ("7", "no interface named 7; use one of eth0, any, lo, wg0, eth\x1b1"),
        ("0", "no interface named 0; use one of eth0, any, lo, wg0, eth\x1b1"),
        ("9" * 5000, None),
        ("", "no interface named ; use one of eth0, any, lo, wg0, eth\x1b1"),
    ],
)
def test_an_unknown_name_is_answered_with_the_existing_ones(name: str, sentence: str | None) -> None:
    with pytest.raises(UnknownInterface) as refused:
        find_interface(name, KNOWN)
    assert sentence is None or str(refused.value) == sentence


def test_the_list_for_people_has_number_name_state_and_addresses_and_nothing_that_moves_the_cursor() -> None:
    assert list(interface_lines(KNOWN)) == [
        "1.  eth0      up          192.0.2.1, 2001:db8::1",
        "2.  any       up                                  all of them together",
        "3.  lo        up          127.0.0.1",
        "4.  wg0       no carrier",
        r"5.  eth\x1b1  down                                veth, to the\x0alab",
    ]
