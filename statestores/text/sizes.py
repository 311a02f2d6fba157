"""Sizes in bytes as text for people."""


def format_bytes(size: int) -> str:
    """Return *size* in the unit that makes it short.

    >>> format_bytes(1_023), format_bytes(1_536), format_bytes(3 << 40)
    ('1023 B', '1.5 KiB', '3.0 TiB')
    """
    if size < 1_024:  # noqa: PLR2004  # a kibibyte
        return f"{size} B"
    scaled, unit = size / 1_024, "KiB"
    for larger in ("MiB", "GiB", "TiB"):
        if scaled < 1_024:  # noqa: PLR2004  # the same
            break
        scaled, unit = scaled / 1_024, larger
    return f"{scaled:.1f} {unit}"
