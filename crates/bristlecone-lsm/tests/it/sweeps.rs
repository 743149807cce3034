//! Sweeps beside appends.

use std::collections::HashMap;

use bristlecone::{
    Backend as _, Batch, Durability, Error, Expected, Kind, Location, Object, Oid, RefMove, RefTarget, Roots,
    SweepLimits,
};
use bristlecone_lsm::LsmBackend;
use bristlecone_testkit::sample::{Family, Sample};

use crate::{create, tiny};

fn append(backend: &LsmBackend, samples: &[&Sample], moves: &[RefMove]) -> Result<(), Error> {
    let mut batch = Batch::since(backend.sweeps());
    samples.iter().for_each(|sample| _ = sample.put(&mut batch, &HashMap::new()));
    backend.append(batch, moves, Durability::None).map(drop)
}

/// How something leads to an object that is absent.
#[derive(Clone, Copy, Debug)]
enum LedBy {
    Child,
    Root,
    Ref,
}

#[test]
fn what_arrives_while_a_sweep_marks_keeps_what_is_below_it() {
    for led_by in [LedBy::Child, LedBy::Root, LedBy::Ref] {
        let dir = tempfile::tempdir().unwrap();
        let backend = create(dir.path(), tiny());
        let family = Family::default();
        let [below, other] = [family.contents(1, 30), family.contents(2, 30)];
        let arrives = family.sample(3, Kind::Node, &[below.child()], 10);
        let children =
            if matches!(led_by, LedBy::Child) { vec![other.child(), arrives.child()] } else { vec![other.child()] };
        let head = family.sample(4, Kind::Node, &children, 10);
        let garbage = family.contents(5, 30);
        let move_to = |name: &str, oid: Oid| RefMove {
            name: name.to_owned(),
            expected: Expected::Any,
            to: Some(RefTarget::Object(oid.into())),
        };
        let moves = match led_by {
            LedBy::Ref => vec![move_to("main", head.oid), move_to("next", arrives.oid)],
            _ => vec![move_to("main", head.oid)],
        };
        append(&backend, &[&other, &head, &garbage], &moves).unwrap();
        let samples = HashMap::from([(head.oid, &head), (arrives.oid, &arrives)]);
        let oids = if matches!(led_by, LedBy::Root) { vec![arrives.oid] } else { Vec::new() };
        // The value is looked at once; what is absent before it or after it by turns.
        let children = |oid: &Oid, _: &Object<'_>, each: &mut dyn FnMut(Oid)| {
            if *oid == other.oid && backend.read(&arrives.oid.into())?.is_none() {
                append(&backend, &[&below, &arrives], &[])?;
            }
            samples.get(oid).into_iter().flat_map(|sample| &sample.children).for_each(|child| each(child.oid));
            Ok(())
        };
        let swept = backend.sweep(&Roots::new(&oids, &children), &SweepLimits::default()).unwrap();
        assert_eq!(swept.objects, 1, "{led_by:?}: the garbage");
        for sample in [&below, &arrives, &other, &head] {
            sample.expect(&backend, Location::NONE).unwrap_or_else(|wrong| panic!("{led_by:?}: {wrong}"));
        }
    }
}
