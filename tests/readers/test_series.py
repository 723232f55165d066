"""A series is the course of one number, by its name."""

import math
import subprocess
import sys
from array import array

import numpy
import pytest

from stepscope.codec import encode
from stepscope.errors import UnknownSetting
from stepscope.records import Eval, Gpu, Header, Metrics, Moe, SpeedOfLight, Step

from .conftest import as_file

pytestmark = pytest.mark.usefixtures("storage")


def points(run, name):
    """The points of a series as pairs."""
    return list(run.series(name))


def test_a_step_s_fields_are_series(read):
    """Steps without the value are left out; whole numbers count as numbers."""
    run = read([Header(), Step(step=1, loss=2.5, duration_ms=10), Step(step=2), Step(step=3, loss=2.0)])
    assert points(run, "loss") == [(1, 2.5), (3, 2.0)]
    assert points(run, "duration_ms") == [(1, 10.0)]
    assert points(run, "norm") == []


def test_columns_are_arrays_that_numpy_takes_as_they_are(read):
    """`array('q')` and `array('d')`, without a copy."""
    series = read([Step(step=1, loss=2.5), Step(step=2, loss=2.0)]).series("loss")
    assert (series.steps, series.values) == (array("q", [1, 2]), array("d", [2.5, 2.0]))
    column = numpy.asarray(series.values)
    series.values[0] = 7.0
    assert (column.dtype, column[0], len(series)) == (numpy.float64, 7.0, 2)


def test_throughput_is_computed(read):
    """From tokens and duration, where both are known and time has passed; an evaluation has its own."""
    steps = [Step(step=1, step_tokens=100, duration_ms=50), Step(step=2, step_tokens=100), Step(step=3, duration_ms=1)]
    more = [Step(step=4, step_tokens=7, duration_ms=0), Step(step=5, step_tokens=7, duration_ms=math.nan)]
    run = read(
        [*steps, *more, Step(step=6, step_tokens=3, duration_ms=1.5), Eval(step=6, eval_tokens=8, duration_ms=4)]
    )
    assert points(run, "tokens_per_second") == [(1, 2000.0), (6, 2000.0)]
    assert points(run, "eval/tokens_per_second") == [(6, 2000.0)]
    assert [step.tokens_per_second for step in run.steps] == [2000.0, None, None, None, None, 2000.0]


def test_numbers_that_are_not_finite_come_back_as_floats(read):
    """In each of the kinds."""
    odd = [math.nan, math.inf, -math.inf]
    records = [Step(step=number, loss=value) for number, value in enumerate(odd)]
    records += [Metrics(step=number, values={"x": value}) for number, value in enumerate(odd)]
    records += [Gpu(step=number, id=1, power=value) for number, value in enumerate(odd)]
    run = read(records)
    for name in ("loss", "x", "gpu/1/power"):
        assert list(map(repr, run.series(name).values)) == ["nan", "inf", "-inf"]


def test_other_kinds_have_their_name_in_front(read):
    """Evaluations, routers, the speed of light."""
    run = read([Eval(step=5, loss=2.0), Moe(step=6, aux_loss=0.1), SpeedOfLight(step=0, tps=156000), Step(step=5)])
    assert points(run, "eval/loss") == [(5, 2.0)]
    assert points(run, "moe/aux_loss") == [(6, 0.1)]
    assert points(run, "sol/tps") == [(0, 156000.0)]


def test_inline_moe_numbers_stand_for_those_of_the_kind(read):
    """A step's `moe_aux_loss` is `moe/aux_loss` where the run has no `moe` records."""
    run = read([Step(step=1, moe_aux_loss=0.5)])
    assert points(run, "moe/aux_loss") == points(run, "moe_aux_loss") == [(1, 0.5)]


def test_each_gpu_has_its_own_series(read):
    """By its index; a record without one is the only GPU's."""
    run = read([Gpu(step=step, id=id_, power=100 * step + id_) for step in (1, 2) for id_ in (0, 1)])
    assert points(run, "gpu/0/power") == [(1, 100), (2, 200)]
    assert points(run, "gpu/1/power") == [(1, 101), (2, 201)]
    assert points(read([Gpu(step=1, clock=1800)]), "gpu/clock") == [(1, 1800)]


@pytest.mark.parametrize(
    "name", ["acc", "eval/accuracy", "a b/ü", "gpu/0/mine", 'with "quotes" and \\', "line\nbreak", "\ud800", "loss/a"]
)
def test_a_program_s_own_names_are_series(read, name):
    """Whatever the name is: with slashes, spaces, quotes, or characters that no encoding knows."""
    run = read([Metrics(step=step, values={"other": 1, name: step * 0.5}) for step in (1, 2)] + [Metrics(step=3)])
    assert points(run, name) == [(1, 0.5), (2, 1.0)]
    assert run.names() == sorted([name, "other"])


def test_a_field_goes_before_a_metric_of_the_same_name(read):
    """`metrics/…` says which of the two is meant."""
    run = read([Step(step=1, loss=2.0), Metrics(step=1, values={"loss": 9.0, "flag": True})])
    assert (points(run, "loss"), points(run, "step/loss")) == ([(1, 2.0)], [(1, 2.0)])
    assert points(run, "metrics/loss") == [(1, 9.0)]
    assert points(run, "flag") == [(1, 1.0)]
    assert points(read([Metrics(step=1, values={"loss": 9.0})]), "loss") == [(1, 9.0)]


def test_an_unknown_name_names_the_nearest(read):
    """An error, not an empty series, for nobody logs what is called like that."""
    run = read([Step(step=1, loss=2.0), Metrics(step=1, values={"accuracy": 0.5}), Gpu(step=1, id=0, power=1)])
    for wrong, right in [("acuracy", "accuracy"), ("los", "loss"), ("gpu/1/power", "gpu/0/power")]:
        with pytest.raises(UnknownSetting, match=f"did you mean '{right}'"):
            run.series(wrong)
    with pytest.raises(UnknownSetting, match="known are loss"):
        read([Step(step=1, loss=2.0)]).series("zzz")
    with pytest.raises(UnknownSetting, match="no numbers yet"):
        read([Header()]).series("zzz")


def test_text_is_no_number(read):
    """A field that holds text has no series, and is not among the names."""
    run = read([Gpu(step=1, id=0, throttle="power cap", clock=5)])
    assert run.names() == ["gpu/0/clock"]
    with pytest.raises(UnknownSetting):
        run.series("gpu/0/throttle")


def test_names_are_all_that_have_numbers(read):
    """Computed ones too, each once, also those that come late in the run."""
    records = [Step(step=step, loss=1.0) for step in range(2000)] + [Step(step=2000, step_tokens=1, duration_ms=1)]
    run = read([*records, Metrics(step=2001, values={"late/x": 1})])
    assert run.names() == ["duration_ms", "late/x", "loss", "step_tokens", "tokens_per_second"]
    for name in run.names():
        assert len(run.series(name)) >= 1


def test_a_series_is_in_the_order_of_steps(read):
    """A record with numbers from a device stands a little behind later ones with numbers of the host."""
    order = [*range(500), 502, 500, 501, *range(503, 2000), 2001, 2000]
    series = read([Step(step=step, loss=float(step)) for step in order]).series("loss")
    assert series.steps.tolist() == list(range(2002))
    assert series.values.tolist() == list(range(2002))


def test_a_step_beyond_64_bits_is_left_out(read):
    """It cannot stand in the column, and costs nobody else their place."""
    run = read(b'[\n{"log":"step","step":18446744073709551615,"loss":1.0},\n{"log":"step","step":2,"loss":2.0}\n]\n')
    assert points(run, "loss") == [(2, 2.0)]


def test_the_fast_and_the_careful_way_agree(read):
    """A file of which every second line is spelled as only the careful way can read it."""
    records = [Step(step=n, loss=1 / (n + 1), step_tokens=n, duration_ms=2, lr=0.1) for n in range(2000)]
    records += [Gpu(step=n, id=n % 3, power=float(n)) for n in range(2000)]
    records += [Metrics(step=n, values={"m": n / 7}) for n in range(2000)]
    lines = [encode(record) for record in records]
    odd = [line.replace(b'"step":', b'"odd":nan,"step":') if n % 2 else line for n, line in enumerate(lines)]
    fast, careful = read(as_file(records)), read(b"[\n" + b",\n".join(odd) + b"\n]\n", "odd.json")
    for name in ("loss", "tokens_per_second", "lr", "gpu/2/power", "m"):
        assert points(fast, name) == points(careful, name)
        assert len(points(fast, name)) > 600
    assert fast.kinds == careful.kinds
    assert fast.records() == careful.records()


def test_reading_needs_neither_torch_nor_numpy(tmp_path):
    """A laptop without them reads a run."""
    (tmp_path / "training.json").write_bytes(as_file([Header(), Step(step=1, loss=2.0)]))
    program = (
        "import sys, stepscope; run = stepscope.read_run('training.json'); run.series('loss'), run.problems;"
        "sys.exit(bool({'torch', 'numpy', 'rich', 'typer'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=False).returncode == 0
