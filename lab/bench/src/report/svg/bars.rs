//! Values beside labels: bars from zero on a linear axis, or points on one of decades, with the spread of the runs.

use super::{
    canvas::{Anchor, Colour, FIGURE_MAX, LABEL_MAX, MARGIN, Svg, TEXT, WIDTH, cut, text_width},
    scale::Scale,
};

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Bars from zero on a linear axis, of which each group has its own.
    Linear,
    /// Bars from zero, each label's on a scale of its own, without an axis.
    EachOwn,
    /// Points on an axis of decades around 1, for multiples.
    Ratios,
}

/// A chart of bars or points, in columns that share the labels at the left.
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
    /// How values are drawn.
    pub(crate) form: Form,
    /// Writes the value of a tick.
    pub(crate) tick: fn(f64) -> String,
    /// Writes the value beside a bar or point.
    pub(crate) value: fn(f64) -> String,
}

/// Some labels under a heading.
pub(crate) struct Group {
    /// The heading; one that is empty is not shown.
    pub(crate) title: String,
    /// The labels, in order.
    pub(crate) bars: Vec<Bar>,
}

/// A label with bars or points.
pub(crate) struct Bar {
    /// The label.
    pub(crate) label: String,
    /// For each column its values, in order.
    pub(crate) columns: Vec<Vec<Mark>>,
}

/// A value, and from where to where its runs went.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Its colour.
    pub(crate) colour: Colour,
    /// The median.
    pub(crate) value: f64,
    /// The least and the greatest.
    pub(crate) spread: (f64, f64),
}

/// A bar with the space below it.
const STEP: f64 = 15.0;
const THICK: f64 = 13.0;
/// Between one label and the next.
const GAP: f64 = 7.0;
/// A group's heading.
const HEAD: f64 = 24.0;
/// The ticks below a group, where it has an axis of its own.
const FOOT: f64 = 24.0;
/// A spread that is narrower is not seen.
const SPREAD_MIN: f64 = 2.0;
/// The least distance of the texts of two ticks.
const TICKS_APART: f64 = 8.0;

impl Bars {
    /// Draws the chart.
    pub(crate) fn draw(&self) -> String {
        let mut svg = Svg::new(&self.title, &self.about);
        let top = svg.legend(&self.legend) + if self.columns.iter().all(String::is_empty) { 4.0 } else { 22.0 };
        let columns = self.places();
        for (column, title) in columns.iter().zip(&self.columns) {
            svg.text(column.left, top - 8.0, Anchor::Start, "sub", title);
        }
        let mut y = top;
        for group in &self.groups {
            if !group.title.is_empty() {
                svg.text(MARGIN, y + 16.0, Anchor::Start, "sub", &group.title);
                y += HEAD;
            }
            let scale = self.scale(&group.bars);
            let bottom = y + group.height();
            columns.iter().for_each(|column| self.frame(&mut svg, column, &scale, (y, bottom)));
            for bar in &group.bars {
                let own = self.scale(std::slice::from_ref(bar));
                self.bar(&mut svg, bar, &columns, if self.form == Form::EachOwn { &own } else { &scale }, y);
                y += bar.height() + GAP;
            }
            y = if self.form == Form::EachOwn { bottom } else { bottom + FOOT };
        }
        svg.text(f64::midpoint(columns[0].left, WIDTH - MARGIN), y + 12.0, Anchor::Middle, "soft", &self.axis);
        svg.finish(y + 24.0)
    }

    fn figure(&self, value: f64) -> String {
        cut((self.value)(value), FIGURE_MAX)
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.groups.iter().flat_map(|group| &group.bars)
    }

    fn marks(&self) -> impl Iterator<Item = &Mark> {
        self.bars().flat_map(|bar| bar.columns.iter().flatten())
    }

    fn scale(&self, bars: &[Bar]) -> Scale {
        let marks = bars.iter().flat_map(|bar| bar.columns.iter().flatten());
        let values = marks.flat_map(|mark| [mark.value, mark.spread.0, mark.spread.1]);
        match self.form {
            Form::Linear | Form::EachOwn => Scale::of_bars(values),
            Form::Ratios => Scale::of_ratios(values),
        }
    }

    /// Returns where the columns are: right of the longest label, with room for values at their right ends.
    fn places(&self) -> Vec<Column> {
        let widest = |texts: &mut dyn Iterator<Item = f64>| texts.fold(0.0, f64::max);
        let labels = widest(&mut self.bars().map(|bar| text_width(&bar.text(), TEXT)));
        let values = widest(&mut self.marks().map(|mark| text_width(&self.figure(mark.value), TEXT)));
        let left = MARGIN + labels + 10.0;
        let count = self.columns.len().max(1);
        let width = (WIDTH - MARGIN - left) / count as f64;
        let column = |index: usize| {
            let left = left + index as f64 * width;
            Column { left, right: left + width - values - 12.0 }
        };
        (0..count).map(column).collect()
    }

    /// Draws the grid and the ticks of a column.
    fn frame(&self, svg: &mut Svg, column: &Column, scale: &Scale, (top, bottom): (f64, f64)) {
        let mut free = f64::NEG_INFINITY;
        let ticks = if self.form == Form::EachOwn { Vec::new() } else { scale.ticks() };
        for tick in ticks {
            let (x, text) = (column.at(scale, tick), cut((self.tick)(tick), FIGURE_MAX));
            svg.line((x, top), (x, bottom), "grid");
            let half = text_width(&text, TEXT) / 2.0;
            if x - half > free {
                svg.text(x, bottom + 14.0, Anchor::Middle, "soft", &text);
                free = x + half + TICKS_APART;
            }
        }
        let from = column.at(scale, self.origin());
        svg.line((from, top), (from, bottom), "axis");
    }

    /// Returns the value that others are seen against.
    const fn origin(&self) -> f64 {
        match self.form {
            Form::Linear | Form::EachOwn => 0.0,
            Form::Ratios => 1.0,
        }
    }

    fn bar(&self, svg: &mut Svg, bar: &Bar, columns: &[Column], scale: &Scale, y: f64) {
        svg.text(columns[0].left - 8.0, y + bar.height() / 2.0 + 4.0, Anchor::End, "", &bar.text());
        for (column, marks) in columns.iter().zip(&bar.columns) {
            for (index, mark) in marks.iter().enumerate() {
                let (y, x) = (y + index as f64 * STEP, column.at(scale, mark.value));
                let middle = y + THICK / 2.0;
                let (low, high) = (column.at(scale, mark.spread.0), column.at(scale, mark.spread.1));
                match self.form {
                    Form::Linear | Form::EachOwn => svg.rect(column.left, y, x - column.left, THICK, mark.colour),
                    Form::Ratios => svg.mark((x, middle), mark.colour),
                }
                if high - low >= SPREAD_MIN {
                    svg.line((low, middle), (high, middle), "spread");
                }
                svg.text(x.max(high) + 7.0, y + 10.5, Anchor::Start, "", &self.figure(mark.value));
            }
        }
    }
}

impl Group {
    fn height(&self) -> f64 {
        self.bars.iter().map(|bar| bar.height() + GAP).sum()
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
