//! The log, in whichever way its commits are found.

use std::sync::Arc;

use bristlecone_core::{Format, ObjRef, native::Native};

use super::{
    LogEntry, LogOptions, LogOrder,
    graph::is_numbered,
    lazy::LazyWalk,
    limited::Limited,
    order::{ByDate, Topological},
};
use crate::{Result, store::StoreView};

/// The commits of a log, loaded as they are asked for.
#[derive(Debug)]
pub struct Log<F: Format = Native> {
    store: Arc<StoreView<F>>,
    state: LogState<F>,
    // How many may still be given.
    left: usize,
}

#[derive(Debug)]
enum LogState<F: Format> {
    Start(Vec<ObjRef>, LogOptions),
    Date(Box<LazyWalk<F>>, ByDate),
    Topological(Box<LazyWalk<F>>, Topological),
    Limited(Box<Limited<F>>),
    Done,
}

impl<F: Format> Log<F> {
    pub(super) fn new(store: Arc<StoreView<F>>, heads: Vec<ObjRef>, options: LogOptions) -> Self {
        let left = options.limit.unwrap_or(usize::MAX);
        Self { store, left, state: LogState::Start(heads, options) }
    }

    fn advance(&mut self) -> Result<Option<LogEntry>> {
        if let LogState::Start(heads, options) = &mut self.state {
            let (heads, options) = (std::mem::take(heads), std::mem::take(options));
            self.state = LogState::start(&self.store, &heads, options)?;
        }
        match &mut self.state {
            LogState::Date(walk, order) => order.next(walk),
            LogState::Topological(walk, order) => order.next(walk),
            LogState::Limited(limited) => limited.next(),
            LogState::Start(..) | LogState::Done => Ok(None),
        }
    }
}

impl<F: Format> LogState<F> {
    fn start(store: &Arc<StoreView<F>>, heads: &[ObjRef], options: LogOptions) -> Result<Self> {
        let numbered = is_numbered(&*store.backend)?;
        let limited = match options.order {
            _ if !options.exclude.is_empty() && (!options.paths.is_empty() || !numbered) => true,
            LogOrder::Date => false,
            _ if options.since.is_some() || options.until.is_some() => true,
            LogOrder::TopologicalByDate => true,
            // A line of first parents comes after all children of each, also those that are reached another way.
            LogOrder::Topological => !numbered || options.first_parent,
        };
        if limited {
            return Ok(Self::Limited(Box::new(Limited::new(store.clone(), heads, options)?)));
        }
        let order = options.order;
        let mut walk = Box::new(LazyWalk::new(store.clone(), options));
        let heads = walk.heads(heads)?;
        Ok(match order {
            LogOrder::Date => {
                let order = ByDate::new(&mut walk, heads)?;
                Self::Date(walk, order)
            }
            _ => {
                let order = Topological::new(&mut walk, heads)?;
                Self::Topological(walk, order)
            }
        })
    }
}

impl<F: Format> Iterator for Log<F> {
    type Item = Result<LogEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let next = self.advance();
        if !matches!(next, Ok(Some(_))) {
            self.state = LogState::Done;
        }
        next.transpose()
    }
}
