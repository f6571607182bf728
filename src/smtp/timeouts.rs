//! How long a server may take (RFC 5321, 4.5.3.2). Who gives up earlier than that
//! after the final dot sends twice.

use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until a connection to one address stands. The RFC leaves this open.
    pub connect: Duration,
    pub banner: Duration,
    /// EHLO, STARTTLS with its handshake, and each step of AUTH.
    pub hello: Duration,
    pub mail: Duration,
    pub rcpt: Duration,
    pub data: Duration,
    /// Until the server has taken a piece of the message.
    pub block: Duration,
    /// Until the server says what it made of the message.
    pub dot: Duration,
    /// For what only matters to the server: QUIT.
    pub quit: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: MINUTE / 2,
            banner: 5 * MINUTE,
            hello: 5 * MINUTE,
            mail: 5 * MINUTE,
            rcpt: 5 * MINUTE,
            data: 2 * MINUTE,
            block: 3 * MINUTE,
            dot: 10 * MINUTE,
            quit: MINUTE / 12,
        }
    }
}

impl Timeouts {
    /// The same for a world in which everything goes faster, or slower.
    pub fn scaled(self, factor: f64) -> Timeouts {
        let scale = |time: Duration| time.mul_f64(factor);
        Timeouts {
            connect: scale(self.connect),
            banner: scale(self.banner),
            hello: scale(self.hello),
            mail: scale(self.mail),
            rcpt: scale(self.rcpt),
            data: scale(self.data),
            block: scale(self.block),
            dot: scale(self.dot),
            quit: scale(self.quit),
        }
    }
}
