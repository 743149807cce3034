//! From values to places along an axis, and where its ticks are.

/// How values are spread along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// Evenly, from 0.
    Linear,
    /// By decades.
    Log,
}

/// An axis: its title with the unit, how values are spread, and how ticks are written.
#[derive(Clone)]
pub(crate) struct Axis {
    /// What it measures, with the unit.
    pub(crate) title: String,
    /// How values are spread.
    pub(crate) spread: Spread,
    /// Writes the value of a tick.
    pub(crate) tick: fn(f64) -> String,
}

/// The range of an axis, fitted to values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    spread: Spread,
    /// The ends; of `Log` their logarithms.
    low: f64,
    high: f64,
}

impl Scale {
    /// Returns the range of an axis on which lines are drawn.
    pub(super) fn of_lines(spread: Spread, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values);
        match spread {
            Spread::Linear => Self::linear(high),
            Spread::Log => {
                let (low, high) = (low.log10(), high.log10());
                // A little air, so that points on a tick are not on the frame.
                let (low, high) = (low - 0.05, high + 0.05);
                Self { spread, low: floor_to(low, 0.5), high: ceil_to(high.max(low + 0.5), 0.5) }
            }
        }
    }

    /// Returns the range of an axis whose ends are exactly the least and the greatest value.
    pub(super) fn exactly(spread: Spread, values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values);
        match spread {
            Spread::Linear => Self { spread, low: 0.0, high },
            Spread::Log => {
                let (low, high) = (low.log10(), high.log10());
                Self { spread, low, high: high.max(low + 0.1) }
            }
        }
    }

    /// Returns the range of an axis along which bars are drawn: from zero, so that lengths are as values are.
    pub(super) fn of_bars(values: impl Iterator<Item = f64>) -> Self {
        let (_, high) = ends(values);
        Self { spread: Spread::Linear, low: 0.0, high }
    }

    /// Returns the range of an axis on which multiples are drawn, at both sides of 1.
    pub(super) fn of_ratios(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = ends(values.chain([1.0]));
        let (low, high) = (low.log10(), high.log10());
        Self { spread: Spread::Log, low: low.min(-0.05), high: high.max(0.3) }
    }

    fn linear(high: f64) -> Self {
        let step = step(high);
        Self { spread: Spread::Linear, low: 0.0, high: (high / step).ceil().max(1.0) * step }
    }

    /// Returns where a value is, 0 at the low end and 1 at the high end; what lies outside is at an end.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = match self.spread {
            Spread::Linear => value,
            Spread::Log => value.max(f64::MIN_POSITIVE).log10(),
        };
        let place = (value - self.low) / (self.high - self.low);
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns the values that get a tick, rising.
    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.spread {
            Spread::Linear => {
                let step = step(self.high);
                let count = (self.high / step + 1e-9).floor() as usize;
                (0..=count.min(20)).map(|index| index as f64 * step).collect()
            }
            Spread::Log => {
                let decades = self.high - self.low;
                let within: &[f64] = if decades < 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
                let every = (decades / 8.0).ceil().max(1.0) as usize;
                let all =
                    (first..=last).step_by(every).flat_map(|decade| within.iter().map(move |m| m * 10f64.powi(decade)));
                let inside = |tick: &f64| tick.log10() >= self.low - 1e-9 && tick.log10() <= self.high + 1e-9;
                all.filter(inside).collect()
            }
        }
    }
}

/// Returns the least and the greatest value that can be drawn, or 1 and 10 if there is none.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values.filter(|value| value.is_finite() && *value > 0.0) {
        (low, high) = (low.min(value), high.max(value));
    }
    if low > high { (1.0, 10.0) } else { (low, high) }
}

/// Returns a round step that divides a range into 2 to 5 parts.
fn step(high: f64) -> f64 {
    let rough = high.max(f64::MIN_POSITIVE) / 4.0;
    let decade = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * decade >= rough * 0.999);
    step.unwrap_or(10.0) * decade
}

fn floor_to(value: f64, unit: f64) -> f64 {
    (value / unit).floor() * unit
}

fn ceil_to(value: f64, unit: f64) -> f64 {
    (value / unit).ceil() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let ticks = |spread, values: &[f64]| Scale::of_lines(spread, values.iter().copied()).ticks();
        assert_eq!(ticks(Spread::Linear, &[3.0, 87.0]), [0.0, 50.0, 100.0]);
        assert_eq!(ticks(Spread::Linear, &[0.0]), [0.0, 5.0, 10.0]);
        assert_eq!(ticks(Spread::Log, &[30.0, 40_000.0]), [10.0, 100.0, 1000.0, 10_000.0, 100_000.0]);
        assert_eq!(ticks(Spread::Log, &[100.0, 101.0]), [50.0, 100.0, 200.0]);
        assert!(ticks(Spread::Log, &[f64::NAN, -1.0]).len() > 1);
        assert!(ticks(Spread::Log, &[f64::MIN_POSITIVE, f64::MAX]).iter().all(|tick| tick.is_finite()));
        assert!(ticks(Spread::Linear, &[f64::MAX]).len() <= 21);
    }

    #[test]
    fn places_are_between_the_ends() {
        let scale = Scale::of_bars([3000.0, 1e6].into_iter());
        assert_eq!((scale.at(0.0), scale.at(0.25e6), scale.at(1e6)), (0.0, 0.25, 1.0), "lengths are as values are");
        for strange in [f64::NAN, f64::INFINITY, -5.0, 0.0] {
            assert!((0.0..=1.0).contains(&scale.at(strange)), "{strange}");
        }
        let ratios = Scale::of_ratios([10.0].into_iter());
        assert!(ratios.at(1.0) > 0.0 && ratios.at(0.5) < ratios.at(1.0));
    }
}
