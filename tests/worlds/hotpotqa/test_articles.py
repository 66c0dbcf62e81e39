"""Which article a title opens, and which titles are similar."""

import bz2
import io
import json
import tarfile
from pathlib import Path

import pytest

from ldm.errors import LdmError
from ldm.worlds.hotpotqa.library import Library, Sources, open_library
from ldm.worlds.hotpotqa.world import Miss, Page, Reading, apply_action
from tools.hotpotqa.goldens import lines

ARTICLES = {
    "Ada Ray": ["Ada Ray is a singer.", " She lives in Zell."],
    "Cover version": ["A cover version is a song sung anew."],
    "Cover Version": ["Cover Version is an album."],
    "Café Ünder &amp; Söhne": ["It is a firm &amp; a house."],
    "AC–DC": ["AC–DC are a band."],
    "Mercury (planet)": ["Mercury is a planet."],
    "Mercury (element)": ["Mercury is a metal."],
    "Kites (film)": ["Kites is a film."],
    "List": ["List may refer to: a tilt, or a roll."],
    "A&W": ["A&W is a chain."],
}


def titles(library: Library) -> list[str]:
    return [library[place][0] for place in range(len(library))]


def question(number: int, *titles: str) -> dict[str, object]:
    return {
        "_id": f"q{number}",
        "question": f"Who is {number}?",
        "answer": "Ada",
        "type": "bridge",
        "level": "hard",
        "supporting_facts": [[title, 0] for title in titles],
        "context": [["Extra", ["An extra article that one question brings."]]],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with ten articles, a test question and a training question."""
    (tmp_path / "wiki_articles.json").write_text(json.dumps(ARTICLES))
    (tmp_path / "dev.json").write_text(json.dumps([question(1, "Ada Ray", "A&W")]))
    (tmp_path / "train.json").write_text(json.dumps([question(2, "List", "AC–DC")]))
    return tmp_path


@pytest.fixture
def library(folder: Path) -> Library:
    return open_library(Sources.find(folder, "context"), None)


@pytest.mark.parametrize(
    ("query", "title"),
    [("Ada Ray", "Ada Ray"), ("ada_ray ", "Ada Ray"), ("ADA RAY", "Ada Ray"),
     ("Cover version", "Cover version"), ("Cover Version", "Cover Version"),
     ("COVER VERSION", "Cover version"), ("Cafe Under & Sohne", "Café Ünder & Söhne"),
     ("cafe under sohne", "Café Ünder & Söhne"), ("AC-DC", "AC–DC"), ("AC DC", "AC–DC"),
     ("A&W", "A&W"), ('"Ada Ray"', "Ada Ray"), ("“ada ray”", "Ada Ray"), ("extra", "Extra")],
)  # fmt: skip
def test_titles_open_articles(query: str, title: str, library: Library) -> None:
    place = library.place(query)
    assert place is not None
    assert library[place][0] == title
    assert isinstance(library.ask(query), Page)


def miss(answer: Page | Miss) -> Miss:
    assert isinstance(answer, Miss)
    return answer


@pytest.mark.parametrize("query", ["Ada", "", "  ", "[Ada Ray]", "Ada|Ray", "{Ada Ray}", "!"])
def test_others_open_none(query: str, library: Library) -> None:
    assert library.place(query) is None
    assert not miss(library.ask(query)).ambiguous


def test_similar_titles_come_by_their_words(library: Library) -> None:
    page = library.ask("Café Ünder & Söhne")
    assert page == Page(("It is a firm &amp; a house..",))  # texts stay as they are
    assert miss(library.ask("a singer of Zell")).titles[0] == "Ada Ray"
    assert library.ask("xyzzy") == Miss(())


def test_a_name_of_several_articles_lists_them_first(library: Library) -> None:
    reply = apply_action("search[mercury]", Reading(), library.ask)
    names = "'Mercury (planet)', 'Mercury (element)'"
    assert reply.text.startswith(f"Could not find [mercury]. Similar: [{names}")
    assert not miss(library.ask("Kites")).ambiguous
    assert miss(library.ask("List")).ambiguous


def test_a_cache_gives_the_same(folder: Path, library: Library) -> None:
    sources, cache = Sources.find(folder, "context"), folder / "cache"
    for _ in range(2):
        cached = open_library(sources, cache)
        open_library.__globals__["_shared"].cache_clear()
        assert cached.digest == library.digest
        assert cached.questions == library.questions
        assert titles(cached) == titles(library)
        assert cached.ask("mercury") == library.ask("mercury")
    assert [one.id for one in library.questions["dev_hard"]] == ["q1"]


def test_the_archive_of_abstracts_is_searched_where_it_is_asked_for(folder: Path) -> None:
    rows = [{"title": "Only here", "text": ["One.", " Two."]}, {"title": "", "text": []}]
    packed = bz2.compress("".join(json.dumps(row) + "\n" for row in rows).encode())
    with tarfile.open(folder / "enwiki-1-abstracts.tar.bz2", "w:bz2") as archive:
        member = tarfile.TarInfo("AA/wiki_00.bz2")
        member.size = len(packed)
        archive.addfile(member, io.BytesIO(packed))
    library = open_library(Sources.find(folder, "abstracts"), None)
    assert titles(library) == ["Only here"]
    (problem,) = library.problems
    assert (problem.line, problem.field) == (2, "title")
    (folder / "enwiki-1-abstracts.tar.bz2").write_bytes(b"BZh9 torn")
    with pytest.raises(LdmError, match="damaged"):
        open_library(Sources.find(folder, "abstracts"), None)


def test_bad_entries_are_left_out_and_named(folder: Path) -> None:
    bad = [question(1, "Ada Ray"), {"id": "x"}, question(1, "List"), 7]
    (folder / "dev.json").write_text(json.dumps(bad))
    library = open_library(Sources.find(folder, "context"), None)
    assert [(p.line, p.field) for p in library.problems] == [(2, "question"), (3, "id"), (4, "")]
    assert len(library.questions["dev_hard"]) == 1


@pytest.mark.parametrize("text", ["{", "{}", '"x"'])
def test_a_file_that_is_no_list_is_refused(folder: Path, text: str) -> None:
    (folder / "dev.json").write_text(text)
    with pytest.raises(LdmError, match=r"dev\.json"):
        open_library(Sources.find(folder, "context"), None)


def test_a_folder_without_questions_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(LdmError, match="no questions") as refused:
        Sources.find(tmp_path, "context")
    assert "ldm data hotpotqa" in refused.value.remedy


@pytest.mark.slow
def test_pages_typed_exactly_are_the_official_answers(official: Path, golden: Path) -> None:
    library = open_library(Sources.find(official, "context"), None)
    compared = 0
    for episode in lines(golden / "episodes.jsonl.gz"):
        reading = Reading()
        for step in episode["steps"]:
            served = step.get("served") or [{}]
            title = step["action"].strip()[len("search[") : -1]
            exact = served[0].get("title") == title and served[0].get("kind") == "page"
            if episode["layout"] != "plain" or not exact or title.startswith("Hand page"):
                continue
            reading = apply_action(step["action"], reading, library.ask).reading
            assert reading.page is not None, title
            reply = apply_action(step["action"], reading, library.ask)
            assert reply.text == step["observation"], title
            compared += 1
    assert compared > 300


def test_a_part_of_a_download_is_no_file_of_questions(folder: Path) -> None:
    for name in ("hotpot_train_v1.1.json.part", "dev.json.part.tag", "wiki_articles.json.bak"):
        (folder / name).write_text("{")
    sources = Sources.find(folder, "context")
    assert {path.name for path in sources.files} == {"wiki_articles.json", "dev.json", "train.json"}
