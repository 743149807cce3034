//! A store behind an async program: calls block, so they run on threads that may.
//!
//! ```text
//! cargo run -p bristlecone --example async_caller
//! ```

use bristlecone::{Durability, Error, Info, Repo, Result};
use tokio::{runtime::Builder, task::spawn_blocking};

/// Runs a piece of work on a thread that may block. Repositories, branches and trees are `Send`, and cheap to clone.
async fn with<T: Send + 'static>(repo: &Repo, work: impl FnOnce(Repo) -> Result<T> + Send + 'static) -> Result<T> {
    let repo = repo.clone();
    match spawn_blocking(move || work(repo)).await {
        Ok(done) => done,
        Err(failed) => Err(Error::backend("a blocking task", failed)),
    }
}

async fn visit(repo: Repo, name: String) -> Result<()> {
    // One closure for all that belongs together: a read, an edit and the commit are one hop to another thread.
    with(&repo, move |repo| {
        let info = Info::message(format!("{name} came")).durability(Durability::Grouped);
        repo.branch("visits")?.edit(&info, |tree| {
            tree.update(format!("count/{name}"), |old| Some([old.unwrap_or_default(), b"|"].concat()))
        })
    })
    .await
    .map(|_| ())
}

fn main() -> Result<()> {
    let runtime = Builder::new_current_thread().build().map_err(|error| Error::backend("the runtime", error))?;
    runtime.block_on(async {
        let repo = Repo::memory();
        // Commits of different tasks share writes and syncs where the backend can, however many wait.
        let tasks: Vec<_> = (0..30).map(|n| tokio::spawn(visit(repo.clone(), format!("guest {}", n % 3)))).collect();
        for task in tasks {
            task.await.map_err(|failed| Error::backend("a task", failed))??;
        }
        // A tree that was checked out is a value: it may cross await points.
        let tree = with(&repo, |repo| repo.branch("visits")?.tree()).await?;
        let visits =
            with(&repo, move |_| tree.get("count/guest 1").map(|value| value.map_or(0, |value| value.len()))).await?;
        println!("guest 1 came {visits} times");
        assert_eq!(visits, 10);
        Ok(())
    })
}
