# One line each; anything with logic is a Rust test or binary, or in .ci.

# What every change must pass.
ci:
    bash .ci/run

test:
    cargo test --workspace

# Format, lint and unit tests: two minutes once it has been built.
quick:
    cargo fmt --all --check && cargo clippy --workspace --all-targets -- -D warnings && cargo test --workspace --lib

# Checks that take long, each by itself: `just lane features`, `just lane nightly`. CONTRIBUTING.md lists them.
lane *args:
    .ci/lane {{args}}

# Looks for inputs that break a fuzz target, guided by coverage, for a minute: `just fuzz git_pack`, `just fuzz git_pack 600`.
fuzz *args:
    .ci/fuzz {{args}}

# Trees of 1,024 levels on stacks of 256 KiB, with the frames of a build without optimisation.
deep:
    .ci/lane deep

# Over a million crash points; 100 million model operations.
long:
    .ci/lane crash

# Lines of the product and of the laboratory by crate, tests apart, at some revisions: `just size main HEAD`.
size *revisions:
    .ci/size {{revisions}}

# Everything that is measured, its rows kept, drawn, and written into the pages. Arguments: `just bench --trace FILE`.
bench *args:
    cargo run --release --features git-peers -- bench all {{args}}

# What no test notices: 60 changes of the engine, one at a time, drawn by a seed. `just mutate 7`, `just mutate 8 20`.
mutate *args:
    cargo run --quiet -p bristlecone-mutate -- {{args}}
