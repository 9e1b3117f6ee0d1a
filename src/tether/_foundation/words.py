"""How numbers and names are put into words, in messages, tables, figures and pages."""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tether._foundation.rounding import ROUNDING, rounding_of


def counted(n: int, noun: str) -> str:
    """``n`` of something.

    >>> counted(1, "step"), counted(2541, "state")
    ('1 step', '2,541 states')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def number(value: float) -> str:
    """A value as it is written in a sentence.

    >>> number(-6850.4), number(0.48801), number(-0.0)
    ('-6,850', '0.488', '0')
    """
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value + 0.0:.4g}"


def at_most_three_digits(value: float) -> str:
    """A value above 0 with at most three significant digits, never rounded up.

    >>> at_most_three_digits(5.549), at_most_three_digits(123.9), at_most_three_digits(1.0004)
    ('5.54', '123', '1')
    """
    scale = 10.0 ** (2 - math.floor(math.log10(value)))
    return three_digits(math.floor(value * scale * (1 + 1e-12)) / scale)


def three_digits(value: float) -> str:
    """A value with at most three significant digits.

    >>> three_digits(-2369.03), three_digits(0.48801), three_digits(15.756)
    ('-2,370', '0.488', '15.8')
    """
    return f"{float(f'{value:.3g}'):,.12g}"


def in_points(share: float) -> str:
    """A difference of two shares, in percentage points.

    >>> in_points(0.0161), in_points(-0.01), in_points(0.01)
    ('1.61 percentage points', '-1 percentage points', '1 percentage point')
    """
    points = three_digits(100 * share)
    return f"{points} percentage point{'' if points == '1' else 's'}"


def spread(mean: float, std: float) -> str:
    """The standard deviation of a value as it is written after its mean; empty if it is no more than rounding.

    >>> spread(-37.11, 0.31427), spread(1.0, 6.661e-16), spread(5.0, 0.0)
    ('± 0.3143', '', '')
    """
    return f"± {number(std)}" if std > rounding_of(mean) else ""


def with_spread(mean: float, std: float) -> str:
    """A value and its standard deviation; the value alone if the latter is no more than rounding.

    >>> with_spread(-37.11, 0.31427), with_spread(1.0, 6.661e-16)
    ('-37.11 ± 0.3143', '1')
    """
    return f"{number(mean)} {spread(mean, std)}".rstrip()


def average(value: float) -> str:
    """A mean count, with three digits.

    >>> average(3.0), average(2.408), average(23.14), average(100.0)
    ('3', '2.41', '23.1', '100')
    """
    decimals = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{decimals}f}".rstrip("0").rstrip(".") if decimals else f"{value:,.0f}"


def folded(text: str) -> str:
    """A text without case, accents, and spaces around it or repeated: what two spellings of one name have in common.

    >>> folded(" Größe  A"), folded("grosse a"), folded("Café") == folded("cafe")
    ('grosse a', 'grosse a', True)
    """
    apart = unicodedata.normalize("NFKD", text).casefold()
    return " ".join("".join(sign for sign in apart if not unicodedata.combining(sign)).split())


def percent(share: float, short: bool = False) -> str:
    """A share in whole percents; 0 % and 100 % only if they are exact, up to rounding.

    >>> percent(1.0), percent(0.9999), percent(0.123), percent(0.001)
    ('100 %', 'over 99 %', '12 %', 'under 1 %')
    >>> percent(0.9999, short=True), percent(0.001, short=True)
    ('>99 %', '<1 %')
    """
    if share <= ROUNDING:
        return "0 %"
    if share >= 1 - ROUNDING:
        return "100 %"
    if share < 0.005:
        return "<1 %" if short else "under 1 %"
    if share > 0.995:
        return ">99 %" if short else "over 99 %"
    return f"{100 * share:.0f} %"


def percents(before: float, after: float) -> tuple[str, str]:
    """Two shares in whole percents, or with as many digits as it takes to tell them apart.

    >>> percents(0.37, 0.26), percents(0.364, 0.358), percents(0.36, 0.36)
    (('37 %', '26 %'), ('36.4 %', '35.8 %'), ('36 %', '36 %'))
    """
    if percent(before) != percent(after) or abs(before - after) <= ROUNDING:
        return percent(before), percent(after)
    digits = next((n for n in range(1, 9) if round(100 * before, n) != round(100 * after, n)), 9)
    return f"{100 * before:.{digits}f} %", f"{100 * after:.{digits}f} %"


def of_100(share: float) -> str:
    """A share as a number of 100: whole, none and all only if they are exact, up to rounding.

    >>> of_100(0.0), of_100(0.001), of_100(0.086), of_100(0.9999), of_100(1.0)
    ('none', 'fewer than 1', '9', 'more than 99', 'all')
    """
    if share <= ROUNDING or share >= 1 - ROUNDING:
        return "none" if share <= ROUNDING else "all"
    if share < 0.005:
        return "fewer than 1"
    return "more than 99" if share > 0.995 else f"{100 * share:.0f}"


def strength_in_words(strength: float, short: bool = False) -> str:
    """A strength with two decimals; 0 only if it is 0, up to rounding.

    >>> strength_in_words(0.0), strength_in_words(0.001), strength_in_words(0.001, short=True), strength_in_words(1.0)
    ('0', 'under 0.01', '<0.01', '1.00')
    """
    if strength <= ROUNDING:
        return "0"
    if strength < 0.005:
        return "<0.01" if short else "under 0.01"
    return f"{strength:.2f}"


def in_parts(parts: Iterable[tuple[str, Any]]) -> str:
    """A name that has parts, each with its value.

    >>> in_parts([("heart_rate", "low"), ("ventilated", False)])
    'heart rate low, ventilated no'
    """
    words = ((part, ("yes" if value else "no") if isinstance(value, bool) else value) for part, value in parts)
    return ", ".join(f"{part.replace('_', ' ')} {word}" for part, word in words)


def cut(text: str, most: int = 100) -> str:
    """The beginning of a text that is too long."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def cut_apart(names: Sequence[str], most: int) -> list[str]:
    """Names cut to ``most`` letters, so that different names stay different.

    If two names begin alike, or one is the beginning of another, the middle is left out; if they also end alike, a
    number makes them different.

    >>> cut_apart(["ward 7 bed 2", "ward 7 bed 3", "home"], 8)
    ['ward…d 2', 'ward…d 3', 'home']
    >>> cut_apart(["fluids", "fluids + oxygen"], 8)
    ['fluids', 'flui…gen']
    """
    short = {name: cut(name, most) for name in dict.fromkeys(names)}
    for name in _alike(short, most):
        head = most // 2
        short[name] = f"{name[:head]}…{name[len(name) - (most - head - 1) :]}"
    numbered = _alike(short, most)
    taken = {text for name, text in short.items() if name not in numbered}
    for name in numbered:
        n = 1
        while (text := f"{cut(name, most - len(f' ({n})'))} ({n})") in taken:
            n += 1
        short[name] = text
        taken.add(text)
    return [short[name] for name in names]


def _alike(short: dict[str, str], most: int) -> list[str]:
    """Names that were cut, to the same text as another name."""
    seen = {name: text.removesuffix("…").rstrip(" +,;:") for name, text in short.items()}
    times = Counter(seen.values())
    return [name for name, text in seen.items() if len(name) > most and times[text] > 1]


def shown(label: Any) -> str:
    r"""A name as text that is safe on any screen: characters that cannot be printed are escaped.

    >>> shown((1, "x")), shown("a\nb")
    ("(1, 'x')", 'a\\nb')
    """
    text = str(label)
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
