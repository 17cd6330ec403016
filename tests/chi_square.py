"""Pearson's test of counts against expected ones."""

from __future__ import annotations


def chi_square(counts, expected, total):
    """Pearson's statistic and its degrees of freedom, rare outcomes taken together."""
    rare = {text for text, p in expected.items() if p * total < 5}
    assert not set(counts) - set(expected), "a text the target cannot say"
    cells = [(counts.get(text, 0), p * total) for text, p in expected.items() if text not in rare]
    if rare:
        cells.append((sum(counts.get(t, 0) for t in rare), sum(expected[t] for t in rare) * total))
    return sum((seen - due) ** 2 / due for seen, due in cells), len(cells) - 1


def limit(freedom):
    """The 99.99th percentile of chi-square (Wilson and Hilferty's approximation)."""
    return freedom * (1 - 2 / (9 * freedom) + 3.719 * (2 / (9 * freedom)) ** 0.5) ** 3
