"""The way in which llama.cpp's threads wait for each other, chosen before OpenMP is loaded.

GNU OpenMP lets threads spin for milliseconds, and where other programs want the cores, each token
waits for a thread that is not running. SmolLM2-135M in Q8_0 with two threads on two cores, tokens a
second: 140 alone, 7 to 10 beside other programs with threads, 44 to 48 beside one busy loop. With
1,000 spins: 140, 31, 37. Not to spin at all gives 80 beside others, but 40 to 80 alone.
"""

from __future__ import annotations

import os

SPINS = "1000"
ASKED = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")  # by which a user decides

if not any(name in os.environ for name in ASKED):
    os.environ["GOMP_SPINCOUNT"] = SPINS
