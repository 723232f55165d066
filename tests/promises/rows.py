"""The rows of a document's table as parameters of one test, each tied to its own promise.

@pytest.mark.parametrize(("name", "unit"), rows("surogate", {"gpu-clock": ("clock", "MHz")}))
"""

from typing import Any

import pytest


def rows(document: str, table: dict[str, Any]) -> list[Any]:
    """A parameter for each row: the key of its promise, and the values that the test takes."""
    return [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)), id=key, marks=pytest.mark.promise(f"{document}/{key}")
        )
        for key, row in table.items()
    ]
