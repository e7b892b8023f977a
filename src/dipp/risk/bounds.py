"""What a certificate allows an attacker to recognise or to guess, and the test of a measurement against it.

**The claim.** One of N people is drawn, all equally likely, and then a picture of that person by any law that may
differ from person to person. The attacker knows the N laws, sees the file of the picture, and names m people. If the
file is ε-differentially private for the whole picture, the right person is among the named ones with probability

    at most  m·e^ε/(m·e^ε + N − m).

*Proof.* Let q_x(k) be the probability of the file k for person x: the mean of P[k | picture] over the pictures of x.
P[k | p] ≤ e^ε·P[k | p'] for all pictures p and p', and a mean over p and over p' keeps this: q_x(k) ≤ e^ε·q_y(k) for
all x and y. Given k, let s be the sum of q_x(k) over the m named people. Each of the others has q_y(k) ≥ e^−ε·s/m. So
the posterior probability of the named ones is at most s/(s + (N − m)·e^−ε·s/m), which is the bound; and the mean over
k keeps it. ∎

It holds whether the picture is one that the attacker has or another one of the same person. It holds whatever else the
attacker was trained on, as long as that does not depend on the draws of the file. It does not hold for several files of
the same person, whose ε add up.

**What is known already.** Let the best possible attacker be right with probability p₀ before seeing the file, from
surroundings that were released as they are, for example. Afterwards nobody is right with a probability above

    p₀·e^ε/(1 + p₀·(e^ε − 1)).

*Proof.* Given the surroundings, let a person x have the probability p, at most that of the likeliest one. As above,
q_y(k) ≥ e^−ε·q_x(k) for all others, so after the file k it is at most p·e^ε/(p·e^ε + 1 − p). This grows with p and is
concave in p; so the mean over the surroundings is at most its value at the mean of the largest p, which is p₀. ∎

A p₀ that was measured with some attacker is at most the best possible one: the bound that follows from it is a guess.
"""

from __future__ import annotations

import math

from dipp.errors import DippError


def recognised(epsilon: float, people: int, named: int = 1) -> float:
    """Return the largest probability with which an attacker names the right one of equally likely people.

    Args:
        epsilon: Pure ε of the whole picture, or of the whole region that shows the person.
        people: N, the number of people whom the picture may show.
        named: m, the number of people whom the attacker may name; 1 by default.

    Returns:
        m·e^ε/(m·e^ε + N − m), from 0 to 1.

    Raises:
        DippError: ε is negative or not a number, or `named` is not from 1 to `people`.

    Example::

        recognised(1.0, people=40)  # 0.065: a blind guess is right with probability 0.025
    """
    if not epsilon >= 0 or not 1 <= named <= people:
        raise DippError(
            "epsilon and named",
            f"must satisfy epsilon ≥ 0 and 1 ≤ named ≤ people, got epsilon {epsilon}, named {named}, people {people}",
        )
    return named / (named + (people - named) * math.exp(-epsilon))


def chance(right: int, asked: int, bound: float) -> float:
    """Return an upper bound of the probability that at least `right` of `asked` independent guesses are right.

    The guesses may have different probabilities, as guesses about fixed probes have; their mean is at most `bound`. By
    Hoeffding's theorem of 1956, a sum of independent trials exceeds a number beyond its mean no more often than a
    binomial variable of the same mean.

    Args:
        right: Number of right guesses.
        asked: Number of all guesses.
        bound: Largest mean probability of a right guess that is allowed.

    Returns:
        A probability; 1 if `right` does not exceed the mean.
    """
    if right <= asked * bound + 1 or bound >= 1:
        return 1.0
    from scipy.stats import binom

    return float(binom.sf(right - 1, asked, bound))
