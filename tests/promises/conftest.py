"""Ties a test to the promises that it keeps, or to the name that it still waits for.

@pytest.mark.promise("updates/percentile")               # its quote stands in index.toml and in the docstring
@pytest.mark.waits("stepscope.WeightUpdateMonitor")      # a strict xfail for the absence of this name alone
def test_percentile_is_the_nearest_rank(): ...
"""

from collections.abc import Iterator
from typing import Any

import pytest

from .absence import CAPABILITIES, Absent, absent
from .profiled import Seen, profile


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(*ids): the documents' promises that the test keeps")
    config.addinivalue_line(
        "markers", "waits(*names): the promised names that are not there yet, the decisive one first"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if mark := item.get_closest_marker("waits"):
            reason = f"waits for {CAPABILITIES[mark.args[0]]}: {mark.args[0]}"
            item.add_marker(pytest.mark.xfail(reason=reason, raises=Absent, strict=True))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    mark = item.get_closest_marker("waits")
    if mark and call.excinfo and (name := absent(call.excinfo.value)) in mark.args:
        call.excinfo = pytest.ExceptionInfo.from_exception(Absent(name).with_traceback(call.excinfo.tb))
    return (yield)


@pytest.fixture(scope="session")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What a watched training of two epochs leaves, with nothing planted."""
    return profile(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="session")
def slow_data(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """The same with data that takes two thirds of each batch's time to generate."""
    return profile(tmp_path_factory.mktemp("run"), data_generation=0.01)
