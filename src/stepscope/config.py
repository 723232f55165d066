"""The settings of a run: from code, the environment (`STEPSCOPE_…`) or a YAML file, in that order of precedence.

    settings({"project": "mae", "report_to": "wandb"})           # code, then STEPSCOPE_PROJECT, …
    settings({}, file="config.yaml").wandb_project               # `wandb_project: my-project`

A key that does not exist is an error that names the nearest one that does.
"""

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, Struct

from .errors import BadType, BadValue, MissingExtra, UnknownSetting, nearest, show
from .plain import plain

BACKENDS = ("wandb", "aim", "tensorboard")
MODES = ("online", "offline", "disabled")
PREFIX = "STEPSCOPE_"
CONFIG_FILE = PREFIX + "CONFIG"  # names the YAML file


def about(meaning: str) -> Meta:
    """A setting's meaning, where documentation can read it."""
    return Meta(description=meaning)


class Settings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What can be set for a run."""

    project: Annotated[str | None, about("project that the run belongs to")] = None
    name: Annotated[str | None, about("name of the run; made up where it is not given")] = None
    output_dir: Annotated[str, about("folder of the run")] = "output"
    log_file: Annotated[str | None, about("the run file; {output_dir}/training.json where it is not given")] = None
    verbosity: Annotated[int, about("console: -2 silent, -1 evaluations, 0 normal, 1 verbose")] = 0
    mode: Annotated[str, about("online; offline keeps backends off the network; disabled does nothing at all")] = (
        "online"
    )
    report_to: Annotated[tuple[str, ...], about("backends: wandb, aim, tensorboard")] = ()
    resume: Annotated[bool, about("continue the run file that is there")] = False
    strict: Annotated[bool, about("raise where training would go on without its records")] = False
    background: Annotated[bool, about("write the run file from a thread: faster calls, a weaker promise")] = False
    total_steps: Annotated[int | None, about("steps of the whole run, for progress and eta")] = None
    total_tokens: Annotated[int | None, about("tokens of the whole run, for progress and eta")] = None
    total_epochs: Annotated[float | None, about("epochs of the whole run, for progress and eta")] = None
    wandb_project: Annotated[str | None, about("W&B: project; that of the run where it is not given")] = None
    wandb_name: Annotated[str | None, about("W&B: name; that of the run where it is not given")] = None
    aim_experiment: Annotated[str | None, about("Aim: experiment; the project where it is not given")] = None
    aim_repo: Annotated[str | None, about("Aim: folder of the repository; output_dir where it is not given")] = None
    aim_name: Annotated[str | None, about("Aim: name; that of the run where it is not given")] = None
    tensorboard_dir: Annotated[str | None, about("TensorBoard: {output_dir}/tensorboard where it is not given")] = None
    rank: Annotated[int | None, about("rank of this process; RANK where it is not given")] = None
    world_size: Annotated[int | None, about("number of ranks; WORLD_SIZE where it is not given")] = None


def describe() -> dict[str, str]:
    """What each setting does."""
    hints = get_type_hints(Settings, include_extras=True)
    return {name: hints[name].__metadata__[0].description for name in Settings.__struct_fields__}


def settings(
    code: Mapping[str, Any], file: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings that hold: what the code says, else the environment, else the YAML file, else the default."""
    environ = os.environ if environ is None else environ
    file = file or environ.get(CONFIG_FILE)
    written = from_yaml(file) if file else {}
    given = {key: value for key, value in code.items() if value is not None}
    _known(given, "argument")
    return _checked({**written, **from_environment(environ), **given})


def from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """The settings among the environment's variables."""
    ours = {k: v for k, v in environ.items() if k.startswith(PREFIX) and k != CONFIG_FILE and v}
    found = {key[len(PREFIX) :].lower(): value for key, value in ours.items()}
    _known(found, "environment variable", spell=lambda key: PREFIX + key.upper())
    numbers = {key for key, type_ in _types().items() if not _is_text(type_)}
    return {key: _from_text(value) if key in numbers else value for key, value in found.items()}


def from_yaml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The settings of a YAML file."""
    try:
        import yaml
    except ImportError as error:  # pragma: no cover - PyYAML is a dependency of the core
        raise MissingExtra("yaml", "PyYAML", "to read a configuration file") from error
    try:
        with open(path, encoding="utf-8") as file:
            data = yaml.safe_load(file) or {}
    except OSError as error:
        raise BadValue(f"cannot read the configuration {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise BadValue(f"{path} is not YAML: {error}") from error
    if not isinstance(data, dict):
        raise BadValue(f"{path} must hold `key: value` lines, not {show(data)}")
    _known(data, "key", f" in {path}")
    texts = {key for key, type_ in _types().items() if _is_text(type_)} - {"report_to"}
    return {
        key: str(value) if key in texts and isinstance(value, (int, float)) else value
        for key, value in data.items()
        if value is not None
    }


def _known(keys: Mapping[str, Any], what: str, where: str = "", spell: Callable[[Any], str] = str) -> None:
    known = Settings.__struct_fields__
    for key in keys:
        if key not in known:
            raise UnknownSetting(f"unknown {what} {spell(key)!r}{where}{nearest(spell(key), map(spell, known))}")


def _types() -> dict[str, Any]:
    return Settings.__annotations__


def _is_text(type_: Any) -> bool:
    return "str" in str(type_)


def _from_text(value: str) -> Any:
    """A number or a truth value from the environment; what is neither stays text and fails the check."""
    word = value.strip().lower()
    if word in ("true", "yes", "on"):
        return True
    if word in ("false", "no", "off", ""):
        return False
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return value


def _checked(values: dict[str, Any]) -> Settings:
    values = {key: plain(value) if hasattr(value, "dtype") else value for key, value in values.items()}
    if "report_to" in values:
        values["report_to"] = backends(values["report_to"])
    for flag in ("resume", "strict", "background"):
        if values.get(flag) in (0, 1):
            values[flag] = bool(values[flag])
    for path in ("output_dir", "log_file", "aim_repo", "tensorboard_dir"):
        if isinstance(values.get(path), os.PathLike):
            values[path] = os.fspath(values[path])
    for total in ("total_steps", "total_tokens"):
        if isinstance(values.get(total), float) and values[total].is_integer():
            values[total] = int(values[total])
    values["verbosity"] = _verbosity(values.get("verbosity", 0))
    try:
        found = msgspec.convert(values, Settings)
    except msgspec.ValidationError as error:
        key = str(error).partition("$.")[2].partition("`")[0].split("[")[0]
        raise BadType(f"setting {key} = {show(values.get(key))}: {error}") from error
    if found.mode not in MODES:
        raise UnknownSetting(f"unknown mode {found.mode!r}{nearest(found.mode, MODES)}")
    for key in ("total_steps", "total_tokens", "total_epochs"):
        total = getattr(found, key)
        if total is not None and not total > 0:
            raise BadValue(f"{key} must be positive, not {show(total)}; leave it away where it is not known")
    return found


def _verbosity(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -2 <= value <= 1:
        raise BadValue(f"unknown verbosity {show(value)}: -2 silent, -1 evaluations only, 0 normal, 1 verbose")
    return int(value)


def backends(value: Any) -> tuple[str, ...]:
    """`report_to` as a tuple of names: one name, several with commas or as a list, or `none`."""
    if not isinstance(value, (str, list, tuple, set, frozenset)):
        raise BadType(
            f"report_to must be a name or a list of names, not {show(value)}; known are {', '.join(BACKENDS)}"
        )
    names = value.split(",") if isinstance(value, str) else list(value)
    names = [str(name).strip().lower() for name in names if name is not None]
    names = [name for name in names if name not in ("none", "")]
    for name in names:
        if name not in BACKENDS:
            raise UnknownSetting(f"unknown backend {name!r} in report_to{nearest(name, BACKENDS)}")
    return tuple(dict.fromkeys(names))
