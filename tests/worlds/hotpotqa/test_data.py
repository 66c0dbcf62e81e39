"""Missing and conflicting articles are reported; the official data are whole."""

import json
from pathlib import Path

import pytest

from ldm.errors import LdmError
from ldm.worlds.hotpotqa import data
from tests.worlds.hotpotqa.test_environment import official_folder


def test_a_check_names_titles_without_an_article_and_with_two_texts(tmp_path: Path) -> None:
    with pytest.raises(LdmError, match="no questions"):
        data.check(tmp_path)
    official_folder(tmp_path)
    (tmp_path / "wiki_articles.json").write_text(json.dumps({"A": ["A."], "Extra": ["Other."]}))
    report = data.check(tmp_path)
    assert "B" in report.facts["missing"]
    assert report.facts["conflicts"] == ["Extra"]


@pytest.mark.slow
def test_the_official_files_are_whole(official: Path) -> None:
    report = data.check(official)
    counts = {split: sum(of.values()) for split, of in report.splits.items()}
    assert counts == {"train": 500, "train_hard": 85, "dev_hard": 100}
    assert (report.facts["articles"], report.facts["left_out"]) == (8_787, 0)
    assert report.facts["missing"] == []
    assert report.facts["conflicts"] == ["2013 Texas Longhorns football team"]
    assert not report.problems
