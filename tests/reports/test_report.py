"""The HTML report: complete, self-contained, escaped, and readable whatever a run has left behind."""

from __future__ import annotations

import html.parser
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from report_runs import EVENTS, step_row, write_lines

from trainwright.errors import InputError, MissingExtra
from trainwright.models.layout import Layout
from trainwright.planner.plan import Plan, RankBytes, RankClass, StepSeconds
from trainwright.reports.record import read_run
from trainwright.reports.report import write_comparison, write_report
from trainwright.runs.folder import RunFolder

Make = Callable[..., RunFolder]
VOID = {"meta", "br", "hr", "img", "input", "link"}
EVIL = "<script>alert(1)</script>\"'&$x^2$\\"

pytest.importorskip("matplotlib")


class Page(html.parser.HTMLParser):
    """Checks nesting and gathers text, tags, ids and everything that names an address."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
                self.addresses.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_a_finished_run_shows_everything_that_was_measured(make_run: Make) -> None:
    path = write_report(make_run())
    page = Page(path.read_text())
    assert path.name == "report.html"
    for words in (
        "quickstart-0a1b2c3d", "succeeded", "smollm2, LoRA rank 16", "−27.8% from 2.41", "40 / 40", "smollm2-python",
        "Loss", "Learning rate", "Gradient norm", "Throughput", "Memory of rank 0", "Where the time goes", "Timeline",
        "compute 96 %", "Perplexity", "0.62 ± 0.069", "eval_loss < baseline holds", "return json.load(file)",
        "kept as the model", "RuntimeError: rank 1 lost <its> network", "asked for in the spec", "1 restart",
        "812,000", "Left out: 4 duplicates", "5m03s",
    ):  # fmt: skip
        assert words in page.text, words
    assert page.tags.count("svg") == 8


def test_the_page_needs_no_network_and_runs_no_code(make_run: Make) -> None:
    text = write_report(make_run()).read_text()
    page = Page(text)
    assert all(address.startswith("#") for address in page.addresses)
    assert not {"script", "link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert not re.search(r"@import|url\((?!#)", text)
    assert "default-src 'none'" in text
    assert len(page.ids) == len(set(page.ids)), "ids of several drawings must not meet"
    assert {address[1:] for address in page.addresses} <= set(page.ids)


def test_drawings_leave_colours_and_fonts_to_the_page(make_run: Make) -> None:
    drawings = re.findall(r"<svg.*?</svg>", write_report(make_run()).read_text(), re.DOTALL)
    assert drawings
    for drawing in drawings:
        assert not re.search(r"#[0-9a-fA-F]{6}|font-family|<style", drawing)
        assert 'aria-label="' in drawing


def test_a_pipelines_schedule_is_drawn(make_run: Make) -> None:
    run = make_run()
    layout = Layout(pp=2, micro_batch_size=1, micro_batches=4)
    ranks = tuple(RankClass(stage, RankBytes(weights=10**9)) for stage in range(2))
    plan = Plan(run.spec().sha256, layout, "p4d", ranks=ranks, step_seconds=StepSeconds(compute=1.0))
    run.plan_file.write_text(plan.to_json())
    page = Page(write_report(run).read_text())
    assert "Pipeline schedule" in page.text
    assert "stage 1" in page.text
    assert len(page.ids) == len(set(page.ids))


def test_light_and_dark_define_the_same_colours(make_run: Make) -> None:
    text = write_report(make_run()).read_text()
    light, dark = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    named = [set(re.findall(r"--[\w-]+(?=:)", block)) for block in (light, dark)]
    assert named[0] == named[1]
    assert set(re.findall(r"var\((--[\w-]+)\)", text)) <= named[0]


def test_the_same_files_make_the_same_page(make_run: Make) -> None:
    run = make_run()
    assert write_report(run).read_text() == write_report(run).read_text()


@pytest.mark.parametrize(
    ("without", "word"),
    [
        (("metrics", "events", "evaluation", "plan", "data", "checkpoints"), "unfinished"),
        (("events", "evaluation", "checkpoints"), "finished"),
        (("metrics",), "succeeded"),
        (("plan", "data"), "succeeded"),
    ],
)
def test_whatever_is_missing_the_rest_is_shown(make_run: Make, without: tuple[str, ...], word: str) -> None:
    run = make_run(without=without)
    page = Page(write_report(run).read_text())
    assert word in page.text
    assert "Show the resolved spec" in page.text
    assert {address[1:] for address in page.addresses} <= set(page.ids), "no link to a section that is left out"


def test_a_run_of_an_own_script_has_a_report_too(make_run: Make) -> None:
    script = {"model": None, "data": None, "method": "full", "register": None, "train": {"script": "/work/train.py"}}
    run = make_run(without=("metrics", "evaluation", "data", "checkpoints"), **script)
    assert "own script train.py" in Page(write_report(run).read_text()).text


def test_a_failed_run_says_why_on_top(make_run: Make) -> None:
    run = make_run(without=("evaluation", "events"))
    ended = {**EVENTS[-1], "phase": "FAILED", "ended": "failed"}
    write_lines(run.events / "0-s.jsonl", [*EVENTS[:7], ended])
    outcome = read_run(run).outcome()
    assert (outcome.word, outcome.tone) == ("failed", "bad")
    assert outcome.sentence == "rank 1: RuntimeError: rank 1 lost <its> network"
    assert "rank 1 lost &lt;its&gt; network" in write_report(run).read_text()


def test_a_refused_gate_is_the_outcome(make_run: Make) -> None:
    run = make_run()
    values = json.loads(run.evaluation.read_text())
    values |= {
        "gate": {"text": "a < b", "holds": False, "sentence": "a < b does not hold: a = 2"},
        "registered": None,
    }
    run.evaluation.write_text(json.dumps(values))
    page = Page(write_report(run).read_text())
    assert "gate refused" in page.text
    assert "Registered" not in page.text


def test_nothing_that_a_user_provides_becomes_markup(make_run: Make) -> None:
    run = make_run(model=f"/models/{EVIL}", env={"NOTE": EVIL})
    values = json.loads(run.evaluation.read_text())
    values["samples"] = [{"prompt": EVIL, "text": EVIL, "before": EVIL}]
    values["tasks"][0] |= {"name": EVIL, "metric": EVIL}
    values["tasks"][0]["examples"] = [{"prompt": EVIL, "wanted": EVIL, "given": EVIL, "correct": False}]
    values["gate"] = {"text": EVIL, "holds": True, "sentence": EVIL}
    values["registered"] = {"name": EVIL, "version": EVIL, "aliases": [EVIL]}
    values["chosen"], values["notes"] = EVIL, [EVIL]
    run.evaluation.write_text(json.dumps(values))
    evil = [{**event, "stage": EVIL, "exception": EVIL} for event in EVENTS]
    write_lines(run.events / "0-s.jsonl", evil)
    text = write_report(run).read_text()
    page = Page(text)
    assert "script" not in page.tags
    assert "alert(1)" in page.text
    other = make_run("quickstart-ffffffff")
    assert "script" not in Page(write_comparison([run, other], run.root / "c.html").read_text()).tags


def test_steps_taken_again_after_a_restart_count_once(make_run: Make) -> None:
    record = read_run(make_run())
    assert [row["step"] for row in record.steps] == list(range(1, 41))
    assert [row["step"] for row in record.evals] == [0, 20, 40]


def test_values_that_are_no_numbers_leave_gaps(make_run: Make) -> None:
    run = make_run()
    lines = run.metrics.read_text().splitlines()
    lines.insert(3, '{"kind": "step", "step": 3, "loss": NaN, "grad_norm": Infinity, "lr": null, "phases": null}')
    run.metrics.write_text("\n".join(lines) + '\n{"kind": "st')
    Page(write_report(run).read_text())


def test_a_long_run_makes_no_larger_a_page_and_keeps_its_spike(make_run: Make) -> None:
    run = make_run()
    rows = [step_row(step) for step in range(1, 20_001)]
    rows[7_777]["loss"] = 99.0
    write_lines(run.metrics, rows)
    text = write_report(run).read_text()
    assert len(text) < 400_000
    assert ">100<" in text, "the axis reaches up to the spike"


def test_a_comparison_shows_results_and_only_the_differences(make_run: Make, tmp_path: Path) -> None:
    runs = [make_run(), make_run("quickstart-ffffffff", lora={"rank": 64}), make_run("quickstart-eeeeeeee", seed=7)]
    page = Page(write_comparison(runs, tmp_path / "compare.html").read_text())
    assert page.tags.count("svg") == 5
    for words in ("3 runs compared", "lora.rank", "64", "seed", "Held-out loss", "colours"):
        assert words in page.text, words
    assert "sequence_length" not in page.text
    assert all(address.startswith("#") for address in page.addresses)


def test_a_comparison_needs_two_different_runs(make_run: Make, tmp_path: Path) -> None:
    run = make_run()
    with pytest.raises(InputError, match="1 runs cannot be compared; name 2 to 8 runs"):
        write_comparison([run, run], tmp_path / "compare.html")


def test_without_matplotlib_the_extra_is_named(make_run: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"trainwright\[report\]"):
        write_report(make_run())


def test_a_folder_that_cannot_be_written_is_an_input_error(make_run: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(make_run(), tmp_path / "file" / "report.html")
