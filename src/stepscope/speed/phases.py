"""Where time goes: nested phases by name, on the host's clock and on the device's where there is one.

    phases = Phases()
    with phases.phase("forward_pass"):
        with phases.phase("attention"):
            ...
    phases.take().host        # {'forward_pass': [1_200_000, 1], 'forward_pass/attention': [800_000, 1]}: ns, count

A phase's time holds that of its parts. Hooks use `enter_auto` and `leave_auto`: what they see counts only where the
user has opened no phase, and one that begins inside another (a backward pass inside the optimizer's closure) stops
the other's clock, so that no moment is counted twice. One thread owns the phases; those of others are not timed.
"""

from collections.abc import Callable
from threading import get_ident
from time import perf_counter_ns
from types import TracebackType
from typing import Any

from .device_clock import DeviceClock

OnTrouble = Callable[[str, str], Any]


class Taken:
    """What was measured: nanoseconds and count by phase, and the pairs of device events."""

    __slots__ = ("host", "spans")

    def __init__(self) -> None:
        self.host: dict[str, list[int]] = {}
        self.spans: list[tuple[str, Any, Any]] = []

    def add(self, other: "Taken", prefix: str = "") -> None:
        """Take in what another has."""
        for path, (spent, count) in other.host.items():
            entry = self.host.setdefault(prefix + path, [0, 0])
            entry[0] += spent
            entry[1] += count
        self.spans += [(prefix + path, a, b) for path, a, b in other.spans] if prefix else other.spans

    def __bool__(self) -> bool:
        return bool(self.host)


class Node:
    """A phase at its place in the nesting."""

    __slots__ = ("auto", "began", "children", "count", "event", "name", "ns", "parent", "path", "spans")

    def __init__(self, name: str, parent: "Node | None"):
        self.name, self.parent = name, parent
        self.path: str = f"{parent.path}/{name}" if parent is not None and parent.path else name
        self.children: dict[str, Node] = {}
        self.ns = self.count = self.began = 0
        self.auto = False
        self.event: Any = None
        self.spans: list[tuple[Any, Any]] = []


class Phase:
    """One name as a context manager; the same object for all its uses."""

    __slots__ = ("_enter", "_leave", "name")

    def __init__(self, name: str, phases: "Phases"):
        self.name, self._enter, self._leave = name, phases.enter, phases.leave

    def __enter__(self) -> "Phase":
        self._enter(self.name)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave(self.name)


class Phases:
    """The open phases of a thread, and what the closed ones took since they were last asked for."""

    def __init__(
        self,
        device: DeviceClock | None = None,
        clock: Callable[[], int] = perf_counter_ns,
        on_trouble: OnTrouble = lambda rule, message: None,
    ):
        self.device, self._clock, self._on_trouble = device, clock, on_trouble
        self._thread = get_ident()
        self._root = self._here = Node("", None)
        self._by_name: dict[str, Phase] = {}
        self._nodes: list[Node] = []
        self.left = 0  # when a phase was left for the last time
        self._auto: list[tuple[Node | None, Node | None]] = []  # entered, and what was stopped for it

    def move(self) -> None:
        """From now on the phases are those of the thread that calls."""
        self._thread = get_ident()

    def phase(self, name: str) -> Phase:
        """The phase of a name, to be used with `with`."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = Phase(name, self)
        return found

    @property
    def is_open(self) -> bool:
        """Whether the user has a phase open."""
        here = self._here
        return here is not self._root and not here.auto

    @property
    def path(self) -> str:
        """The innermost open phase, "" for none."""
        return self._here.path

    def enter(self, name: str) -> None:
        """Begin a phase."""
        if get_ident() != self._thread:
            self._on_trouble("phase-thread", f"phase {name!r} in another thread is not timed")
            return
        here = self._here
        node = here.children.get(name)
        if node is None:
            node = self._grow(here, name)
        if self.device is not None:
            node.event = self.device.mark()
        self._here = node
        node.began = self._clock()

    def leave(self, name: str) -> None:
        """End a phase; those inside it that were left open end with it."""
        now = self._clock()
        if get_ident() != self._thread:
            return
        node = self._here
        if node.name != name:
            if not self._is_within(node, name):
                self._on_trouble("phase-closed", f"phase {name!r} was closed, but is not open")
                return
            self._on_trouble("phase-open", f"phase {node.path!r} was left open and ends with {name!r}: use `with`")
            while self._here.name != name:
                self._stop(self._here, now)
        self._stop(self._here, now)

    def _stop(self, node: Node, now: int, count: int = 1) -> None:
        node.ns += now - node.began
        node.count += count
        self.left = now
        if node.event is not None and self.device is not None:
            node.spans.append((node.event, self.device.mark_end(node.event)))
            node.event = None
        assert node.parent is not None
        self._here = node.parent

    def _grow(self, here: Node, name: str) -> Node:
        if self._is_within(here, name):
            self._on_trouble("phase-nested", f"phase {name!r} is nested in itself: its time counts once, in the outer")
        node = here.children[name] = Node(name, here)
        self._nodes.append(node)
        return node

    @staticmethod
    def _is_within(node: Node | None, name: str) -> bool:
        while node is not None:
            if node.name == name:
                return True
            node = node.parent
        return False

    def enter_auto(self, name: str) -> None:
        """Begin a phase that a hook sees, unless the user has one open."""
        if get_ident() != self._thread:
            return
        here, stopped = self._here, None
        if here is not self._root:
            if not here.auto:
                return self._auto.append((None, None))
            self._stop(here, self._clock(), count=0)
            stopped = here
        self.enter(name)
        self._here.auto = True
        self._auto.append((self._here, stopped))

    def leave_auto(self) -> None:
        """End the newest phase of a hook, and go on with the one that was stopped for it."""
        if get_ident() != self._thread or not self._auto:
            return
        entered, stopped = self._auto.pop()
        if entered is None:
            return
        if self._here is not entered and self._is_within(self._here, entered.name):
            self.leave(entered.name)
        elif self._here is entered:
            self._stop(entered, self._clock())
        if stopped is not None and self._here is self._root:
            self.enter(stopped.name)
            stopped.auto = True

    def close_open(self) -> None:
        """End what is open: a step is over, and a phase must not reach into the next."""
        if self._here is self._root:
            return
        self._on_trouble("phase-open", f"phase {self._here.path!r} was left open at the end of its step: use `with`")
        now = self._clock()
        while self._here is not self._root:
            self._stop(self._here, now)
        self._auto.clear()

    def take(self) -> Taken:
        """What was measured since the last time, that of open phases up to now included."""
        taken = Taken()
        if self._here is not self._root:
            self._split()
        for node in self._nodes:
            if node.ns:
                taken.host[node.path] = [node.ns, node.count]
                node.ns = node.count = 0
            if node.spans:
                taken.spans += [(node.path, a, b) for a, b in node.spans]
                node.spans = []
        return taken

    def _split(self) -> None:
        """Count what the open phases have spent so far, and let them go on."""
        now, node = self._clock(), self._here
        while node.parent is not None:
            node.ns += now - node.began
            node.began = now
            if node.event is not None and self.device is not None:
                middle = self.device.mark()
                node.spans.append((node.event, middle))
                node.event = self.device.mark()
            node = node.parent
