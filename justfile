# One line each; anything with logic is a Rust test or binary, or .ci/run.

ci:
    bash .ci/run

test:
    cargo test --workspace

# The tree suite, its rows kept and written into the README.
bench:
    cargo run --release -- bench --optims --json docs/results/tree-suite.json --readme README.md

# Over a million crash points; 100 million model operations.
long:
    BRISTLECONE_CRASH_POINTS=1000000 cargo test --release -p bristlecone --test it -- --ignored --nocapture
