"""How llama.cpp's threads wait for each other, decided before OpenMP is loaded.

GNU OpenMP lets threads spin for milliseconds, and where another program wants a core, each token
waits for a thread that is not running: with one busy process beside two threads on two cores,
SmolLM2-135M in Q8_0 went down from 140 tokens a second to between 7 and 48. Spinning for a shorter
time keeps 31 to 38 of them and costs nothing on a quiet machine, where not to spin at all costs
half.
"""

from __future__ import annotations

import os

SPINS = "1000"
ASKED = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")  # by which a user decides

if not any(name in os.environ for name in ASKED):
    os.environ["GOMP_SPINCOUNT"] = SPINS
