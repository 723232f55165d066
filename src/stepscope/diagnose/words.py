"""Numbers in a verdict's sentence.

percent(0.312), milliseconds(8.13), size(3 << 30)      # '31 %' '8.13 ms' '3.0 GiB'
"""


def percent(share: float) -> str:
    """A share of one, with a decimal below ten percent."""
    return f"{share * 100:.0f} %" if abs(share) >= 0.0995 else f"{share * 100:.1f} %"


def milliseconds(value: float) -> str:
    """A duration of a step or a phase."""
    return (
        f"{value:.3g} ms" if value < 999.5 else f"{value / 1000:.3g} s" if value < 999_500 else f"{value / 1000:.0f} s"
    )


def size(value: float) -> str:
    """Bytes in the largest binary unit that fits."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if value >= scale:
            return f"{value / scale:.1f} {unit}"
    return f"{value:.0f} bytes"
