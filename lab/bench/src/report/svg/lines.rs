//! Lines in panels: values over a common kind of axis.

use super::{
    canvas::{Anchor, Colour, FIGURE_MAX, MARGIN, Svg, TEXT, WIDTH, cut, text_width},
    scale::{Axis, Scale, Spread},
};

/// A chart of panels with lines.
pub(crate) struct Lines {
    /// The heading.
    pub(crate) title: String,
    /// What it shows, for those who do not see it.
    pub(crate) about: String,
    /// Which colours there are.
    pub(crate) legend: Vec<(Colour, String)>,
    /// How many panels stand side by side, at least 1.
    pub(crate) columns: usize,
    /// The panels, line by line.
    pub(crate) panels: Vec<Panel>,
    /// Points are marked.
    pub(crate) marks: bool,
}

/// A panel.
pub(crate) struct Panel {
    /// The heading.
    pub(crate) title: String,
    /// The axis below.
    pub(crate) x: Axis,
    /// The axis at the left.
    pub(crate) y: Axis,
    /// The lines.
    pub(crate) lines: Vec<Line>,
    /// Writes the value at the end of a line.
    pub(crate) value: fn(f64) -> String,
}

/// A line.
pub(crate) struct Line {
    /// Its colour.
    pub(crate) colour: Colour,
    /// It is dashed.
    pub(crate) dashed: bool,
    /// What stands before the value at its end; may be empty.
    pub(crate) name: String,
    /// Its points, from left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Writes the value of a tick.
pub(super) type Tick = fn(f64) -> String;

const HEIGHT: f64 = 170.0;
const HEAD: f64 = 26.0;
/// Ticks and the title of the axis below.
const FOOT: f64 = 48.0;
/// Texts at the ends of lines are at least so far apart.
const LABELS_APART: f64 = 14.0;
/// Points stay so far inside of the frame.
const INSET: f64 = 8.0;
/// At the right of a frame: room for a swatch before the value.
const SWATCH: f64 = 14.0;
/// Between panels that stand side by side.
const BESIDE: f64 = 18.0;

impl Lines {
    /// Draws the chart.
    pub(crate) fn draw(&self) -> String {
        let mut svg = Svg::new(&self.title, &self.about);
        let top = svg.legend(&self.legend) + 6.0;
        let columns = self.columns.max(1);
        let width = (WIDTH - 2.0 * MARGIN - BESIDE * (columns - 1) as f64) / columns as f64;
        // Frames that stand above each other are aligned.
        let sides = |column: usize| {
            let all = self.panels.iter().skip(column).step_by(columns).map(Panel::sides);
            all.fold((0.0, 0.0), |(left, right): (f64, f64), side| (left.max(side.0), right.max(side.1)))
        };
        let sides: Vec<(f64, f64)> = (0..columns).map(sides).collect();
        for (index, panel) in self.panels.iter().enumerate() {
            let x = MARGIN + (index % columns) as f64 * (width + BESIDE);
            let y = top + (index / columns) as f64 * (HEAD + HEIGHT + FOOT);
            panel.draw(&mut svg, (x, y), width, sides[index % columns], self.marks);
        }
        svg.finish(top + self.panels.len().div_ceil(columns) as f64 * (HEAD + HEIGHT + FOOT) + 4.0)
    }
}

/// The frame of a panel, and its scales.
struct Frame {
    left: f64,
    right: f64,
    top: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

impl Frame {
    fn at(&self, (x, y): (f64, f64)) -> (f64, f64) {
        (self.across(x), self.bottom - self.y.at(y) * (self.bottom - self.top))
    }

    fn across(&self, x: f64) -> f64 {
        let (left, right) = (self.left + INSET, self.right - INSET);
        left + self.x.at(x) * (right - left)
    }
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.lines.iter().flat_map(|line| &line.points)
    }

    fn y_scale(&self) -> Scale {
        Scale::of_lines(self.y.spread, self.points().map(|point| point.1))
    }

    /// Returns how much room ticks need at the left, and values at the right.
    fn sides(&self) -> (f64, f64) {
        let widest =
            |texts: &mut dyn Iterator<Item = String>| texts.map(|text| text_width(&text, TEXT)).fold(0.0, f64::max);
        let ticks = widest(&mut self.y_scale().ticks().into_iter().map(|tick| self.y.text(tick)));
        let ends = widest(&mut self.lines.iter().filter_map(|line| self.end(line)).map(|(_, text)| text));
        (ticks + 8.0, ends + SWATCH)
    }

    fn draw(&self, svg: &mut Svg, (x, y): (f64, f64), width: f64, sides: (f64, f64), marks: bool) {
        let frame = Frame {
            left: x + sides.0,
            right: x + width - sides.1,
            top: y + HEAD,
            bottom: y + HEAD + HEIGHT,
            x: Scale::exactly(self.x.spread, self.points().map(|point| point.0)),
            y: self.y_scale(),
        };
        svg.text(x, y + 14.0, Anchor::Start, "sub", &self.title);
        let titles = text_width(&self.title, TEXT * 1.1);
        svg.text(x + titles + 10.0, y + 14.0, Anchor::Start, "soft", &self.y.title);
        self.grid(svg, &frame);
        for line in &self.lines {
            let places: Vec<(f64, f64)> = line.points.iter().map(|point| frame.at(*point)).collect();
            svg.polyline(&places, line.colour, line.dashed);
            if marks {
                places.iter().for_each(|place| svg.mark(*place, line.colour));
            }
        }
        self.ends(svg, &frame);
    }

    fn grid(&self, svg: &mut Svg, frame: &Frame) {
        let Frame { left, right, top, bottom, .. } = *frame;
        for tick in frame.y.ticks() {
            let y = bottom - frame.y.at(tick) * (bottom - top);
            svg.line((left, y), (right, y), "grid");
            svg.text(left - 6.0, y + 4.0, Anchor::End, "soft", &self.y.text(tick));
        }
        let mut free = f64::NEG_INFINITY;
        for tick in frame.x.ticks() {
            let (x, text) = (frame.across(tick), self.x.text(tick));
            svg.line((x, bottom), (x, bottom + 4.0), "axis");
            let half = text_width(&text, TEXT) / 2.0;
            if x - half > free {
                svg.text(x, bottom + 17.0, Anchor::Middle, "soft", &text);
                free = x + half + 6.0;
            }
        }
        svg.line((left, bottom), (right, bottom), "axis");
        svg.text(f64::midpoint(left, right), bottom + 35.0, Anchor::Middle, "soft", &self.x.title);
    }

    /// Returns the last value of a line and what is written at its end.
    fn end(&self, line: &Line) -> Option<(f64, String)> {
        let (_, value) = line.points.last()?;
        let text = format!("{} {}", line.name, cut((self.value)(*value), FIGURE_MAX));
        Some((*value, text.trim_start().to_owned()))
    }

    /// Writes the values at the ends of the lines, pushed apart where they would lie on each other.
    fn ends(&self, svg: &mut Svg, frame: &Frame) {
        let end = |line: &Line| {
            let (value, text) = self.end(line)?;
            let (x, _) = frame.at(*line.points.last()?);
            Some((frame.at((0.0, value)).1 + 4.0, x, text, line.colour))
        };
        let mut labels: Vec<(f64, f64, String, Colour)> = self.lines.iter().filter_map(end).collect();
        labels.sort_by(|one, other| one.0.total_cmp(&other.0));
        // From above each is pushed below the one before; then, from below, all back into the frame.
        for index in 1..labels.len() {
            labels[index].0 = labels[index].0.max(labels[index - 1].0 + LABELS_APART);
        }
        let mut lowest = frame.bottom + 4.0;
        for label in labels.iter_mut().rev() {
            label.0 = label.0.min(lowest);
            lowest = label.0 - LABELS_APART;
        }
        for (y, x, text, colour) in labels {
            svg.rect(x + 9.0, y - 8.0, 8.0, 8.0, colour);
            svg.text(x + 21.0, y, Anchor::Start, "", &text);
        }
    }
}

impl Axis {
    fn text(&self, tick: f64) -> String {
        cut((self.tick)(tick), FIGURE_MAX)
    }

    /// An axis spread evenly.
    pub(crate) fn linear(title: &str, tick: Tick) -> Self {
        Self { title: title.into(), spread: Spread::Linear, tick }
    }

    /// An axis spread by decades.
    pub(crate) fn log(title: &str, tick: Tick) -> Self {
        Self { title: title.into(), spread: Spread::Log, tick }
    }
}
