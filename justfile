# One line each; anything with logic is a Rust test or binary, or .ci/run.

ci:
    bash .ci/run

test:
    cargo test --workspace

# Trees of 1,024 levels on stacks of 256 KiB, with the frames of a build without optimisation.
deep:
    CARGO_PROFILE_TEST_OPT_LEVEL=0 cargo test -p bristlecone --test depth

# Everything that is measured, its rows kept, drawn, and written into the pages. Arguments: `just bench --trace FILE`.
bench *args:
    cargo run --release --features git-peers -- bench all {{args}}

# What no test notices: 60 changes of the engine, one at a time, drawn by a seed. `just mutate 7`, `just mutate 8 20`.
mutate *args:
    cargo run --quiet -p bristlecone-mutate -- {{args}}

# Both libraries with each choice of features, documentation and all tests: 15 minutes.
features:
    #!/usr/bin/env bash
    set -euo pipefail
    for features in "" git tezos; do
        chosen=(--no-default-features --features "$features")
        for package in bristlecone-core bristlecone; do
            RUSTDOCFLAGS="-D warnings" cargo doc -p "$package" --no-deps "${chosen[@]}"
            cargo test -p "$package" "${chosen[@]}"
        done
    done

# Over a million crash points; 100 million model operations.
long:
    BRISTLECONE_CRASH_POINTS=1000000 cargo test --release -p bristlecone --test it -- --ignored --nocapture
