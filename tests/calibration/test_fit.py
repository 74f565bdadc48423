"""The fit: its statistics, and what it reaches on the development logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.calibration import fit
from planner.calibration.fit import Observation
from planner.calibration.records import Record, read
from planner.memory import coefficients
from tests.conftest import SHARED

LOGS = [SHARED / "corpus/logs/vllm-dense.jsonl", SHARED / "corpus/logs/vllm-moe-hybrid.jsonl"]
OVERHEADS = SHARED / "reference/runtime-overheads.tsv"
needs_logs = pytest.mark.skipif(
    not all(path.is_file() for path in [*LOGS, OVERHEADS]), reason="no development logs here"
)


def records() -> list[Record]:
    return [record for path in LOGS for record in read(path)]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40))
def test_quantiles_are_between_the_ends(values: list[float]) -> None:
    ends = fit.quantile(values, 0), fit.quantile(values, 1)
    assert ends == (min(values), max(values))
    assert ends[0] <= fit.quantile(values, 0.5) <= ends[1]


def test_median_and_interval() -> None:
    seen = [Observation(str(i), float(10 + i), 0.0, f"setup {i}") for i in range(11)]
    low, middle, high = fit.spread((1, 2, 3), seen)
    assert middle == 15
    assert low == pytest.approx(11)
    assert high == pytest.approx(19)


def test_rounding_is_no_spread() -> None:
    """Observations that agree within their rounding leave only the least half width."""
    seen = [Observation(str(i), 10 + i * 0.1, 2.0, f"setup {i}") for i in range(5)]
    low, middle, high = fit.spread((0, 1, 2), seen)
    assert (low, high) == (pytest.approx(middle * 0.94), pytest.approx(middle * 1.06))


def test_one_set_up_moves_no_expectation() -> None:
    seen = [Observation(str(i), 5.0, 0.1, "one model on one card") for i in range(20)]
    assert fit.spread((1.0, 2.0, 3.0), seen) == (1.0, 2.0, pytest.approx(4.9))
    assert fit.spread((1.0, 2.0, 3.0), []) == (1.0, 2.0, 3.0)


def test_source_keeps_its_form() -> None:
    """Writing values back changes them and nothing else."""
    triton = fit.Fitted("SAMPLER_BYTES.triton", (1, 2, 3), (11.0, 12.5, 13.0), ())
    context = fit.Fitted("CONTEXT_GIB", (1, 2, 3), (0.1, 0.2, 0.3), ())
    text = fit.source_text([triton, context])
    namespace: dict[str, object] = {}
    exec(compile(text, "coefficients", "exec"), namespace)
    samplers = namespace["SAMPLER_BYTES"]
    assert isinstance(samplers, dict)
    assert samplers == {**coefficients.SAMPLER_BYTES, "triton": (11, 12.5, 13)}
    assert namespace["CONTEXT_GIB"] == (0.1, 0.2, 0.3)
    assert namespace["NON_TORCH_GIB"] == coefficients.NON_TORCH_GIB


def test_coefficients_are_in_order() -> None:
    spreads = [value for name, value in vars(coefficients).items() if name.isupper() and isinstance(value, tuple)]
    spreads += [
        s
        for name, value in vars(coefficients).items()
        if name.isupper() and isinstance(value, dict)
        for s in value.values()
    ]
    assert len(spreads) > 15
    assert all(0 <= low <= expected <= high for low, expected, high in spreads)


@needs_logs
def test_coefficients_stand_as_the_script_writes_them() -> None:
    """Fitting again leaves the values (to the digits that are written)."""
    for result in fit.fit(records(), fit.read_overheads(OVERHEADS)):
        if result.name.startswith("SAMPLER_BYTES"):
            assert result.after[1] == pytest.approx(result.before[1], rel=0.02), result.name


@needs_logs
def test_dense_logs_are_met() -> None:
    dense = [r for r in fit.residuals(records()) if not r.record.model.is_moe and not r.record.version_assumed]
    dense = [r for r in dense if not r.record.model.is_hybrid]
    errors = [abs(residual.error) for residual in dense]
    assert len(dense) >= 18
    assert fit.quantile(errors, 0.5) <= 0.02
    # Three logs are beyond a tenth: one of 0.49 GiB that another run of the same start missed by 0.08 GiB, and one start, told
    # by two sources, whose sampler no stated flag explains.
    assert fit.quantile(errors, 0.8) <= 0.04
    assert fit.quantile(errors, 0.9) <= 0.12
    assert sum(residual.inside for residual in dense) >= 0.9 * len(dense)
    assert fit.quantile([residual.width for residual in dense], 0.5) <= 0.15


@needs_logs
def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert fit.main([str(LOGS[0]), str(OVERHEADS), "--show", "1"]) == 0
    printed = capsys.readouterr().out
    for words in ("SAMPLER_BYTES.torch", "by device", "by release", "largest errors"):
        assert words in printed


def test_a_file_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit.main([str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl" in capsys.readouterr().err


def test_many_logs_of_one_set_up_are_one() -> None:
    """Five set-ups at 10 and one that printed 30 six times: the median stays, and the interval holds the other nine in ten."""
    observations = [fit.Observation(f"a{i}", 10, 0.1, f"setup {i}") for i in range(5)]
    observations += [fit.Observation(f"b{i}", 30, 0.1, "another") for i in range(6)]
    low, middle, high = fit.spread((1, 2, 3), observations)
    assert middle == 10
    assert low <= 10 <= high < 30
    assert len(fit.by_setup(observations)) == 6
