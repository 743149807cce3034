//! Results: rows of JSON first, and the tables that are made from them.

pub mod json;
mod peers;
pub mod readme;
mod row;
pub mod share;
pub mod table;
mod views;

pub use row::{Row, median};
pub use views::sections;
