//! What scenarios have in common: the commit that they start from, and the branches that they work on.

use bristlecone::{CommitId, Durability, Format, Repo, Tree};

use crate::{
    engine::Engine,
    error::Result,
    job::Job,
    workload::{Workload, info},
};

/// Commits a tree in which entry `n` has value `n`, on every branch of `names`; durable before anything is
/// timed.
pub(super) fn commit_base<F: Format>(
    engine: &Engine<F>,
    job: &Job,
    workload: &Workload,
    names: &[String],
) -> Result<()> {
    let repo = engine.repo();
    let mut tree: Tree<F> = repo.tree();
    for (n, path) in workload.paths.iter().enumerate() {
        tree.set(path, &workload.value(n + 1)[..])?;
    }
    let info = info(job, 0).durability(Durability::None);
    let head = repo.commit_tree(&mut tree, &[], &info)?;
    for name in names {
        point_branch(&repo, name, head)?;
    }
    repo.flush()?;
    Ok(())
}

fn point_branch<F: Format>(repo: &Repo<F>, name: &str, head: CommitId) -> Result<()> {
    repo.branch(name)?.compare_and_set(None, Some(head), Durability::None)?;
    Ok(())
}

/// Returns the numbers of the values that `commit_base` sets.
pub(super) fn base_values(workload: &Workload) -> Vec<usize> {
    (1..=workload.paths.len()).collect()
}

/// Returns the names of `count` branches.
pub(super) fn branch_names(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("task-{index}")).collect()
}
