//! What a merge will read of the names that are still to come.

use std::vec;

use bristlecone_core::{Format, Kind, ObjRef, Source, Task};

use super::{Changed, Version, changes, unchanged};
use crate::store::StoreView;

/// A part of a merge that is still to come.
pub(super) struct MergeTask<'m, F> {
    store: &'m StoreView<F>,
    part: MergeTaskPart,
}

enum MergeTaskPart {
    /// A name that theirs changed, of a directory of ours.
    Name { ours: Option<ObjRef>, changed: Changed },
    /// Directories of that name: base, ours, theirs.
    Dirs([Option<ObjRef>; 3]),
    /// A directory of ours, which is known as soon as those that are compared.
    Ours(ObjRef),
    /// A name of a directory of ours that will be changed.
    Update { ours: ObjRef, step: Vec<u8>, removes: bool },
}

/// Returns the parts that these names of a directory of ours are.
pub(super) fn names<'m, F: Format>(
    store: &'m StoreView<F>,
    ours: Option<ObjRef>,
    changed: &[Changed],
) -> vec::IntoIter<MergeTask<'m, F>> {
    let part = |changed: &Changed| MergeTask { store, part: MergeTaskPart::Name { ours, changed: changed.clone() } };
    changed.iter().map(part).collect::<Vec<_>>().into_iter()
}

impl<F: Format> Task for MergeTask<'_, F> {
    type Below = vec::IntoIter<Self>;

    fn try_out<S: Source>(&self, source: &S) -> Result<Self::Below, S::Error> {
        let (store, format) = (self.store, &self.store.format);
        let mut below = Vec::new();
        match &self.part {
            MergeTaskPart::Name { ours, changed: (step, before, after) } => {
                let here = match ours {
                    Some(dir) => format.find(source, dir, step)?,
                    None => None,
                };
                let here = here.map(|(kind, target)| Version::new(kind, target));
                let [base, mine, theirs] = [before, &here, after].map(|one| one.as_ref().and_then(Version::dir));
                if unchanged(base, mine, theirs).is_none() {
                    below.push(MergeTaskPart::Dirs([base, mine, theirs]));
                    below.extend(mine.map(MergeTaskPart::Ours));
                }
                if let Some(dir) = ours
                    && here != *after
                {
                    below.push(MergeTaskPart::Update { ours: *dir, step: step.clone(), removes: after.is_none() });
                }
            }
            MergeTaskPart::Dirs([base, ours, theirs]) => {
                let name = |changed| MergeTaskPart::Name { ours: *ours, changed };
                below.extend(changes(format, source, *base, *theirs)?.into_iter().map(name));
            }
            MergeTaskPart::Ours(dir) => _ = source.read(Kind::Node, dir)?,
            MergeTaskPart::Update { ours, step, removes } => format.read_for_update(source, ours, step, *removes)?,
        }
        Ok(below.into_iter().map(|part| Self { store, part }).collect::<Vec<_>>().into_iter())
    }
}
