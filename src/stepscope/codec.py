"""A record as one line of JSON, and back.

    line = encode(Step(step=1, loss=float("nan")))     # b'{"log":"step",…,"loss":"NaN"}'
    decode(line).loss                                  # nan

JSON has no NaN. In numeric fields a number that is not finite is one of the strings "NaN", "Infinity" and
"-Infinity"; in free-form fields, where such a string may be meant as text, it is {"$float": "NaN"}. The common
line takes one pass through msgspec; only a line with something unusual in it takes the careful way.
"""

import json
import re
from typing import Any

import msgspec

from .errors import BadType, BadValue, show
from .records import KINDS, Other, Record, fields

MAX_DEPTH = 200
_NAMES = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_ESCAPED = re.compile(r"\$+float")
_encoder = msgspec.json.Encoder()
_decoders = {kind: msgspec.json.Decoder(struct) for kind, struct in KINDS.items()}
_FREE_FORM = {kind: [n for n, f in fields(kind).items() if f.free_form] for kind in KINDS}
_TYPED = frozenset(struct for kind, struct in KINDS.items() if not _FREE_FORM[kind])
_has_null = re.compile(b"null").search
_encode = _encoder.encode


def encode(record: Record) -> bytes:
    """`record` as a line of JSON, without a line break."""
    if type(record) in _TYPED:
        try:
            line = _encode(record)
        except UnicodeEncodeError:
            return _encode_carefully(record)
        if not _has_null(line):  # msgspec writes null where a number is not finite
            return line
    return _encode_carefully(record)


def _encode_carefully(record: Record) -> bytes:
    free = _FREE_FORM[record.kind]
    data = {key: value for key, value in msgspec.structs.asdict(record).items() if value is not None}
    plain = {key: escape(value) if key in free else _named(msgspec.to_builtins(value)) for key, value in data.items()}
    plain = {"log": record.kind, **plain}
    try:
        return _encoder.encode(plain)
    except UnicodeEncodeError:  # a lone surrogate, which only \uXXXX can carry
        return json.dumps(plain, separators=(",", ":")).encode()


def _named(value: Any) -> Any:
    """Numeric data with the numbers that are not finite as strings."""
    if type(value) is float:
        return value if value - value == 0 else _name(value)
    if isinstance(value, dict):
        return {key: _named(item) for key, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_named(item) for item in value]
    return value


def _name(value: float) -> str:
    return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"


def escape(value: Any, depth: int = 0) -> Any:
    """Free-form data as plain JSON values from which `unescape` makes equal data again."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return whole(value)
    if kind is float:
        return value if value - value == 0 else {"$float": _name(value)}
    if depth >= MAX_DEPTH:
        raise BadValue(f"nested deeper than {MAX_DEPTH} levels: log the parts, or a file's name, instead")
    if isinstance(value, dict):
        plain = {_key(key): escape(item, depth + 1) for key, item in value.items()}
        (only,) = plain if len(plain) == 1 else ("",)
        return {f"${only}": plain[only]} if _ESCAPED.fullmatch(only) else plain
    if isinstance(value, (list, tuple)):
        return [escape(item, depth + 1) for item in value]
    raise BadType(f"cannot be written as JSON: {show(value)} ({type(value).__name__})")


def whole(value: int) -> int:
    """`value`, if the file can hold it."""
    if -(2**63) <= value < 2**64:
        return value
    raise BadValue(f"integer beyond 64 bits: {show(value)}; pass it as float or as text")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise BadValue(f"a key must be text, not {show(key)}")


def unescape(value: Any) -> Any:
    """What `escape` was given."""
    if isinstance(value, list):
        return [unescape(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((key, item),) = value.items()
        if key == "$float" and isinstance(item, str) and item in _NAMES:
            return _NAMES[item]
        if key.startswith("$$") and _ESCAPED.fullmatch(key):
            return {key[1:]: unescape(item)}
    return {key: unescape(item) for key, item in value.items()}


def decode(line: bytes, kind: str | None = None) -> Record | Other:
    """The record of a line; a kind that is not known comes back as `Other`. Raises ValueError on a torn line."""
    if kind in _decoders and not _FREE_FORM[kind]:
        try:
            return _decoders[kind].decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # a number that is not finite, a foreign file, or a torn line
    return decode_dict(parse(line))


def parse(line: bytes) -> dict[str, Any]:
    """A line as a dict, taking also what JSON does not know: bare nan, Infinity, lone surrogates."""
    try:
        data = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = line.decode("utf-8", "replace")
        try:
            data = json.loads(text)
        except ValueError:
            data = json.loads(_BARE.sub(_quote_bare, text))
    if not isinstance(data, dict) or not isinstance(data.get("log"), str):
        raise ValueError(f"not a record: {show(line[:60])}")
    return data


# nan and inf stand bare where a value begins; a text is matched first, so that none is found inside one. A torn
# line may end inside a text: without the last `?` each of its quotes would be tried to the end of the line.
_BARE = re.compile(r'"(?:[^"\\]|\\.)*"?|-?\b(?:nan|inf|infinity)\b', re.IGNORECASE)


def _quote_bare(match: "re.Match[str]") -> str:
    text = match.group()
    if text.startswith('"'):
        return text
    return '"NaN"' if "nan" in text.lower() else '"-Infinity"' if text.startswith("-") else '"Infinity"'


def decode_dict(data: dict[str, Any]) -> Record | Other:
    """The record of a parsed line."""
    kind = data["log"]
    if kind not in KINDS:
        return Other(kind, data)
    known = fields(kind)
    values = {}
    for key, value in data.items():
        if key in known:
            values[key] = unescape(value) if known[key].free_form else _number_back(value, known[key].type)
    try:
        return msgspec.convert(values, KINDS[kind], strict=True)
    except msgspec.ValidationError:
        return Other(kind, data)


def _number_back(value: Any, type_: Any) -> Any:
    """Names of numbers that are not finite as floats again, where the field is numeric."""
    if isinstance(value, str) and "float" in str(type_):
        return _NAMES.get(value, _FOREIGN.get(value, value))
    if isinstance(value, dict) and "float" in str(type_):
        return {key: _number_back(item, type_) for key, item in value.items()}
    return value


_FOREIGN = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
