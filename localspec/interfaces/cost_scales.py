"""What recent forwards take, relative to when they were measured: plain ones, and wide ones."""

from __future__ import annotations

from dataclasses import dataclass

# Variances of logarithms of seconds.
CHANCE = 0.01  # of one forward
BUSIER, DEARER = 5e-4, 1e-4  # that each round adds: the machine, or wide forwards, may have changed
COPIED = 0.04  # of wide forwards, where it was copied from fewer rows
AT_FIRST = 0.002  # of all, where plain rounds were just seen


@dataclass(slots=True)
class Scales:
    """Logarithms of what all forwards take, and of what wide ones take beyond that.

    A wide forward that took longer may come of a busy machine, or of a width that is dearer than
    thought. It moves both, by their variances, and the covariance keeps that it was either, until
    a plain forward shows which. Without that, drafts that take too long made plain rounds seem
    dearer, and went on: 8 rows lost 18% in simulation where draft tokens took 1.5 times as long,
    on a card whose costs were measured up to 9 tokens.
    """

    everything: float = 0.0
    wide: float = 0.0
    variance: float = AT_FIRST
    wide_variance: float = 0.0
    covariance: float = 0.0

    def copied(self) -> Scales:
        """Begin with what fewer rows took in wide forwards, and doubt that it is the same."""
        return Scales(wide=self.wide, wide_variance=self.wide_variance + COPIED)

    def note(self, surprise: float, *, wide: bool) -> None:
        """Share the logarithm of a surprise by the variances, as a Kalman filter does."""
        self.variance += BUSIER
        self.wide_variance += DEARER
        everything = self.variance + wide * self.covariance
        beyond = self.covariance + wide * self.wide_variance
        total = everything + wide * beyond + CHANCE
        self.everything += everything / total * surprise
        self.wide += beyond / total * surprise
        self.variance -= everything * everything / total
        self.covariance -= everything * beyond / total
        self.wide_variance -= beyond * beyond / total
