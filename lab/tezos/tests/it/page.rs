//! The worked example of `docs/formats/trace.md` is what the writer writes and the reader reads.

use bristlecone_tezos::{KeyBuf, Reader, Row, Scoped, Writer};

/// The bytes of the example, and that each line is where it says.
fn example() -> Vec<u8> {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats/trace.md");
    let page = std::fs::read_to_string(page).unwrap();
    let (_, example) = page.split_once("## 4. Example").unwrap();
    let mut bytes = Vec::new();
    for line in example.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(Ok(at)) = cells.get(1).map(|cell| cell.parse::<usize>()) else { continue };
        assert_eq!(at, bytes.len(), "{line}");
        let digits = cells[2].trim_matches('`').split(' ');
        bytes.extend(digits.map(|digits| u8::from_str_radix(digits, 16).unwrap()));
    }
    bytes
}

#[test]
fn the_example_is_read_and_written() {
    let (bytes, add, ask) = (example(), KeyBuf::from_steps(["a", "b"]), KeyBuf::from_steps(["a"]));
    let rows = [
        Row::Add { key: add.as_key(), value: b"hi", input: Scoped::forget(0), output: Scoped::keep(1) },
        Row::MemTree { key: ask.as_key(), found: true, input: Scoped::keep(1) },
    ];
    let (mut reader, mut writer) = (Reader::new(&bytes[..], "example").unwrap(), Writer::new(Vec::new()).unwrap());
    for row in rows {
        assert_eq!(reader.next().unwrap(), Some(row));
        writer.row(&row).unwrap();
    }
    assert_eq!(reader.next().unwrap(), None);
    assert_eq!((reader.partial(), writer.finish().unwrap()), (0, bytes));
}
