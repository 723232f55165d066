"""Asking NVML about one GPU: an answer or None, never an error; what cannot be answered is remembered with its reason.

    asking = Asking(pynvml, handle, "GPU 0", say=troubles.append)
    asking.ask("clock", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM))     # 1980
    asking.missing      # {'temp_slowdown': 'Not Supported'}: not asked for again
    asking.lost         # the GPU fell off the bus: nothing is asked any more

What another moment may answer (a timeout, a busy driver) is asked for again, and told once.
"""

from collections.abc import Callable, Mapping
from typing import Any

from .nvml_fields import Calls, values_of

# By NVML's codes. Gone: uninitialized, driver not loaded, lost, reset required, driver replaced, not found.
GONE = {1, 9, 15, 16, 18, 28}
# Never: invalid argument, not supported, no permission, function not found, other version, deprecated.
NEVER = {2, 3, 4, 13, 25, 26}
NONE: Mapping[int | None, Any] = {}


class Asking:
    """One GPU's handle, what it does not say, and whether it is still there."""

    def __init__(self, nvml: Any, handle: Any, name: str, say: Callable[[str], object]):
        self.nvml, self.handle = nvml, handle
        self.lost = False
        self.missing: dict[str, str] = {}
        self.never: set[str] = set()
        self._name, self._say = name, say
        self._said: set[str] = set()

    def ask(self, field: str, calls: Calls, errors: Mapping[int | None, Any] = NONE) -> Any:
        """The answer of the first call that the driver knows; `errors` are codes that are answers too."""
        if self.lost or field in self.never:
            return None
        unknown = None
        for call in calls if isinstance(calls, tuple) else (calls,):
            try:
                answer = call(self.nvml, self.handle)
            except Exception as error:  # noqa: BLE001 - NVML's own, and whatever a binding does with a strange answer
                if code(error) in errors:
                    return errors[code(error)]
                unknown = unknown or error
                if not _for_ever(error):
                    unknown = error
                    break
            else:
                self._answered(field)
                return answer
        if unknown is not None:
            self._failed(field, unknown)
        return None

    def values(self, wanted: Mapping[str, tuple[int, int]]) -> dict[str, Any]:
        """Those of several fields that are known, by one call."""
        left = {field: number for field, number in wanted.items() if field not in self.never}
        if self.lost or not left:
            return {}
        try:
            answers = values_of(self.nvml, self.handle, left)
        except Exception as error:  # noqa: BLE001 - as above
            answers = dict.fromkeys(left, error)
        known = {field: answer for field, answer in answers.items() if not isinstance(answer, Exception)}
        for field, answer in answers.items():
            if field in known:
                self._answered(field)
            else:
                self._failed(field, answer)
        return known

    def _answered(self, field: str) -> None:
        """Take note that the field is there (again)."""
        self.missing.pop(field, None)
        self.never.discard(field)

    def _failed(self, field: str, error: Exception) -> None:
        """Take note of why there is no answer, and of what that means for the next time."""
        why = str(error) or type(error).__name__
        self.missing[field] = why
        if code(error) in GONE:
            self.lost = True
            self._once("lost", f"{self._name} does not answer any more: {why}")
        elif _for_ever(error):
            self.never.add(field)
        else:
            self._once(field, f"{self._name} did not tell its {field}: {why}")

    def _once(self, about: str, text: str) -> None:
        if about not in self._said:
            self._said.add(about)
            self._say(text)


def _for_ever(error: BaseException) -> bool:
    """Whether to ask again is of no use; older bindings lack newer names."""
    return code(error) in NEVER or isinstance(error, AttributeError)


def code(error: BaseException) -> int | None:
    """NVML's number for an error."""
    value = getattr(error, "value", None)
    return value if isinstance(value, int) else None
