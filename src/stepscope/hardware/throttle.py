"""The reasons for which a GPU's clocks are held back, as names.

reasons(0x44)     # 'hardware thermal slowdown, software power cap'
reasons(0x1)      # '': an idle GPU is not throttled
"""

IDLE = 0x1

# Worst first: what protects the hardware, then what keeps it in its limits, then what somebody has set.
REASONS = {
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
    0x08: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x04: "software power cap",
    0x10: "sync boost",
    0x02: "application clocks",
    0x100: "display clocks",
}


def reasons(mask: int) -> str:
    """All reasons in NVML's mask, worst first, joined by commas; a bit of tomorrow by its number."""
    names = [name for bit, name in REASONS.items() if mask & bit]
    unknown = mask & ~(IDLE | sum(REASONS))
    return ", ".join([*names, *([f"reason {unknown:#x}"] if unknown else [])])
