//! Charts of made-up data, and a look at whether a file is XML with finite figures.

use super::{
    canvas::{TEXT, text_width},
    lines::Tick,
    *,
};
use crate::report::table::{count, rate};

/// Checks that a chart is well-formed: tags are balanced, text is escaped, figures are finite, nothing is outside.
pub(crate) fn check(svg: &str) {
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\"") && svg.ends_with("</svg>\n"), "{svg}");
    for wrong in ["\"NaN", "\"inf", "\"-inf", ",NaN", ",inf", "\u{0}"] {
        assert!(!svg.contains(wrong), "{wrong}: {svg}");
    }
    let mut open: Vec<&str> = Vec::new();
    for part in svg.split('<').skip(1) {
        let (tag, text) = part.split_once('>').unwrap_or_else(|| panic!("a tag has no end: {part}"));
        assert!(!text.contains('>') || open.last() == Some(&"style"), "text is escaped: {text}");
        assert_eq!(tag.matches('"').count() % 2, 0, "attributes are quoted: {tag}");
        let name = tag.split([' ', '/']).find(|name| !name.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "tags are balanced");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        for and in text.match_indices('&').map(|(index, _)| &text[index..]) {
            assert!(["&amp;", "&lt;", "&gt;", "&quot;"].iter().any(|known| and.starts_with(known)), "{and}");
        }
    }
    assert!(open.is_empty(), "{open:?} have no end");
    inside(svg);
}

/// Checks that every text, by its estimated width, and every shape is inside of the chart.
fn inside(svg: &str) {
    let attribute = |tag: &str, name: &str| -> Option<f64> {
        let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
        rest.split('"').next()?.parse().ok()
    };
    let head = svg.lines().next().unwrap();
    let (width, height) = (attribute(head, "width").unwrap(), attribute(head, "height").unwrap());
    for line in svg.lines().skip(1) {
        let (Some(x), Some(y)) = (attribute(line, "x"), attribute(line, "y")) else { continue };
        let text = line.split_once('>').map_or("", |(_, rest)| rest.trim_end_matches("</text>"));
        let text = &text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
        let wide =
            if line.starts_with("<text") { text_width(text, TEXT) } else { attribute(line, "width").unwrap_or(0.0) };
        let left = match () {
            () if line.contains("\"middle\"") => x - wide / 2.0,
            () if line.contains("\"end\"") => x - wide,
            () => x,
        };
        assert!(left >= 0.0 && left + wide <= width + 0.5, "{line} is from {left} to {} of {width}", left + wide);
        assert!(y >= 0.0 && y <= height, "{line} is outside of {height}");
    }
}

fn bars(values: &[f64], form: Form) -> String {
    let mark = |colour, value: f64| Mark { colour, value, spread: (value * 0.9, value * 1.2) };
    let bar = |value: &f64| Bar {
        label: format!("a <label> & \"{value}\""),
        columns: vec![vec![mark(Colour::Memory, *value), mark(Colour::DiskSynced, value * 2.0)]; 2],
    };
    let chart = Bars {
        title: "Bars".into(),
        about: "1 < 2".into(),
        axis: "operations per second".into(),
        legend: vec![(Colour::Memory, "memory".into())],
        columns: vec!["one".into(), "two".into()],
        groups: vec![Group { title: "group".into(), bars: values.iter().map(bar).collect() }],
        form,
        tick: count,
        value: rate,
    };
    chart.draw()
}

fn lines(points: &[(f64, f64)], axis: impl Fn(&str, Tick) -> Axis) -> String {
    let line = |colour, dashed| Line { colour, dashed, name: "p50".into(), points: points.to_vec() };
    let panel = || Panel {
        title: "panel".into(),
        x: axis("tasks", count),
        y: axis("commits per second", count),
        lines: vec![line(Colour::DiskNone, false), line(Colour::DiskSynced, true), line(Colour::Other, false)],
        value: rate,
    };
    let chart = Lines {
        title: "Lines".into(),
        about: String::new(),
        legend: vec![(Colour::DiskNone, "a name that is rather long".into()); 9],
        columns: 2,
        panels: vec![panel(), panel(), panel()],
        marks: true,
    };
    chart.draw()
}

#[test]
fn charts_are_well_formed_and_the_same_each_time() {
    for form in [Form::Linear, Form::EachOwn, Form::Ratios] {
        let values = [0.14, 1.0, 152.3, 3.2e6];
        let svg = bars(&values, form);
        check(&svg);
        assert_eq!(svg, bars(&values, form));
        for text in ["Bars", "a &lt;label&gt; &amp; &quot;152.3&quot;", "3.20 M", "operations per second", "1 &lt; 2"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
    let points = [(1.0, 250.0), (1000.0, 2.5e6), (100_000.0, 9.1e6)];
    for axis in [Axis::linear, Axis::log] {
        let svg = lines(&points, axis);
        check(&svg);
        assert_eq!(svg, lines(&points, axis));
        for text in ["panel", "tasks", "p50 9.10 M", "commits per second"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }
}

#[test]
fn a_bar_is_as_long_as_its_value_and_a_line_says_its_spread() {
    let svg = bars(&[100.0, 400.0], Form::Linear);
    let attribute = |line: &str, name: &str| -> f64 {
        let (_, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
        rest.split('"').next().unwrap().parse().unwrap()
    };
    let bars: Vec<&str> = svg.lines().filter(|line| line.contains("height=\"13\"")).collect();
    let lengths: Vec<f64> = bars.iter().map(|line| attribute(line, "width")).collect();
    // 100 and 200, twice, then 400 and 800.
    for (length, times) in lengths.iter().zip([1.0, 2.0, 1.0, 2.0, 4.0, 8.0, 4.0, 8.0]) {
        assert!((length - times * lengths[0]).abs() < 0.5, "{lengths:?}");
    }
    assert_eq!(lengths.len(), 8);
    let spreads: Vec<&str> = svg.lines().filter(|line| line.contains("\"spread\"")).collect();
    let (first, bar) = (attribute(spreads[0], "x1"), attribute(bars[0], "x") + lengths[0]);
    assert!(first < bar && bar < attribute(spreads[0], "x2"), "{first} {bar}");
    assert_eq!(spreads.len(), 8);
}

#[test]
fn a_chart_paints_its_background_before_all_else() {
    for svg in [bars(&[1.0], Form::Ratios), lines(&[(1.0, 2.0)], Axis::linear)] {
        let first = svg.lines().find(|line| line.starts_with("<rect")).unwrap();
        assert!(first.contains("class=\"back\"") && first.contains("width=\"860\""), "{first}");
        assert!(svg.contains(".back{fill:#ffffff}") && svg.contains("dark){.back{fill:#0d1117}"));
    }
}

#[test]
fn strange_figures_do_not_break_a_chart() {
    let strange = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, f64::MIN_POSITIVE, 1e300];
    check(&bars(&[], Form::Linear));
    check(&lines(&[], Axis::log));
    for value in strange {
        for form in [Form::Linear, Form::EachOwn, Form::Ratios] {
            check(&bars(&[value, 5.0], form));
        }
        for axis in [Axis::linear, Axis::log] {
            check(&lines(&[(value, 1.0), (2.0, value)], axis));
        }
    }
}

#[test]
fn values_at_the_ends_of_lines_do_not_lie_on_each_other() {
    let svg = lines(&[(1.0, 10.0), (2.0, 10.0)], Axis::linear);
    let of_first_panel = svg.lines().filter(|line| line.contains(">p50 10<")).take(3);
    let mut places: Vec<f64> = of_first_panel
        .map(|line| line.split("y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap())
        .collect();
    places.sort_by(f64::total_cmp);
    assert_eq!(places.len(), 3);
    assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 13.9), "{places:?}");
}
