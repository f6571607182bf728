//! Entry point for fuzzers: takes any bytes and panics when a promise about what a client's words
//! may do is broken.

use super::command::Command;
use super::dots::Dots;

/// Any bytes as what a client says, once line by line as commands, and once as a message. Tells
/// how many commands were understood.
pub fn smtp_dialogue(data: &[u8]) -> usize {
    let mut understood = 0;
    for line in data.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match Command::parse(line, 1 << 20) {
            Ok(command) => {
                if let Command::Recipient(address) = command {
                    assert!(
                        !address.on_the_wire().contains(|c: char| c.is_control() || "<> ".contains(c)),
                        "{address}"
                    );
                }
                understood += 1;
            }
            Err(reply) => {
                let mut written = Vec::new();
                reply.write(&mut written);
                assert!(reply.is_refusal() && written.len() <= 512 && written.ends_with(b"\r\n"), "{reply:?}");
                let text = &written[..written.len() - 2];
                assert!(text.iter().all(|byte| (b' '..=b'~').contains(byte)), "{reply:?}");
            }
        }
    }
    let (mut dots, mut at_once) = (Dots::default(), Vec::new());
    let end = dots.push(data, &mut at_once);
    let (mut dots, mut by_bytes) = (Dots::default(), Vec::new());
    let found = data.chunks(1).position(|byte| dots.push(byte, &mut by_bytes).is_some()).map(|at| at + 1);
    assert_eq!((end, &at_once), (found, &by_bytes), "it is read alike however it is cut");
    if let Some(end) = end {
        assert!(data[..end].ends_with(b"\r\n.\r\n") || end == 3 && data.starts_with(b".\r\n"));
    }
    understood
}
