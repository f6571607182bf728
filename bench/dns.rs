//! A name server that knows a mail server for every domain.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// Where the mail server of a domain is, by the domain's first letters.
pub struct Names {
    pub address: SocketAddr,
}

/// The domain whose mail server is a tarpit, and where that is.
pub const TARPIT: &str = "tarpit.example";
pub const TARPIT_ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

const A: u16 = 1;
const MX: u16 = 15;

impl Names {
    /// Answers until the process ends.
    pub fn start() -> anyhow::Result<Names> {
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let address = socket.local_addr()?;
        std::thread::spawn(move || {
            let mut buffer = [0; 1500];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                if let Some(answer) = answer(&buffer[..length]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        Ok(Names { address })
    }
}

/// The mail server of `x.example` is `mx.x.example`; nothing else is known of any name.
fn answer(question: &[u8]) -> Option<Vec<u8>> {
    let name = question.get(12..)?;
    let mut end = 0;
    while *name.get(end)? != 0 {
        end += 1 + usize::from(name[end]);
    }
    let kind = u16::from_be_bytes(name.get(end + 1..end + 3)?.try_into().ok()?);
    let question_end = 12 + end + 5;
    let is_server = name.starts_with(b"\x02mx");
    let data = match kind {
        MX if !is_server => [&[0, 10, 2][..], b"mx", &[0xc0, 12]].concat(),
        A if is_server => {
            let is_tarpit = name[3..].starts_with(b"\x06tarpit");
            let address = if is_tarpit { TARPIT_ADDRESS } else { Ipv4Addr::LOCALHOST };
            address.octets().to_vec()
        }
        _ => Vec::new(),
    };
    let count = u8::from(!data.is_empty());
    // An answer, recursion available, no error; one question, and perhaps one record.
    let mut answer = [&question[..2], &[0x81, 0x80, 0, 1, 0, count, 0, 0, 0, 0]].concat();
    answer.extend_from_slice(question.get(12..question_end)?);
    if !data.is_empty() {
        answer.extend_from_slice(&[0xc0, 12]);
        answer.extend_from_slice(&kind.to_be_bytes());
        answer.extend_from_slice(&[0, 1, 0, 0, 0x0e, 0x10]);
        answer.extend_from_slice(&(data.len() as u16).to_be_bytes());
        answer.extend_from_slice(&data);
    }
    Some(answer)
}
