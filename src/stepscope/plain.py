"""Anything that a program calls its configuration or its evidence, as plain JSON values.

    plain(argparse.Namespace(lr=np.float32(0.5), path=Path("data")))     # {'lr': 0.5, 'path': 'data'}

A copy is made: what the program changes later stays as it was logged.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import msgspec

from .codec import MAX_DEPTH
from .errors import BadValue


def plain(value: Any, depth: int = 0) -> Any:
    """Dataclasses, namespaces and structs as dicts, numbers of numpy as numbers, what JSON does not know as text."""
    if depth > MAX_DEPTH:
        raise BadValue(f"nested deeper than {MAX_DEPTH} levels: pass the parts that matter")
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    for base in (str, bool, int, float):
        if isinstance(value, base):
            return base(value) if base is not str or not hasattr(value, "value") else str(value.value)
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item") and not getattr(value, "is_cuda", False):
        return plain(value.item(), depth + 1)
    if isinstance(value, Mapping):
        return {_key(key): plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item, depth + 1) for item in value]
    names = _names(value)
    return str(value) if names is None else {name: plain(getattr(value, name), depth + 1) for name in names}


def _names(value: Any) -> list[str] | None:
    """The fields of an object that is a record of something."""
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    if is_dataclass(value) and not isinstance(value, type):
        return [field.name for field in fields(value) if hasattr(value, field.name)]
    return list(vars(value)) if type(value).__name__ == "Namespace" and hasattr(value, "__dict__") else None


def _key(key: Any) -> Any:
    return key if isinstance(key, (str, int, float)) else str(key)
