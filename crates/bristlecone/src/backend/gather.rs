//! Answers to `read_many` that several places give together.

use bristlecone_core::{ObjRef, Object};

use super::Snapshot;
use crate::Error;

/// Answers to the questions of a [`Snapshot::read_many`], with gaps that the next place may fill.
pub(super) struct Answers<'s> {
    found: Vec<Option<Object<'s>>>,
    // How many of the questions are answered: behind them nothing is known.
    known: usize,
    bytes_max: usize,
}

impl<'s> Answers<'s> {
    /// Returns answers that begin with what was found already; gaps are `None`.
    pub(super) fn new(found: Vec<Option<Object<'s>>>, bytes_max: usize) -> Self {
        let known = found.len();
        let mut answers = Self { found, known, bytes_max };
        answers.end_behind_enough();
        answers
    }

    /// Leaves the questions behind the object with which the answers hold enough bytes.
    fn end_behind_enough(&mut self) {
        let mut bytes = 0;
        for (index, object) in self.found[..self.known].iter().enumerate() {
            bytes += object.as_ref().map_or(0, Object::read_bytes);
            if object.is_some() && bytes >= self.bytes_max {
                self.known = index + 1;
                break;
            }
        }
    }

    /// Asks a snapshot for what is not found yet, and calls `each` with what it had. `at` has all questions.
    ///
    /// # Errors
    /// As [`Snapshot::read_many`].
    pub(super) fn ask(
        &mut self,
        snapshot: &'s dyn Snapshot,
        at: &[ObjRef],
        mut each: impl FnMut(&ObjRef, &Object<'s>),
    ) -> Result<(), Error> {
        let gaps: Vec<usize> = (0..self.known).filter(|&question| self.found[question].is_none()).collect();
        let Some(&first) = gaps.first() else { return Ok(()) };
        let asked: Vec<ObjRef> = gaps.iter().map(|&question| at[question]).collect();
        match snapshot.read_many(&asked, self.bytes_max) {
            Ok(answers) => {
                self.known = gaps.get(answers.len()).copied().unwrap_or(self.known);
                for (question, answer) in gaps.into_iter().zip(answers) {
                    answer.iter().for_each(|object| each(&at[question], object));
                    self.found[question] = answer;
                }
                self.end_behind_enough();
            }
            // Answers end before one that cannot be read; its error comes when it is asked for first.
            Err(_) if first > 0 => self.known = first,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the answers.
    pub(super) fn finish(mut self) -> Vec<Option<Object<'s>>> {
        self.found.truncate(self.known);
        self.found
    }
}
