use std::{sync::Arc, time::Duration};

use bristlecone::{Backend, Batch, Durability, MemoryBackend, Native, Repo};
use bristlecone_testkit::slow::Slow;

use super::*;

/// What many objects name is looked at many a call, and each answer is that of a look at one.
#[test]
fn references_are_looked_at_many_a_call() {
    let memory = Arc::new(MemoryBackend::new());
    let slow = Slow::new(memory.clone(), Duration::ZERO);
    let format = Native::new();
    let mut batch = Batch::new();
    let values: Vec<ObjRef> =
        (0..1000_u32).map(|n| format.put_contents(&mut batch, &n.to_le_bytes()).unwrap().oid.into()).collect();
    memory.append(batch, &[], Durability::None).unwrap();
    let root = Repo::with_backend(format, memory).tree().write().unwrap();
    let nowhere = ObjRef::from(Oid::from_array([9; 32]));
    slow.break_object(values[500].oid);
    slow.break_object(values[999].oid);

    let snapshot = slow.snapshot(&[]);
    let mut named = References { snapshot: &*snapshot, waiting: Vec::new(), wrong: Vec::new() };
    slow.take_reads();
    for (n, at) in values.iter().enumerate() {
        named.add(root.oid(), if n == 10 { Kind::Node } else { Kind::Contents }, *at);
        if n == 300 {
            named.add(root.oid(), Kind::Commit, nowhere);
        }
    }
    named.look();
    let reads = slow.take_reads();
    assert!(reads.calls <= 8, "{reads:?}");
    let wrong: Vec<String> = named.wrong.into_iter().map(|(_, reason)| reason).collect();
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    assert!(wrong[0].ends_with("as a node object, which is a contents object"), "{}", wrong[0]);
    assert!(wrong[1].contains("commit object 0909") && wrong[1].ends_with("which is missing"));
    assert!(wrong[2].contains(&values[500].oid.to_string()) && wrong[2].ends_with("which is damaged"));
    assert!(wrong[3].contains(&values[999].oid.to_string()) && wrong[3].ends_with("which is damaged"));
}
