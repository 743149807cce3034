//! What every chart is drawn with: shapes, text with its width, colours and their style sheet.

use std::fmt::Write;

/// The width of every chart.
pub(crate) const WIDTH: f64 = 860.0;
/// The size of labels, in units.
pub(super) const TEXT: f64 = 12.0;
/// Space between the edges and everything else.
pub(super) const MARGIN: f64 = 12.0;

/// What a colour means, in charts of memory and the disk engine; in others it stands for what their legend says. Tones
/// are those of Okabe and Ito, which people with any kind of colour vision can tell apart, some darker on light ground
/// and lighter on dark ground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// The memory backend.
    Memory,
    /// The disk engine, acknowledged after the write.
    DiskNone,
    /// The disk engine, acknowledged after the sync.
    DiskSynced,
    /// Anything else.
    Other,
    /// Beside that.
    Second,
    /// And beside both.
    Third,
}

impl Colour {
    const fn class(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::DiskNone => "none",
            Self::DiskSynced => "synced",
            Self::Other => "other",
            Self::Second => "second",
            Self::Third => "third",
        }
    }
}

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#1f2328}\
.back{fill:#ffffff}.head{font-size:15px;font-weight:600}.sub{font-weight:600}.soft{fill:#59636e}\
.grid{stroke:#d1d9e0}.axis{stroke:#818b98}.spread{stroke:#1f2328;stroke-opacity:.75}\
.memory{fill:#0072b2}.none{fill:#009e73}.synced{fill:#d55e00}.other{fill:#a64d88}\
.line-memory{stroke:#0072b2}.line-none{stroke:#009e73}.line-synced{stroke:#d55e00}.line-other{stroke:#a64d88}\
polyline{fill:none;stroke-width:2;stroke-linejoin:round}.dashed{stroke-dasharray:5 4}\
@media (prefers-color-scheme:dark){.back{fill:#0d1117}text{fill:#f0f6fc}.soft{fill:#9ea7b3}\
.grid{stroke:#3d444d}.axis{stroke:#9198a1}.spread{stroke:#f0f6fc}\
.memory{fill:#56b4e9}.none{fill:#00b887}.synced{fill:#f0701a}.other{fill:#cc79a7}\
.line-memory{stroke:#56b4e9}.line-none{stroke:#00b887}.line-synced{stroke:#f0701a}.line-other{stroke:#cc79a7}}";

/// What charts with more than one of the others have beside.
const STYLE_OTHERS: &str = "\
.second{fill:#8a6d00}.third{fill:#6e7781}.line-second{stroke:#8a6d00}.line-third{stroke:#6e7781}\
@media (prefers-color-scheme:dark){.second{fill:#e6b422}.third{fill:#9198a1}\
.line-second{stroke:#e6b422}.line-third{stroke:#9198a1}}";

/// Where a text is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A chart being drawn.
pub(super) struct Svg {
    body: String,
    title: String,
    about: String,
}

impl Svg {
    /// Begins a chart with a heading. `about` says in a sentence or two what it shows, for those who do not see it.
    pub(super) fn new(title: &str, about: &str) -> Self {
        let mut svg = Self { body: String::new(), title: title.into(), about: about.into() };
        svg.text(MARGIN, 24.0, Anchor::Start, "head", title);
        svg
    }

    pub(super) fn text(&mut self, x: f64, y: f64, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "",
            Anchor::Middle => " text-anchor=\"middle\"",
            Anchor::End => " text-anchor=\"end\"",
        };
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        let (x, y, text) = (number(x), number(y), escaped(text));
        let _ = writeln!(self.body, "<text x=\"{x}\" y=\"{y}\"{anchor}{class}>{text}</text>");
    }

    pub(super) fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, colour: Colour) {
        let (x, y, width, height) = (number(x), number(y), number(width.max(0.0)), number(height));
        let class = colour.class();
        let _ = writeln!(
            self.body,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"1.5\" class=\"{class}\"/>"
        );
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(number);
        let _ = writeln!(self.body, "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"/>");
    }

    pub(super) fn polyline(&mut self, points: &[(f64, f64)], colour: Colour, dashed: bool) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{},{}", number(*x), number(*y))).collect();
        let dashed = if dashed { " dashed" } else { "" };
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" class=\"line-{}{dashed}\"/>",
            points.join(" "),
            colour.class()
        );
    }

    /// Marks a point, in a shape of its own for each colour.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), colour: Colour) {
        let around = |points: &[(f64, f64)]| {
            let points: Vec<String> =
                points.iter().map(|(dx, dy)| format!("{},{}", number(x + dx), number(y + dy))).collect();
            format!("<polygon points=\"{}\" class=\"{}\"/>", points.join(" "), colour.class())
        };
        let mark = match colour {
            Colour::Memory => {
                format!("<circle cx=\"{}\" cy=\"{}\" r=\"3.5\" class=\"{}\"/>", number(x), number(y), colour.class())
            }
            Colour::DiskNone => around(&[(-3.2, -3.2), (3.2, -3.2), (3.2, 3.2), (-3.2, 3.2)]),
            Colour::DiskSynced => around(&[(0.0, -4.2), (4.2, 3.4), (-4.2, 3.4)]),
            Colour::Other | Colour::Second | Colour::Third => {
                around(&[(0.0, -4.5), (4.5, 0.0), (0.0, 4.5), (-4.5, 0.0)])
            }
        };
        self.body += &mark;
        self.body.push('\n');
    }

    /// Draws the legend below the heading, and returns where it ends.
    pub(super) fn legend(&mut self, entries: &[(Colour, String)]) -> f64 {
        let (mut x, mut y) = (MARGIN, 46.0);
        if entries.is_empty() {
            return y - 14.0;
        }
        for (colour, name) in entries {
            let width = 18.0 + text_width(name, TEXT) + 18.0;
            if x + width > WIDTH - MARGIN {
                (x, y) = (MARGIN, y + 20.0);
            }
            self.rect(x, y - 10.0, 12.0, 12.0, *colour);
            self.text(x + 18.0, y, Anchor::Start, "", name);
            x += width;
        }
        y + 12.0
    }

    /// Ends a chart of this height.
    pub(super) fn finish(self, height: f64) -> String {
        let (width, height) = (number(WIDTH), number(height));
        let (title, about) = (escaped(&self.title), escaped(&self.about));
        let more = [Colour::Second, Colour::Third].iter().any(|colour| {
            let class = colour.class();
            self.body.contains(&format!("class=\"{class}\"")) || self.body.contains(&format!("class=\"line-{class}"))
        });
        let others = if more { STYLE_OTHERS } else { "" };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\" aria-labelledby=\"title about\">\n<title id=\"title\">{title}</title>\n\
             <desc id=\"about\">{about}</desc>\n<style>{STYLE}{others}</style>\n\
             <rect x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\" class=\"back\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Writes a coordinate with at most one digit after the point. What is no number is drawn at 0.
fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

/// Returns text as XML has it, without the characters that XML cannot have.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Labels, and figures, have so many characters at most: whatever the data, there is room for what is drawn.
pub(super) const LABEL_MAX: usize = 40;
pub(super) const FIGURE_MAX: usize = 14;

/// Returns text of at most so many characters.
pub(super) fn cut(text: String, max: usize) -> String {
    if text.chars().count() <= max { text } else { text.chars().take(max - 1).chain(['…']).collect() }
}

/// Estimates how wide a text is at a size: that of a wide sans-serif font.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | ' ' => 0.33,
        'f' | 't' | 'r' | '-' | '(' | ')' | '/' | '+' => 0.42,
        'm' | 'w' | 'M' | 'W' => 0.95,
        c if c.is_uppercase() => 0.69,
        _ => 0.63,
    };
    text.chars().map(em).sum::<f64>() * size
}
