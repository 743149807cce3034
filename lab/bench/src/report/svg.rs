//! Charts as SVG, without a dependency: the same data give the same bytes.
//!
//! A chart is 860 units wide, paints its background, and takes all colours from classes that a style sheet sets for
//! light and for dark surroundings. Text is placed by an estimate of its width that is on the wide side, since
//! which font a reader has is not known.

mod bars;
mod canvas;
mod lines;
mod scale;

pub(crate) use bars::{Bar, Bars, Form, Group, Mark};
pub(crate) use canvas::Colour;
pub(crate) use lines::{Line, Lines, Panel};
pub(crate) use scale::Axis;

#[cfg(test)]
pub(crate) mod tests;
