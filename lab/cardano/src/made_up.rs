//! Blocks that tests make up: sound, and without transactions.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Block, BlockHash, Era};

/// Makes blocks of Byron without transactions, of an epoch and a slot in it each; boundary blocks have no slot.
pub(crate) fn byron_blocks(places: &[(u32, Option<u32>)]) -> Vec<Vec<u8>> {
    let bytes = |hash: &[u8; 32]| [&[0x58, 32][..], hash].concat();
    let hash = |hashed: &[u8]| bytes(&BlockHash::of(&[hashed]).0);
    let number = |number: u32| [&[0x1a][..], &number.to_be_bytes()].concat();
    let mut previous = [9; 32];
    let mut blocks = Vec::new();
    let mut height = 0;
    for (epoch, slot) in places {
        let consensus = match slot {
            None => [&[0x82][..], &number(*epoch), &[0x81], &number(height)].concat(),
            Some(slot) => {
                height += 1;
                let at = [&[0x82][..], &number(*epoch), &number(*slot)].concat();
                [&[0x84][..], &at, &[0x40, 0x81], &number(height), &[0x80]].concat()
            }
        };
        // No transactions, no certificates, no delegations, no updates.
        let (body, proof, extra): (&[u8], _, _) = match slot {
            None => (&[0x80], hash(&[0x80]), vec![0x80]),
            Some(_) => {
                let transactions = [&[0x83, 0][..], &hash(&[]), &hash(&[0x9f, 0xff])].concat();
                let others = [&[0x82, 3][..], &hash(&[0xa0]), &hash(&[0x80]), &hash(&[0x80])].concat();
                let proof = [&[0x84][..], &transactions, &others].concat();
                let extra = [&[0x84, 0x80, 0x80, 0xa0][..], &hash(&[0x80])].concat();
                (&[0x84, 0x80, 0x82, 3, 0x80, 0x80, 0x80], proof, extra)
            }
        };
        let header = [&[0x85, 1][..], &bytes(&previous), &proof, &consensus, &extra].concat();
        let block = [&[0x82, u8::from(slot.is_some()), 0x83][..], &header, body, &[0x80]].concat();
        previous = Block::parse(&block).unwrap().hash().0;
        blocks.push(block);
    }
    blocks
}

/// Makes blocks of Shelley, Allegra and Mary without transactions.
pub(crate) fn empty_blocks(eras: &[Era]) -> Vec<Vec<u8>> {
    let bytes = |hash: &[u8; 32]| [&[0x58, 32][..], hash].concat();
    let parts = [[0x80], [0x80], [0xa0]];
    let hashes = parts.map(|part| BlockHash::of(&[&part]).0);
    let body = bytes(&BlockHash::of(&[hashes.as_flattened()]).0);
    let mut previous = vec![0xf6];
    let mut blocks = Vec::new();
    for (number, era) in (0..).zip(eras) {
        let slot = [0x18, 100 + number];
        let header = [&[0x89, number][..], &slot, &previous, &[0, 0, 0, 0, 0], &body].concat();
        let block = [&[0x82, *era as u8, 0x84, 0x82][..], &header, &[0x40], parts.as_flattened()].concat();
        previous = bytes(&Block::parse(&block).unwrap().hash().0);
        blocks.push(block);
    }
    blocks
}

/// Writes blocks, a file each.
pub(crate) fn files_of(dir: &Path, blocks: &[Vec<u8>]) -> Vec<PathBuf> {
    let write = |(index, block): (usize, &Vec<u8>)| {
        let file = dir.join(format!("{index}.cbor"));
        fs::write(&file, block).unwrap();
        file
    };
    blocks.iter().enumerate().map(write).collect()
}
