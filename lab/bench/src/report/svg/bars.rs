//! Bars that lie: a label at the left, the value at the end.

use super::{
    canvas::{Anchor, Colour, FIGURE_MAX, LABEL_MAX, MARGIN, Svg, TEXT, WIDTH, cut, text_width},
    scale::Scale,
};

/// A chart of bars, in columns that share the labels at the left.
pub(crate) struct Bars {
    /// The heading.
    pub(crate) title: String,
    /// What it shows, for those who do not see it.
    pub(crate) about: String,
    /// What the axis measures, with the unit.
    pub(crate) axis: String,
    /// Which colours there are.
    pub(crate) legend: Vec<(Colour, String)>,
    /// The headings of the columns; one that is empty is not shown.
    pub(crate) columns: Vec<String>,
    /// The labels with their bars, in groups.
    pub(crate) groups: Vec<Group>,
    /// Bars begin at 1 and go to both sides, in place of beginning at the low end.
    pub(crate) ratios: bool,
    /// Writes the value of a tick.
    pub(crate) tick: fn(f64) -> String,
    /// Writes the value at the end of a bar.
    pub(crate) value: fn(f64) -> String,
}

/// Some labels under a heading.
pub(crate) struct Group {
    /// The heading; one that is empty is not shown.
    pub(crate) title: String,
    /// The labels, in order.
    pub(crate) bars: Vec<Bar>,
}

/// A label with bars.
pub(crate) struct Bar {
    /// The label.
    pub(crate) label: String,
    /// For each column its bars, in order.
    pub(crate) columns: Vec<Vec<(Colour, f64)>>,
}

/// A bar with the space below it.
const STEP: f64 = 15.0;
const THICK: f64 = 13.0;
/// Between one label and the next.
const GAP: f64 = 7.0;
/// A group's heading.
const HEAD: f64 = 24.0;
/// The least distance of the texts of two ticks.
const TICKS_APART: f64 = 8.0;

impl Bars {
    /// Draws the chart.
    pub(crate) fn draw(&self) -> String {
        let mut svg = Svg::new(&self.title, &self.about);
        let top = svg.legend(&self.legend) + if self.columns.iter().all(String::is_empty) { 4.0 } else { 22.0 };
        let columns = self.places();
        let scale = self.scale();
        let bottom = top + self.groups.iter().map(|group| self.height(group)).sum::<f64>();
        for (column, title) in columns.iter().zip(&self.columns) {
            self.frame(&mut svg, column, title, &scale, (top, bottom));
        }
        let mut y = top;
        for group in &self.groups {
            if !group.title.is_empty() {
                svg.text(MARGIN, y + 16.0, Anchor::Start, "sub", &group.title);
                y += HEAD;
            }
            for bar in &group.bars {
                self.bar(&mut svg, bar, &columns, &scale, y);
                y += bar.height() + GAP;
            }
        }
        svg.text(f64::midpoint(columns[0].left, WIDTH - MARGIN), bottom + 36.0, Anchor::Middle, "soft", &self.axis);
        svg.finish(bottom + 48.0)
    }

    fn figure(&self, value: f64) -> String {
        cut((self.value)(value), FIGURE_MAX)
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|group| &group.bars)
    }

    fn values(&self) -> impl Iterator<Item = f64> {
        self.bars().flat_map(|bar| bar.columns.iter().flatten().map(|(_, value)| *value))
    }

    fn scale(&self) -> Scale {
        if self.ratios { Scale::of_ratios(self.values()) } else { Scale::of_bars(self.values()) }
    }

    fn height(&self, group: &Group) -> f64 {
        let head = if group.title.is_empty() { 0.0 } else { HEAD };
        head + group.bars.iter().map(|bar| bar.height() + GAP).sum::<f64>()
    }

    /// Returns where the columns are: right of the longest label, with room for values at their right ends.
    fn places(&self) -> Vec<Column> {
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let labels = widest(&mut self.bars().map(|bar| text_width(&bar.text(), TEXT)));
        let values = widest(&mut self.values().map(|value| text_width(&self.figure(value), TEXT)));
        let left = MARGIN + labels + 10.0;
        let count = self.columns.len().max(1);
        let width = (WIDTH - MARGIN - left) / count as f64;
        let column = |index: usize| {
            let left = left + index as f64 * width;
            Column { left, right: left + width - values - 10.0 }
        };
        (0..count).map(column).collect()
    }

    /// Draws the grid and the ticks of a column.
    fn frame(&self, svg: &mut Svg, column: &Column, title: &str, scale: &Scale, (top, bottom): (f64, f64)) {
        svg.text(column.left, top - 8.0, Anchor::Start, "sub", title);
        let mut free = f64::NEG_INFINITY;
        for tick in scale.ticks() {
            let (x, text) = (column.at(scale, tick), cut((self.tick)(tick), FIGURE_MAX));
            svg.line((x, top), (x, bottom), "grid");
            let half = text_width(&text, TEXT) / 2.0;
            if x - half > free {
                svg.text(x, bottom + 16.0, Anchor::Middle, "soft", &text);
                free = x + half + TICKS_APART;
            }
        }
        let from = if self.ratios { column.at(scale, 1.0) } else { column.left };
        svg.line((from, top), (from, bottom), "axis");
    }

    fn bar(&self, svg: &mut Svg, bar: &Bar, columns: &[Column], scale: &Scale, y: f64) {
        svg.text(columns[0].left - 8.0, y + bar.height() / 2.0 + 4.0, Anchor::End, "", &bar.text());
        for (column, bars) in columns.iter().zip(&bar.columns) {
            for (index, (colour, value)) in bars.iter().enumerate() {
                let y = y + index as f64 * STEP;
                let (from, to) =
                    (if self.ratios { column.at(scale, 1.0) } else { column.left }, column.at(scale, *value));
                svg.rect(from.min(to), y, (to - from).abs(), THICK, *colour);
                svg.text(from.max(to) + 5.0, y + 10.5, Anchor::Start, "", &self.figure(*value));
            }
        }
    }
}

impl Bar {
    fn text(&self) -> String {
        cut(self.label.clone(), LABEL_MAX)
    }

    fn height(&self) -> f64 {
        self.columns.iter().map(Vec::len).max().unwrap_or(0).max(1) as f64 * STEP
    }
}

/// From where to where a column's bars can go.
struct Column {
    left: f64,
    right: f64,
}

impl Column {
    fn at(&self, scale: &Scale, value: f64) -> f64 {
        self.left + scale.at(value) * (self.right - self.left)
    }
}
