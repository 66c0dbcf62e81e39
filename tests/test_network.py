"""Tests cannot reach the network, whatever tries (`no_network` in conftest.py sees to it)."""

import socket

import pytest

from tests.llm.conftest import connect

__all__ = ["connect"]

#: An address that is kept for documentation, and a name that would have to be looked up.
PLACES = [("192.0.2.1", 443), ("api.openai.com", 443), ("2001:db8::1", 443)]


@pytest.mark.parametrize("place", PLACES)
def test_no_socket_connects(place: tuple[str, int]) -> None:
    with pytest.raises(RuntimeError, match="tried to reach the network"):
        socket.create_connection(place, timeout=1)
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        pytest.raises(RuntimeError, match="tried to reach the network"),
    ):
        one.sendto(b"?", place)
