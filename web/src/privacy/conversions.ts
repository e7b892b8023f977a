/**
 * (ε, δ) from ρ: ρ-zCDP implies (ε, δ) with ε = ρα + ln((α − 1)/α) − (ln δ + ln α)/(α − 1) for every α > 1
 * [Canonne, Kamath & Steinke, 2020]. The best order is searched for; since each is valid, an imperfect search costs a
 * little ε and never the guarantee. See `dipp/privacy/conversions.py`.
 */

const UP = 1 + 2 ** -40;
const MAX_LOG_EXCESS = 200;
const SEARCH_STEPS = 160;

/** Return the smallest ε for which ρ-zCDP implies (ε, δ). */
export function epsilonOfZcdp(rho: number, delta: number): number {
  const logDelta = Math.log(delta);
  const bound = minimum((excess) => {
    const ratio = -Math.log1p(1 / excess);
    return rho * (1 + excess) + ratio - (logDelta + Math.log1p(excess)) / excess;
  });
  return Math.max(0, bound + (Math.abs(bound) + rho + 1) * (UP - 1));
}

/** Return the least value that a golden-section search over ln(α − 1) finds. */
function minimum(f: (excess: number) => number): number {
  const golden = (Math.sqrt(5) - 1) / 2;
  let [low, high] = [-MAX_LOG_EXCESS, MAX_LOG_EXCESS];
  let [left, right] = [high - golden * (high - low), low + golden * (high - low)];
  let [atLeft, atRight] = [f(Math.exp(left)), f(Math.exp(right))];
  let best = Math.min(atLeft, atRight);
  for (let i = 0; i < SEARCH_STEPS; i += 1) {
    if (atLeft <= atRight) {
      [high, right, atRight] = [right, left, atLeft];
      left = high - golden * (high - low);
      atLeft = f(Math.exp(left));
    } else {
      [low, left, atLeft] = [left, right, atRight];
      right = low + golden * (high - low);
      atRight = f(Math.exp(right));
    }
    best = Math.min(best, atLeft, atRight);
  }
  return best;
}
