"""A verdict is said once when it begins and once when it ends."""

from stepscope.diagnose.said import Said
from stepscope.diagnose.verdict import Verdict

DATA = Verdict("data_generation", "warning", 0.4, "a step waits", gain=0.35, advice=("More workers", "Faster data"))
HOT = Verdict("throttle", "warning", 0.2, "GPU 0 was held back")


def told(said, *looks):
    """What each look says: rule and state."""
    return [[(e.rule, e.evidence["state"]) for e in said.update(look, step)] for step, look in enumerate(looks)]


def test_a_verdict_begins_once_and_ends_once():
    """The second look in a row says it, the third without it ends it."""
    assert told(Said(), [DATA], [DATA], [DATA], [], [], [], []) == [
        [],
        [("data_generation", "began")],
        [],
        [],
        [],
        [("data_generation", "ended")],
        [],
    ]


def test_one_at_its_limit_does_not_flicker():
    """Seen in every other look, it is neither said nor, once said, ended."""
    assert told(Said(), [DATA], [], [DATA], [], [DATA], []) == [[]] * 6
    said = Said()
    told(said, [DATA], [DATA])
    assert told(said, [], [DATA], [], [], [DATA]) == [[]] * 5
    assert said.standing == [DATA]


def test_several_verdicts_are_independent():
    """Each has its own beginning, in the order of gravity."""
    assert told(Said(begin=1, end=1), [DATA, HOT], [HOT], []) == [
        [("data_generation", "began"), ("throttle", "began")],
        [("data_generation", "ended")],
        [("throttle", "ended")],
    ]


def test_the_event_has_everything():
    """Rule, gravity, the message with what it would save, all advice, severity and gain as numbers."""
    (event,) = Said(begin=1).update([DATA], step=70)
    assert (event.step, event.severity, event.rule) == (70, "warning", "data_generation")
    assert event.message == "a step waits; fixing this would save about 35 % of a step"
    assert event.advice == "More workers; Faster data"
    assert event.evidence == {"severity": 0.4, "gain": 0.35, "state": "began"}


def test_the_end_is_information():
    """It says what is over, as it last was."""
    said = Said(begin=1, end=1)
    said.update([DATA])
    (event,) = said.update([], step=90)
    assert (event.severity, event.message, event.advice) == ("info", "over: a step waits", None)


def test_of_one_rule_the_gravest_is_said():
    """Two GPUs that are full are one event."""
    other = Verdict("throttle", "info", 0.1, "GPU 1 was held back")
    (event,) = Said(begin=1).update([HOT, other])
    assert event.message == "GPU 0 was held back"


def test_one_that_becomes_graver_must_be_seen_twice_as_such():
    """Looks at it as information do not count towards a warning."""
    info = Verdict("speed_of_light", "info", 0.4, "far from it")
    warning = Verdict("speed_of_light", "warning", 0.4, "far from it, with a cause")
    said = Said(begin=3)
    assert told(said, [info], [info], [warning], [warning]) == [[]] * 4
    assert told(said, [warning]) == [[("speed_of_light", "began")]]
