"""How long a model's context is: asked of the server once, and the same for a whole run."""

import json
from pathlib import Path
from typing import Any

import pytest

from ldm.llm import ScopedLLM, context_of
from ldm.llm.capabilities import MOST_TRAINED, Capabilities, CapabilityStore, context_in
from ldm.llm.models import ModelOptions, make_client
from ldm.llm.service import Connection
from tests.llm.conftest import Connect, Serve

LISTING = {"data": [{"id": "m", "max_model_len": 4096}, {"id": "other", "context_length": 32768}]}


def listed(**fields: Any) -> dict[str, Any]:
    return {"data": [{"id": "m", **fields}]}


class TestTheContextOfAModel:
    @pytest.mark.parametrize(
        ("listing", "context"),
        [(LISTING, 4096), (listed(context_length=131072), 131072),
         (listed(meta={"n_ctx": 2048, "n_ctx_train": 32768}), 2048),
         (listed(loaded_context_length=4096, max_context_length=32768), 4096),
         ({"data": [{"id": "/models/qwen.gguf", "meta": {"n_ctx_train": 4096}}]}, 4096)],
    )  # fmt: skip
    def test_is_what_the_servers_list_says(self, listing: Any, context: int) -> None:
        assert context_in(listing, "m") == context

    def test_is_not_taken_for_longer_than_usual_from_its_training(self) -> None:
        assert context_in(listed(meta={"n_ctx_train": 131072}), "m") == MOST_TRAINED

    @pytest.mark.parametrize(
        "listing",
        [None, [], {"data": "m"}, {"data": [1, None]}, listed(max_model_len="long"),
         listed(max_model_len=True, meta=7), listed(max_model_len=-1),
         {"data": [{"id": "a", "max_model_len": 9}, {"id": "b", "max_model_len": 8}]}],
    )  # fmt: skip
    def test_is_unknown_where_the_list_does_not_say(self, listing: Any) -> None:
        assert context_in(listing, "m") is None

    def test_is_asked_and_recorded(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        server = serve(listing=LISTING)
        model = ScopedLLM(connect(server, directory=tmp_path).model("m"), lambda: ())
        assert context_of(model) == 4096
        server.behaviour = type(server.behaviour)(listing=listed(max_model_len=1))
        assert context_of(model) == 4096
        assert context_of(connect(server, directory=tmp_path).model("m")) == 4096
        (models,) = json.loads((tmp_path / "capabilities.json").read_text()).values()
        assert models["m"]["context"] == 4096

    def test_is_unknown_of_a_server_without_a_list(self, serve: Serve, connect: Connect) -> None:
        assert context_of(connect(serve()).model("m")) is None

    def test_stays_unknown_in_a_run(self, serve: Serve, connect: Connect, tmp_path: Path) -> None:
        """Or the calls that a resumed run has recorded would be others."""
        server = serve(listing=LISTING)
        CapabilityStore(tmp_path / "capabilities.json", server.url).put("m", Capabilities())
        assert context_of(connect(server, directory=tmp_path).model("m")) is None

    def test_is_in_a_replay_what_the_recorded_run_knew(self, tmp_path: Path) -> None:
        run, again = tmp_path / "run", tmp_path / "again"
        run.mkdir()
        again.mkdir()
        (run / "llm.jsonl").write_text("")
        CapabilityStore(run / "capabilities.json", "there").put("m", Capabilities(context=4096))
        for source, place in ((run, again), (again, None)):
            client = make_client(ModelOptions(replay=str(source)), Connection, place)
            assert context_of(client.model("m")) == 4096
            assert context_of(client.model("other")) is None
            client.close()
            (again / "llm.jsonl").write_text("")

    def test_changes_no_request(self) -> None:
        assert repr(Capabilities(context=4096)) == repr(Capabilities())
