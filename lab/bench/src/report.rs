//! Results: rows of JSON first, and the tables, charts and pages that are made from them.

mod beside;
mod chain;
pub(crate) mod charts;
mod figures;
pub mod json;
pub(crate) mod page;
mod places;
pub(crate) mod published;
pub mod readme;
mod row;
mod select;
pub mod share;
mod svg;
pub mod table;
pub(crate) mod views;

pub use chain::{ChainFigures, ChainSample};
pub use figures::{GcFigures, GcSample, GiantFigures, ImportFigures, MapFigures, ReplayFigures, Rows, SampleFigures};
pub(crate) use places::same_machine;
pub(crate) use row::middle;
pub use row::{Row, median};
pub(crate) use select::BESIDE_IRMIN;
#[cfg(test)]
pub(crate) use svg::tests as svg_tests;
pub use views::sections;
pub(crate) use views::{print, show, show_checked};
