"""Values on their way into a record: checked field by field, device numbers set apart.

checked(Step, {"loss": 2.3, "lr": None})        # ({'loss': 2.3}, {})
checked(Step, {"loss": cuda_tensor})            # ({}, {'loss': tensor})
flat({"eval": {"loss": 2.1}})                   # {'eval/loss': 2.1}
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from .codec import MAX_DEPTH, escape
from .errors import BadType, BadValue, nearest, show
from .plain import plain
from .records import Record, Segment, fields
from .scalars import integer, is_tensor, real

Check = Callable[[Any, str], Any]
STAMPED = {"time", "step"}  # by the run
LARGEST_STEP = 2**63  # readers keep the steps of a series as signed integers


def text(value: Any, name: str) -> str:
    """`value`, if it is text."""
    if not isinstance(value, str):
        raise BadType(f"{name} must be text, not {show(value)} ({type(value).__name__})")
    return str(value)


def truth(value: Any, name: str) -> bool:
    """`value` as a truth value."""
    if getattr(value, "ndim", 0) or value not in (0, 1):
        raise BadType(f"{name} must be True or False, not {show(value)}")
    return bool(value)


def segments(value: Any, name: str) -> list[Segment]:
    """The document's list of objects as segments."""
    try:
        return msgspec.convert(plain(value), list[Segment])
    except msgspec.ValidationError as error:
        raise BadType(
            f"{name} must be a list of {{name, device, managed, pinned, pageable}} in bytes: {error}"
        ) from error


def file_tokens(value: Any, name: str) -> list[tuple[str, int]]:
    """Pairs of file and tokens."""
    pairs = value.items() if isinstance(value, Mapping) else value
    try:
        return [(str(file), integer(tokens, f"{name} of {file}")) for file, tokens in pairs]
    except (TypeError, ValueError) as error:
        raise BadType(f"{name} must be pairs of a file's name and its tokens: {error}") from error


def free(value: Any, name: str) -> Any:
    """Free-form data, as a copy."""
    value = plain(value)
    escape(value)
    return value


@cache
def _checks(kind: str) -> dict[str, Check]:
    """How each field of a kind is checked."""
    return {name: _check(str(info.type), info.free_form) for name, info in fields(kind).items()}


def _check(type_: str, free_form: bool) -> Check:
    if free_form:
        return free
    if "Segment" in type_:
        return segments
    if "tuple" in type_:
        return file_tokens
    if "bool" in type_:
        return truth
    if "str" in type_:
        return text
    return real if "float" in type_ else integer


def checked(record: type[Record], values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The values that are known, and those that still lie on a device."""
    checks = _checks(str(record.__struct_config__.tag))
    known: dict[str, Any] = {}
    late: dict[str, Any] = {}
    for name, value in values.items():
        if type(value) is float and name in checks and checks[name] is real:
            known[name] = value
            continue
        if name not in checks or name in STAMPED:
            raise BadType(f"{record.__name__} has no field {name!r}{nearest(name, set(checks) - STAMPED)}")
        if value is None:
            continue
        value = checks[name](value, name)
        (late if is_tensor(value) else known)[name] = value
    return known, late


def flat(values: Mapping[str, Any], prefix: str = "", depth: int = 0) -> dict[str, Any]:
    """Nested names joined by `/`; what is None is left out."""
    if depth > MAX_DEPTH:
        raise BadValue(f"nested deeper than {MAX_DEPTH} levels: give the numbers names of their own")
    found: dict[str, Any] = {}
    for key, value in values.items():
        if type(value) is float and type(key) is str:
            found[prefix + key] = value
        elif not isinstance(key, str):
            raise BadType(f"the name of a number must be text, not {show(key)}")
        elif isinstance(value, Mapping):
            found.update(flat(value, f"{prefix}{key}/", depth + 1))
        elif value is not None:
            is_truth = isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
            found[prefix + key] = bool(value) if is_truth else real(value, prefix + key)
    return found


def step_number(step: Any) -> int:
    """A training step: a whole number that is not negative."""
    number = integer(step, "step")
    if is_tensor(number):
        raise BadType("step must be a number of the host: it orders the records; keep a Python counter")
    if number < 0:
        raise BadValue(f"step must not be negative: {show(step)}; count from 0 or 1")
    if number >= LARGEST_STEP:
        raise BadValue(f"step does not fit into 64 bits with a sign: {show(step)}; count from 0 or 1")
    return int(number)
