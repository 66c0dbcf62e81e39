"""Tests cannot reach the network, whatever tries (`no_network` in conftest.py sees to it)."""

import socket

import pytest

from ldm.errors import ModelError
from ldm.llm import Message
from tests.llm.conftest import Connect, connect
from tests.llm.server import FakeServer

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


@pytest.mark.parametrize("host", ["192.0.2.1", "api.openai.com"])
def test_the_model_client_gets_no_further(host: str, connect: Connect) -> None:
    with FakeServer() as server:
        client = connect(server, url=f"http://{host}/v1")
        with pytest.raises(ModelError, match="tried to reach the network"):
            client.model("m").complete([Message("user", "x")])
        assert server.bodies == []
