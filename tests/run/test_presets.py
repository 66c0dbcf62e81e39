"""Presets: the files that ship, what a file may hold, and what a preset comes to."""

import csv
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ldm.envs import load_env
from ldm.envs.metadata import card_of
from ldm.errors import LdmError
from ldm.run.grid import Grid
from ldm.run.presets import SHIPPED, Figures, Preset, Row, list_presets, preset, read
from ldm.run.reproducing import ResolvedPreset, evaluate_preset, resolve_preset
from ldm.run.runtime import Runtime
from tests.cases import cases
from tests.conftest import CHECKOUT

PAPERS = CHECKOUT.parent / "shared" / "papers"
TEXTS, SPELT, TURNED = (cases(__file__, name) for name in ("texts", "spelt", "turned"))
#: A standard deviation as the texts have it.
SPREAD = re.compile(r"±plus-or-minus\\pm ?[\d.]+")
FIGURES = CHECKOUT / "docs" / "lab" / "preset-figures.csv"
TOY, BEFORE_AND_AFTER = (
    Path(__file__).with_name(f"{name}.toml").read_text("utf-8")
    for name in ("shed", "before_and_after")
)


@pytest.fixture
def toy(place: Path) -> Path:
    path = place / "shed.toml"
    path.write_text(TOY)
    return path


@pytest.fixture
def trusting() -> Runtime:
    """Quiet, in this process, and it uses what the file names."""
    return Runtime(workers=1, trust=True)


Planned = Callable[..., ResolvedPreset]


@pytest.fixture
def planned(toy: Path, trusting: Runtime) -> Planned:
    """`planned(limit=2)` is what the toy preset comes to with these changes."""
    return lambda grid=None, **changes: resolve_preset(read(toy), changes, grid or Grid(), trusting)


def written(row: Row) -> str:
    """The figures of a row in the order of the paper's columns."""
    figures = row.published
    scores = () if figures.score is None else (figures.score,)
    rates = () if figures.all is None else (figures.all,)
    return " ".join(map(str, (*scores, *figures.kinds.values(), *rates)))


def short_numbers(line: str) -> str:
    """A line whose numbers end in no zeros: 62.40 is 62.4."""
    return re.sub(r"\d+\.\d+", lambda match: f"{float(match[0]):g}", line)


def column_of(lines: list[str], label: str, column: str) -> float:
    """The figure in the line that begins with `label`, below the first line's name `column`."""
    number, head = next(
        (number, line.replace("\\infty", "∞").split()[1:])
        for number, line in enumerate(lines)
        if line.startswith(("Group BUTLER", "Rounds ", "Task CLIPort"))
    )
    below = next(line for line in lines[number:] if line.startswith(f"{label} "))
    figures = below.removeprefix(label).replace("+", "").split()
    return float(figures[head.index(column)].rstrip("%"))


def published_rows() -> Iterator[tuple[Preset, Row]]:
    for one in list_presets():
        yield from ((one, row) for row in one.content.rows if row.published != Figures())


SHIPPED_PRESETS = pytest.mark.parametrize("name", sorted(p.stem for p in SHIPPED.glob("*.toml")))


class TestShippedFiles:
    @SHIPPED_PRESETS
    def test_names_agents_options_and_kinds_that_there_are(self, name: str) -> None:
        one = preset(name)
        one.check()
        assert one.agents, "it evaluates nothing"
        assert re.search(r"arXiv \d{4}\.\d{5}$", one.content.paper)
        card = card_of(load_env(one.env))
        assert card is not None
        kinds = {kind for row in one.content.rows for kind in row.published.kinds}
        assert kinds | set(one.evaluation.kinds) <= set(card.kinds)

    @SHIPPED_PRESETS
    def test_rows_are_told_apart_by_names_and_settings(self, name: str) -> None:
        rows = preset(name).content.rows
        assert len({row.name for row in rows}) == len(rows)
        evaluated = [replace(row, name="", published=Figures(), note="") for row in rows]
        evaluated = [row for row in evaluated if row.agent]
        assert all(evaluated.count(row) == 1 for row in evaluated)

    def test_the_list_of_checked_figures_has_those_of_the_presets_and_no_others(self) -> None:
        expected = []
        for one, row in published_rows():
            figures = row.published
            cells = [", ".join(f"{kind} {value}" for kind, value in figures.kinds.items())]
            cells += [f"all {figures.all}"] * (figures.all is not None)
            cells += [f"score {figures.score}"] * (figures.score is not None)
            expected.append([one.name, row.name, "; ".join(filter(None, cells))])
        with FIGURES.open(newline="") as file:
            assert list(csv.reader(file))[1:] == expected

    @pytest.mark.parametrize(
        ("one", "row"),
        [pytest.param(p, row, id=f"{p.name}-{row.name}") for p, row in published_rows()],
    )
    def test_each_figure_stands_in_the_papers_table(self, one: Preset, row: Row) -> None:
        number = one.content.paper.rpartition(" ")[2]
        if number not in TEXTS:
            assert one.content.second_hand, "nobody could check it"
            return
        if not PAPERS.is_dir():
            pytest.skip(f"the papers' texts are not at {PAPERS}")
        text = (PAPERS / TEXTS[number]).read_text().replace("\xa0", " ")
        table = one.content.table.partition("(")[0]
        if table.startswith("Figure"):  # its numbers stand in the text alone
            assert f" {row.published.all}%" in text or f"to {row.published.all}%" in text
            return
        before, caption, after = text.partition(f"\n{table}: ")
        assert caption
        near = [*before.splitlines()[-30:], *after.splitlines()[:12]]
        lines = [SPREAD.sub("", line) for line in near]
        if one.name in TURNED:
            expected = {**row.published.kinds, "all": row.published.all}
            for kind, label in TURNED[one.name].items():
                assert column_of(lines, label, row.name) == expected[kind]
            return
        if one.name == "deps-table19":  # two columns for each model
            model, _, what = row.name.partition(", ")
            column = 2 * one.content.model.replace(" and", ",").split(", ").index(model) + 1
            for kind, rate in row.published.kinds.items():
                cells = next(line for line in lines if line.startswith(f"{kind} ")).split()
                assert float(cells[column + (what == "DEPS")]) == rate
            return
        name = SPELT.get(row.name, re.escape(row.name))
        shortly = "\n".join(map(short_numbers, lines))
        if one.name == "adapt-table7":  # a line for each depth, with k_max before the rate
            for kind, rate in row.published.kinds.items():
                assert re.search(rf"^{row.name}.* {kind[-1]} [\d.]+ {rate}$", shortly, re.M)
            return
        assert re.search(rf"^{name} {re.escape(short_numbers(written(row)))}$", shortly, re.M)


def test_the_preset_that_the_docs_show_is_one(place: Path) -> None:
    page = (CHECKOUT / "docs" / "usage" / "evaluating.md").read_text()
    (text,) = re.findall(r"^```toml\n(.*?)^```$", page, re.M | re.S)
    (place / "shown.toml").write_text(text)
    own = preset("shown.toml")
    own.check()
    assert {row.player.name for row in own.content.rows} == {"react", "ldm", ""}


class TestFindingOne:
    def test_a_name_or_the_beginning_of_several(self) -> None:
        assert [one.name for one in list_presets("adapt-table2")] == ["adapt-table2"]
        several = [one.name for one in list_presets("autoplan-table3")]
        assert several == ["autoplan-table3-alfworld", "autoplan-table3-hotpotqa"]
        with pytest.raises(LdmError, match=r"several presets.*autoplan-table3-alfworld"):
            preset("autoplan-table3")  # Python takes one at a time
        with pytest.raises(LdmError, match=r"no preset 'adapt-tabel2'.*mean 'adapt-table2'"):
            list_presets("adapt-tabel2")
        with pytest.raises(LdmError, match=r"absent\.toml"):
            preset("absent.toml")

    def test_a_file_is_named_by_its_path(self, toy: Path) -> None:
        one = preset(toy)
        assert (one.name, one.file) == ("shed", toy)
        assert str(one) == "A shed (Sheds, arXiv 0000.00000, Table 1)"
        toy.write_text(TOY + "\n")
        assert preset(toy).digest != one.digest


class TestWhatIsWrongInAFile:
    @pytest.mark.parametrize(
        ("before", "after", "complaint"), cases(__file__, "names_the_place_and_the_remedy")
    )
    def test_names_the_place_and_the_remedy(
        self, toy: Path, before: str, after: str, complaint: str
    ) -> None:
        assert TOY.count(before) == 1
        toy.write_text(TOY.replace(before, after))
        with pytest.raises(LdmError) as refused:
            preset(toy).check(trust=True)
        assert re.search(complaint, str(refused.value)), refused.value
        assert refused.value.remedy

    def test_other_bytes_and_deep_nesting_are_refused(self, toy: Path) -> None:
        for content in (b"\xff\xfe", b"x = " + b"[" * 100_000, b"#" * 2_000_000):
            toy.write_bytes(content)
            with pytest.raises(LdmError, match=r"shed\.toml"):
                preset(toy)

    def test_modules_that_it_names_are_imported_only_where_it_is_trusted(self, toy: Path) -> None:
        toy.write_text(TOY.replace("tests.toy:ToyEnv", "tests.planted:Env"))
        with pytest.raises(LdmError, match="not registered: using it would run its code"):
            preset(toy).check()


class TestWhatItComesTo:
    def test_a_spec_for_every_row_with_an_agent(self, planned: Planned) -> None:
        result = planned()
        chance, expert, twice = result.specs
        assert (chance.agent.name, chance.limit, chance.split) == ("random", 4, "test")
        assert chance.env.options == {"shelves": 4}
        assert chance.agent.options == {"budget": 12}
        assert expert.agent.options == {}
        assert twice.agent.options == {"trials": 2}
        assert result.counterparts == (("Chance",), ("Expert",), ("Twice",))
        assert result.overridden == ()
        assert planned(split="test", agent={"budget": 12}).overridden == ()

    def test_changes_win_and_are_named_with_what_they_replace(self, planned: Planned) -> None:
        options = {"agent": {"trials": 3}, "env": {"shelves": 4, "tasks": 6}}
        changes: dict[str, Any] = {"split": "train", "limit": 2, "memory": "/elsewhere", **options}
        result = planned(**changes)
        assert len(result.specs) == 2  # the expert's rows have become the same
        assert result.counterparts[1] == ("Expert", "Twice")
        assert result.specs[0].agent.options == {"budget": 12}
        assert all(spec.split == "train" for spec in result.specs)
        assert result.overridden == (
            "agent.trials 3 (preset: 2, default)",
            "env.tasks 6 (preset: default)",
            "limit 2 (preset: 4)",
            "split train (preset: test)",
        )

    def test_agents_choose_rows_and_others_stand_beside_them(self, planned: Planned) -> None:
        result = planned(Grid(("random", "tests.integration.agents:Quitter")))
        names = [spec.agent.name.rpartition(":")[2] for spec in result.specs]
        assert names == ["random", "Quitter"]
        assert result.counterparts == (("Chance",), ())
        assert result.specs[1].env.options == {"shelves": 4}
        assert result.overridden == ()

    def test_the_environment_cannot_be_another(self, planned: Planned) -> None:
        with pytest.raises(LdmError, match=r"is of tests\.toy:ToyEnv, not of alfworld"):
            planned(env="alfworld")

    def test_the_tasks_of_a_preset_are_those_of_its_split(
        self, toy: Path, planned: Planned
    ) -> None:
        toy.write_text(TOY.replace("limit = 4", 'tasks = ["test/wash-1", "test/fetch-2"]'))
        assert planned().specs[0].tasks == ("test/wash-1", "test/fetch-2")
        elsewhere = planned(split="train")
        assert elsewhere.specs[0].tasks == ()
        assert "tasks all (preset: test/wash-1,test/fetch-2)" in elsewhere.overridden

    def test_rows_ask_for_generations_of_the_memory(self, toy: Path, planned: Planned) -> None:
        toy.write_text(TOY + BEFORE_AND_AFTER)
        result = planned(Grid(("ldm",)))
        assert [spec.generation for spec in result.specs] == [0, None]
        assert result.counterparts == (("Before",), ("After",))
        plan = planned(Grid(("ldm",)), generation=0)
        assert plan.counterparts == (("Before",),)
        assert not plan.overridden  # one of its own
        plan = planned(Grid(("ldm",)), generation=3)
        assert "generation 3 (preset: 0, newest)" in plan.overridden
        assert planned(Grid(("naive",)), limit=2).overridden == ("limit 2 (preset: 4)",)


def test_it_is_evaluated_from_python(toy: Path, trusting: Runtime) -> None:
    messages: list[str] = []
    runtime = replace(trusting, message=messages.append)
    result = evaluate_preset(toy, {"limit": 2}, runtime=runtime)
    assert [report.summary.overall.episodes for report in result.reports] == [2, 2, 2]
    lines = str(result).splitlines()
    assert lines[0].startswith("agent random, figures measured here, success ")
    chance = "agent Chance, figures published, success 8.5 %, 95 % interval –, "
    assert lines[1] == f"{chance}fetch 17 %, wash 0 %"
    human = "agent Human, figures published, success 99.5 %"
    assert sum(line.startswith(human) for line in lines) == 1
    assert any(line.startswith("Overridden") and "limit 2 (preset: 4)" in line for line in lines)
    assert lines[-1] == "Human: of ten people"
    assert messages[0] == "A shed (Sheds, arXiv 0000.00000, Table 1)."
