import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ldm.errors import LdmError
from ldm.worlds.webshop.catalogue import Catalogue, Files, open_catalogue
from tests.processes import printed
from tests.worlds.webshop.shop import small_shop

_MAKE = """
import json, sys
from pathlib import Path
from ldm.worlds.webshop.catalogue import Files, open_catalogue
folder, cache = map(Path, sys.argv[1:])
found = open_catalogue(Files.find(folder, human=False), cache=cache)
print(json.dumps([found.digest, found.index.search("good lamp")]))
"""


def open_shop(folder: Path, cache: Path | None = None, **settings: Any) -> Catalogue:
    return open_catalogue(Files.find(folder, human=False), **settings, cache=cache)


def test_a_kept_catalogue_is_the_same_as_one_in_memory(small: Path, tmp_path: Path) -> None:
    fresh, cached, again = open_shop(small), open_shop(small, tmp_path), open_shop(small, tmp_path)
    for other in (cached, again):
        assert other.digest == fresh.digest
        assert len(other) == len(fresh) == 30
        assert [other[i] for i in range(30)] == [fresh[i] for i in range(30)]
        assert list(other.goals) == list(fresh.goals)
        assert other.index.scored("good lamp 6") == fresh.index.scored("good lamp 6")
        assert other.having("queries", "lamps") == fresh.having("queries", "lamps")


def test_other_files_or_settings_are_another_catalogue(small: Path, tmp_path: Path) -> None:
    digests = {
        open_shop(small, tmp_path).digest,
        open_shop(small, tmp_path, seed=1).digest,
        open_shop(small, tmp_path, limit=20).digest,
        open_shop(small_shop(tmp_path / "larger", 31), tmp_path / "cache").digest,
    }
    assert len(digests) == 4


@pytest.mark.process
def test_another_process_with_another_hash_seed_makes_the_same(small: Path, tmp_path: Path) -> None:
    here = open_shop(small)
    for seed in ("0", "4711"):
        answer = json.loads(printed(_MAKE, small, tmp_path / seed, seed=seed))
        assert answer == [here.digest, list(here.index.search("good lamp"))]
    one, other = (next((tmp_path / s).glob("*/meta.json")).parent for s in ("0", "4711"))
    for path in one.iterdir():
        assert path.read_bytes() == (other / path.name).read_bytes(), path.name


def test_failing_is_clean(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(RuntimeError):
        open_shop(small, tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.glob("*/meta.json")) + list(tmp_path.glob(".*"))
    assert len(open_shop(small, tmp_path)) == 30


def test_a_cache_that_cannot_be_written_is_named(small: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LdmError, match="cache") as refused:
        open_shop(small, tmp_path / "file" / "cache")
    assert "env.cache" in refused.value.remedy


@pytest.mark.parametrize("name", ["divisors.npy", "meta.json", "text.jsonl"])
@pytest.mark.parametrize("torn", [False, True])
def test_a_damaged_cache_is_named(small: Path, tmp_path: Path, name: str, torn: bool) -> None:
    open_shop(small, tmp_path)
    (path,) = tmp_path.glob(f"*/{name}")
    path.unlink()
    if torn:
        path.write_bytes(b"")
    with pytest.raises(LdmError, match="damaged") as damaged:
        open_shop(small, tmp_path)
    assert "Remove" in damaged.value.remedy


def test_products_are_found_by_asin(small: Path) -> None:
    catalogue = open_shop(small)
    assert catalogue.position("B000000007") == 7
    assert catalogue.position("B999999999") is None
    assert catalogue.position("A") is None
