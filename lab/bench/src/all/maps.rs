//! Ordered maps, within step 6.

use crate::{
    error::Result,
    map::{self, MapPlan},
    report::Row,
    session::Session,
    unrest::worse,
};

/// Measures ordered maps. Rows say how unusual the machine was just before and after their rounds.
///
/// # Errors
/// Those of the engines and of a probe.
pub(super) fn measure(session: &mut Session, quick: bool) -> Result<()> {
    let (dir, machine) = (session.dir().to_owned(), session.machine.clone());
    let mut before = session.probe(true)?;
    map::measure(&MapPlan::of_all(quick), &dir, &machine, &mut |rows| {
        let after = session.probe(true)?;
        for row in rows {
            // A row comes once more when it is checked, long after it was measured.
            let known = session.rows.iter().find(|known| known.name == row.name && known.scenario == row.scenario);
            let unrest = known.map_or_else(|| worse(before, after), |known| known.unrest);
            session.replace(&Row { unrest, ..row });
        }
        before = after;
        Ok(())
    })
}
