use super::*;

const TAIL: &str = "f0a5f64ef5aec35d4615eb781b9890";
const SIX: &str = "a1/B2/03/d4/e5/0f";

#[track_caller]
fn becomes(conversion: PathConversion, from: &str, to: &str) {
    let key = KeyBuf::from_steps(from.split('/'));
    // What was there before must not matter.
    let mut out = KeyBuf::from_steps(["old"]);
    conversion.convert(key.as_key(), &mut out);
    assert_eq!(out, KeyBuf::from_steps(to.split('/')), "{from} became {out}");
}

#[track_caller]
fn stays(conversion: PathConversion, key: &str) {
    becomes(conversion, key, key);
}

#[test]
fn none_changes_nothing() {
    let key = format!("data/contracts/index/{SIX}/a1/b2/c3/d4/e5/{TAIL}");
    stays(PathConversion::None, &key);
}

#[test]
fn v0_joins_every_chopped_hash() {
    let hash = format!("c0f18a68c4{TAIL}");
    let chopped = format!("c0/f1/8a/68/c4/{TAIL}");
    becomes(PathConversion::V0, &chopped, &hash);
    becomes(
        PathConversion::V0,
        &format!("data/contracts/index/ed25519/{chopped}/balance"),
        &format!("data/contracts/index/ed25519/{hash}/balance"),
    );
    becomes(PathConversion::V0, &format!("a/{chopped}/{chopped}/b/{chopped}"), &format!("a/{hash}/{hash}/b/{hash}"));
    // A step of two digits more in front of it stays.
    becomes(PathConversion::V0, &format!("aa/bb/{chopped}"), &format!("aa/bb/{hash}"));
}

#[test]
fn v0_takes_digits_of_either_case_and_keeps_them() {
    let tail = "ABCDEFabcdef0123456789ABCDEFab";
    becomes(PathConversion::V0, &format!("A0/b1/C2/d3/E4/{tail}"), &format!("A0b1C2d3E4{tail}"));
}

#[test]
fn v0_leaves_near_misses() {
    for key in [
        format!("f1/8a/68/c4/{TAIL}"),
        format!("c0/f1/8a/68/c4/{}", &TAIL[1..]),
        format!("c0/f1/8a/68/c4/{TAIL}0"),
        format!("c0/f1/8a/68/c/{TAIL}"),
        format!("c0/f1/8a/68/c44/{TAIL}"),
        format!("c0/f1/8a/68/cg/{TAIL}"),
        format!("c0/f1/8a/68/c4/g{}", &TAIL[1..]),
        format!("c0/f1/x/8a/68/c4/{TAIL}"),
        "c0/f1/8a/68/c4".to_owned(),
        "c0/f1/8a/68/c4/aa/bb".to_owned(),
        String::new(),
    ] {
        stays(PathConversion::V0, &key);
    }
}

#[test]
fn v1_drops_the_steps_before_a_contract() {
    let from = |rest: &str| format!("data/contracts/index/{SIX}{rest}");
    becomes(PathConversion::V1, &from("/0000aa/balance"), "data/contracts/index/0000aa/balance");
    becomes(PathConversion::V1, &from(""), "data/contracts/index");
    becomes(PathConversion::V1, &from("/X/delegated"), "data/contracts/index/X/delegated");
    becomes(PathConversion::V1, &from(&format!("/X/delegated/{SIX}/Y/z")), "data/contracts/index/X/delegated/Y/z");
    becomes(PathConversion::V1, &from(&format!("/X/delegated/{SIX}")), "data/contracts/index/X/delegated");
    // Only where `delegated` is the second step, and all six follow.
    let later = from(&format!("/X/y/delegated/{SIX}/Z"));
    becomes(PathConversion::V1, &later, &format!("data/contracts/index/X/y/delegated/{SIX}/Z"));
    becomes(
        PathConversion::V1,
        &from("/X/delegated/a1/b2/c3/d4/e5/Y"),
        "data/contracts/index/X/delegated/a1/b2/c3/d4/e5/Y",
    );
    // Seven of them: the seventh is the contract.
    becomes(PathConversion::V1, &from("/77/balance"), "data/contracts/index/77/balance");
}

#[test]
fn v1_drops_the_steps_before_a_big_map() {
    becomes(PathConversion::V1, &format!("data/big_maps/index/{SIX}/9/total"), "data/big_maps/index/9/total");
    becomes(PathConversion::V1, &format!("data/big_maps/index/{SIX}"), "data/big_maps/index");
    let delegated = format!("data/big_maps/index/{SIX}/9/delegated/{SIX}/Y");
    becomes(PathConversion::V1, &delegated, &format!("data/big_maps/index/9/delegated/{SIX}/Y"));
}

#[test]
fn v1_drops_the_steps_before_a_roll() {
    becomes(PathConversion::V1, "data/rolls/index/71/0/71/successor", "data/rolls/index/71/successor");
    becomes(PathConversion::V1, "data/rolls/index/71/0", "data/rolls/index");
    becomes(PathConversion::V1, "data/rolls/owner/current/71/0/71", "data/rolls/owner/current/71");
    becomes(PathConversion::V1, "data/rolls/owner/snapshot/3/4/71/0/71", "data/rolls/owner/snapshot/3/4/71");
    becomes(PathConversion::V1, "data/rolls/owner/snapshot/3/4/71/0", "data/rolls/owner/snapshot/3/4");
}

#[test]
fn v1_leaves_everything_else() {
    for key in [
        format!("data/contracts/index/ed25519/c0/f1/8a/68/c4/{TAIL}/balance"),
        "data/contracts/index/a1/b2/c3/d4/e5".to_owned(),
        "data/contracts/index/a1/b2/c3/d4/e5/abc/X".to_owned(),
        "data/contracts/index/a1/b2/c3/d4/e5/gg/X".to_owned(),
        format!("data/contracts/other/{SIX}/X"),
        format!("data/big_maps/{SIX}/X"),
        format!("x/data/contracts/index/{SIX}/X"),
        format!("contracts/index/{SIX}/X"),
        "data/rolls/index/71".to_owned(),
        "data/rolls/owner/current/71".to_owned(),
        "data/rolls/owner/snapshot/3/4/71".to_owned(),
        "data/rolls/owner/other/3/4/71/0/71".to_owned(),
        "data/rolls/limbo".to_owned(),
        "data".to_owned(),
        String::new(),
    ] {
        stays(PathConversion::V1, &key);
    }
}

#[test]
fn v0_after_v1() {
    let hash = format!("c0f18a68c4{TAIL}");
    let chopped = format!("c0/f1/8a/68/c4/{TAIL}");
    becomes(
        PathConversion::V0V1,
        &format!("data/contracts/index/{SIX}/{chopped}/balance"),
        &format!("data/contracts/index/{hash}/balance"),
    );
    // V0 first would have taken five of the six steps together with what follows them.
    let both = format!("data/contracts/index/{SIX}/{TAIL}");
    becomes(PathConversion::V0V1, &both, &format!("data/contracts/index/{TAIL}"));
    becomes(PathConversion::V0, &both, &format!("data/contracts/index/a1/B203d4e50f{TAIL}"));
    // What V1 brings together is joined.
    let split = format!("data/rolls/owner/snapshot/c0/f1/x/y/8a/68/c4/{TAIL}");
    becomes(PathConversion::V0V1, &split, &format!("data/rolls/owner/snapshot/{hash}"));
}

#[test]
fn names_are_read_as_they_are_written() {
    for conversion in PathConversion::ALL {
        assert_eq!(conversion.to_string().parse(), Ok(conversion));
    }
    let message = "v2".parse::<PathConversion>().unwrap_err().to_string();
    assert!(PathConversion::ALL.iter().all(|known| message.contains(&known.to_string())), "{message}");
}

#[test]
fn the_root_stays_the_root() {
    for conversion in PathConversion::ALL {
        let mut out = KeyBuf::from_steps(["old"]);
        conversion.convert(Key::default(), &mut out);
        assert!(out.as_key().is_empty());
    }
}

#[test]
fn lengths_in_longer_forms_make_no_difference() {
    // Each step's length in two bytes.
    let (mut steps, mut count) = (Vec::new(), 0);
    for step in format!("data/contracts/index/{SIX}/c0/f1/8a/68/c4/{TAIL}/balance").split('/') {
        steps.extend([0x80 | step.len() as u8, 0]);
        steps.extend(step.bytes());
        count += 1;
    }
    let mut out = KeyBuf::new();
    PathConversion::V0V1.convert(Key { steps: &steps, count }, &mut out);
    assert_eq!(out.to_string(), format!("data/contracts/index/c0f18a68c4{TAIL}/balance"));
    assert_eq!(out.as_key().len(), out.as_key().steps().count());
}
